"""Resolves the names of a run to tasks, groups and a model. All user errors are raised together, before any work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.core.documents import Document
from assay.core.errors import Fault, MissingExtra, ModelError, UserError, did_you_mean
from assay.core.formats import Question
from assay.core.label_mapping import label_indices
from assay.core.packages import RequiredPackage, missing_packages
from assay.core.protocols import FewShotExample, HasFormat, Model, ProvidesFewShotExamples, ReadsDataset, Task
from assay.core.requests import (
    HEAD_KINDS,
    LONGEST_WINDOWS,
    Classification,
    Generation,
    Instance,
    Loglikelihood,
    RollingLoglikelihood,
    Windows,
)
from assay.core.scores import BYPASS
from assay.core.specs import (
    ChatSpec,
    GroupSpec,
    MetricSpec,
    RunSpec,
    Scoring,
    TaskCard,
    TaskOptions,
    TextOptions,
    VariationAxes,
)
from assay.models.model_registry import must_fetch
from assay.run.events import Listener
from assay.run.open_model import arguments_notices, object_notices, opened_model, prepare_model
from assay.scoring.document_scorer import DocumentScorer, document_scorer
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.registry import FILTERS, MetricKinds, check_loaded, scoring_needs
from assay.store.store import Store
from assay.tasks.catalog import Catalog, open_catalog
from assay.tasks.head_requests import HEAD_KEY, HeadTask, as_head_task, why_no_head_fits
from assay.tasks.lm_eval.file.python_code import CodeLoader, Consent, Shim, consent
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.lm_eval.variants.scoring_overrides import ALL, changed_scoring
from assay.tasks.lm_eval_package import PREFIX, package_tasks
from assay.tasks.profiles.expand import BestOfVariants
from assay.tasks.selection import Selection, Wanted, select_tasks
from assay.tasks.text_tasks import KIND, TextTask

_AFTER_FILE_NAME = re.compile(r"(\.ya?ml)@.*$")
# lm-eval's output type of a task → the kind of its requests. A task for a head has the kind itself.
REQUEST_KIND = {
    "loglikelihood": Loglikelihood.kind,
    "multiple_choice": Loglikelihood.kind,
    "loglikelihood_rolling": RollingLoglikelihood.kind,
    "generate_until": Generation.kind,
    **{kind: kind for kind in HEAD_KINDS},
}


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run needs, resolved and checked."""

    tasks: tuple[Task, ...]
    scorers: tuple[DocumentScorer, ...]
    groups: tuple[GroupSpec, ...]
    model: Model
    notices: tuple[str, ...]
    combined: tuple[BestOfVariants, ...] = ()


def known_names() -> KnownNames:
    """The names that task files may use, from the tables of `assay.scoring`."""
    return KnownNames(MetricKinds(), frozenset(AGGREGATIONS), frozenset(FILTERS.names()))


def resolve_tasks(spec: RunSpec, given: Sequence[Wanted], catalog: Catalog) -> Selection:
    """The tasks and groups of a run."""
    selection = select_tasks(given or spec.tasks, catalog, spec.options, known_names(), code_loader(spec, given))
    return replace(selection, tasks=windowed_tasks(selection.tasks, spec.options.texts))


# Finds the tasks of a run: its specification, and names or task objects.
TaskSelector = Callable[[RunSpec, Sequence[Wanted]], Selection]


def select_for_run(spec: RunSpec, given: Sequence[Wanted]) -> Selection:
    """The tasks and groups of a run with the metrics that it reports."""
    catalog = open_catalog(spec.include_path)
    selection = with_metrics(resolve_tasks(spec, given, catalog), spec.options)
    return replace(selection, notices=(*catalog.notices, *selection.notices))


