"""Variance decomposition of tasks with several prompts, seeds, orders or draws: levels, agreement, sources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.core.errors import UserError
from assay.core.protocols import Task
from assay.core.responses import Failure
from assay.core.results import AnsweredDocument, TaskResult
from assay.core.scores import Sample
from assay.core.task_variants import DOCUMENT, DRAW, ORDER, PROMPT
from assay.run.build import split_indices
from assay.scoring.aggregate import document_clusters
from assay.scoring.document_scorer import DocumentScorer
from assay.studies.paired.predictions import gold_choices_of, predictions_of
from assay.studies.variance.variance_values import TaskVariance, VarianceAxis

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GENERATED = "generate_until"
# Filters that combine all draws into one answer: their output is not the value of a single draw.
_OVER_DRAWS = ("take_first_k", "majority_vote")
_NO_MEAN = "the metric is not a mean over documents"
_NO_VALUE = "the metric has no value"
_ONE_DOCUMENT = "one document gives no variance"
# Score per document, by its index in the split.
DocumentScores = Mapping[int, float]
# A metric under a pipeline.
MetricKey = tuple[str, str]


@dataclass(frozen=True)
class _Cell:
    """A task at one level of every axis except draws."""

    levels: Mapping[str, str]
    task: Task
    scorer: DocumentScorer
    result: TaskResult
    draws: int | None

    @cached_property
    def indices(self) -> Mapping[int, int]:
        """Document → its index in the split: prompts may skip different rows."""
        return dict(enumerate(split_indices(self.task)))

    @cached_property
    def drawn(self) -> Sequence[Sequence[Sample]]:
        """Every draw scored as if it were the only one; empty if there are none, or scoring them fails."""
        draws = self.draws or 1
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

    def column(self, key: MetricKey, samples: Sequence[Sample] | None = None) -> DocumentScores | None:
        """A metric's value of every document; None if the values are not numbers."""
        metric, name = key
        found = {}
        for sample in self.result.samples if samples is None else samples:
            if sample.filter == name and metric in sample.values:
                value = sample.values[metric]
                if value is not None and not isinstance(value, (bool, int, float)):
                    return None
                found[self.indices[sample.document_id]] = math.nan if value is None else float(value)
        return found

    def columns(self, key: MetricKey) -> list[DocumentScores]:
        """One column per draw; one in total if the metric uses all draws; none if it is not a mean, or has no value."""
        whole = self.column(key)
        value = self.result.metric(*key).estimate.value
        if not whole or value is None or not _is_mean(value, whole.values()):
            return []
        singles = [self.column(key, samples) for samples in self.drawn]
        return [found for found in singles if found] if _is_mean_of_draws(singles, whole) else [whole]

    def predictions(self, key: MetricKey) -> list[Mapping[int, int | None]]:
        """The choice that a metric predicts for every document, by its index in the document; a mapping per draw."""
        found = predictions_of(self.task, self.result, *key, self.drawn if self.result.card.kind == _GENERATED else ())
        return [{self.indices[document]: pick for document, pick in predictions.items()} for predictions in found]

    def right(self) -> Mapping[int, tuple[int, Any]]:
        """Per document, its number of choices and the right ones."""
        return {self.indices[document]: right for document, right in gold_choices_of(self.task, self.result).items()}


def _scored_draw(answered: Sequence[AnsweredDocument], scorer: DocumentScorer, draw: int, draws: int) -> list[Sample]:
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


def _is_mean_of_draws(singles: Sequence[DocumentScores | None], whole: DocumentScores) -> bool:
    """Whether a metric over all draws is that of the first, or their mean; any other is a property of the whole set."""
    columns = [column for column in singles if column]
    if not columns or len(columns) < len(singles):
        return False
    # A document that failed in some of its draws has values for the others only.
    shared = [index for index in whole if all(index in column for column in columns)]
    ways = (lambda drawn: drawn[0], lambda drawn: math.fsum(drawn) / len(drawn))
    return any(
        all(_is_same(way([column[index] for column in columns]), whole[index]) for index in shared) for way in ways
    )


def _is_same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(first) and math.isnan(second))


