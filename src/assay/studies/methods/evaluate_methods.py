"""A study of scoring methods: each model runs once over all tasks and styles, and every method scores its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.formats import as_multiple_choice
from assay.core.packages import RequiredPackage
from assay.core.protocols import HasFormat, Task
from assay.core.requests import HEAD_KINDS, Instance, Request
from assay.core.responses import Failure
from assay.core.results import AnsweredDocument, RunResult, TaskResult
from assay.core.scores import MetricResult, Sample
from assay.core.specs import NULL_PROMPTS, GroupSpec, MetricSpec, PipelineSpec, RunSpec, Scoring
from assay.run.events import Listener
from assay.run.many import EvaluatedModel
from assay.run.resolve import resolve_tasks
from assay.run.session import run
from assay.scoring.aggregate import aggregate_task, document_clusters, leaf_tasks
from assay.scoring.scorers.choice_orders import majority_choice, rotated_answers, rotated_view
from assay.scoring.scorers.multiple_choice import METHODS, argmax, choice_view
from assay.stats.clustered import clustered_mean
from assay.stats.means import mean_estimate
from assay.stats.pooled import group_estimate
from assay.store.store import Store
from assay.studies.analyses import new_session
from assay.studies.methods import methods_analysis as analysis
from assay.studies.methods.methods_values import NO_PREDICTION, ChoiceQuestion, MethodsCell, MethodsStudy
from assay.studies.paired.several_models import named_notices, random_accuracy, run_notices
from assay.tasks.catalog import open_catalog
from assay.tasks.selection import Wanted
from assay.tasks.styles import OWN, find_style

_SEED = 1234
# Other diagnostics of the same answers, beside the accuracies.
_DIAGNOSTICS = (
    "exact_match",
    "greedy_choice",
    "choice_mass",
    "choice_margin",
    "brier_score",
    "ece",
    "position_bias",
    "rotation_agreement",
    "rotation_all",
    "rotation_vote",
)


@dataclass(frozen=True, slots=True)
class MethodsOptions:
    """Options of a methods study.

    Attributes:
        styles: prompt styles.
        methods: names of methods.
        phrase: the prompt of mutual information with a phrase.
        notices: options that were left out, and why.
    """

    styles: tuple[str, ...]
    methods: tuple[str, ...]
    phrase: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _MethodsUnit:
    """A task in a style, or a group of such tasks: one line in the analysis.

    Attributes:
        name: name without the style.
        style: the style.
        tasks: its tasks by their names in the run.
    """

    name: str
    style: str
    tasks: tuple[str, ...]


def study_methods(
    evaluated_models: Sequence[EvaluatedModel],
    tasks: Sequence[Wanted],
    requested: MethodsOptions,
    store: Store,
    listener: Listener,
    needs: Sequence[RequiredPackage] = (),
) -> MethodsStudy:
    """Runs every model and compares the methods on its answers.

    Args:
        evaluated_models: the models.
        tasks: names or task objects.
        requested: options of the study.
        store: open store.
        listener: receives the events.
        needs: packages that are needed after the runs, such as that of figures.
    """
    base = evaluated_models[0].spec
    selection = resolve_tasks(base, styled_tasks(tasks, requested), open_catalog(base.include_path))
    units = _units(selection.tasks, selection.groups)
    runs = {}
    for evaluated_model in evaluated_models:
        session = new_session(evaluated_model.spec, store, listener, needs)
        runs[evaluated_model.label] = run(session, selection.tasks, evaluated_model.model)
        _check_likelihoods(runs[evaluated_model.label], evaluated_model.label)
    by_name = {task.card.name: task for task in selection.tasks}
    questions: dict[str, ChoiceQuestion] = {}
    for result in runs.values():
        for item in result.tasks:
            questions.update(_questions(item, by_name[item.name], questions))
    cells = tuple(
        cell for label, result in runs.items() for unit in units for cell in _cells(label, unit, result, requested)
    )
    if not questions:
        expected = "multiple-choice tasks"
        raise UserError(Fault("assay methods", "none of the tasks has choices", expected))
    return _study(tuple(runs), units, cells, questions, runs, requested)


def _check_likelihoods(result: RunResult, label: str) -> None:
    """Rejects models that answer with a head: there is only one way to score its outputs."""
    asked = [task.name for task in result.tasks if task.card.kind in HEAD_KINDS]
    if asked:
        found = f"{label} answers {', '.join(asked)} with a classifier head, which has no likelihoods to compare"
        raise UserError(Fault("assay methods", found, "a language model", "Score it with assay run or assay matrix"))


def read_methods_options(
    styles: Sequence[str], methods: Sequence[str], phrase: str, rotates: bool, is_chat: bool
) -> MethodsOptions:
    """Checked options; `all` means every method that these runs support."""
    wanted = list(dict.fromkeys(name for method in methods for name in (METHODS if method == "all" else (method,))))
    unknown = [name for name in wanted if name not in METHODS]
    if unknown:
        found = ", ".join(f'"{name}"{did_you_mean(name, METHODS)}' for name in unknown)
        raise UserError(Fault("--methods", f"no method {found}", "one of all, " + ", ".join(METHODS)))
    named = [_named(style, rotates) for style in styles or (OWN,)]
    is_cut = any(style != OWN and find_style(style).limit is not None for style in named)
    notices: tuple[str, ...] = ()
    if (is_chat or is_cut) and "opencompass" in wanted and "opencompass" not in methods:
        wanted.remove("opencompass")
        kind = "a conversation" if is_chat else "cut examples"
        notices = (f"opencompass was left out: only the model knows the whole prompt of {kind}",)
    return MethodsOptions(tuple(dict.fromkeys(named)), tuple(wanted), phrase, notices)


def _named(style: str, rotates: bool) -> str:
    if style == OWN:
        return style
    found = find_style(style)
    return find_style(f"{style}:rotated").name if rotates and found.shows_options and not found.rotates else found.name


def styled_tasks(tasks: Sequence[Wanted], requested: MethodsOptions) -> list[Wanted]:
    """All tasks in all styles, in the form that a run accepts; a task object only in its own style."""
    found: list[Wanted] = []
    for task in tasks:
        styles = requested.styles if isinstance(task, str) else (OWN,)
        found += [task if style == OWN else f"{task}@{style}" for style in styles]
    return found


def methods_scoring(requested: MethodsOptions) -> dict[str, Any]:
    """The metrics that make a run send the requests of all methods, and the further metrics."""
    entries: list[dict[str, Any]] = [{"metric": "all"}]
    for name in requested.methods:
        metric = METHODS[name].metric
        entries.append({"metric": metric, **({"phrase": requested.phrase} if name == "mutual-phrase" else {})})
    return {"metric_list": entries, "where_fitting": True}


# Tasks and their documents


def _units(tasks: Sequence[Task], groups: Sequence[GroupSpec]) -> list[_MethodsUnit]:
    """Groups that are in no other group, and tasks that are in no group, in the order of the run."""
    styles = {task.card.name: str(task.card.config.get("style", OWN)) for task in tasks}
    order = {name: place for place, name in enumerate(styles)}
    by_name = {group.name: group for group in groups}
    inner = {member for group in groups for member in group.members}
    leaves = {name: leaf_tasks(name, by_name) for name in by_name if name not in inner}
    units = [_unit(name, styles[found[0]], found) for name, found in leaves.items()]
    units += [_unit(name, style, (name,)) for name, style in styles.items() if name not in inner]
    return sorted(units, key=lambda unit: order[unit.tasks[0]])


def _unit(name: str, style: str, leaves: tuple[str, ...]) -> _MethodsUnit:
    return _MethodsUnit(name.removesuffix(f"@{style}"), style, leaves)


def _document_key(result: TaskResult, item: AnsweredDocument) -> str:
    """A key that is the same for one document in all styles."""
    style = result.card.config.get("style")
    name = result.name.removesuffix(f"@{style}") if style else result.name
    return f"{name}#{item.document.id}"


def _questions(result: TaskResult, task: Task, known: Mapping[str, ChoiceQuestion]) -> dict[str, ChoiceQuestion]:
    """The questions of a task's documents that are not yet known from another style or model."""
    found = {}
    for item in result.answered:
        key = _document_key(result, item)
        if not item.instance.choices or key in known:
            continue
        # The choices of a task in a style may be letters; its question format has their texts.
        is_varied = task.card.variant is not None
        read = task.question(item.document) if is_varied and isinstance(task, HasFormat) else None
        asked = as_multiple_choice(read) if read is not None else None
        texts = asked.choices if asked is not None else item.instance.choices
        found[key] = ChoiceQuestion(item.instance.gold_indices, tuple(map(len, texts)))
    return found


