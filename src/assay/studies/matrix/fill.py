"""Fills a matrix: runs every model once over all tasks; stored answers are reused.

In: models and tasks. Out: a score per model and task. A model that fails leaves its cells empty, with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.core.errors import DataError, Fault, ModelError, StoreError, TaskFileError, UserError, did_you_mean
from assay.core.identity import digest_all
from assay.core.protocols import Model, Task
from assay.core.results import RunResult, TaskResult
from assay.core.scores import MetricResult, sum_denominators
from assay.core.specs import GroupSpec
from assay.run.events import Listener, StageStarted
from assay.run.many import EvaluatedModel, SharedTasks
from assay.run.open_model import opened_model
from assay.run.resolve import (
    check_model,
    check_tasks,
    checked_scorers,
    tasks_for_model,
)
from assay.run.session import Session, run
from assay.run.train import fit
from assay.scoring.aggregate import aggregate_groups, document_clusters, leaf_tasks
from assay.scoring.scorers.multiple_choice import METHODS
from assay.store.store import Store
from assay.studies.analyses import new_session
from assay.studies.matrix.columns import shown_cells
from assay.studies.matrix.matrix_analysis import make_matrix
from assay.studies.matrix.matrix_values import Matrix, MatrixCell, MissingCell, ModelRun
from assay.studies.notices.task_notices import LIMITED
from assay.studies.paired.several_models import named_notices, random_accuracy, run_notices
from assay.tasks.selection import Selection, Wanted

_SEED = 1234
# Metrics whose value under random guessing follows from the number of choices.
_ACCURACIES = frozenset({"exact_match", *(method.metric for method in METHODS.values())})


@dataclass(frozen=True, slots=True)
class _MatrixUnit:
    """A unit with a column: a task, or a group that reports a score; with the names of its tasks in the run."""

    name: str
    tasks: tuple[str, ...]
    group: GroupSpec | None = None


@dataclass(frozen=True, slots=True)
class _MatrixRow:
    """The cells, gaps, runs and notices of one model."""

    cells: tuple[MatrixCell, ...] = ()
    gaps: tuple[MissingCell, ...] = ()
    runs: tuple[ModelRun, ...] = ()
    notices: tuple[str, ...] = ()


def fill_matrix(
    evaluated_models: Sequence[EvaluatedModel],
    tasks: Sequence[Wanted],
    metrics: Sequence[str],
    store: Store,
    listener: Listener,
) -> Matrix:
    """Runs every model over all tasks, one model after the other.

    Args:
        evaluated_models: the models.
        tasks: names or task objects.
        metrics: metrics to show, the first that a task has; if it has none, the one that most models have.
        store: open store.
        listener: receives the events.
    """
    # Faults of tasks concern all models: they are raised before any model is opened.
    shared = SharedTasks()
    selections = [shared.select(item.spec, tasks) for item in evaluated_models]
    check_tasks(selections[0].tasks, evaluated_models[0].spec.options)
    checked_scorers(selections[0].tasks)
    _check_metrics(metrics, selections[0])
    units = _units(selections[0])
    rows = []
    for place, (evaluated_model, selection) in enumerate(zip(evaluated_models, selections, strict=True), 1):
        listener(StageStarted("model", f"{evaluated_model.label} ({place} of {len(evaluated_models)})"))
        make = _row if evaluated_model.fit is None else _fitted_row
        rows.append(make(evaluated_model, selection, units, new_session(evaluated_model.spec, store, listener)))
    names = [unit.name for unit in units]
    shown = shown_cells(names, [cell for row in rows for cell in row.cells], metrics)
    notices = named_notices(
        {item.label: _joined(row.notices) for item, row in zip(evaluated_models, rows, strict=True)}
    )
    matrix = make_matrix(
        models=[evaluated_model.label for evaluated_model in evaluated_models],
        tasks=names,
        cells=shown.cells,
        gaps=[*(gap for row in rows for gap in row.gaps), *shown.gaps],
        runs=[item for row in rows for item in row.runs],
        notices=[*notices, *shown.notices],
        seed=_SEED,
    )
    return replace(
        matrix,
        steps={
            evaluated_model.label: evaluated_model.step
            for evaluated_model in evaluated_models
            if evaluated_model.step is not None
        },
    )


def _joined(notices: Iterable[str]) -> list[str]:
    """Every notice once; tasks evaluated in part, by separate runs, in one line."""
    listed = list(dict.fromkeys(notices))
    limited = [name for text in listed if text.startswith(LIMITED) for name in text.removeprefix(LIMITED).split(", ")]
    others = [text for text in listed if not text.startswith(LIMITED)]
    return [*others, LIMITED + ", ".join(dict.fromkeys(limited))] if limited else others


def _check_metrics(metrics: Sequence[str], selection: Selection) -> None:
    """Rejects a metric that no task has, most likely misspelt. A task's own scoring may return any name."""
    tasks = selection.tasks
    if any(task.scoring.process is not None for task in tasks):
        return
    scores = [score.name for group in selection.groups for score in group.scores]
    known = list(dict.fromkeys([*(spec.name for task in tasks for spec in task.scoring.metrics), *scores]))
    unknown = [name for name in metrics if name not in known]
    if unknown:
        found = ", ".join(f'"{name}"{did_you_mean(name, known)}' for name in unknown)
        advice = f"Add it to the tasks' own with --metrics +{unknown[0]}"
        raise UserError(Fault("--metric", f"no task reports {found}", "one of " + ", ".join(known), advice))


