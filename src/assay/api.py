"""The public functions: evaluate, compare, rescore, load and the rest. The command line calls the same ones.

import assay
result = assay.evaluate("smollm2", "demo_questions", limit=20)
print(result.task("demo_questions").metric("acc").estimate)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from assay.core.arguments import parse_arguments
from assay.core.call_checks import checked
from assay.core.errors import ArgumentError, AssayError, Fault, StoreError
from assay.core.packages import RequiredPackage
from assay.core.plural import plural
from assay.core.protocols import Model, Task
from assay.core.results import RunResult
from assay.core.specs import DetectOptions, RunSpec
from assay.core.training import FitSpec, parse_fit_spec
from assay.models.model_registry import is_known, resolve_model
from assay.options.model_rows import model_rows, model_runs
from assay.options.specification import (
    Tasks,
    fit_spec_of,
    make_spec,
    names_and_objects,
    refuse_early_stopping,
    refuse_methods_settings,
    split_tasks,
    task_objects,
    with_settings,
)
from assay.options.table import Settings
from assay.report.result_files import check_output_path, write_results
from assay.run.events import Listener, StageStarted, ignore
from assay.run.forecast import PlanReport, forecast
from assay.run.many import SharedTasks
from assay.run.session import Session, run
from assay.run.show import ShownDocument, show_documents
from assay.store.store import StoreLocation, open_store, run_id, store_of_runs
from assay.studies.analyses import loading_features, new_session, rescoring_features
from assay.studies.run_outputs import ModelOutcome, RunOutputs, write_outputs
from assay.tasks.lm_eval.variants.scoring_overrides import scoring_changes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from assay.run.many import EvaluatedModel
    from assay.store.trained_models import FittedModel
    from assay.studies.audit.extraction_audit import TaskAudit
    from assay.studies.compare.compare_values import RunComparison
    from assay.studies.explain.explain_values import Explanation
    from assay.studies.matrix.matrix_values import Matrix
    from assay.studies.methods.evaluate_methods import MethodsOptions
    from assay.studies.methods.methods_values import MethodsStudy


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
    audit: bool = False,
    reliability: bool = False,
    figures: Mapping[str, str | Path] | None = None,
    needs: Sequence[RequiredPackage] = (),
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> RunResult:
    """Evaluates a model on tasks.

    Answers that the store holds are not requested again, so repeating an interrupted call resumes it. A task that
    cannot be scored has a `problem` in place of metrics; the others are reported.

    Args:
        model: name in the model table, a path or Hub id, or an object that satisfies the `Model` protocol.
        tasks: names, groups, tags, wildcards, paths of task files, task objects, or a list of these.
        store: the store's file; None for the user's own; `:memory:` for one that is discarded.
        output_path: folder for result files; None for no files.
        log_samples: whether to also write every document with its answers.
        audit: whether the result file also reports how answers were extracted from generated text, see `audit`.
        reliability: whether to report confidences for every multiple-choice task, with or without a metric for them.
        figures: `reliability`, `axes` or `prompts` → file for the figure that ends in .svg or .png.
        needs: packages that are used after the run; checked before it starts.
        listener: function that is called with every event of the run.
        **settings: settings of the run in the command line's names, see `assay.Settings`.
    """
    wanted = split_tasks(tasks)
    spec = _make_run_spec(model, wanted, settings)
    if audit and output_path is None:
        advice = "Say output_path=DIR, or call assay.audit(result) afterwards"
        raise ArgumentError(Fault("evaluate()", "audit is True, and no result file is written", next=advice))
    samples = log_samples or spec.options.predict_only
    outputs = RunOutputs(output_path, samples, -1 if audit else None, reliability, figures or {})
    needed = [*needs, *outputs.checked_needs()]
    outputs.check_variants(spec)
    with open_store(store) as opened:
        session = new_session(spec, opened, listener, needed)
        result = _run(session, wanted, None if isinstance(model, str) else model, fit_spec_of(settings))
    return write_outputs(result, outputs)


@with_settings
def evaluate_models(
    models: str | Model | Sequence[str | Model],
    tasks: Sequence[str],
    *,
    outputs: RunOutputs,
    store: StoreLocation = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> Iterator[ModelOutcome]:
    """Evaluates several models one after the other, as `evaluate` does; yields each outcome when its run ends.

    A model that fails does not stop the others, unless it is the only one; a broken store stops all.

    Args:
        models: as in `study_methods`.
        tasks: names of tasks, which are resolved once for all models.
        outputs: outputs to produce from the results; their requirements are checked before anything runs.
        store: as in `evaluate`.
        listener: as in `evaluate`.
        **settings: as in `evaluate`; `model_args` apply to models without their own settings.
    """
    needs, shared = outputs.checked_needs(), SharedTasks()
    runs = model_runs(models, tasks, settings)
    specs = [_make_run_spec(each.row.model or each.row.name, each.tasks, each.row.settings) for each in runs]
    for spec in specs:
        outputs.check_variants(spec)
    for planned, spec in zip(runs, specs, strict=True):
        mine = ModelOutcome(planned.row.label, planned.mark) if len(runs) > 1 else ModelOutcome()
        try:
            if mine.label:
                listener(StageStarted("model", mine.label))
            with open_store(store) as opened:
                session = new_session(spec, opened, listener, needs, shared.select)
                mine = replace(mine, result=_run(session, planned.tasks, planned.row.model, planned.row.fit))
        except AssayError as error:
            if not mine.label or isinstance(error, StoreError):
                raise
            mine = replace(mine, error=error)
        yield mine


def _run(session: Session, wanted: Sequence[str | Task], model: Model | None, options: FitSpec | None) -> RunResult:
    """Runs the evaluation; with training options, trains the model first and evaluates the result."""
    if options is None:
        return run(session, wanted, model)
    from assay.run.train import run_trained  # most runs do not train

    return run_trained(session, options, wanted, model)


@checked()
def load_run(
    run: str | RunResult, *, tasks: Tasks = (), store: StoreLocation = None, listener: Listener = ignore
) -> RunResult:
    """Loads a recorded run with its documents and answers. No model is called, and nothing is recorded.

    The requests are rebuilt from the tasks and verified by hash, and the stored answers are scored as in the run.

    - A finished run has the scores that it recorded; if they differ today (another version of Assay or of a
      metric), a notice says so.
    - A run that was interrupted, or has failed requests, has the documents answered so far. Documents without all
      their answers count as failed and are left out of every score; a notice gives their number.
    - A run whose tasks or data have changed since raises a `DataError` that names the change: its answers can no
      longer be matched with documents. Its recorded scores remain available: `assay ls runs`.

    Args:
        run: the run's id, the start of it, `last`, `last~1`, …; or the result of `evaluate`.
        tasks: the task objects of the run, if it had any.
        store: the store that holds the run.
        listener: function that is called with every event.
    """
    from assay.run.rescore import load

    objects = task_objects(tasks, "load_run")
    with open_store(store_of_runs(store, run), may_be_read_only=True) as opened:
        record = opened.runs.get(run_id(run))
        return load(opened, record, objects, listener, loading_features(record))


@checked()
def audit(run: str | RunResult, *, tasks: Tasks = (), store: StoreLocation = None) -> tuple[TaskAudit, ...]:
    """How answers were extracted from generated text, per task: which rule found them, and where rules disagree.

    Args:
        run: the result of `evaluate`, or a recorded run as in `load_run`.
        tasks: the task objects of a recorded run, if it had any.
        store: the store that holds a recorded run.
    """
    from assay.studies.audit.extraction_audit import audit_run

    result = load_run(run, tasks=tasks, store=store) if isinstance(run, str) else run
    return audit_run(result.tasks)


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
    """Draws a figure of a recorded run to a file and returns its path. No model is loaded, and nothing is recorded.

    Args:
        run: the run's id as in `load_run`, or the result of `evaluate`.
        kind: `reliability` (confidence against accuracy), `prompts` (scores of all prompts of a task), `axes` (scores
            over seeds, orders, draws and prompts, and the sources of variance), `lengths` or `positions` (bias towards
            long choices, or towards positions).
        path: file that ends in .svg or .png; `RUN_KIND.svg` if None.
        tasks: the task objects of the run, if it had any.
        store: the store that holds the run.
        listener: function that is called with every event.
    """
    from assay.studies.figures import draw_recorded

    with open_store(store_of_runs(store, run), may_be_read_only=True) as opened:
        return draw_recorded(opened, run_id(run), kind, path, listener, task_objects(tasks, "plot"))


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
    """Trains a model on the training documents of tasks and returns the new model, which `--model NAME` opens.

    Repeating an interrupted call resumes from its last checkpoint; repeating a finished one returns immediately.

    Args:
        model: as in `evaluate`; an object must satisfy `Trainable`.
        tasks: as in `evaluate`.
        fit: training settings in the command line's names: `finetune` (the method), `epochs`, ….
        name: name of the new model; derived from its parent and tasks if None.
        folder: folder of the new model; `models` beside the store if None.
        store: as in `evaluate`.
        listener: as in `evaluate`.
        **settings: as in `evaluate`.
    """
    from assay.run.train import ModelDestination
    from assay.run.train import fit as fit_model

    wanted = split_tasks(tasks)
    options = parse_fit_spec(fit or {}, "")
    place = ModelDestination(name, None if folder is None else Path(folder).expanduser().absolute())
    with open_store(store) as opened:
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
    """Scores multiple-choice tasks by every scoring method, on the same answers, side by side.

    Args:
        models: a model or several, as in `evaluate`; a string may include settings: `hf:pretrained=DIR,dtype=float32`.
        tasks: multiple-choice tasks, as in `evaluate`.
        styles: prompt styles to compare; the tasks' own when empty.
        methods: names of scoring methods, or `all`.
        phrase: the question-free prompt of `mutual-phrase`.
        store: as in `evaluate`.
        needs: as in `evaluate`.
        listener: as in `evaluate`.
        **settings: as in `evaluate`; `model_args` apply to models without their own settings.
    """
    from assay.studies.methods import evaluate_methods as studies

    refuse_early_stopping(settings)
    refuse_methods_settings(settings)
    given = split_tasks(tasks)
    chat = bool(settings.get("apply_chat_template"))
    options = studies.read_methods_options(styles, methods, phrase, settings.get("rotations", False), chat)
    plain = cast(Settings, {key: value for key, value in settings.items() if key not in ("rotations", "style")})
    evaluated_models = _evaluated_models(models, given, options, plain)
    with open_store(store) as opened:
        return studies.study_methods(evaluated_models, given, options, opened, listener, needs)


def _evaluated_models(
    models: str | Model | Sequence[str | Model],
    tasks: Sequence[str | Task],
    options: MethodsOptions,
    settings: Settings,
) -> list[EvaluatedModel]:
    """The models of a study, with distinct labels."""
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
    """Evaluates every model on every task: scores, improvement over chance, win rates, ranks, correlations.

    Args:
        models: as in `study_methods`; one string may name several models, see `assay.options.model_rows`.
        tasks: as in `evaluate`.
        metric: the metric to show of each task: the first of these that the task reports (the cell of a model without
            it is empty), else the first of the task's own that most models have. `+NAME` adds them to the task's own.
        store: as in `evaluate`.
        listener: as in `evaluate`.
        **settings: as in `evaluate`; `model_args` apply to models without their own settings.
    """
    from assay.run.many import EvaluatedModel
    from assay.studies.matrix.fill import fill_matrix

    refuse_early_stopping(settings)
    wanted, shown = split_tasks(tasks), [metric] if isinstance(metric, str) else list(metric)
    if shown and shown[0].startswith("+"):  # reported in addition to the tasks' own
        settings["metrics"] = shown
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    rows = model_rows(models, settings)
    together = settings.get("finetune_together", False)
    evaluated_models = [
        EvaluatedModel(
            label=row.label,
            spec=make_spec(row.name, names, **row.settings),
            model=row.model,
            step=row.step,
            fit=row.fit,
            fits_together=together,
        )
        for row in rows
    ]
    with open_store(store) as opened:
        return fill_matrix(evaluated_models, wanted, [name.removeprefix("+") for name in shown], opened, listener)


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
    """Scores the answers of a recorded run with other metrics, as a new run that names its parent.

    No model is loaded unless `complete` is set and answers are missing.

    Args:
        run: as in `load_run`.
        metrics: metrics to report, as in `evaluate`; a plus before the first keeps the run's own.
        scoring: YAML file with `metric_list` and `filter_list`, or the same as a mapping.
        complete: whether to request missing answers from the run's model; otherwise they are an error.
        tasks: the task objects of the run, if it had any.
        model: the model object of the run, if it had one and `complete` is set.
        model_args: model settings in place of recorded ones; secrets are not recorded.
        bootstrap_iters: resamples for lm-eval's standard errors; None for as many as the run had.
        store: the store that holds the run.
        output_path: folder for result files; None for no files.
        log_samples: whether to also write every document with its answers.
        listener: as in `evaluate`.
    """
    from assay.run import rescore as rescoring

    changes = scoring_changes(metrics, scoring)
    arguments = parse_arguments(model_args, "--model_args")
    wanted = rescoring.RescoreOptions(
        scoring=changes,
        completes=complete,
        model_args=arguments,
        bootstrap_iters=bootstrap_iters,
        tasks=task_objects(tasks, "rescore"),
        model=model,
    )
    if output_path is not None:
        check_output_path(output_path)
    with open_store(store_of_runs(store, run), may_be_read_only=not complete) as opened:
        result = rescoring.rescore(opened, run_id(run), wanted, listener, rescoring_features())
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
    """Explains why the scores of two recorded runs differ, task by task, with evidence.

    Args:
        first: as in `load_run`.
        second: the other run.
        tasks: a task of each run, or one for both: names, or the task objects of the runs; every task that both have
            if None.
        metrics: a metric of each run, or one for both; the first that each reports if None.
        tokens: whether to also load the models' tokenizers and compare tokens.
        store: the store that holds both runs.
        listener: as in `evaluate`.
    """
    from assay.studies.explain.explain_runs import explain as explain_runs

    wanted = [] if tasks is None else split_tasks(tasks)
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    named = None if tasks is None else _two(names, "task")
    compared = None if metrics is None else _two(metrics, "metric")
    with open_store(store_of_runs(store, first, second), may_be_read_only=True) as opened:
        return explain_runs(
            opened,
            (run_id(first), run_id(second)),
            listener,
            tasks=named,
            metrics=compared,
            shows_tokens=tokens,
            given=[item for item in wanted if not isinstance(item, str)],
        )


def _two(names: Sequence[str], what: str) -> tuple[str, str]:
    """One name for each run; a single name is used for both."""
    if len(names) not in (1, 2):
        raise ArgumentError(Fault("explain()", plural(len(names), what), "one for each run, or one for both"))
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
    predictions: bool = False,
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> RunComparison:
    """Compares recorded runs, paired document by document: differences, tests, effect sizes, a verdict for each pair.

    Args:
        runs: two or more, as in `load_run`; `RUN@TASK` for one task of a run.
        tasks: tasks to compare (`demo_*` is a pattern); all that the runs share when empty. Task objects of the runs
            are needed if documents are read again: for a sampled run against a full one, `flips`, `predictions`.
        metrics: names, or `name,filter`; the first that a task reports when empty; `all` for every one.
        baseline: the run that all others are compared with; None for every pair.
        margin: equivalence margin, the largest difference that does not matter: 0.02 is 2 points of an accuracy.
        alpha: significance level.
        correction: correction for multiple tests: `holm` or `bh`.
        test: `exact`, `midp`, `permutation` or `bootstrap`; None for the one that fits the values.
        detect: a difference to report the required number of documents for, beside that of the observed one.
        across: what may differ between runs: `model`, `shots`, `style`, `prompts`, `scoring`, `version`.
        force: whether to compare runs that are not comparable.
        flips: documents to list, better and worse each; -1 for all.
        seed: seed of resampling.
        predictions: whether to report how often the runs predict the same choices, which reads their documents.
        store: the store that holds the runs.
        listener: as in `evaluate`.
    """
    from assay.studies.compare.compare_runs import compare as compare_runs
    from assay.studies.paired.paired_values import CompareOptions

    names, objects = names_and_objects(tasks)
    options = CompareOptions(
        tasks=(*names, *(item.card.name for item in objects)),
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        baseline=baseline,
        margin=margin,
        alpha=alpha,
        correction=correction,
        test=test,
        detect=detect,
        across=tuple(across),
        force=force,
        flips=flips,
        seed=seed,
        predictions=predictions,
    )
    with open_store(store_of_runs(store, *runs), may_be_read_only=True) as opened:
        return compare_runs(opened, [run_id(run) for run in runs], options, listener, objects)


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
    """Counts the requests that a run would make and forecasts its time, without running it. No weights are loaded.

    Args:
        model: as in `evaluate`.
        tasks: as in `evaluate`.
        detect: a difference between two runs: the plan shows for each task whether it has enough documents to detect it
            (0.02 is 2 points); a `DetectOptions` states the assumptions.
        store: the store with earlier answers.
        listener: as in `evaluate`.
        **settings: as in `evaluate`.
    """
    wanted = split_tasks(tasks)
    spec = _make_run_spec(model, wanted, settings)
    with open_store(store, may_be_read_only=True) as opened:
        session, given = Session(spec, opened, listener), None if isinstance(model, str) else model
        if detect is None:
            return forecast(session, wanted, given)
        from assay.studies.compare.detectable import forecast_detection  # most plans do not need it

        options = DetectOptions(detect) if isinstance(detect, (int, float)) else detect
        return forecast_detection(session, wanted, given, options)


@with_settings
def show_document(
    task: str | Task,
    index: int = 0,
    model: str | Model | None = None,
    store: StoreLocation = None,
    **settings: Unpack[Settings],
) -> list[ShownDocument]:
    """Builds the requests of one document of a task (of each task of a group), with tokens if a model is named.

    Args:
        task: as `tasks` of `evaluate`.
        index: the document's index, counted from 0.
        model: as in `evaluate`; None to show prompts without tokens.
        store: the store that holds the model, if Assay trained it; opened for no other reason.
        **settings: as in `evaluate`.
    """
    wanted = split_tasks(task)
    spec = _make_run_spec(model if model is not None else "none", wanted, settings)
    if not isinstance(model, str) or is_known(spec.model):
        return show_documents(spec, wanted, index, model)
    with open_store(store, may_be_read_only=True) as opened:
        return show_documents(spec, wanted, index, model, opened)
