"""Cluster-robust standard errors of means and ratios: questions on one passage, variants of one item.

Documents of a cluster tend to be right or wrong together, so the number of clusters counts, not that of documents.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assay.core.scores import Estimate
from assay.stats.inputs import is_binary, length_error, require_finite
from assay.stats.means import (
    LEVEL,
    as_share,
    bounded_interval,
    empty_estimate,
    is_bounded,
    is_rounding_error,
    t_quantile,
    wilson_interval,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With fewer clusters the cluster-robust error itself is too uncertain.
FEW_CLUSTERS = 20
# Rounding error of the residuals of equal values.
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class ClusteredEstimate:
    """An estimate on clustered documents.

    Attributes:
        estimate: value, cluster-robust standard error and interval; both None for a single cluster. The method is
            `clustered-t`, `clustered-wilson` for values from 0 to 1, or `wilson-clusters` if the standard error is 0.
        clusters: number of clusters.
        has_few_clusters: whether there are too few clusters to trust standard error and interval.
    """

    estimate: Estimate
    clusters: int
    has_few_clusters: bool


def clustered_mean(
    values: Sequence[float], clusters: Sequence[Hashable], may_be_share: bool = True
) -> ClusteredEstimate:
    """Mean over documents, with cluster-robust standard error and Student's t interval (clusters − 1 degrees).

    Values from 0 to 1 get a Wilson interval with the effective sample size that the error implies. 0/1 outcomes
    with a clustered error of 0, such as all equal, get the Wilson interval of one document per cluster.

    Args:
        values: one per document.
        clusters: the cluster of each document.
        may_be_share: whether values from 0 to 1 are shares; if not, the interval is Student's t.
    """
    data = require_finite(values, "clustered mean")
    sums, count = _residual_sums(data, clusters), len(set(clusters))
    if not data:
        return ClusteredEstimate(empty_estimate("clustered-t"), 0, True)
    mean = math.fsum(data) / len(data)
    error = _error(sums, len(data))
    if may_be_share and is_binary(data) and not error and (count > 1 or len(set(data)) == 1):
        ends = wilson_interval(mean * count, count)
        return _estimate(mean, error, ends, len(data), "wilson-clusters", count)
    error = error or None  # identical clusters do not allow an estimate of the error
    if error and may_be_share and is_bounded(data):
        return _estimate(mean, error, bounded_interval(mean, error, count - 1), len(data), "clustered-wilson", count)
    return _estimate(mean, error, _student(mean, error, count), len(data), "clustered-t", count)


def clustered_ratio(
    numerators: Sequence[float], denominators: Sequence[float], clusters: Sequence[Hashable]
) -> ClusteredEstimate:
    """Ratio of sums Σa/Σb. Delta-method error from the residuals a − r·b, summed within clusters; Student's t interval.

    Args:
        numerators: one per document.
        denominators: one per document.
        clusters: the cluster of each document.
    """
    top, bottom = require_finite(numerators, "clustered ratio"), require_finite(denominators, "clustered ratio")
    n, count, total = len(top), len(set(clusters)), math.fsum(bottom)
    if n == 0 or total == 0:
        return ClusteredEstimate(empty_estimate("clustered-delta"), 0, True)
    ratio = math.fsum(top) / total
    residuals = [a - ratio * b for a, b in zip(top, bottom, strict=True)]
    error = _error(list(_sums(residuals, clusters).values()), n)
    error = None if error is None or is_rounding_error(error * n / abs(total), ratio) else error * n / abs(total)
    return _estimate(ratio, error, _student(ratio, error, count), n, "clustered-delta", count)


def clustered_share(parts: Sequence[float], wholes: Sequence[float], clusters: Sequence[Hashable]) -> ClusteredEstimate:
    """The same with every a from 0 to b: the interval stays within 0 and 1."""
    found = clustered_ratio(parts, wholes, clusters)
    return replace(found, estimate=as_share(found.estimate, parts, wholes, found.clusters))


def clustered_error(values: NDArray[np.float64], units: NDArray[np.int64]) -> float | None:
    """Cluster-robust standard error of a mean, on arrays, for thousands of pairs; None for a single cluster.

    Args:
        values: finite, one per document.
        units: the cluster of each document, numbered from 0 without gaps.
    """
    import numpy as np

    return _error(np.bincount(units, values - values.mean()).tolist(), len(values))


def _estimate(
    value: float, error: float | None, ends: tuple[float, float] | None, n: int, method: str, clusters: int
) -> ClusteredEstimate:
    low, high = ends if ends is not None else (None, None)
    return ClusteredEstimate(
        Estimate(value, error, low, high, n=n, method=method, level=LEVEL, clusters=clusters),
        clusters,
        clusters < FEW_CLUSTERS,
    )


def _student(mean: float, error: float | None, clusters: int) -> tuple[float, float] | None:
    if error is None:
        return None
    half_width = t_quantile(clusters - 1) * error
    return mean - half_width, mean + half_width


def _error(sums: Sequence[float], n: int) -> float | None:
    """Root of C/(C−1) times the sum of squared cluster residual sums, over n; None for a single cluster."""
    count = len(sums)
    if count < 2:
        return None
    error = math.sqrt(count / (count - 1) * math.fsum(value * value for value in sums)) / n
    return 0.0 if max(map(abs, sums)) < _TOLERANCE * n else error


def _residual_sums(data: Sequence[float], clusters: Sequence[Hashable]) -> list[float]:
    """Per cluster, the sum of its documents' deviations from the mean."""
    mean = math.fsum(data) / len(data) if data else 0.0
    return list(_sums([value - mean for value in data], clusters).values())


def _sums(data: Sequence[float], clusters: Sequence[Hashable]) -> dict[Hashable, float]:
    if len(data) != len(clusters):
        raise length_error("clusters", len(clusters), len(data))
    gathered: dict[Hashable, list[float]] = {}
    for value, cluster in zip(data, clusters, strict=True):
        gathered.setdefault(cluster, []).append(value)
    return {cluster: math.fsum(own) for cluster, own in gathered.items()}