def task_variances(
    tasks: Sequence[Task], scorers: Sequence[DocumentScorer], results: Sequence[TaskResult]
) -> tuple[TaskVariance, ...]:
    """The variance of every task with several variants, by every metric, in the order of the run.

    Args:
        tasks: the tasks.
        scorers: their scorers.
        results: their results.
    """
    families: dict[str, list[_Cell]] = {}
    for task, scorer, result in zip(tasks, scorers, results, strict=True):
        variant = task.card.variant
        if variant is not None:
            levels = {axis: str(level) for axis, level in variant.levels.items()}
            levels = levels if variant.prompt is None else {PROMPT: variant.prompt, **levels}
            base = variant.base if variant.prompt is None else variant.task
            families.setdefault(base, []).append(_Cell(levels, task, scorer, result, variant.draws))
    return tuple(found for base, cells in families.items() for found in _family(base, cells))


def _family(base: str, cells: Sequence[_Cell]) -> Iterator[TaskVariance]:
    is_drawn = any(cell.draws for cell in cells)
    keys = dict.fromkeys((metric.metric, metric.filter) for cell in cells for metric in cell.result.metrics)
    for key in keys:
        own = [cell for cell in cells if any((m.metric, m.filter) == key for m in cell.result.metrics)]
        if key[0] == "bypass" or not (len(own) > 1 or is_drawn):
            continue
        lost = sum(not cell.result.metrics for cell in cells)
        if lost:
            yield TaskVariance(base, *key, (), reason=f"{lost} of {len(cells)} variants could not be scored")
        else:
            yield _variance(base, key, own)


def _variance(base: str, key: MetricKey, cells: Sequence[_Cell]) -> TaskVariance:
    if PROMPT in cells[0].levels and len(_levels(cells, PROMPT)) == 1:  # the score is that of this prompt
        base = f"{base}@{cells[0].levels[PROMPT]}"
    columns = [cell.columns(key) for cell in cells]
    if min(map(len, columns)) < max(map(len, columns)):  # draws can be scored separately in some cells only
        columns = [
            [whole] if (whole := cell.column(key)) and found else [] for cell, found in zip(cells, columns, strict=True)
        ]
    axes = _axes(key, cells, columns)
    if not all(columns):
        return TaskVariance(base, *key, axes, reason=_why_not(key, cells, columns))
    names, rows = list(cells[0].levels), sorted({index for cell in cells for index in _evaluated_indices(cell)})
    if len(rows) < 2:
        return TaskVariance(base, *key, axes, reason=_ONE_DOCUMENT)
    table, clusters = _table(cells, columns, names, rows), _clusters(cells, rows)
    from assay.stats.variance import decompose

    is_drawn = len(columns[0]) > 1
    factors = [DOCUMENT, *names, *([DRAW] if is_drawn else [])]
    try:
        scores, nested = (table, DRAW) if is_drawn else (table[..., 0], None)
        parts = decompose(scores, factors, nested, clusters, _totals(cells))
    except UserError as error:
        return TaskVariance(base, *key, axes, reason=error.faults[0].found)
    return TaskVariance(base, *key, axes, parts, _naive(table, clusters), available=_available(cells))


def _why_not(key: MetricKey, cells: Sequence[_Cell], columns: Sequence[Sequence[DocumentScores]]) -> str:
    """Why some cells have no per-document values."""
    lacking = [cell for cell, own in zip(cells, columns, strict=True) if not own]
    if any(cell.result.metric(*key).estimate.value is not None for cell in lacking):
        return _NO_MEAN
    return _NO_VALUE if len(lacking) == len(cells) else f"{_NO_VALUE} in {len(lacking)} of {len(cells)} variants"


def _available(cells: Sequence[_Cell]) -> dict[str, int]:
    """Number of available documents, and of orders of their choices."""
    found, sizes = {DOCUMENT: min(len(cell.indices) for cell in cells)}, _choices(cells)
    return {**found, ORDER: math.factorial(min(sizes))} if sizes else found


def _totals(cells: Sequence[_Cell]) -> dict[str, int]:
    """Number of orders of a document's choices, at most: documents with fewer choices have fewer."""
    sizes = _choices(cells)
    return {ORDER: math.factorial(max(sizes))} if sizes else {}


def _choices(cells: Sequence[_Cell]) -> set[int]:
    """The numbers of choices of the documents, if orders are varied."""
    found = {len(item.instance.choices) for cell in cells for item in cell.result.answered} - {0, 1}
    return found if ORDER in cells[0].levels else set()


def _levels(cells: Sequence[_Cell], axis: str) -> list[str]:
    return list(dict.fromkeys(cell.levels[axis] for cell in cells))


