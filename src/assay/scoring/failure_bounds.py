"""Bounds of scores over failed documents, which no score counts: if all were wrong, and if all were right.

In: estimates over scored documents and the number of failed ones. Out: `FailureBounds` for tasks, groups and
differences. Bounds exist for means of values with a known range, such as accuracies; other metrics only have the count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.metric_names import expanded_specs
from assay.core.scores import Estimate, FailureBounds, MetricResult, Sample
from assay.core.specs import MetricSpec, Scoring
from assay.scoring.registry import METRICS, metric_definition

ValueRange = tuple[float, float]
_MEANS = ("mean", "nanmean", "mean_of_known", "draws")


def with_bounds(
    scoring: Scoring, results: Sequence[MetricResult], samples: Sequence[Sample], failed: int
) -> tuple[MetricResult, ...]:
    """A task's metrics with their bounds, given the number of failed documents, of which there is at least one."""
    spans = {spec.name: _value_range(spec) for spec in expanded_specs(scoring.metrics)}
    return tuple(
        replace(
            result, bounds=task_bounds(result.estimate, _observed(spans.get(result.metric), result, samples), failed)
        )
        for result in results
    )


def task_bounds(estimate: Estimate, span: ValueRange | None, failed: int) -> FailureBounds:
    """The mean with the failed documents at either end of the range of a document's value.

    Args:
        estimate: the mean over the documents with a value.
        span: lowest and highest value of a document; None if unknown.
        failed: number of failed documents.
    """
    value = 0.0 if estimate.n == 0 else estimate.value
    if span is None or value is None or not math.isfinite(value):
        return FailureBounds(failed)
    low, high = ((estimate.n * value + failed * end) / (estimate.n + failed) for end in span)
    return FailureBounds(failed, low, high)


def _value_range(spec: MetricSpec) -> ValueRange | None:
    """The range of a document's value, for a registered metric that is a mean; None otherwise."""
    is_foreign = spec.function is not None or (spec.is_external and spec.name != "exact_match")
    if is_foreign or spec.name not in METRICS:
        return None
    definition = metric_definition(spec.name)
    aggregation = definition.aggregation if spec.aggregation is None else spec.aggregation
    base_metric = spec.options.get("of")  # the metric that scores a draw for mean@k and the like
    if callable(aggregation) or aggregation not in _MEANS or (base_metric is not None and base_metric not in METRICS):
        return None
    return definition.span if base_metric is None else metric_definition(base_metric).span


def is_share_metric(name: str) -> bool:
    """Whether a registered metric is a mean of values from 0 to 1."""
    return name in METRICS and _value_range(MetricSpec(name)) == (0.0, 1.0)


def _observed(span: ValueRange | None, result: MetricResult, samples: Sequence[Sample]) -> ValueRange | None:
    """The range, unless a value is outside: a task's own scoring may return any number under a known name."""
    values = (
        sample.values[result.metric]
        for sample in samples
        if sample.filter == result.filter and result.metric in sample.values
    )
    return span if span is not None and all(_is_within(value, span) for value in values) else None


def _is_within(value: Any, span: ValueRange) -> bool:
    try:
        if value is None or value != value:  # None or NaN: not part of the mean
            return True
        return span[0] <= float(value) <= span[1]
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class Leaf:
    """A task of a group: its metric, the documents that count, and those that failed."""

    result: MetricResult
    size: int
    failed: int

    @property
    def bounds(self) -> FailureBounds:
        """The task's own bounds; its score at both ends if no document failed."""
        value = self.result.estimate.value
        return self.result.bounds or FailureBounds(self.failed, value, value)


def group_bounds(leaves: Iterable[Leaf], by_size: bool) -> FailureBounds | None:
    """Bounds of the mean over tasks with all failed documents counted; None if none failed.

    A task without any score, because all of its documents failed, counts here.

    Args:
        leaves: the tasks.
        by_size: whether each is weighted by its documents, including failed ones; else each counts once.
    """
    known = [leaf for leaf in leaves if leaf.size + leaf.failed]
    failed = sum(leaf.failed for leaf in known)
    if not failed:
        return None
    weights = [float(leaf.size + leaf.failed) if by_size else 1.0 for leaf in known]
    ends = [[leaf.bounds.low for leaf in known], [leaf.bounds.high for leaf in known]]
    low, high = (_mean(own, weights) for own in ends)
    return FailureBounds(failed, low, high)


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return math.fsum(weight * value for weight, value in zip(weights, known, strict=True)) / math.fsum(weights)


def difference_bounds(
    first: Mapping[int, float], second: Mapping[int, float], failed: tuple[int, int]
) -> tuple[float, float] | None:
    """Bounds of the mean difference, second minus first, of two systems with values from 0 to 1.

    A document that failed in one of them may be wrong or right there.

    Args:
        first: document → value, of the documents that the first system has; with the same numbering in both.
        second: likewise.
        failed: number of failed documents of each.

    Returns:
        None if the documents that one system lacks are not those that failed there.
    """
    only_first, only_second = (len(one.keys() - other.keys()) for one, other in ((first, second), (second, first)))
    both = failed[0] - only_second
    total = len(first.keys() | second.keys()) + both
    if both < 0 or both != failed[1] - only_first or not total:
        return None
    ones, others = math.fsum(first.values()), math.fsum(second.values())
    return (others - ones - failed[0]) / total, (others - ones + failed[1]) / total