# Predictions


MethodPredictions = dict[str, list[tuple[str, int, float]]]


def _cells(label: str, unit: _MethodsUnit, result: RunResult, requested: MethodsOptions) -> list[MethodsCell]:
    """One cell per method, over all tasks of a unit."""
    picked: MethodPredictions = {}
    clusters: dict[str, str] = {}
    for name in unit.tasks:
        task = result.task(name)
        clusters.update(_clusters(task))
        found = (
            _generated_predictions(task)
            if task.card.kind == "generate_until"
            else _likelihood_predictions(task, requested)
        )
        for method, rows in found.items():
            picked.setdefault(method, []).extend(rows)
    cells = []
    for method, rows in picked.items():
        documents, predictions, hits = zip(*rows, strict=True) if rows else ((), (), ())
        own = tuple(clusters.get(name, name) for name in documents) if clusters else None
        estimate = mean_estimate(hits) if own is None else clustered_mean(hits, own).estimate
        cells.append(
            MethodsCell(
                model=label,
                task=unit.name,
                style=unit.style,
                method=method,
                estimate=estimate,
                documents=documents,
                predictions=predictions,
                hits=hits,
                clusters=own,
            )
        )
    return cells


def _clusters(task: TaskResult) -> Iterator[tuple[str, str]]:
    """Documents with their clusters, task by task; empty if documents are independent."""
    known = document_clusters(task.answered)
    if known is not None:
        for item in task.answered:
            yield _document_key(task, item), f"{task.name} {known[item.document.id]}"


