"""Aggregations: documents' values in, an estimate and lm-eval's standard error out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.scores import Estimate
from assay.stats import means


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
    return means.standard_error(values) if iterations > 0 else None


def _resampled(statistic: str) -> Callable[[Sequence[Any], int], float | None]:
    def stderr(values: Sequence[Any], iterations: int) -> float | None:
        from assay.scoring.metrics import resampling

        return resampling.harness_stderr(values, statistic, iterations)

    return stderr


def _by_bootstrap(statistic: str) -> Aggregation:
    def estimate(values: Sequence[Any]) -> Estimate:
        from assay.scoring.metrics import resampling

        return resampling.estimate(values, statistic)

    return Aggregation(estimate, _resampled(statistic))


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
    "nanmean": Aggregation(_nanmean, _resampled("nanmean")),
    "median": _by_bootstrap("median"),
    "perplexity": Aggregation(means.perplexity_estimate, _resampled("perplexity")),
    "weighted_perplexity": Aggregation(lambda values: means.ratio_perplexity_estimate(*_columns(values)), _no_stderr),
    "bits_per_byte": Aggregation(lambda values: means.bits_estimate(*_columns(values)), _no_stderr),
    "brier_score": Aggregation(means.mean_estimate, _no_stderr),
    "f1": _by_bootstrap("f1"),
    "matthews_corrcoef": _by_bootstrap("matthews"),
    "bypass": Aggregation(_bypassed, _no_stderr),
}
