"""`lm_eval.api.metrics`: aggregations and small helpers that task code calls directly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def mean(arr: Sequence[float]) -> float:
    """Arithmetic mean."""
    return sum(arr) / len(arr)


def nanmean(arr: Sequence[float]) -> float:
    """Mean of the values that are not NaN; NaN if there are none."""
    kept = [value for value in arr if not math.isnan(value)]
    return sum(kept) / len(kept) if kept else math.nan


def median(arr: Sequence[Any]) -> Any:
    """Median; the upper one of two middle values."""
    return sorted(arr)[len(arr) // 2]


def perplexity(items: Sequence[float]) -> float:
    """exp of the mean negative log-likelihood."""
    return math.exp(-mean(items))


def weighted_mean(items: Iterable[tuple[float, float]]) -> float:
    """Sum of the values over sum of the weights, of (value, weight) pairs."""
    values, weights = zip(*items, strict=True)
    return float(sum(values) / sum(weights))


def weighted_perplexity(items: Iterable[tuple[float, float]]) -> float:
    """exp of the negative log-likelihood per unit."""
    return math.exp(-weighted_mean(items))


def bits_per_byte(items: Iterable[tuple[float, float]]) -> float:
    """Bits per byte, from (log-likelihood, bytes) pairs."""
    return -weighted_mean(items) / math.log(2)


def pop_stddev(arr: Sequence[float]) -> float:
    """Standard deviation of a whole population."""
    centre = mean(arr)
    return math.sqrt(sum((value - centre) ** 2 for value in arr) / len(arr))


def sample_stddev(arr: Sequence[float]) -> float:
    """Standard deviation estimated from a sample."""
    centre = mean(arr)
    return math.sqrt(sum((value - centre) ** 2 for value in arr) / (len(arr) - 1))


def mean_stderr(arr: Sequence[float]) -> float:
    """Standard error of the mean."""
    return sample_stddev(arr) / math.sqrt(len(arr))


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], float], prediction: Any, ground_truths: Iterable[Any]
) -> float:
    """A prediction's best score over several right answers."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def acc_all(items: Iterable[tuple[Any, Mapping[str, Any]]]) -> float:
    """Share of questions whose answers are all judged correctly, over (judgement, document) pairs."""
    by_question: dict[tuple[Any, Any], list[bool]] = {}
    for judged, document in items:
        key = (document["idx"]["paragraph"], document["idx"]["question"])
        by_question.setdefault(key, []).append((document["label"] == 1) == judged)
    return mean([float(all(right)) for right in by_question.values()])


# Function → built-in aggregation with the same meaning, whose standard error is known.
AGGREGATIONS: dict[Callable[..., Any], str] = {
    mean: "mean",
    nanmean: "nanmean",
    median: "median",
    perplexity: "perplexity",
    weighted_perplexity: "weighted_perplexity",
    bits_per_byte: "bits_per_byte",
}