def _units(selection: Selection) -> list[_MatrixUnit]:
    """Groups that report a score and are in no other such group, and tasks that are in no group, in order."""
    by_name = {group.name: group for group in selection.groups}
    inner = {member for group in selection.groups for member in group.members}
    order = {task.card.name: place for place, task in enumerate(selection.tasks)}
    found: dict[str, _MatrixUnit] = {}
    for name in (*by_name, *order):
        if name not in inner:
            found.update((unit.name, unit) for unit in _below(name, by_name))
    return sorted(found.values(), key=lambda unit: order[unit.tasks[0]])


def _below(name: str, groups: Mapping[str, GroupSpec]) -> Iterator[_MatrixUnit]:
    group = groups.get(name)
    if group is None:
        yield _MatrixUnit(name, (name,))
    elif group.metrics or group.scores:
        yield _MatrixUnit(name, leaf_tasks(name, groups), group)
    else:
        for member in group.members:
            yield from _below(member, groups)


# One model


def _row(
    evaluated_model: EvaluatedModel, selection: Selection, units: Sequence[_MatrixUnit], session: Session
) -> _MatrixRow:
    """Runs one model. Any error of the model becomes the reason of its gaps; errors of store and data are raised."""
    try:
        model = evaluated_model.model or opened_model(evaluated_model.spec, session.listener, session.store)
        try:
            unsupported = _unsupported_tasks(model, selection.tasks, evaluated_model)
            able = [task for task in selection.tasks if task.card.name not in unsupported]
            result = _evaluated_run(able, model, session, not unsupported) if able else None
        finally:
            if evaluated_model.model is None:
                model.close()
    except (StoreError, DataError, TaskFileError):
        raise
    except UserError as error:
        reason = "; ".join(str(fault) for fault in error.faults)
        return _MatrixRow(gaps=tuple(MissingCell(evaluated_model.label, unit.name, reason) for unit in units))
    except Exception as error:  # a plugin or a device may raise anything, and the other models must still run
        reason = f"{type(error).__name__}: {error}"
        return _MatrixRow(gaps=tuple(MissingCell(evaluated_model.label, unit.name, reason) for unit in units))
    found = [item for unit in units for item in _cells(evaluated_model.label, unit, result, unsupported)]
    return _MatrixRow(
        tuple(item for item in found if isinstance(item, MatrixCell)),
        tuple(item for item in found if isinstance(item, MissingCell)),
        () if result is None else (ModelRun(evaluated_model.label, result.run_id, result.store, result.counts),),
        () if result is None else tuple(_notices(result)),
    )


def _fitted_row(
    evaluated_model: EvaluatedModel, selection: Selection, units: Sequence[_MatrixUnit], session: Session
) -> _MatrixRow:
    """Trains the model, separately for every column or once for all, and evaluates the result."""
    groups = [units] if evaluated_model.fits_together else [[unit] for unit in units]
    rows = [_trained(evaluated_model, selection, group, session) for group in groups]
    return _MatrixRow(
        *(tuple(item for row in rows for item in getattr(row, name)) for name in ("cells", "gaps", "runs", "notices"))
    )