def code_loader(spec: RunSpec, given: Sequence[Wanted] = ()) -> CodeLoader:
    """Imports code of the folders that the user allows: `--include_path`, and those of task files given by path.

    Naming lm-eval's own tasks, `lm_eval/NAME`, counts as giving the path of their folder.
    """
    if spec.allow_code is False:
        return CodeLoader(Consent(), Shim())
    from assay.lm_eval_shim.module_table import SHIM  # most runs do not need it

    named = [_named_path(item) for item in given or spec.tasks if isinstance(item, str)]
    folders = [path.parent for path in named if path.suffix in (".yaml", ".yml")]
    folders += [path for path in named if path.is_dir()]
    if any(isinstance(item, str) and item.startswith(PREFIX) for item in given or spec.tasks):
        folders += filter(None, [package_tasks()])
    own = [Path(folder).expanduser() for folder in spec.include_path]
    return CodeLoader(consent(spec.allow_code, [*own, *folders]), SHIM)


def _named_path(item: str) -> Path:
    """The path that an item may be, without the style or prompt behind it: `my/task.yaml@letters`."""
    path = Path(item).expanduser()
    return path if path.exists() else Path(_AFTER_FILE_NAME.sub(r"\1", item)).expanduser()


def resolve(
    spec: RunSpec,
    given_tasks: Sequence[Wanted],
    given_model: Model | None,
    listener: Listener,
    store: Store | None = None,
    needs: Sequence[RequiredPackage] = (),
    select: TaskSelector | None = None,
) -> Setup:
    """Resolves tasks and model; faults of both are raised together. For faulty tasks no model is downloaded.

    Args:
        spec: the specification of the run.
        given_tasks: names or task objects; empty for the specification's names.
        given_model: a model object; None to open the specification's.
        listener: receives the progress of downloads.
        store: the store, which lists the models trained here.
        needs: packages that are needed after the run, such as that of a figure.
        select: finds the tasks; None for `select_for_run`.
    """
    errors: list[UserError] = []
    selection, model = None, given_model
    scorers: list[DocumentScorer] = []
    try:
        selection = (select or select_for_run)(spec, given_tasks)
        scorers = checked_scorers(selection.tasks, needs)
        check_data(selection.tasks, spec)
    except UserError as error:
        errors.append(error)
    try:
        if model is None and not (errors and must_fetch(spec.model)):
            model = opened_model(spec, listener, store)
    except UserError as error:
        errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if selection is None or model is None:
        raise UserError(*(fault for error in errors for fault in error.faults))
    check_tasks(selection.tasks, spec.options)
    prepare_model(model, spec.settings, store)
    tasks = tasks_for_model(model, selection.tasks)
    check_model(model, tasks, spec.options.chat)
    _check_axes(spec, model, tasks)
    _check_samples(spec, tasks)
    changed = [task for task, given in zip(tasks, selection.tasks, strict=True) if task is not given]
    others = iter(checked_scorers(changed))
    for place, task in enumerate(tasks):
        if task is not selection.tasks[place]:
            scorers[place] = next(others)
    is_given = given_model is not None
    opened = object_notices(spec) if is_given else arguments_notices(spec, selection.named_profiles)
    return Setup(tasks, tuple(scorers), selection.groups, model, (*selection.notices, *opened), selection.combined)


def check_data(tasks: Sequence[Task], spec: RunSpec) -> None:
    """Raises one error for all tasks whose data is not there, as far as this shows without network."""
    errors: dict[str, tuple[Task, UserError]] = {}
    for task in tasks:
        try:
            if isinstance(task, ReadsDataset):
                task.open_data()
        except UserError as error:
            errors[task.card.name] = task, error
    if errors:
        from assay.data.missing_data import missing_data_error  # most runs have their data

        raise missing_data_error(errors, spec)


def checked_scorers(tasks: Sequence[Task], needs: Sequence[RequiredPackage] = ()) -> list[DocumentScorer]:
    """The scorers of tasks. Missing packages, missing metrics and unusable settings are one error, before any work.

    Args:
        tasks: the tasks.
        needs: further packages that are needed.
    """
    places = [f"task {task.card.name}" for task in tasks]
    own = [need for task, where in zip(tasks, places, strict=True) for need in scoring_needs(task.scoring, where)]
    faults = missing_packages([*own, *needs])
    if faults:
        raise MissingExtra(*faults)
    scorers, errors = [], []
    for task, where in zip(tasks, places, strict=True):
        try:
            scorers.append(document_scorer(task.scoring, where))
            check_loaded(task.scoring, where)
        except UserError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise UserError(*dict.fromkeys(fault for error in errors for fault in error.faults))
    return scorers