def _likelihood_predictions(task: TaskResult, requested: MethodsOptions) -> MethodPredictions:
    """The predictions of each method from the choices' likelihoods. Documents with a failed request are left out."""
    picked: MethodPredictions = {}
    for item in task.answered:
        instance = item.instance
        if not instance.choices or any(isinstance(output, Failure) for output in item.outputs):
            continue
        views = rotated_view(instance, item.outputs) if instance.orders else (choice_view(instance, item.outputs),)
        right, key = instance.gold_indices, _document_key(task, item)
        for name in requested.methods:
            if not _is_answered(name, instance, requested.phrase):
                continue
            options = {"phrase": requested.phrase} if name == "mutual-phrase" else {}
            predictions = [argmax(METHODS[name].scores(view, options)) for view in views]
            hit = sum(prediction in right for prediction in predictions) / len(predictions)
            picked.setdefault(name, []).append((key, majority_choice(predictions), hit))
    return picked


def _is_answered(method: str, instance: Instance, phrase: str) -> bool:
    """Whether a document has the requests that a method needs."""
    metric = METHODS[method].metric
    if metric in NULL_PROMPTS:
        return (phrase if method == "mutual-phrase" else NULL_PROMPTS[metric]) in instance.nulls
    return metric != "acc_opencompass" or instance.prompts > 0


def _generated_predictions(task: TaskResult) -> MethodPredictions:
    """The predictions of each pipeline from a generated answer."""
    asked = {item.document.id: item for item in task.answered}
    picked: MethodPredictions = {}
    for sample in task.samples:
        item = asked[sample.document_id]
        if not item.instance.choices:
            continue
        predictions = _generated_choices(item.instance, sample)
        right = item.instance.gold_indices
        hit = sum(prediction in right for prediction in predictions) / len(predictions)
        picked.setdefault(sample.filter, []).append((_document_key(task, item), majority_choice(predictions), hit))
    return picked


def _generated_choices(instance: Instance, sample: Sample) -> list[int]:
    if instance.orders:
        return [found.predicted for found in rotated_answers(instance, sample.filtered)]
    said = sample.filtered[0]
    return [instance.choices.index(said) if said in instance.choices else NO_PREDICTION]


# The whole


