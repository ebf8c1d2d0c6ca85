"""The framework from Python: evaluate, rescore, plan, look at a document. The command line calls the same functions.

from assay import evaluate
result = evaluate("smollm2", "demo_questions", limit=20)
print(result.task("demo_questions").metric("acc").estimate)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

from assay.core.arguments import parse_arguments
from assay.core.call_checks import checked
from assay.core.detect_options import DetectOptions
from assay.core.errors import ArgumentError, Fault, UserError
from assay.core.packages import RequiredPackage
from assay.core.protocols import Model, Task
from assay.core.results import RunResult
from assay.core.specs import LM_EVAL, RunSpec
from assay.core.training import FitSpec, parse_fit_spec
from assay.models.registry import is_known, resolve_model
from assay.options.model_rows import ModelRow, model_rows
from assay.options.specification import fit_spec_of, make_spec, with_settings
from assay.options.table import Settings
from assay.report.result_files import check_output_path, write_results
from assay.run.events import Listener, ignore
from assay.run.forecast import PlanReport, forecast
from assay.run.resolve import check_scoring
from assay.run.session import Session, run
from assay.run.show import ShownDocument, show_documents
from assay.store.database import MEMORY
from assay.store.store import Store, default_path
from assay.studies.analyses import RESCORING_FEATURES, new_session
from assay.tasks.scoring_overrides import scoring_changes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from assay.run.many import EvaluatedModel, SharedTasks
    from assay.store.trained_models import FittedModel
    from assay.studies.compare.compare_values import RunComparison
    from assay.studies.explain.explain_values import Explanation
    from assay.studies.matrix.matrix_values import Matrix
    from assay.studies.methods.evaluate_methods import MethodsOptions
    from assay.studies.methods.methods_values import MethodsStudy

Tasks = Union[str, Path, Task, Sequence[Union[str, Path, Task]]]
# Where the store is: a file, the user's own when None, `:memory:` for none, or a store that is open already.
StoreLocation = Union[str, Path, Store, None]


def _split_tasks(tasks: Tasks) -> list[str | Task]:
    """Every task that is meant: names, paths as names, and objects."""
    if isinstance(tasks, str):
        return [name.strip() for name in tasks.split(",") if name.strip()]
    given = tasks if isinstance(tasks, Sequence) else [tasks]
    return [str(item) if isinstance(item, Path) else item for item in given]


@contextmanager
def _store(place: StoreLocation, may_be_read_only: bool = False) -> Iterator[Store]:
    """The store at a path, the user's own when None; one that is open already stays open.

    Args:
        place: a path or a store.
        may_be_read_only: nothing must be written, so that a read-only file will do.
    """
    if isinstance(place, Store) and place.is_open:
        yield place
        return
    path = default_path() if place is None else place
    with path if isinstance(path, Store) else Store(path, may_be_read_only=may_be_read_only) as opened:
        yield opened


def _name(run: str | RunResult) -> str:
    return run if isinstance(run, str) else run.run_id


def _store_location(store: StoreLocation, *runs: str | RunResult) -> StoreLocation:
    """Where recorded runs are: the store that is named, or the one of a result that is given."""
    if store is not None:
        return store
    results = [run for run in runs if not isinstance(run, str)]
    found = results[0] if results else None
    if found is not None and found.store == MEMORY:
        message = f"was kept in memory, and is gone with evaluate(…, store={MEMORY!r})"
        raise ArgumentError(Fault(f"run {found.run_id}", message, "a run in a file", 'Say store="runs.db"'))
    for other in results[1:]:
        if Path(other.store).resolve() != Path(results[0].store).resolve():
            message = f"is in {other.store}, and run {results[0].run_id} in {results[0].store}"
            raise ArgumentError(
                Fault(f"run {other.run_id}", message, "runs of one store", "Evaluate both with one store=")
            )
    return None if found is None else found.store


def _names_and_objects(tasks: Tasks) -> tuple[list[str], list[Task]]:
    """Names, and task objects."""
    wanted = _split_tasks(tasks)
    return [item for item in wanted if isinstance(item, str)], [item for item in wanted if not isinstance(item, str)]


def _make_run_spec(model: str | Model, wanted: Sequence[str | Task], settings: Settings) -> RunSpec:
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    if not isinstance(model, str):
        return make_spec(model.fingerprint.name, names, **settings)
    name, arguments = resolve_model(model, parse_arguments(settings.get("model_args"), "--model_args"))
    return make_spec(name, names, **cast(Settings, {**settings, "model_args": arguments}))


@with_settings
def evaluate(
    model: str | Model,
    tasks: Tasks,
    *,
    store: StoreLocation = None,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    needs: Sequence[RequiredPackage] = (),
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> RunResult:
    """Evaluates a model on tasks.

    What the store already knows is not asked again, so an interrupted call is continued by repeating it.

    Args:
        model: name in the model table, or any object that satisfies the `Model` protocol.
        tasks: names (also wildcards, groups, tags, files), task objects, or a list of either.
        store: the store's file; the user's own when None; `:memory:` for none.
        output_path: folder for result files; none are written when None.
        log_samples: whether to write every document's answers too.
        needs: packages that are wanted for what is made of the result, asked for before anything runs.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`.

    A task that cannot be scored has a `problem` in place of metrics, and the others are reported.
    """
    wanted = _split_tasks(tasks)
    spec = _make_run_spec(model, wanted, settings)
    if output_path is not None:
        check_output_path(output_path)
    with _store(store) as opened:
        session = new_session(spec, opened, listener, needs)
        result = _trained_and_run(session, wanted, None if isinstance(model, str) else model, fit_spec_of(settings))
    if output_path is not None:
        write_results(result, output_path, log_samples or spec.options.predict_only)
    return result


def evaluate_row(
    row: ModelRow,
    tasks: Tasks,
    shared: SharedTasks,
    store: StoreLocation = None,
    needs: Sequence[RequiredPackage] = (),
    listener: Listener = ignore,
) -> RunResult:
    """Evaluates one of several models, as `evaluate` does; all of them share the tasks, which are resolved once.

    Args:
        row: the model with its settings, see `model_rows`.
        tasks: as in `evaluate`.
        shared: the tasks of all models.
        store: as in `evaluate`.
        needs: as in `evaluate`.
        listener: receives events.
    """
    wanted = _split_tasks(tasks)
    spec = _make_run_spec(row.model or row.name, wanted, row.settings)
    with _store(store) as opened:
        session = new_session(spec, opened, listener, needs, shared.select)
        return _trained_and_run(session, wanted, row.model, row.fit)


def _trained_and_run(
    session: Session, wanted: Sequence[str | Task], model: Model | None, options: FitSpec | None
) -> RunResult:
    """A run; with options of training, of the model that is trained first."""
    if options is None:
        return run(session, wanted, model)
    from assay.run.train import fit  # most calls have no use for it

    check_scoring(session.spec, wanted, session.needs)  # what scoring lacks is reported before hours of training
    fitted = fit(session, options, wanted, model)
    own = replace(session.spec, model=fitted.name, model_args={})
    return run(new_session(own, session.store, session.listener, session.needs, session.select), wanted, None)


@with_settings
def finetune(
    model: str | Model,
    tasks: Tasks,
    *,
    fit: Mapping[str, Any] | None = None,
    name: str | None = None,
    folder: str | Path | None = None,
    store: StoreLocation = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> FittedModel:
    """Trains a model on the training documents of tasks; the result is a new model that `--model NAME` opens.

    Repeating an interrupted call goes on from its last checkpoint; one that is done returns at once.

    Args:
        model: name in the model table, or of a model trained here; or an object that satisfies `Trainable`.
        tasks: names (also wildcards, groups, tags, files), task objects, or a list of either.
        fit: settings of training, by the names of the command line: `finetune` (the method), `epochs`, ….
        name: what the new model is called; made from its parent and tasks when None.
        folder: where it goes; a folder `models` beside the store when None.
        store: the store's file; the user's own when None.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`.
    """
    from assay.run.train import ModelDestination
    from assay.run.train import fit as fit_model

    wanted = _split_tasks(tasks)
    options = parse_fit_spec(fit or {}, "")
    place = ModelDestination(name, None if folder is None else Path(folder).expanduser().absolute())
    with _store(store) as opened:
        session = Session(_make_run_spec(model, wanted, settings), opened, listener)
        return fit_model(session, options, wanted, None if isinstance(model, str) else model, place)


@with_settings
def study_methods(
    models: str | Model | Sequence[str | Model],
    tasks: Tasks,
    *,
    styles: Sequence[str] = (),
    methods: Sequence[str] = ("all",),
    phrase: str = "Answer:",
    store: StoreLocation = None,
    needs: Sequence[RequiredPackage] = (),
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> MethodsStudy:
    """Every way of picking an answer on the same answers, side by side.

    Args:
        models: names in the model table, each also with its settings (`hf:pretrained=DIR,dtype=float32`), or models.
        tasks: multiple-choice tasks and groups: names (also files), task objects, or a list of either.
        styles: prompt styles to compare; the tasks' own when empty.
        methods: names of methods, or `all`.
        phrase: the prompt without question of `mutual-phrase`.
        store: the store's file; the user's own when None; `:memory:` for none.
        needs: packages that are wanted afterwards, such as that of figures, asked for before anything runs.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`; `model_args` are for models without settings of their own.
    """
    from assay.studies.methods import evaluate_methods as studies

    _check_whole(settings)
    _check_study(settings)
    given = _split_tasks(tasks)
    chat = bool(settings.get("apply_chat_template"))
    options = studies.read_methods_options(styles, methods, phrase, settings.get("rotations", False), chat)
    plain = cast(Settings, {key: value for key, value in settings.items() if key not in ("rotations", "style")})
    evaluated_models = _evaluated_models(models, given, options, plain)
    with _store(store) as opened:
        return studies.study_methods(evaluated_models, given, options, opened, listener, needs)


def _check_whole(settings: Settings) -> None:
    """Refuses to stop early where models are compared on the same documents."""
    names = [name for name in ("until_se", "until_decided", "reference") if settings.get(name) is not None]
    if names:
        found = "has no meaning where several models are asked the same documents"
        raise UserError(*(Fault(f"--{name}", found, "--sample N", "See: assay run") for name in names))


def _check_study(settings: Settings) -> None:
    """Refuses settings that a study decides itself."""
    advice = {
        "style": "Name the styles to compare with --styles",
        "metrics": "Name the methods to compare with --methods",
        "scoring": "Name the methods to compare with --methods",
        "prompts": "See: assay run --prompts",
    }
    faults = [
        Fault(f"--{name}", "has no meaning in a study of methods", next=text)
        for name, text in advice.items()
        if settings.get(name)
    ]
    if settings.get("like") not in (None, LM_EVAL):
        faults.append(Fault("--like", "a profile has one style and method", next="See: assay run --like"))
    if faults:
        raise UserError(*faults)


def _evaluated_models(
    models: str | Model | Sequence[str | Model],
    tasks: Sequence[str | Task],
    options: MethodsOptions,
    settings: Settings,
) -> list[EvaluatedModel]:
    """The models of a study under names that tell them apart."""
    from assay.run.many import EvaluatedModel
    from assay.studies.methods.evaluate_methods import with_methods_options

    rows = model_rows(models, settings)
    specs = [with_methods_options(make_spec(row.name, (), **row.settings), tasks, options) for row in rows]
    return [EvaluatedModel(row.label, spec, row.model) for row, spec in zip(rows, specs, strict=True)]


@with_settings
def evaluate_matrix(
    models: str | Model | Sequence[str | Model],
    tasks: Tasks,
    *,
    metric: str | Sequence[str] = (),
    store: StoreLocation = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> Matrix:
    """Every model on every task: scores, improvement over chance, win rates, shared ranks, correlations.

    Only answers that the store lacks are asked for, so an interrupted call is continued by repeating it.

    Args:
        models: as in `study_methods`; one text may stand for several models, see `model_rows`.
        tasks: names (also wildcards, groups, tags, files), task objects, or a list of either.
        metric: what to show of each task: the first of these that it reports, with an empty cell for a model without
            it; else the first metric of its list that most models have.
        store: the store's file; the user's own when None; `:memory:` for none.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`; `model_args` are for models without settings of their own.
    """
    from assay.run.many import EvaluatedModel
    from assay.studies.matrix.fill import fill_matrix

    _check_whole(settings)
    wanted = _split_tasks(tasks)
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    rows = model_rows(models, settings)
    together = settings.get("finetune_together", False)
    evaluated_models = [
        EvaluatedModel(row.label, make_spec(row.name, names, **row.settings), row.model, row.step, row.fit, together)
        for row in rows
    ]
    with _store(store) as opened:
        return fill_matrix(evaluated_models, wanted, [metric] if isinstance(metric, str) else metric, opened, listener)


@checked()
def rescore(
    run: str | RunResult,
    *,
    metrics: str | Sequence[str] | None = None,
    scoring: str | Path | Mapping[str, Any] | None = None,
    complete: bool = False,
    tasks: Tasks = (),
    model: Model | None = None,
    model_args: str | Mapping[str, Any] | None = None,
    bootstrap_iters: int | None = None,
    store: StoreLocation = None,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    listener: Listener = ignore,
) -> RunResult:
    """Scores the answers of a recorded run another way, as a new run that names its parent. No model is loaded.

    Args:
        run: the run's name, the start of it, or `last`; or what `evaluate` gave.
        metrics: metrics to report, as in `evaluate`; a plus before the first keeps those of the run.
        scoring: a YAML file with `metric_list` and `filter_list`, or the same as a mapping.
        complete: whether the run's model is opened and asked for answers that are missing; they are an error otherwise.
        tasks: the task objects of the run, where it has any.
        model: the model object of a run of such, for `complete`.
        model_args: settings of the model that take the place of recorded ones; secrets are not recorded.
        bootstrap_iters: resamples for lm-eval's standard errors; as many as the run had when None.
        store: the store that holds the run.
        output_path: folder for result files; none are written when None.
        log_samples: whether to write every document's answers too.
        listener: is told what happens.
    """
    from assay.run import rescore as rescoring

    changes = scoring_changes(metrics, scoring)
    arguments = parse_arguments(model_args, "--model_args")
    names, objects = _names_and_objects(tasks)
    if names:
        message = "All tasks of a run are rescored, and found by their names; leave it out"
        raise ArgumentError(Fault("rescore()", f"tasks names {', '.join(names)}", "task objects", message))
    wanted = rescoring.RescoreOptions(changes, complete, arguments, bootstrap_iters, objects, model)
    if output_path is not None:
        check_output_path(output_path)
    with _store(_store_location(store, run), may_be_read_only=not complete) as opened:
        result = rescoring.rescore(opened, _name(run), wanted, listener, RESCORING_FEATURES)
    if output_path is not None:
        write_results(result, output_path, log_samples)
    return result


@checked()
def explain(
    first: str | RunResult,
    second: str | RunResult,
    *,
    tasks: Tasks | None = None,
    metrics: Sequence[str] | None = None,
    tokens: bool = False,
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> Explanation:
    """Why the numbers of two recorded runs differ, task by task, with evidence.

    Args:
        first: a run's name, the start of it, or `last`, `last~1`, …; or what `evaluate` gave.
        second: the other run.
        tasks: a task of the first and one of the second, or one for both: names, or task objects of runs of such;
            every task that both have when None.
        metrics: a metric of each to compare; the first that each reports when None.
        tokens: whether the models' tokenizers are opened and tokens compared, too.
        store: the store that holds both.
        listener: is told what happens.
    """
    from assay.studies.explain.explain_runs import explain as explain_runs

    wanted = [] if tasks is None else _split_tasks(tasks)
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    named = None if tasks is None else _two(names, "tasks")
    compared = None if metrics is None else _two(metrics, "metrics")
    with _store(_store_location(store, first, second), may_be_read_only=True) as opened:
        runs, objects = (_name(first), _name(second)), [item for item in wanted if not isinstance(item, str)]
        return explain_runs(opened, runs, listener, named, compared, tokens, objects)


def _two(names: Sequence[str], what: str) -> tuple[str, str]:
    """One for each run; a single one is for both."""
    if len(names) not in (1, 2):
        raise ArgumentError(Fault("explain()", f"{len(names)} {what}", "one for each run, or one for both"))
    return names[0], names[-1]


@checked()
def compare(
    *runs: str | RunResult,
    tasks: Tasks = (),
    metrics: str | Sequence[str] = (),
    baseline: str | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    correction: str = "holm",
    test: str | None = None,
    detect: float | None = None,
    across: Sequence[str] = ("model",),
    force: bool = False,
    flips: int = 0,
    seed: int = 0,
    picks: bool = False,
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> RunComparison:
    """Two or more recorded runs, paired document by document: differences, tests, effects, one verdict each.

    Args:
        runs: names, the starts of them, or `last`, `last~1`, …; `RUN@TASK` for one task of a run; or what `evaluate`
            gave.
        tasks: only these (`demo_*` is a pattern); all that the runs share when empty. Task objects, for runs of such
            whose documents must be found again: a sampled run against a whole one, `flips`, `picks`.
        metrics: names, or `name,filter`; the first that a task reports when empty; `all` for every one.
        baseline: the run that all others are compared with; None for every two runs.
        margin: largest difference that does not matter: 0.02 is 2 points of an accuracy.
        alpha: level of the tests.
        correction: over all tests: `holm` or `bh`.
        test: `exact`, `midp`, `permutation` or `bootstrap`; None for the one that fits the values.
        detect: a difference for which the number of documents needed is given, beside that of the observed one.
        across: what may differ: `model`, `shots`, `style`, `prompts`, `scoring`, `version`.
        force: whether to compare what is not comparable.
        flips: how many documents to list, better and worse each; -1 for all.
        seed: of everything that is drawn.
        picks: whether to tell how far the runs pick the same choices; they are reopened for it.
        store: the store that holds the runs.
        listener: is told what happens.
    """
    from assay.studies.compare.compare_runs import compare as compare_runs
    from assay.studies.paired.paired_values import CompareOptions

    names, objects = _names_and_objects(tasks)
    titles = (*names, *(item.card.name for item in objects))
    wanted = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    tested = (alpha, correction, test, detect)
    options = CompareOptions(titles, wanted, baseline, margin, *tested, tuple(across), force, flips, seed, picks)
    with _store(_store_location(store, *runs), may_be_read_only=True) as opened:
        return compare_runs(opened, [_name(run) for run in runs], options, listener, objects)


@with_settings
def plan_run(
    model: str | Model,
    tasks: Tasks,
    *,
    detect: float | DetectOptions | None = None,
    store: StoreLocation = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> PlanReport:
    """What a run would ask, without asking it. No weights are loaded.

    Args:
        model: as in `evaluate`.
        tasks: as in `evaluate`.
        detect: a difference between two runs: every task says whether its documents suffice to find it (0.02 is 2
            points); a `DetectOptions` says what to assume.
        store: the store that knows earlier answers.
        listener: is told what happens.
        settings: those of the run.
    """
    wanted = _split_tasks(tasks)
    spec = _make_run_spec(model, wanted, settings)
    with _store(store, may_be_read_only=True) as opened:
        session, given = Session(spec, opened, listener), None if isinstance(model, str) else model
        if detect is None:
            return forecast(session, wanted, given)
        from assay.studies.compare.detectable import forecast_detection  # most plans have no use for it

        options = DetectOptions(detect) if isinstance(detect, (int, float)) else detect
        return forecast_detection(session, wanted, given, options)


@with_settings
def show_document(
    task: str | Task,
    place: int = 0,
    model: str | Model | None = None,
    store: StoreLocation = None,
    **settings: Unpack[Settings],
) -> list[ShownDocument]:
    """The document at a place of a task (of every task, for a group), posed and, with a model, tokenised.

    A store is only opened for a model that was trained here.
    """
    wanted = _split_tasks(task)
    spec = _make_run_spec(model if model is not None else "none", wanted, settings)
    if not isinstance(model, str) or is_known(spec.model):
        return show_documents(spec, wanted, place, model)
    with _store(store, may_be_read_only=True) as opened:
        return show_documents(spec, wanted, place, model, opened)


@checked()
def plot(
    run: str | RunResult,
    kind: str,
    path: str | Path | None = None,
    *,
    tasks: Tasks = (),
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> Path:
    """Draws a figure of a recorded run; gives its file. No model is loaded, and nothing is recorded.

    Args:
        run: the run's name, the start of it, or `last`; or what `evaluate` gave.
        kind: `reliability`, `axes`, `prompts`, `lengths` or `positions`.
        path: file that ends in `.svg` or `.png`; `RUN_KIND.svg` when None.
        tasks: the task objects of the run, where it has any.
        store: the store that holds the run.
        listener: called with what happens.
    """
    from assay.studies.figures import draw_recorded

    with _store(_store_location(store, run), may_be_read_only=True) as opened:
        return draw_recorded(opened, _name(run), kind, path, listener, _names_and_objects(tasks)[1])
