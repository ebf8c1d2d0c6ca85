"""The tasks of a run that were asked in several ways, each put together again: levels, picks, sources of variance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.core.errors import UserError
from assay.core.protocols import Task
from assay.core.requests import Instance
from assay.core.responses import Failure
from assay.core.results import Answered, TaskResult
from assay.core.scores import Sample
from assay.core.variance_axes import DOCUMENT, DRAW, PROMPT, TaskVariance, VarianceAxis, base_name
from assay.scoring.documents import DocumentScorer
from assay.scoring.scorers.choice import choice_view, highest
from assay.scoring.scorers.methods import METHODS
from assay.tasks.harness.pose import listed_order
from assay.tasks.harness.task import HarnessTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHOICE, _GENERATED = "multiple_choice", "generate_until"
# Filters that make one answer of all draws: what they give is no value of a single draw.
_OVER_DRAWS = ("take_first_k", "majority_vote")
# What a metric picks by, of those that are accuracies of a pick.
_PICKS = {method.metric: method.scores for method in METHODS.values()}
_NO_MEAN = "the metric is no mean over documents"
# Score per document, by its place in the split.
Column = Mapping[int, float]
# A metric under a pipeline.
Key = tuple[str, str]


@dataclass(frozen=True)
class _Cell:
    """A task as it was asked at one level of every axis but that of draws."""

    levels: Mapping[str, str]
    task: HarnessTask
    scorer: DocumentScorer
    result: TaskResult

    @cached_property
    def places(self) -> Mapping[int, int]:
        """Document → its place in the split: prompts may pass over different rows."""
        left_out = {place for place, _ in self.task.left_out}
        count = len(self.task.documents()) + len(left_out)
        return dict(enumerate(place for place in range(count) if place not in left_out))

    @cached_property
    def drawn(self) -> Sequence[Sequence[Sample]]:
        """Every draw scored as if it were the only one; empty where there are none, or they cannot be told apart."""
        draws = self.task.options.axes.draws or 1
        pipelines = [
            pipeline
            for pipeline in self.scorer.pipelines
            if not any(step.name in _OVER_DRAWS for step in pipeline.steps)
        ]
        scorer = replace(self.scorer, pipelines=tuple(pipelines))
        try:
            return [
                _scored_draw(self.result.answered, scorer, draw, draws) for draw in range(draws if draws > 1 else 0)
            ]
        except UserError:
            return ()

    def column(self, key: Key, samples: Sequence[Sample] | None = None) -> Column | None:
        """A metric's value of every document; None where the values are no numbers."""
        metric, name = key
        found = {}
        for sample in self.result.samples if samples is None else samples:
            if sample.filter == name and metric in sample.values:
                value = sample.values[metric]
                if value is not None and not isinstance(value, (bool, int, float)):
                    return None
                found[self.places[sample.document_id]] = math.nan if value is None else float(value)
        return found

    def columns(self, key: Key) -> list[Column]:
        """A column per draw; one where the metric is made of all draws; none where it is no mean over documents."""
        whole = self.column(key)
        value = self.result.metric(*key).estimate.value
        if not whole or value is None or not _is_mean(value, whole.values()):
            return []
        singles = [self.column(key, samples) for samples in self.drawn]
        return [found for found in singles if found] if _makes(singles, whole) else [whole]

    def picks(self, key: Key) -> list[Mapping[int, int | None]]:
        """The choice that a metric picks of every document, by its place in the document; a mapping per draw."""
        if self.result.card.kind == _CHOICE and key[0] in _PICKS:
            return [dict(self._ranked(_PICKS[key[0]], self._options(key[0])))]
        if self.result.card.kind == _GENERATED:
            return [dict(self._said(key[1], samples)) for samples in self.drawn or [self.result.samples]]
        return []

    def _options(self, metric: str) -> Mapping[str, Any]:
        return next((spec.options for spec in self.task.scoring.metrics if spec.name == metric), {})

    def _ranked(self, scores: Callable[..., Sequence[float]], options: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
        for item in self.result.answered:
            is_whole = not any(isinstance(output, Failure) for output in item.outputs)
            if is_whole and item.instance.choices and not item.instance.orders:
                picked = highest(scores(choice_view(item.instance, item.outputs), options))
                yield self.places[item.document.id], self._own_place(item.instance, picked)

    def _said(self, name: str, samples: Sequence[Sample]) -> Iterator[tuple[int, int | None]]:
        asked = {item.document.id: item.instance for item in self.result.answered}
        for sample in samples:
            instance = asked[sample.document_id]
            if sample.filter == name and instance.choices and not instance.orders:
                said = sample.filtered[0] if sample.filtered else None
                picked = instance.choices.index(said) if said in instance.choices else None
                place = None if picked is None else self._own_place(instance, picked)
                yield self.places[sample.document_id], place

    def _own_place(self, instance: Instance, picked: int) -> int:
        """A place among the choices as they were shown, as one among the document's own."""
        return listed_order(len(instance.choices), self.task.definition.order, instance.task)[picked]

    def right(self) -> Mapping[int, tuple[int, Any]]:
        """Per document, how many choices it has and which are right."""
        return {
            self.places[item.document.id]: (len(item.instance.choices), item.instance.right_places)
            for item in self.result.answered
        }


def _scored_draw(answered: Sequence[Answered], scorer: DocumentScorer, draw: int, draws: int) -> list[Sample]:
    found: list[Sample] = []
    for item in answered:
        outputs = [output for output in item.outputs[draw::draws] if not isinstance(output, Failure)]
        single = replace(item.instance, requests=item.instance.requests[draw::draws], draws=1)
        if len(outputs) == len(single.requests):
            found += scorer.score(item.document, single, outputs)
    return found


def _is_mean(value: float, found: Any) -> bool:
    known = [item for item in found if not math.isnan(item)]
    return bool(known) and math.isclose(math.fsum(known) / len(known), value, rel_tol=1e-9, abs_tol=1e-12)


def _makes(singles: Sequence[Column | None], whole: Column) -> bool:
    """Whether a metric of all draws is that of the first, or their mean: another one is a property of the whole set."""
    columns = [column for column in singles if column]
    if not columns or len(columns) < len(singles):
        return False
    # A document that failed in some of its draws has a value for the others alone.
    shared = [place for place in whole if all(place in column for column in columns)]
    ways = (lambda drawn: drawn[0], lambda drawn: math.fsum(drawn) / len(drawn))
    return any(
        all(_is_same(way([column[place] for column in columns]), whole[place]) for place in shared) for way in ways
    )


def _is_same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(first) and math.isnan(second))