def _trained(
    evaluated_model: EvaluatedModel, selection: Selection, units: Sequence[_MatrixUnit], session: Session
) -> _MatrixRow:
    """Trains once and fills the cells of these units. If training is impossible they stay empty, with the reason."""
    assert evaluated_model.fit is not None
    names = {name for unit in units for name in unit.tasks}
    tasks = tuple(task for task in selection.tasks if task.card.name in names)
    try:
        fitted = fit(session, evaluated_model.fit, tasks, evaluated_model.model)
    except StoreError:
        raise
    except UserError as error:
        reason = "; ".join(str(fault) for fault in error.faults)
        return _MatrixRow(gaps=tuple(MissingCell(evaluated_model.label, unit.name, reason) for unit in units))
    spec, chosen = evaluated_model.spec, evaluated_model.spec.samples
    own = replace(
        spec,
        model=fitted.name,
        model_args={},
        tasks=tuple(task.card.name for task in tasks),
        samples=chosen and {name: places for name, places in chosen.items() if name in names},
    )
    part = replace(selection, tasks=tasks)
    asked = EvaluatedModel(evaluated_model.label, own)
    return _row(asked, part, units, new_session(own, session.store, session.listener))


def _evaluated_run(tasks: Sequence[Task], model: Model, session: Session, is_whole: bool) -> RunResult:
    """The run over the tasks that a model supports; its record names only these."""
    if not is_whole:
        spec, names = session.spec, tuple(task.card.name for task in tasks)
        chosen = spec.samples and {name: spec.samples[name] for name in names if name in spec.samples}
        session.spec = replace(spec, tasks=names, samples=chosen)
    return run(session, tasks, model)


def _unsupported_tasks(model: Model, tasks: Sequence[Task], evaluated_model: EvaluatedModel) -> dict[str, str]:
    """Task → why this model does not support it."""
    found = {}
    for task in tasks:
        try:
            check_model(model, tasks_for_model(model, [task]), evaluated_model.spec.options.chat)
        except ModelError as error:
            found[task.card.name] = "; ".join(str(fault) for fault in error.faults)
    return found


def _notices(result: RunResult) -> Iterator[str]:
    yield from run_notices(result)
    wanted = result.spec.options.num_fewshot
    others = [task for task in result.tasks if task.card.num_fewshot != wanted]
    if wanted is not None and others:
        listed = ", ".join(f"{task.name} ({task.card.num_fewshot})" for task in others)
        yield f"the task's own number of few-shot examples instead of {wanted}: {listed}"


# One model on one task


def _cells(
    label: str, unit: _MatrixUnit, result: RunResult | None, unsupported: Mapping[str, str]
) -> Iterator[MatrixCell | MissingCell]:
    """Every score of a model on a task or group, in the order of its metrics; or why there is none."""
    missing = [unsupported[name] for name in unit.tasks if name in unsupported]
    if missing or result is None:
        yield MissingCell(label, unit.name, missing[0] if missing else "nothing was evaluated")
        return
    leaves = [result.task(name) for name in unit.tasks]
    lost = [leaf.problem.text for leaf in leaves if leaf.problem is not None and not leaf.metrics]
    if lost:
        yield MissingCell(
            label, unit.name, lost[0] if len(leaves) == 1 else f"not all of its tasks have a score: {lost[0]}"
        )
        return
    known = leaves[0].metrics
    if unit.group is not None:
        flat = replace(unit.group, members=unit.tasks)
        whole = aggregate_groups([flat], leaves)[0]
        if whole.problem is not None:
            yield MissingCell(label, unit.name, whole.problem.text)
            return
        known = whole.metrics
    if not known:
        yield MissingCell(label, unit.name, "no metric was computed")
    yield from (_cell(label, unit, metric, leaves) for metric in known)


def _cell(label: str, unit: _MatrixUnit, metric: MetricResult, leaves: Sequence[TaskResult]) -> MatrixCell:
    values = _values(leaves, metric, unit.group)
    own = list(leaves) if _is_score(metric, unit.group) else _leaves_with_metric(leaves, metric)
    return MatrixCell(
        model=label,
        task=unit.name,
        metric=metric.metric,
        filter=metric.filter,
        estimate=metric.estimate,
        higher_is_better=metric.higher_is_better,
        baseline=_baseline(leaves, metric, unit.group),
        asked=own[0].fingerprint if len(leaves) == 1 else digest_all(leaf.fingerprint for leaf in own),
        documents=tuple(values),
        values=tuple(values.values()),
        denominators=sum_denominators([leaf.denominators for leaf in leaves]),
        clusters=_clusters(leaves, values),
        bounds=metric.bounds,
        part=tuple(leaf.name for leaf in own) if len(own) < len(leaves) else (),
        is_style=not all(leaf.card.config.get("prompt") for leaf in leaves),
    )


