"""The public functions that evaluate, train, plan, show and check. The command line calls the same ones.

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
from assay.core.errors import ArgumentError, AssayError, Fault, StoreError, UserError
from assay.core.packages import RequiredPackage
from assay.core.protocols import Model, Task
from assay.core.results import RunResult
from assay.core.server_report import ReportsServer, ServerReport
from assay.core.specs import DetectOptions, RunSpec
from assay.core.training import FitSpec, parse_fit_spec
from assay.models.model_registry import is_known, resolve_model
from assay.options.model_rows import model_rows, model_runs
from assay.options.specification import (
    Tasks,
    fit_spec_of,
    make_spec,
    refuse_early_stopping,
    refuse_methods_settings,
    split_tasks,
    with_settings,
)
from assay.options.table import Settings
from assay.run.events import Listener, StageStarted, ignore
from assay.run.forecast import PlanReport, forecast
from assay.run.many import SharedTasks
from assay.run.open_model import opened_model
from assay.run.resolve import code_loader, known_names
from assay.run.session import Session, run
from assay.run.show import ShownDocument, show_documents
from assay.store.store import StoreLocation, open_store
from assay.studies.analyses import new_session
from assay.studies.run_outputs import ModelOutcome, RunOutputs, write_outputs
from assay.tasks.catalog import open_catalog

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from assay.run.many import EvaluatedModel
    from assay.store.trained_models import FittedModel
    from assay.studies.matrix.matrix_values import Matrix
    from assay.studies.methods.evaluate_methods import MethodsOptions
    from assay.studies.methods.methods_values import MethodsStudy
    from assay.tasks.file_checks import CheckReport


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
    needs = outputs.checked_needs()
    runs = model_runs(models, tasks, settings)
    specs = [_make_run_spec(each.row.model or each.row.name, each.tasks, each.row.settings) for each in runs]
    for spec in specs:
        outputs.check_variants(spec)
    select = SharedTasks().select if len(runs) > 1 else None
    for planned, spec in zip(runs, specs, strict=True):
        mine = ModelOutcome(planned.row.label, planned.mark) if len(runs) > 1 else ModelOutcome()
        try:
            if mine.label:
                listener(StageStarted("model", mine.label))
            with open_store(store) as opened:
                session = new_session(spec, opened, listener, needs, select)
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
def probe(model: str, **settings: Unpack[Settings]) -> ServerReport:
    """Asks the server behind a model what it can do: which forms of request work, and why the others do not.

    Nothing is stored. `ServerReport.missing` lists what the model is opened for and cannot do.

    Args:
        model: name of a model behind HTTP, such as `openai`.
        **settings: as in `evaluate`; `model_args` matter.
    """
    opened = opened_model(_make_run_spec(model, [], settings), ignore)
    try:
        if not isinstance(opened, ReportsServer):
            raise UserError(Fault(f"--model {model}", "is not behind HTTP", "openai, vllm, anthropic, …"))
        return opened.probe()
    finally:
        opened.close()


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


@checked()
def check(
    paths: str | Path | Sequence[str | Path],
    *,
    doc: str | Path | None = None,
    include_path: Sequence[str | Path] = (),
    allow_code: bool | str | Sequence[str] = False,
    data: str | Path | None = None,
) -> CheckReport:
    """Validates task files without loading data: all faults of all files at once, each with file, line and key.

    Args:
        paths: task files, or folders of them.
        doc: data file; names in templates must be columns of its first row. None: columns are not checked.
        include_path: folders with more task files, to which groups and includes may refer.
        allow_code: whether to also build every task and group, running their Python code; or packages to allow.
        data: folder of datasets, to also read the data of every task and build its first document.
    """
    from assay.tasks.file_checks import (  # runs check their own files only
        check_paths,
        columns_of,
        folders_of,
        load_everything,
    )

    columns = None if doc is None else columns_of(doc)
    given = [paths] if isinstance(paths, (str, Path)) else paths
    if not given or "" in given:
        raise ArgumentError(Fault("check()", "names no file", "a task file or a folder of them"))
    found = [Path(path).expanduser() for path in given]
    folders = [str(folder) for folder in folders_of(found)]
    names, catalog = known_names(), open_catalog([*folders, *map(str, include_path)])
    report = check_paths(found, names, columns, catalog)
    if not allow_code and data is None:
        return report
    spec = make_spec("none", (), include_path=folders, allow_code=allow_code, data=data)
    return replace(report, loading=load_everything(found, catalog, names, code_loader(spec), spec.options.data))
