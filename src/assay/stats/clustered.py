"""Means and paired differences of documents that come in clusters: questions on one passage, variants of one item.

Documents of a cluster tend to be right or wrong together, so the number of clusters counts, not that of documents.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.scores import Estimate
from assay.stats.inputs import finite, is_binary, same_documents, unequal
from assay.stats.means import LEVEL, nothing, t_quantile, wilson_interval
from assay.stats.paired import PairedTest, newcombe_interval, sign_flip_p

if TYPE_CHECKING:
    import numpy as np

# Below this many clusters the clustered error itself is known too badly.
FEW = 20
# Residuals of equal values are not quite 0.
_HAIR = 1e-12


@dataclass(frozen=True, slots=True)
class ClusteredEstimate:
    """An estimate on clustered documents.

    Attributes:
        estimate: value, clustered error and interval; error and interval are None where one cluster cannot tell them.
            Its method is `clustered-t`, or `wilson-clusters` or `newcombe-clusters` where the error is 0.
        clusters: how many there are.
        is_few: whether they are too few to trust error and interval.
    """

    estimate: Estimate
    clusters: int
    is_few: bool


@dataclass(frozen=True, slots=True)
class ClusteredTest:
    """One system against another on the same clustered documents.

    Attributes:
        test: difference, interval and p, by `cluster-sign-flip`.
        clusters: how many there are.
        is_few: whether they are too few to trust the interval; the p-value is exact with any number.
    """

    test: PairedTest
    clusters: int
    is_few: bool


def clustered_mean(values: Sequence[float], clusters: Sequence[Hashable]) -> ClusteredEstimate:
    """The mean over documents, with the error that clusters leave and Student's interval with clusters − 1 degrees.

    Outcomes of 0 and 1 whose clustered error is 0, such as all equal, get Wilson's interval as of one document per
    cluster.

    Args:
        values: one per document.
        clusters: the cluster of each document.
    """
    data = finite(values, "clustered mean")
    sums, count = _residual_sums(data, clusters), len(set(clusters))
    if not data:
        return ClusteredEstimate(nothing("clustered-t"), 0, True)
    mean = math.fsum(data) / len(data)
    error = _error(sums, len(data))
    if is_binary(data) and not error and (count > 1 or len(set(data)) == 1):
        ends = wilson_interval(mean * count, count)
        return _estimate(mean, error, ends, len(data), "wilson-clusters", count)
    error = _known(error, count)
    reach = _student(mean, error, count)
    if reach is not None and is_binary(data):
        reach = max(0.0, reach[0]), min(1.0, reach[1])
    return _estimate(mean, error, reach, len(data), "clustered-t", count)


def clustered_ratio(
    numerators: Sequence[float], denominators: Sequence[float], clusters: Sequence[Hashable]
) -> ClusteredEstimate:
    """Σa/Σb. Error by the delta method: the residuals a − r·b, summed within clusters; Student's interval.

    Args:
        numerators: one per document.
        denominators: likewise.
        clusters: the cluster of each document.
    """
    top, bottom = finite(numerators, "clustered ratio"), finite(denominators, "clustered ratio")
    n, count, total = len(top), len(set(clusters)), math.fsum(bottom)
    if n == 0 or total == 0:
        return ClusteredEstimate(nothing("clustered-delta"), 0, True)
    ratio = math.fsum(top) / total
    residuals = [a - ratio * b for a, b in zip(top, bottom, strict=True)]
    error = _error(list(_sums(residuals, clusters).values()), n)
    error = _known(None if error is None else error * n / abs(total), count)
    return _estimate(ratio, error, _student(ratio, error, count), n, "clustered-delta", count)


def clustered_difference(a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable]) -> ClusteredEstimate:
    """Mean of a − b with its clustered error and Student's interval.

    Outcomes of 0 and 1 whose differences have a clustered error of 0, such as none at all, get Newcombe's interval as
    of one document per cluster.
    """
    first, second = same_documents(a, b)
    n, count = len(first), len(set(clusters))
    differences = [x - y for x, y in zip(first, second, strict=True)]
    sums = _residual_sums(differences, clusters)
    if not n:
        return ClusteredEstimate(nothing("clustered-t"), 0, True)
    mean, error = math.fsum(differences) / n, _error(sums, n)
    if error == 0 and is_binary(first) and is_binary(second):
        scale = count / n
        both = sum(x * y for x, y in zip(first, second, strict=True)) * scale
        ends = newcombe_interval(both, sum(first) * scale - both, sum(second) * scale - both, count)
        return _estimate(mean, error, ends, n, "newcombe-clusters", count)
    return _estimate(mean, error, _student(mean, error, count), n, "clustered-t", count)


def cluster_sign_flip_p(
    differences: Sequence[float], clusters: Sequence[Hashable], generator: np.random.Generator
) -> float:
    """The p of sign flips of whole clusters: a cluster's documents turn together."""
    data = finite(differences, "cluster sign flips")
    return sign_flip_p(list(_sums(data, clusters).values()), generator)


def compare_clustered(a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable], seed: int) -> ClusteredTest:
    """Tests a against b by flipping the signs of whole clusters.

    Args:
        a: the first system's value per document.
        b: the second system's, in the same order.
        clusters: the cluster of each document.
        seed: of the sign flips.
    """
    import numpy as np

    first, second = same_documents(a, b)
    differences = [x - y for x, y in zip(first, second, strict=True)]
    wins, losses = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
    p = cluster_sign_flip_p(differences, clusters, np.random.default_rng(seed))
    found = clustered_difference(first, second, clusters)
    own = found.estimate
    test = PairedTest(own.value, own.low, own.high, p, "cluster-sign-flip", own.n, wins, losses)
    return ClusteredTest(test, found.clusters, found.is_few)


def _estimate(
    value: float, error: float | None, ends: tuple[float, float] | None, n: int, method: str, clusters: int
) -> ClusteredEstimate:
    low, high = ends if ends is not None else (None, None)
    return ClusteredEstimate(Estimate(value, error, low, high, n, method, LEVEL, clusters), clusters, clusters < FEW)


def _student(mean: float, error: float | None, clusters: int) -> tuple[float, float] | None:
    if error is None:
        return None
    reach = t_quantile(clusters - 1) * error
    return mean - reach, mean + reach


def _known(error: float | None, clusters: int) -> float | None:
    """Two clusters that are alike say nothing of how far a third would lie from them."""
    return None if clusters == 2 and error == 0 else error


def _error(sums: Sequence[float], n: int) -> float | None:
    """Root of C/(C−1) times the squared residual sums, over n; None for one cluster."""
    count = len(sums)
    if count < 2:
        return None
    error = math.sqrt(count / (count - 1) * math.fsum(value * value for value in sums)) / n
    return 0.0 if max(map(abs, sums)) < _HAIR * n else error


def _residual_sums(data: Sequence[float], clusters: Sequence[Hashable]) -> list[float]:
    """Per cluster, the sum of its documents' distances from the mean."""
    mean = math.fsum(data) / len(data) if data else 0.0
    return list(_sums([value - mean for value in data], clusters).values())


def _sums(data: Sequence[float], clusters: Sequence[Hashable]) -> dict[Hashable, float]:
    if len(data) != len(clusters):
        raise unequal("clusters", len(clusters), len(data))
    gathered: dict[Hashable, list[float]] = {}
    for value, cluster in zip(data, clusters, strict=True):
        gathered.setdefault(cluster, []).append(value)
    return {cluster: math.fsum(own) for cluster, own in gathered.items()}