def task_variances(
    tasks: Sequence[Task], scorers: Sequence[DocumentScorer], results: Sequence[TaskResult]
) -> tuple[TaskVariance, ...]:
    """Every task that was asked in several ways, by every metric, in the order of the run.

    Args:
        tasks: the tasks.
        scorers: how they are scored.
        results: what they scored.
    """
    families: dict[str, list[_Cell]] = {}
    for task, scorer, result in zip(tasks, scorers, results, strict=True):
        if isinstance(task, HarnessTask):
            definition = task.definition
            prompt = definition.prompt
            levels = {axis: str(level) for axis, level in definition.variant.items()}
            levels = levels if prompt is None else {PROMPT: str(prompt["name"]), **levels}
            base = base_name(definition.name) if prompt is None else str(prompt["task"])
            families.setdefault(base, []).append(_Cell(levels, task, scorer, result))
    return tuple(found for base, cells in families.items() for found in _family(base, cells))


def _family(base: str, cells: Sequence[_Cell]) -> Iterator[TaskVariance]:
    is_drawn = any(cell.task.options.axes.draws for cell in cells)
    keys = dict.fromkeys((metric.metric, metric.filter) for cell in cells for metric in cell.result.metrics)
    for key in keys:
        own = [cell for cell in cells if any((m.metric, m.filter) == key for m in cell.result.metrics)]
        if key[0] != "bypass" and (len(own) > 1 or is_drawn):
            yield _variance(base, key, own)


def _variance(base: str, key: Key, cells: Sequence[_Cell]) -> TaskVariance:
    columns = [cell.columns(key) for cell in cells]
    if min(map(len, columns)) < max(map(len, columns)):  # draws can be told apart in some cells only
        columns = [
            [whole] if (whole := cell.column(key)) and found else [] for cell, found in zip(cells, columns, strict=True)
        ]
    axes = _axes(key, cells, columns)
    if not all(columns):
        return TaskVariance(base, *key, axes, reason=_NO_MEAN)
    names = list(cells[0].levels)
    table = _table(cells, columns, names)
    from assay.stats.variance import decompose

    is_drawn = len(columns[0]) > 1
    factors = [DOCUMENT, *names, *([DRAW] if is_drawn else [])]
    try:
        parts = decompose(table if is_drawn else table[..., 0], factors, nested=DRAW if is_drawn else None)
    except UserError as error:
        return TaskVariance(base, *key, axes, reason=error.faults[0].found)
    return TaskVariance(base, *key, axes, parts, _naive(table))


