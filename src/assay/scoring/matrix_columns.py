"""Which metric a column of a matrix shows, where models may have different ones of a task. Pure.

In: every score that models have. Out: the scores to show, and the reason where a model has none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.core.matrices import Gap, MatrixCell

# A metric and the pipeline before it.
Way = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a matrix shows of the scores that there are."""

    cells: tuple[MatrixCell, ...]
    gaps: tuple[Gap, ...]
    notices: tuple[str, ...]


def shown_cells(tasks: Sequence[str], scores: Sequence[MatrixCell], wished: Sequence[str]) -> Shown:
    """The scores that the matrix shows, task by task.

    Args:
        tasks: in the order to show them.
        scores: every score of every model, in the order of the task's metrics; one without a finite value too.
        wished: metrics to show, the first one that a task has; without any, the metric that most models have.
    """
    cells: list[MatrixCell] = []
    gaps: list[Gap] = []
    notices: list[str] = []
    for task in tasks:
        by_model: dict[str, list[MatrixCell]] = {}
        for score in scores:
            if score.task == task:
                by_model.setdefault(score.model, []).append(score)
        ways = chosen([[_way(cell) for cell in own] for own in by_model.values()], wished)
        known = [cell for own in by_model.values() for cell in own if _way(cell) in ways]
        cells += [cell for cell in known if _is_finite(cell)]
        gaps += [Gap(cell.model, task, _why_empty(cell)) for cell in known if not _is_finite(cell)]
        shown = {cell.model for cell in known}
        gaps += [Gap(model, task, _other(own, ways)) for model, own in by_model.items() if model not in shown]
        notices += [*_notices(task, list(by_model.values()), ways, wished), *_parts(task, known)]
    return Shown(tuple(cells), tuple(gaps), tuple(notices))


def chosen(models: Sequence[Sequence[Way]], wished: Sequence[str]) -> list[Way]:
    """The metrics to show of a task, so that every model has one of them; of the wished ones alone, if it has any.

    First the one that most models have, then the one that most of the others have, and so on; of equals, the first in
    the models' lists. A metric that is wished comes before those wished after it, however many models have it.

    Args:
        models: per model, its metrics in order.
        wished: names of metrics, the most wished first.
    """
    order = list(dict.fromkeys(way for own in models for way in own))
    allowed = [way for way in order if way[0] in wished] or order
    wishes = {name: place for place, name in enumerate(wished)}
    left = [set(own) & set(allowed) for own in models]
    found: list[Way] = []
    while any(left):
        counts = {way: sum(way in own for own in left) for way in allowed}
        best = min(
            (way for way in allowed if counts[way]), key=lambda way: (wishes.get(way[0], len(wishes)), -counts[way])
        )
        found.append(best)
        left = [own for own in left if best not in own]
    return found


def _way(cell: MatrixCell) -> Way:
    return cell.metric, cell.filter


def _is_finite(cell: MatrixCell) -> bool:
    return cell.estimate.value is not None and math.isfinite(cell.estimate.value)


def _why_empty(cell: MatrixCell) -> str:
    counts = cell.denominators
    if counts is not None and counts.failed and counts.failed == counts.total:
        return f"all {counts.total} documents failed"
    return f"{cell.metric} is {cell.estimate.value} on {cell.estimate.n} documents"


def _other(own: Sequence[MatrixCell], ways: Sequence[Way]) -> str:
    """Why a model that has scores has none of the metrics shown."""
    names = list(dict.fromkeys(cell.metric for cell in own))
    shown = " or ".join(dict.fromkeys(metric for metric, _ in ways))
    return f"has no {shown} here, but {', '.join(names)}. Add --metric {names[0]} for a column of its own"


def _notices(
    task: str, models: Sequence[Sequence[MatrixCell]], ways: Sequence[Way], wished: Sequence[str]
) -> Iterator[str]:
    """Says so where no wish but the models' families decided against the task's first metric."""
    if not ways or any(metric in wished for metric, _ in ways):
        return
    passed = [own[0].metric for own in models if _way(own[0]) not in ways and own[0].metric != ways[0][0]]
    if passed:
        lacking = [own[0].model for own in models if all(cell.metric != passed[0] for cell in own)]
        told = f"{task}: {ways[0][0]} is shown, not {passed[0]}, which {', '.join(lacking)} cannot have"
        yield f"{told}. --metric {passed[0]} shows it"


def _parts(task: str, cells: Sequence[MatrixCell]) -> Iterator[str]:
    """Says so where a group's score is the mean of some of its tasks."""
    models: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for cell in cells:
        if cell.part:
            models.setdefault((cell.metric, cell.part), []).append(cell.model)
    for (metric, part), names in models.items():
        yield f"{', '.join(names)}: {task}: {metric} is the mean over the tasks that have it, {', '.join(part)} only"