def _study(
    labels: tuple[str, ...],
    units: Sequence[_MethodsUnit],
    cells: tuple[MethodsCell, ...],
    questions: Mapping[str, ChoiceQuestion],
    runs: Mapping[str, RunResult],
    requested: MethodsOptions,
) -> MethodsStudy:
    compared = analysis.comparisons(cells, _SEED)
    names = tuple(dict.fromkeys(unit.name for unit in units))
    return MethodsStudy(
        models=labels,
        tasks=names,
        styles=requested.styles,
        cells=cells,
        questions=questions,
        chances=_chances(cells, questions),
        spreads=analysis.spreads(cells, _SEED),
        changes=analysis.changes(cells, questions),
        comparisons=compared,
        rank_changes=analysis.rank_changes(compared),
        length_biases=analysis.length_biases(cells, questions),
        places=analysis.places(cells, questions),
        diagnostics={
            (label, unit.name, unit.style): _diagnosed(unit, result) for label, result in runs.items() for unit in units
        },
        requests=_extra_requests(runs, requested),
        runs=runs,
        notices=(
            *requested.notices,
            *named_notices({label: run_notices(result) for label, result in runs.items()}),
        ),
    )


def _chances(cells: Sequence[MethodsCell], questions: Mapping[str, ChoiceQuestion]) -> dict[str, float]:
    found = {}
    for task, own in analysis.grouped(cells, lambda cell: cell.task).items():
        documents = dict.fromkeys(document for cell in own for document in cell.documents)
        asked = [questions[document] for document in documents]
        value = random_accuracy((question.right, len(question.lengths)) for question in asked)
        if value is not None:
            found[task] = value
    return found


def _diagnosed(unit: _MethodsUnit, result: RunResult) -> tuple[MetricResult, ...]:
    """The other metrics of a unit and the rates of its answers; for a group, over all its documents."""
    tasks = [task for name in unit.tasks if (task := result.task(name)).metrics]
    if len(tasks) < len(unit.tasks):
        return ()  # values of some tasks must not be reported as those of the group
    metrics = tasks[0].metrics
    if len(tasks) > 1:
        names, pipelines = (
            dict.fromkeys(found) for found in zip(*((m.metric, m.filter) for m in metrics), strict=True)
        )
        listed = tuple(PipelineSpec(name, ()) for name in pipelines)
        scoring = Scoring("multiple_choice", tuple(map(MetricSpec, names)), listed)
        metrics = aggregate_task(scoring, [sample for task in tasks for sample in task.samples], 0)
    return (*(metric for metric in metrics if metric.metric in _DIAGNOSTICS), *_rates(tasks))


def _rates(tasks: Sequence[TaskResult]) -> Iterator[MetricResult]:
    """The rates of all tasks together."""
    for rate in tasks[0].rates:
        own = [
            found
            for task in tasks
            for found in task.rates
            if (found.metric, found.filter) == (rate.metric, rate.filter)
        ]
        known = [found.estimate for found in own if found.estimate.value is not None]
        whole = rate.estimate if len(tasks) == 1 else group_estimate(known, [found.n for found in known], True)
        yield MetricResult(rate.metric, rate.filter, whole, rate.higher_is_better)


def _extra_requests(runs: Mapping[str, RunResult], requested: MethodsOptions) -> dict[str, int]:
    """Per method, the number of distinct requests that only it needs; under `raw` those that all of them share."""
    found: dict[str, set[tuple[str, Request]]] = {"raw": set()}
    for label, result in runs.items():
        for task in result.tasks:
            for item in task.answered:
                for name, request in _purposes(item.instance, requested):
                    found.setdefault(name, set()).add((label, request))
    return {name: len(requests) for name, requests in found.items()}


def _purposes(instance: Instance, requested: MethodsOptions) -> Iterator[tuple[str, Request]]:
    """Each request of an instance with the method that needs it."""
    names = {"choice": "raw", "prompt": "opencompass"}
    for place, request in enumerate(instance.requests):
        part = instance.part(place)
        is_phrase = part.null == requested.phrase and "mutual-phrase" in requested.methods
        yield names.get(part.kind) or ("mutual-phrase" if is_phrase else "mutual"), request


def with_methods_options(spec: RunSpec, tasks: Sequence[Wanted], requested: MethodsOptions) -> RunSpec:
    """The specification of a run that sends the requests of a study."""
    options = replace(spec.options, scoring=methods_scoring(requested), style=None)
    names = [task if isinstance(task, str) else task.card.name for task in styled_tasks(tasks, requested)]
    return replace(spec, tasks=tuple(names), options=options)