def _levels(cells: Sequence[_Cell], axis: str) -> list[str]:
    return list(dict.fromkeys(cell.levels[axis] for cell in cells))


def _table(cells: Sequence[_Cell], columns: Sequence[Sequence[Column]], names: Sequence[str]) -> NDArray[np.float64]:
    """Scores by document, by the axes of the cells and by draw; NaN where there is none."""
    import numpy as np

    rows = {place: row for row, place in enumerate(sorted({p for cell in cells for p in _asked(cell)}))}
    levels = {axis: _levels(cells, axis) for axis in names}
    table = np.full((len(rows), *(len(levels[axis]) for axis in names), len(columns[0])), np.nan)
    for cell, found in zip(cells, columns, strict=True):
        where = tuple(levels[axis].index(cell.levels[axis]) for axis in names)
        for draw, column in enumerate(found):
            for place, value in column.items():
                at = (rows[place], *where, draw)
                table[at] = value
    return table


def _asked(cell: _Cell) -> Iterator[int]:
    return (cell.places[item.document.id] for item in cell.result.answered)


def _naive(table: NDArray[np.float64]) -> float | None:
    """The standard error with documents as the only chance."""
    import numpy as np

    means = table.reshape(len(table), -1).mean(axis=1)
    known = means[~np.isnan(means)]
    return float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None


def _axes(key: Key, cells: Sequence[_Cell], columns: Sequence[Sequence[Column]]) -> tuple[VarianceAxis, ...]:
    found = []
    picks = [cell.picks(key) for cell in cells]
    for axis in cells[0].levels:
        levels = _levels(cells, axis)
        if len(levels) < 2:
            continue
        scores = {
            level: _mean([_score(key, cell, own) for cell, own in _at(cells, columns, axis, level)]) for level in levels
        }
        line = _first_line(cells, axis)
        raters = [picked[0] for cell, picked in zip(cells, picks, strict=True) if cell in line and picked]
        is_alike = axis != PROMPT or all(cell.right() == line[0].right() for cell in line)
        found.append(_axis(axis, scores, raters if is_alike else []))
    draws = len(columns[0])
    if draws > 1:
        by_draw = {str(draw + 1): _mean([_value(own[draw]) for own in columns]) for draw in range(draws)}
        found.append(_axis(DRAW, by_draw, picks[0]))
    return tuple(found)


def _at(
    cells: Sequence[_Cell], columns: Sequence[Sequence[Column]], axis: str, level: str
) -> Iterator[tuple[_Cell, Sequence[Column]]]:
    return ((cell, own) for cell, own in zip(cells, columns, strict=True) if cell.levels[axis] == level)


def _first_line(cells: Sequence[_Cell], axis: str) -> list[_Cell]:
    """The cells at every level of an axis, and at the first of all others."""
    first = cells[0].levels
    return [cell for cell in cells if all(cell.levels[name] == first[name] for name in first if name != axis)]


def _axis(name: str, scores: Mapping[str, float | None], raters: Sequence[Mapping[int, int | None]]) -> VarianceAxis:
    from assay.stats.agreement import krippendorff_alpha, percent_agreement

    places = sorted({place for rater in raters for place in rater})
    ratings = [[rater.get(place) for rater in raters] for place in places]
    if len(raters) < 2 or not any(sum(pick is not None for pick in row) > 1 for row in ratings):
        return VarianceAxis(name, scores)
    return VarianceAxis(name, scores, percent_agreement(ratings), krippendorff_alpha(ratings))


def _score(key: Key, cell: _Cell, columns: Sequence[Column]) -> float | None:
    """What a cell scored, over all its draws."""
    if len(columns) > 1:
        return _mean([_value(column) for column in columns])
    return cell.result.metric(*key).estimate.value


def _value(column: Column) -> float | None:
    return _mean([value for value in column.values() if not math.isnan(value)])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
