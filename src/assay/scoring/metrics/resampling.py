"""Statistics that are resampled: each takes values of many replicates at once, one row per replicate.

The only part of the metrics that needs numpy; loaded when such a metric is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.stats import bootstrap

Floats = NDArray[np.float64]
# Bins of calibration.
BINS = 10


def estimate(values: Sequence[Any], statistic: str) -> Estimate:
    """The named statistic, with bootstrap error and interval."""
    return bootstrap.percentile_estimate(np.asarray(values, dtype=np.float64), STATISTICS[statistic])


def clustered_estimate(values: Sequence[Any], statistic: str, clusters: Sequence[str]) -> Estimate:
    """The same, resampled by whole clusters."""
    array = np.asarray(values, dtype=np.float64)
    return bootstrap.cluster_bootstrap(array, clusters, STATISTICS[statistic], bootstrap.Resampling())


def harness_stderr(values: Sequence[Any], statistic: str, iterations: int) -> float | None:
    """lm-eval's bootstrap error of the named statistic."""
    return bootstrap.harness_stderr(np.asarray(values, dtype=np.float64), STATISTICS[statistic], iterations)


def perplexity_rows(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-values.mean(axis=1)))


def median_rows(values: Floats) -> Floats:
    # The upper of the two middle values where n is even: lm-eval's definition.
    return np.asarray(np.sort(values, axis=1)[:, values.shape[1] // 2])


def middle_rows(values: Floats) -> Floats:
    """The usual median: the mean of the two middle values where n is even."""
    return np.asarray(np.median(values, axis=1))


def nanmean_rows(values: Floats) -> Floats:
    filled = ~np.isnan(values)
    counts = filled.sum(axis=1)
    totals = np.where(filled, values, 0.0).sum(axis=1)
    return np.asarray(np.where(counts > 0, totals / np.maximum(counts, 1), np.nan))


def f1_rows(pairs: Floats) -> Floats:
    """F1 of label 1 per row of (right, picked) pairs; 0 where it is undefined, as in scikit-learn."""
    right, picked = pairs[..., 0] == 1, pairs[..., 1] == 1
    hits = (right & picked).sum(axis=1)
    total = right.sum(axis=1) + picked.sum(axis=1)
    return np.asarray(np.where(total > 0, 2 * hits / np.maximum(total, 1), 0.0))


def matthews_rows(pairs: Floats) -> Floats:
    """Matthews' correlation for any number of labels (Gorodkin's R_K); 0 where it is undefined."""
    n = pairs.shape[1]
    right, picked = pairs[..., 0], pairs[..., 1]
    labels = np.unique(pairs)
    hits = (right == picked).sum(axis=1).astype(np.float64)
    true_counts = np.stack([(right == label).sum(axis=1) for label in labels], axis=1).astype(np.float64)
    guess_counts = np.stack([(picked == label).sum(axis=1) for label in labels], axis=1).astype(np.float64)
    covariance = hits * n - (true_counts * guess_counts).sum(axis=1)
    spread = (n * n - (guess_counts**2).sum(axis=1)) * (n * n - (true_counts**2).sum(axis=1))
    return np.asarray(np.where(spread > 0, covariance / np.sqrt(np.maximum(spread, 1e-300)), 0.0))


def ece_rows(pairs: Floats) -> Floats:
    """Expected calibration error per row of (probability, hit) pairs, in bins of equal width (Guo et al. 2017)."""
    probability, hit = pairs[..., 0], pairs[..., 1]
    places = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    gaps = np.abs(_sums_by_place(places, BINS, probability - hit)).sum(axis=1)
    return np.asarray(gaps / pairs.shape[1])


def position_rows(pairs: Floats) -> Floats:
    """Half the summed differences between how often each place is right and how often it is picked.

    Documents without a known right place (below 0) have no say; where none has one, there is no value.
    """
    places = np.maximum(pairs, -1).astype(np.int64) + 1
    is_known = places[..., 0] > 0
    size = int(places.max()) + 1
    right = _sums_by_place(places[..., 0], size)
    picked = _sums_by_place(np.where(is_known, places[..., 1], 0), size)
    known = is_known.sum(axis=1)
    gaps = np.abs(right - picked)[:, 1:].sum(axis=1)
    return np.asarray(np.where(known > 0, gaps / (2 * np.maximum(known, 1)), np.nan))


def _sums_by_place(places: NDArray[np.int64], size: int, weights: Floats | None = None) -> Floats:
    """Per row and place the sum of the weights that fall there, or how many do: one pass for all places."""
    rows = len(places)
    flat = (places + size * np.arange(rows)[:, None]).ravel()
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