def check_scoring(spec: RunSpec, given: Sequence[Wanted], needs: Sequence[RequiredPackage] = ()) -> None:
    """Raises if the tasks of a run cannot be scored; for work that precedes the run, such as training."""
    checked_scorers(select_for_run(spec, given).tasks, needs)


def tasks_for_model(model: Model, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Tasks in the form that the model needs: their own requests, or their format for a model with a head."""
    able = model.capabilities.kinds
    heads = able.intersection(HEAD_KINDS)
    if not heads:
        return tuple(tasks)
    metrics = known_names().metrics
    return tuple(
        task if able.issuperset(_needed_kinds(task)) else as_head_task(task, heads, metrics) or task for task in tasks
    )


def task_as_recorded(task: Task, config: Mapping[str, Any]) -> Task:
    """A task as a recorded run built it, by its entry in the record."""
    kind = config.get(HEAD_KEY)
    found = as_head_task(task, (kind,), known_names().metrics) if kind in HEAD_KINDS else None
    return found or task


def with_metrics(selection: Selection, options: TaskOptions) -> Selection:
    """A selection whose tasks, objects too, have the metrics of the run; with `predict_only` none."""
    if options.predict_only:
        return replace(selection, tasks=tuple(map(unscored_task, selection.tasks)))
    if not options.scoring:
        return selection
    metrics = known_names().metrics
    tasks = tuple(rescored_task(task, options.scoring, metrics) for task in selection.tasks)
    check_metrics(tasks, options.scoring, metrics)
    return replace(selection, tasks=tasks)


def _check_axes(spec: RunSpec, model: Model, tasks: Sequence[Task]) -> None:
    """Rejects variations that have no effect on a head."""
    answered = [task.card.name for task in tasks if isinstance(task, HeadTask)]
    if answered and spec.options.axes != VariationAxes():
        head = "a classifier head, which sees neither examples nor a list of choices"
        found = f"{model.fingerprint.name} answers {answered[0]} with {head}"
        advice = "Leave them out, or choose a model that reads prompts"
        raise ModelError(Fault("--seeds, --orders, --draws", found, "a model that reads prompts", advice))


def _check_samples(spec: RunSpec, tasks: Sequence[Task]) -> None:
    names = list(dict.fromkeys(task.card.base for task in tasks))
    unknown = [name for name in spec.samples or () if name not in names]
    if unknown:
        found = ", ".join(f'"{name}"{did_you_mean(name, names)}' for name in unknown)
        raise UserError(Fault("--samples", f"names tasks that are not in this run: {found}", ", ".join(names)))


def check_tasks(tasks: Sequence[Task], options: TaskOptions) -> None:
    """Rejects tasks that this version, or this run, does not support."""
    faults = []
    for task in tasks:
        config, where = task.card.config, f"task {task.card.name}"
        for key in ("doc_to_image", "doc_to_audio"):
            if config.get(key):
                faults.append(Fault(where, f"needs {key[7:]} input, which no model of this version takes"))
        if config.get("unsafe_code") and not options.confirm_unsafe:
            advice = "Run it in a sandbox only, with --confirm_run_unsafe_code"
            faults.append(Fault(where, "runs code that the model wrote (unsafe_code)", "your consent", advice))
    if faults:
        raise UserError(*faults)


def _needed_kinds(task: Task) -> list[str]:
    """The kinds of a task's requests, as far as known: a Python class may build any kind."""
    own = REQUEST_KIND.get(task.card.kind)
    kinds = [own] if own is not None else []
    return [*kinds, RollingLoglikelihood.kind] if task.scoring.reads_prompts else kinds


def _window_faults(model: Model, tasks: Sequence[Task]) -> Iterator[Fault]:
    """Windows that a model cannot read, each reported once."""
    most = model.capabilities.max_tokens
    wide: dict[tuple[str, int], str] = {}
    for task in tasks:
        for name, asked in (task.card.config.get("perplexity") or {}).items():
            if most is not None and (asked or 0) > most:
                wide.setdefault((name, asked), task.card.name)
    for (name, asked), task_name in wide.items():
        found = f'takes {most} tokens, and the task "{task_name}" is read with a {name} of {asked}'
        yield Fault(f"model {model.fingerprint.name}", found, next=f"Choose a {name} of at most {most}")


def _unsupported_kind_fault(model: Model, task: Task, kind: str) -> Fault:
    """A kind of request that a model cannot answer, and why its head does not fit instead."""
    able = model.capabilities
    heads = able.kinds.intersection(HEAD_KINDS)
    why = f"; {why_no_head_fits(task, heads)}" if heads else f"; {able.refusal}" if able.refusal else ""
    can = ", ".join(sorted(able.kinds)) or "no request kind of this version"
    found = f'cannot answer {kind} requests, which the task "{task.card.name}" builds; it answers {can}{why}'
    advice = "Choose another model or other tasks" + (", or state a format (docs/formats.md)" if heads else "")
    return Fault(f"model {model.fingerprint.name} ({able.family})", found, next=advice)


def _label_faults(model: Model, task: Task) -> Iterator[Fault]:
    """Classes of a task that match none of a head's labels, in any spelling."""
    able = model.capabilities
    if not isinstance(task, HeadTask) or task.kind != Classification.kind or not able.labels:
        return
    if label_indices(able.labels, task.labels) is None:
        found = f'labels outside the head: the task "{task.card.name}" has {", ".join(task.labels)}'
        advice = "Say which outputs they are (labels=… in --model_args), or train a head on the task: assay finetune"
        yield Fault(f"model {model.fingerprint.name} ({able.family})", found, ", ".join(able.labels), advice)


def _untrained_fault(model: Model) -> Fault:
    able = model.capabilities
    advice = "Train one first: assay finetune --model … --tasks …; or open it as what it is: family=… in --model_args"
    return Fault(
        f"model {model.fingerprint.name}",
        f"is an {able.family} without a head that answers requests, so it can neither score nor write nor choose yet",
        f"a head for {', '.join(sorted(able.learns))} requests, or a model with one",
        advice,
    )


def _kind_faults(model: Model, tasks: Sequence[Task]) -> Iterator[Fault]:
    """Requests of tasks that a model cannot answer, and labels that its head does not have."""
    able = model.capabilities
    for task in tasks:
        yield from (
            _unsupported_kind_fault(model, task, kind) for kind in _needed_kinds(task) if kind not in able.kinds
        )
        yield from _label_faults(model, task)


def check_model(model: Model, tasks: Sequence[Task], chat: ChatSpec) -> None:
    """Rejects a model that cannot answer the requests of the tasks."""
    able = model.capabilities
    faults = list(_window_faults(model, tasks))
    if not able.kinds and able.learns:
        faults.append(_untrained_fault(model))
    else:
        faults.extend(_kind_faults(model, tasks))
    if chat.apply and not able.has_chat:
        faults.append(
            Fault(
                f"model {model.fingerprint.name}",
                "has no chat template, but --apply_chat_template is set",
                next="Leave the flag out, or choose a model with a chat template",
            )
        )
    if faults:
        raise ModelError(*faults)


# Tasks with other metrics or windows than their own. Those of task files have them already; task objects get them here.


@dataclass(frozen=True, slots=True)
class _WrappedTask:
    """A task of any kind with its own documents and few-shot examples."""

    task: Task

    def documents(self) -> Sequence[Document]:
        return self.task.documents()

    def examples(self, document: Document) -> Sequence[FewShotExample]:
        return self.task.examples(document) if isinstance(self.task, ProvidesFewShotExamples) else ()


@dataclass(frozen=True, slots=True)
class RescoredTask(_WrappedTask):
    """A task of any kind with another scoring; its requests stay the same."""

    scoring: Scoring

    @property
    def card(self) -> TaskCard:
        return self.task.card

    def build(self, document: Document) -> Instance:
        return self.task.build(document)

    def question(self, document: Document) -> Question | None:
        return self.task.question(document) if isinstance(self.task, HasFormat) else None


@dataclass(frozen=True, slots=True)
class WindowedTask(_WrappedTask):
    """A task of any kind whose whole texts are read in the run's windows."""

    windows: Windows

    @property
    def card(self) -> TaskCard:
        card, windows = self.task.card, self.windows
        config = {**card.config, "perplexity": {"window": windows.length, "stride": windows.stride}}
        return replace(card, config=config)

    @property
    def scoring(self) -> Scoring:
        return self.task.scoring

    def build(self, document: Document) -> Instance:
        instance = self.task.build(document)
        changed = tuple(
            replace(request, windows=self.windows) if isinstance(request, RollingLoglikelihood) else request
            for request in instance.requests
        )
        return replace(instance, requests=changed)


def windowed_tasks(tasks: Sequence[Task], texts: TextOptions) -> tuple[Task, ...]:
    """The tasks of a run that sets windows for texts. Tasks of task files and of texts have them already."""
    windows = LONGEST_WINDOWS.changed(texts.window, texts.stride)
    if windows == LONGEST_WINDOWS:
        return tuple(tasks)
    if not any(task.card.kind == KIND for task in tasks):
        flag = "--stride" if texts.window is None else "--window"
        raise UserError(Fault(flag, "no task of this run reads whole texts", f"a task with output_type: {KIND}"))
    return tuple(
        WindowedTask(task, windows)
        if task.card.kind == KIND and task.card.variant is None and not isinstance(task, TextTask)
        else task
        for task in tasks
    )


def rescored_task(task: Task, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]) -> Task:
    """A task with the changes. Those of task files have them already; a task with its own scoring takes none.

    Args:
        task: the task.
        changes: `metric_list` and the like, as `tasks.changes` makes them.
        metrics: metric → output types that it scores.
    """
    is_done = task.card.variant is not None or changes.get("where_fitting")
    if is_done or not changes or task.scoring.process is not None:
        return task
    scoring = changed_scoring(task.scoring, task.scoring.scorer, changes, metrics)
    if scoring.nulls != task.scoring.nulls or scoring.reads_prompts != task.scoring.reads_prompts:
        found = "is written in Python, so requests that its own function does not build cannot be added"
        names = ", ".join(f'"{entry["metric"]}"' for entry in changes.get("metric_list", ()))
        advice = f"Name them where the task is made, @assay.task(…, metrics=[{names}]), and rerun it"
        raise UserError(Fault(f"task {task.card.name}", found, "metrics that need no further request", advice))
    return RescoredTask(task, scoring)


def unscored_task(task: Task) -> Task:
    """A task whose answers are recorded only. Those of task files and of texts have it already."""
    if all(spec.name == BYPASS for spec in task.scoring.metrics):
        return task
    return RescoredTask(task, Scoring(task.scoring.scorer, (MetricSpec(BYPASS),)))


def check_metrics(tasks: Sequence[Task], scoring: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]) -> None:
    """Checks that a requested metric fits at least one task, unless it is meant only for those that it fits.

    Args:
        tasks: the tasks of the run.
        scoring: the metrics that the run requests.
        metrics: metric → output types that it scores, for advice.
    """
    if scoring.get("where_fitting"):
        return
    known = {ALL, *(spec.name for task in tasks for spec in task.scoring.metrics)}
    unused = [entry["metric"] for entry in scoring.get("metric_list", ()) if entry["metric"] not in known]
    if unused:
        found = f"{', '.join(unused)}: no task of this run can be scored so"
        shapes = {task.scoring.scorer for task in tasks}
        fitting = sorted(name for name, scored in metrics.items() if scored & shapes and name != BYPASS)
        raise UserError(Fault("--metrics", found, f"some of: {', '.join(fitting)}", "See: assay ls metrics"))
