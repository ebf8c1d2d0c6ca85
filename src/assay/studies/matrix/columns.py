"""Which metric a column of a matrix shows, when models may have different metrics for a task. Pure.

In: every score of every model. Out: the scores to show, and the reason if a model has none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.core.plural import plural
from assay.studies.matrix.matrix_values import MatrixCell, MissingCell

# A metric and the pipeline before it.
MetricAndFilter = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ShownScores:
    """The scores that a matrix shows."""

    cells: tuple[MatrixCell, ...]
    gaps: tuple[MissingCell, ...]
    notices: tuple[str, ...]


def shown_cells(tasks: Sequence[str], scores: Sequence[MatrixCell], requested: Sequence[str]) -> ShownScores:
    """The scores that the matrix shows, task by task.

    Args:
        tasks: the tasks, in display order.
        scores: every score of every model, in the order of the task's metrics, including non-finite values.
        requested: metrics to show, the first one that a task has; if empty, the metric that most models have.
    """
    cells: list[MatrixCell] = []
    gaps: list[MissingCell] = []
    notices: list[str] = []
    for task in tasks:
        by_model: dict[str, list[MatrixCell]] = {}
        for score in scores:
            if score.task == task:
                by_model.setdefault(score.model, []).append(score)
        metric_keys = choose_metrics([[_metric_key(cell) for cell in own] for own in by_model.values()], requested)
        known = [cell for own in by_model.values() for cell in own if _metric_key(cell) in metric_keys]
        cells += [cell for cell in known if _is_finite(cell)]
        gaps += [MissingCell(cell.model, task, _why_empty(cell)) for cell in known if not _is_finite(cell)]
        shown = {cell.model for cell in known}
        gaps += [
            MissingCell(model, task, _other_metric_reason(own, metric_keys))
            for model, own in by_model.items()
            if model not in shown
        ]
        notices += [
            *_notices(task, list(by_model.values()), metric_keys, requested),
            *_partial_group_notices(task, known),
        ]
    return ShownScores(tuple(cells), tuple(gaps), tuple(notices))


def choose_metrics(models: Sequence[Sequence[MetricAndFilter]], requested: Sequence[str]) -> list[MetricAndFilter]:
    """The metrics to show of a task, so that every model has one of them; only requested ones, if there are any.

    First the one that most models have, then the one that most of the others have, and so on; ties go to the first in
    the models' lists. A metric requested earlier comes first, however many models have it.

    Args:
        models: per model, its metrics in order.
        requested: names of metrics, by preference.
    """
    order = list(dict.fromkeys(metric_key for own in models for metric_key in own))
    allowed = [metric_key for metric_key in order if metric_key[0] in requested] or order
    priorities = {name: place for place, name in enumerate(requested)}
    left = [set(own) & set(allowed) for own in models]
    found: list[MetricAndFilter] = []
    while any(left):
        counts = {metric_key: sum(metric_key in own for own in left) for metric_key in allowed}
        best = min(
            (metric_key for metric_key in allowed if counts[metric_key]),
            key=lambda metric_key: (priorities.get(metric_key[0], len(priorities)), -counts[metric_key]),
        )
        found.append(best)
        left = [own for own in left if best not in own]
    return found


def _metric_key(cell: MatrixCell) -> MetricAndFilter:
    return cell.metric, cell.filter


def _is_finite(cell: MatrixCell) -> bool:
    return cell.estimate.value is not None and math.isfinite(cell.estimate.value)


def _why_empty(cell: MatrixCell) -> str:
    counts = cell.denominators
    if counts is not None and counts.failed and counts.failed == counts.total:
        return f"every document failed ({counts.total:,})"
    return f"{cell.metric} is {cell.estimate.value} on {plural(cell.estimate.n, 'document')}"


def _other_metric_reason(own: Sequence[MatrixCell], metric_keys: Sequence[MetricAndFilter]) -> str:
    """Why a model that has scores has none of the metrics shown."""
    names = list(dict.fromkeys(cell.metric for cell in own))
    shown = " or ".join(dict.fromkeys(metric for metric, _ in metric_keys))
    return f"reports {', '.join(names)} instead of {shown}. Add --metric {names[0]} for a column of its own"


def _notices(
    task: str, models: Sequence[Sequence[MatrixCell]], metric_keys: Sequence[MetricAndFilter], requested: Sequence[str]
) -> Iterator[str]:
    """A notice if the task's first metric is not shown because some models cannot report it."""
    if not metric_keys or any(metric in requested for metric, _ in metric_keys):
        return
    passed = [
        own[0].metric for own in models if _metric_key(own[0]) not in metric_keys and own[0].metric != metric_keys[0][0]
    ]
    if passed:
        lacking = [own[0].model for own in models if all(cell.metric != passed[0] for cell in own)]
        message = (
            f"{task}: {metric_keys[0][0]} is shown instead of {passed[0]}, which {', '.join(lacking)} cannot report"
        )
        yield f"{message}. --metric {passed[0]} shows it"


def _partial_group_notices(task: str, cells: Sequence[MatrixCell]) -> Iterator[str]:
    """A notice if a group's score is the mean of only some of its tasks."""
    models: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for cell in cells:
        if cell.part:
            models.setdefault((cell.metric, cell.part), []).append(cell.model)
    for (metric, part), names in models.items():
        yield f"{', '.join(names)}: {task}: {metric} is the mean over the tasks that have it, {', '.join(part)} only"
