"""Bootstrapped statistics, vectorised over replicates: one row per replicate.

The only part of the metrics that needs numpy; loaded when such a metric is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.protocols import ProgressCallback
from assay.core.scores import Estimate
from assay.stats import absolute_gaps, bootstrap, lm_eval_bootstrap

Floats = NDArray[np.float64]
# Number of ECE bins.
BINS = 10


def estimate(values: Sequence[Any], statistic: str) -> Estimate:
    """The named statistic, with bootstrap standard error and interval."""
    if statistic in GAP_STATISTICS and len(values):
        return absolute_gaps.absolute_gaps_estimate(*GAP_STATISTICS[statistic](np.asarray(values, dtype=np.float64)))
    array = np.asarray(values, dtype=np.float64)
    if statistic in COUNT_STATISTICS and len(values):
        pairs, counts = np.unique(array, axis=0, return_counts=True)
        if bootstrap.prefers_multinomial(len(pairs), len(array)):
            of_counts = partial(COUNT_STATISTICS[statistic], pairs)
            return bootstrap.spread(bootstrap.counted_estimate(counts.astype(np.float64), of_counts))
    if statistic in _MEDIANS:
        return bootstrap.spread(bootstrap.median_estimate(array, is_upper=statistic == "median"))
    return bootstrap.spread(bootstrap.percentile_estimate(array, STATISTICS[statistic]))


def clustered_estimate(values: Sequence[Any], statistic: str, clusters: Sequence[str]) -> Estimate:
    """The same with a cluster bootstrap."""
    array = np.asarray(values, dtype=np.float64)
    if statistic in GAP_STATISTICS and len(values):
        return absolute_gaps.absolute_gaps_estimate(*GAP_STATISTICS[statistic](array), clusters)
    return bootstrap.spread(bootstrap.cluster_bootstrap(array, clusters, STATISTICS[statistic], bootstrap.Resampling()))


def lm_eval_stderr(values: Sequence[Any], statistic: str, iterations: int, report: ProgressCallback) -> float | None:
    """lm-eval's bootstrap standard error of the named statistic."""
    array, of_rows = np.asarray(values, dtype=np.float64), STATISTICS[statistic]
    if statistic in COUNT_STATISTICS and len(values):
        array, of_rows = _counted(array, statistic)
    elif statistic == "median" and len(values):
        array, of_rows = _ranked(array)
    return lm_eval_bootstrap.lm_eval_stderr(array, of_rows, iterations, report)


def _counted(values: Floats, statistic: str) -> tuple[NDArray[Any], Callable[[Any], Floats]]:
    """Fast path: such a statistic only needs the counts of the distinct pairs.

    Each pair becomes an integer with a 1 in bits of its own, so that one sum over a resample counts all pairs; the last
    pair is the remainder. If the bits do not suffice, pairs are numbered and counted by number.
    """
    pairs, inverse = np.unique(values, axis=0, return_inverse=True)
    n, size, of_counts = len(values), len(pairs), COUNT_STATISTICS[statistic]
    if not bootstrap.prefers_multinomial(size, n):
        return values, STATISTICS[statistic]
    codes, bits = inverse.reshape(-1).astype(np.int64), n.bit_length()
    if bits * (size - 1) > 63:
        return codes, lambda resampled: of_counts(pairs, _sums_by_label(resampled, size))
    shifts = bits * np.arange(size - 1, dtype=np.int64)

    def of_sums(resampled: NDArray[np.int64]) -> Floats:
        known = resampled.sum(axis=1)[:, None] >> shifts & ((1 << bits) - 1)
        return of_counts(pairs, np.column_stack([known, n - known.sum(axis=1)]).astype(np.float64))

    return np.append(1 << shifts, 0)[codes], of_sums


def _ranked(values: Floats) -> tuple[NDArray[Any], Callable[[Any], Floats]]:
    """The upper median by 32-bit ranks, which are selected in half the time of the values."""
    order, middle = np.argsort(values, kind="stable"), len(values) // 2
    ranks = np.empty(len(values), dtype=np.int32)
    ranks[order] = np.arange(len(values), dtype=np.int32)
    ranked = values[order]
    return ranks, lambda resampled: ranked[np.partition(resampled, middle, axis=1)[:, middle]]


def perplexity_rows(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-values.mean(axis=1)))


def median_rows(values: Floats) -> Floats:
    # The upper of the two middle values if n is even: lm-eval's definition.
    middle = values.shape[1] // 2
    # A copy: a view would keep every resample in memory.
    return np.array(np.partition(values, middle, axis=1)[:, middle])


def middle_rows(values: Floats) -> Floats:
    """The usual median: the mean of the two middle values if n is even."""
    return np.asarray(np.median(values, axis=1))


def nanmean_rows(values: Floats) -> Floats:
    filled = ~np.isnan(values)
    counts = filled.sum(axis=1)
    totals = np.where(filled, values, 0.0).sum(axis=1)
    return np.asarray(np.where(counts > 0, totals / np.maximum(counts, 1), np.nan))


def f1_rows(pairs: Floats) -> Floats:
    """F1 of label 1 per row of (right, predicted) pairs; 0 if undefined, as in scikit-learn."""
    right, predicted = pairs[..., 0] == 1, pairs[..., 1] == 1
    hits = (right & predicted).sum(axis=1)
    total = right.sum(axis=1) + predicted.sum(axis=1)
    return np.asarray(np.where(total > 0, 2 * hits / np.maximum(total, 1), 0.0))