def _table(
    cells: Sequence[_Cell], columns: Sequence[Sequence[DocumentScores]], names: Sequence[str], indices: Sequence[int]
) -> NDArray[np.float64]:
    """Scores by document, by the axes of the cells and by draw; NaN if there is none."""
    import numpy as np

    rows = {index: row for row, index in enumerate(indices)}
    levels = {axis: _levels(cells, axis) for axis in names}
    table = np.full((len(rows), *(len(levels[axis]) for axis in names), len(columns[0])), np.nan)
    for cell, found in zip(cells, columns, strict=True):
        where = tuple(levels[axis].index(cell.levels[axis]) for axis in names)
        for draw, column in enumerate(found):
            for index, value in column.items():
                at = (rows[index], *where, draw)
                table[at] = value
    return table


def _evaluated_indices(cell: _Cell) -> Iterator[int]:
    return (cell.indices[item.document.id] for item in cell.result.answered)


def _clusters(cells: Sequence[_Cell], indices: Sequence[int]) -> list[str] | None:
    """The cluster of every document; None if documents are independent."""
    found: dict[int, str] = {}
    for cell in cells:
        found |= {
            cell.indices[document]: own for document, own in (document_clusters(cell.result.answered) or {}).items()
        }
    return [found[index] for index in indices] if found else None


def _naive(table: NDArray[np.float64], clusters: Sequence[str] | None) -> float | None:
    """The standard error with documents as the only random factor; None if equal scores allow no estimate."""
    import numpy as np

    from assay.stats.clustered import clustered_mean
    from assay.stats.means import is_rounding_error, standard_error

    means = table.reshape(len(table), -1).mean(axis=1)
    known = ~np.isnan(means)
    values = means[known].tolist()
    if clusters is None:
        error = standard_error(values)
    else:
        own = [cluster for cluster, is_known in zip(clusters, known, strict=True) if is_known]
        error = clustered_mean(values, own).estimate.stderr
    return None if error is None or is_rounding_error(error, max(map(abs, values))) else error


def _axes(
    key: MetricKey, cells: Sequence[_Cell], columns: Sequence[Sequence[DocumentScores]]
) -> tuple[VarianceAxis, ...]:
    found = []
    predictions = [cell.predictions(key) for cell in cells]
    for axis in cells[0].levels:
        levels = _levels(cells, axis)
        if len(levels) < 2:
            continue
        scores = {
            level: _mean([_score(key, cell, own) for cell, own in _at(cells, columns, axis, level)]) for level in levels
        }
        line = _first_line(cells, axis)
        raters = [picked[0] for cell, picked in zip(cells, predictions, strict=True) if cell in line and picked]
        is_alike = axis != PROMPT or all(cell.right() == line[0].right() for cell in line)
        found.append(_axis(axis, scores, raters if is_alike else [], cells))
    draws = len(columns[0])
    if draws > 1:
        by_draw = {str(draw + 1): _mean([_value(own[draw]) for own in columns]) for draw in range(draws)}
        found.append(_axis(DRAW, by_draw, predictions[0], cells))
    return tuple(found)


def _at(
    cells: Sequence[_Cell], columns: Sequence[Sequence[DocumentScores]], axis: str, level: str
) -> Iterator[tuple[_Cell, Sequence[DocumentScores]]]:
    return ((cell, own) for cell, own in zip(cells, columns, strict=True) if cell.levels[axis] == level)


def _first_line(cells: Sequence[_Cell], axis: str) -> list[_Cell]:
    """The cells at every level of an axis, with all other axes at their first level."""
    first = cells[0].levels
    return [cell for cell in cells if all(cell.levels[name] == first[name] for name in first if name != axis)]


def _axis(
    name: str,
    scores: Mapping[str, float | None],
    raters: Sequence[Mapping[int, int | None]],
    cells: Sequence[_Cell],
) -> VarianceAxis:
    from assay.stats.agreement import krippendorff_alpha, percent_agreement

    indices = sorted({index for rater in raters for index in rater})
    ratings = [[rater.get(index) for rater in raters] for index in indices]
    if len(raters) < 2 or not any(sum(pick is not None for pick in row) > 1 for row in ratings):
        return VarianceAxis(name, scores)
    clusters = _clusters(cells, indices)
    share, alpha = percent_agreement(ratings, clusters=clusters), krippendorff_alpha(ratings, clusters=clusters)
    return VarianceAxis(name, scores, share, alpha)


def _score(key: MetricKey, cell: _Cell, columns: Sequence[DocumentScores]) -> float | None:
    """The score of a cell, over all its draws."""
    if len(columns) > 1:
        return _mean([_value(column) for column in columns])
    return cell.result.metric(*key).estimate.value


def _value(column: DocumentScores) -> float | None:
    return _mean([value for value in column.values() if not math.isnan(value)])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