def _is_score(metric: MetricResult, group: GroupSpec | None) -> bool:
    """Whether a metric is a score that the group's authors define, which has a value only if all its tasks have."""
    return group is not None and metric.filter == "none" and metric.metric in [score.name for score in group.scores]


def _leaves_with_metric(leaves: Sequence[TaskResult], metric: MetricResult) -> list[TaskResult]:
    """The tasks of a group that its score averages: those that have the metric; a single task has it."""
    if len(leaves) == 1:
        return list(leaves)
    way = metric.metric, metric.filter
    scores = [(leaf, known) for leaf in leaves for known in leaf.metrics if (known.metric, known.filter) == way]
    return [leaf for leaf, known in scores if known.estimate.value is not None]


def _counts_by_size(metric: MetricResult, group: GroupSpec | None) -> bool:
    """Whether a score pools all documents: that of a task, or of a group that weights tasks by size."""
    return group is None or any(spec.weight_by_size for spec in group.metrics if spec.metric == metric.metric)


def _values(leaves: Sequence[TaskResult], metric: MetricResult, group: GroupSpec | None) -> dict[str, float]:
    """Document → value if the score is their mean; empty otherwise."""
    names = _names(leaves)
    values = {
        f"{names[leaf.name]}#{sample.document_id}": sample.values[metric.metric]
        for leaf in leaves
        for sample in leaf.samples
        if sample.filter == metric.filter and metric.metric in sample.values
    }
    if not values or _is_score(metric, group) or not _counts_by_size(metric, group):
        return {}
    if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values.values()):
        return {}
    mean = math.fsum(values.values()) / len(values)
    is_mean = math.isclose(mean, metric.estimate.value or 0.0, rel_tol=1e-9, abs_tol=1e-12)
    return {name: float(value) for name, value in values.items()} if is_mean else {}


def _names(leaves: Sequence[TaskResult]) -> dict[str, str]:
    """Task → prefix of its document names: its family, so that they have one name in all variants.

    A group may hold several variants of one task, whose documents must be distinguished.
    """
    families = {leaf.name: leaf.card.family for leaf in leaves}
    ways = Counter(families.values())
    return {name: family if ways[family] == 1 else name for name, family in families.items()}


def _clusters(leaves: Sequence[TaskResult], documents: Iterable[str]) -> tuple[str, ...] | None:
    """The cluster of every document, separate for each family; None without clusters.

    In a column with several variants of one task, the variants of a document form one cluster.
    """
    names, known = _names(leaves), {}
    for leaf in leaves:
        family, own = leaf.card.family, document_clusters(leaf.answered)
        for place in (item.document.id for item in leaf.answered):
            cluster = f"{family}#{place}" if own is None else f"{family} {own[place]}"
            known[f"{names[leaf.name]}#{place}"] = cluster
    found = {name: known[name] for name in documents}
    return tuple(found.values()) if any(name != cluster for name, cluster in found.items()) else None


def _baseline(leaves: Sequence[TaskResult], metric: MetricResult, group: GroupSpec | None) -> float | None:
    """Accuracy of random guessing on the documents that count, from their numbers of choices; None without choices."""
    if metric.metric not in _ACCURACIES or _is_score(metric, group):
        return None
    found = [_chance(leaf, metric) for leaf in leaves]
    known = [(chance, count) for chance, count in found if chance is not None]
    if len(known) < len(leaves):
        return None
    if not _counts_by_size(metric, group):
        return sum(chance for chance, _ in known) / len(known)
    return sum(chance * count for chance, count in known) / sum(count for _, count in known)


def _chance(leaf: TaskResult, metric: MetricResult) -> tuple[float | None, int]:
    counted = {sample.document_id for sample in leaf.samples if metric.metric in sample.values}
    instances = [item.instance for item in leaf.answered if item.document.id in counted]
    if not instances or not all(instance.choices for instance in instances):
        return None, len(instances)
    if not all(isinstance(place, int) for instance in instances for place in instance.gold_indices):
        return None, len(instances)  # a text to be generated has no index among the choices
    return random_accuracy((instance.gold_indices, len(instance.choices)) for instance in instances), len(instances)
