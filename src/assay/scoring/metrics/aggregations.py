"""Aggregations: documents' values in, an estimate and lm-eval's standard error out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.stats import bootstrap, means

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How values become one number.

    Attributes:
        estimate: value, error and interval.
        harness_stderr: (values, bootstrap iterations) → the error that lm-eval reports; None where it has none.
    """

    estimate: Callable[[Sequence[Any]], Estimate]
    harness_stderr: Callable[[Sequence[Any], int], float | None]


def _no_stderr(values: Sequence[Any], iterations: int) -> float | None:
    return None


def _mean_stderr(values: Sequence[Any], iterations: int) -> float | None:
    return means.standard_error(np.asarray(values, dtype=np.float64)) if iterations > 0 else None


def _resampled(statistic: bootstrap.Statistic) -> Callable[[Sequence[Any], int], float | None]:
    def stderr(values: Sequence[Any], iterations: int) -> float | None:
        return bootstrap.harness_stderr(np.asarray(values, dtype=np.float64), statistic, iterations)

    return stderr


def _by_bootstrap(statistic: bootstrap.Statistic) -> Aggregation:
    def estimate(values: Sequence[Any]) -> Estimate:
        return bootstrap.percentile_estimate(np.asarray(values, dtype=np.float64), statistic)

    return Aggregation(estimate, _resampled(statistic))


def _perplexity_rows(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-values.mean(axis=1)))


def _median_rows(values: Floats) -> Floats:
    # The upper of the two middle values where n is even: lm-eval's definition.
    return np.asarray(np.sort(values, axis=1)[:, values.shape[1] // 2])


def _nanmean_rows(values: Floats) -> Floats:
    filled = ~np.isnan(values)
    counts = filled.sum(axis=1)
    totals = np.where(filled, values, 0.0).sum(axis=1)
    return np.asarray(np.where(counts > 0, totals / np.maximum(counts, 1), np.nan))


def _f1_rows(pairs: Floats) -> Floats:
    """F1 of label 1 per row of (right, picked) pairs; 0 where it is undefined, as in scikit-learn."""
    right, picked = pairs[..., 0] == 1, pairs[..., 1] == 1
    hits = (right & picked).sum(axis=1)
    total = right.sum(axis=1) + picked.sum(axis=1)
    return np.asarray(np.where(total > 0, 2 * hits / np.maximum(total, 1), 0.0))


def _matthews_rows(pairs: Floats) -> Floats:
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


def _columns(values: Sequence[Any]) -> tuple[list[float], list[float]]:
    return [value[0] for value in values], [value[1] for value in values]


def _bypassed(values: Sequence[Any]) -> Estimate:
    # 999 is what lm-eval reports for recorded but unscored answers.
    return Estimate(999.0, None, None, None, len(values), "none", means.LEVEL)


def _nanmean(values: Sequence[Any]) -> Estimate:
    kept = [value for value in values if not math.isnan(value)]
    return means.mean_estimate(kept)


AGGREGATIONS: dict[str, Aggregation] = {
    "mean": Aggregation(means.mean_estimate, _mean_stderr),
    "nanmean": Aggregation(_nanmean, _resampled(_nanmean_rows)),
    "median": _by_bootstrap(_median_rows),
    "perplexity": Aggregation(means.perplexity_estimate, _resampled(_perplexity_rows)),
    "weighted_perplexity": Aggregation(lambda values: means.ratio_perplexity_estimate(*_columns(values)), _no_stderr),
    "bits_per_byte": Aggregation(lambda values: means.bits_estimate(*_columns(values)), _no_stderr),
    "brier_score": Aggregation(means.mean_estimate, _no_stderr),
    "f1": _by_bootstrap(_f1_rows),
    "matthews_corrcoef": _by_bootstrap(_matthews_rows),
    "bypass": Aggregation(_bypassed, _no_stderr),
}