def f1_of_counts(pairs: Floats, counts: Floats) -> Floats:
    """The same per row of counts of distinct pairs."""
    right, predicted = pairs[:, 0] == 1, pairs[:, 1] == 1
    hits, total = (
        counts[:, right & predicted].sum(axis=1),
        counts[:, right].sum(axis=1) + counts[:, predicted].sum(axis=1),
    )
    return np.asarray(np.where(total > 0, 2 * hits / np.maximum(total, 1), 0.0))


def matthews_rows(pairs: Floats) -> Floats:
    """Matthews correlation coefficient for any number of labels (Gorodkin's R_K); 0 if undefined."""
    codes = _codes(pairs)
    size, right, predicted = int(codes.max()) + 1, codes[..., 0], codes[..., 1]
    hits = (right == predicted).sum(axis=1).astype(np.float64)
    return _matthews(pairs.shape[1], hits, _sums_by_label(right, size), _sums_by_label(predicted, size))


def _codes(labels: Floats) -> NDArray[np.int64]:
    """Labels as small integers: as they are if possible, else numbered, for which they must be sorted."""
    if labels.min() >= 0 and labels.max() <= labels.shape[1]:
        codes = labels.astype(np.int64)
        if np.array_equal(codes, labels):
            return codes
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64, copy=False)


def matthews_of_counts(pairs: Floats, counts: Floats) -> Floats:
    """The same per row of counts of distinct pairs."""
    labels = np.unique(pairs)
    right, predicted = pairs[:, :1] == labels, pairs[:, 1:] == labels
    hits = counts[:, pairs[:, 0] == pairs[:, 1]].sum(axis=1)
    n = counts.sum(axis=1)  # resampled clusters differ in size
    return _matthews(n, hits, counts @ right.astype(np.float64), counts @ predicted.astype(np.float64))


def _matthews(n: int | Floats, hits: Floats, true_counts: Floats, guess_counts: Floats) -> Floats:
    covariance = hits * n - (true_counts * guess_counts).sum(axis=1)
    spread = (n * n - (guess_counts**2).sum(axis=1)) * (n * n - (true_counts**2).sum(axis=1))
    return np.asarray(np.where(spread > 0, covariance / np.sqrt(np.maximum(spread, 1e-300)), 0.0))


def ece_rows(pairs: Floats) -> Floats:
    """Expected calibration error per row of (probability, hit) pairs, in bins of equal width (Guo et al. 2017)."""
    probability, hit = pairs[..., 0], pairs[..., 1]
    gaps = np.abs(_sums_by_label(_bins(probability), BINS, probability - hit)).sum(axis=1)
    return np.asarray(gaps / pairs.shape[1])


def _bins(probability: Floats) -> NDArray[np.int64]:
    return np.minimum((probability * BINS).astype(np.int64), BINS - 1)


def _ece_contributions(pairs: Floats) -> tuple[Floats, Floats]:
    """Each document's contribution to its bin, and its weight."""
    parts = np.zeros((len(pairs), BINS))
    parts[np.arange(len(pairs)), _bins(pairs[:, 0])] = pairs[:, 0] - pairs[:, 1]
    return parts, np.ones(len(pairs))


def position_rows(pairs: Floats) -> Floats:
    """Total variation distance between right and predicted positions: half the summed absolute differences.

    Documents without a known right position (below 0) do not count; without any, the value is undefined.
    """
    positions = np.maximum(pairs, -1).astype(np.int64) + 1
    is_known = positions[..., 0] > 0
    size = int(positions.max()) + 1
    right = _sums_by_label(positions[..., 0], size)
    predicted = _sums_by_label(np.where(is_known, positions[..., 1], 0), size)
    known = is_known.sum(axis=1)
    gaps = np.abs(right - predicted)[:, 1:].sum(axis=1)
    return np.asarray(np.where(known > 0, gaps / (2 * np.maximum(known, 1)), np.nan))


def _position_contributions(pairs: Floats) -> tuple[Floats, Floats]:
    """½ for the right and −½ for the predicted position of each document, and whether its right position is known."""
    known = np.flatnonzero(pairs[:, 0] >= 0)
    right, predicted = pairs[known].astype(np.int64).T
    parts = np.zeros((len(pairs), max(1, int(pairs.max()) + 1)))
    np.add.at(parts, (known, right), 0.5)
    has_prediction = predicted >= 0
    np.add.at(parts, (known[has_prediction], predicted[has_prediction]), -0.5)
    return parts, (pairs[:, 0] >= 0).astype(np.float64)


def _sums_by_label(positions: NDArray[np.int64], size: int, weights: Floats | None = None) -> Floats:
    """Per row and label the sum of the weights, or the count: one pass for all labels."""
    rows = len(positions)
    flat = (positions + size * np.arange(rows)[:, None]).ravel()
    sums = np.bincount(flat, None if weights is None else weights.ravel(), rows * size)
    return np.asarray(sums, dtype=np.float64).reshape(rows, size)


STATISTICS: dict[str, bootstrap.Statistic] = {
    "perplexity": perplexity_rows,
    "median": median_rows,
    "middle": middle_rows,
    "nanmean": nanmean_rows,
    "f1": f1_rows,
    "matthews": matthews_rows,
    "ece": ece_rows,
    "position_bias": position_rows,
}
_MEDIANS = ("median", "middle")
# The same as functions of counts of distinct values.
COUNT_STATISTICS: dict[str, Callable[[Floats, Floats], Floats]] = {"f1": f1_of_counts, "matthews": matthews_of_counts}
# Sums of absolute gaps → each document's contributions. Noise biases such sums upwards, which their intervals must
# account for.
GAP_STATISTICS: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "ece": _ece_contributions,
    "position_bias": _position_contributions,
}
