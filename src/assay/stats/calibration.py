"""Does a model know what it knows? Confidences from 0 to 1 against hits.

Brier score, log loss, expected calibration error, selective accuracy and AUROC. Documents of equal
confidence are never told apart by their order: they share a bin, and count as their mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.reliability import CoveragePoint, ReliabilityBin
from assay.core.scores import Estimate
from assay.stats.inputs import is_binary, unequal, within
from assay.stats.means import mean_estimate, wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from assay.stats.bootstrap import Resampling

BINS = 10
# A confidence of 0 or 1 that misses would cost infinitely much; it costs what the next number does.
_SUREST = 2.0**-52
Measure = Callable[[Sequence[float], Sequence[float]], float | None]


def brier_score(confidences: Sequence[float], hits: Sequence[float]) -> Estimate:
    """Mean squared distance of confidence and hit."""
    sure, hit = checked(confidences, hits)
    return mean_estimate([(c - h) ** 2 for c, h in zip(sure, hit, strict=True)])


def log_loss(confidences: Sequence[float], hits: Sequence[float]) -> Estimate:
    """Mean of −ln of the probability given to what happened."""
    sure, hit = checked(confidences, hits)
    given = [c if h else 1 - c for c, h in zip(sure, hit, strict=True)]
    return mean_estimate([-math.log(min(max(value, _SUREST), 1 - _SUREST)) for value in given])


def reliability_table(
    confidences: Sequence[float], hits: Sequence[float], bins: int = BINS
) -> tuple[ReliabilityBin, ...]:
    """Documents in bins of equal mass, from the least sure to the surest; ties can leave fewer bins than asked for."""
    import numpy as np

    if bins < 1:
        raise DataError(Fault("reliability", f"{bins} bins", "one or more"))
    sure, hit = (np.array(part) for part in checked(confidences, hits))
    if not len(sure):
        return ()
    _, group, counts = np.unique(sure, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - counts / 2  # of each tied group's ranks
    places = np.minimum((middles * bins / len(sure)).astype(np.int64), bins - 1)[group]
    found = []
    for place in np.unique(places):
        own, right = sure[places == place], hit[places == place]
        n, accuracy = len(own), float(right.mean())
        ends = wilson_interval(float(right.sum()), n)
        found.append(ReliabilityBin(float(own.min()), float(own.max()), float(own.mean()), accuracy, *ends, n))
    return tuple(found)


def expected_calibration_error(confidences: Sequence[float], hits: Sequence[float], bins: int = BINS) -> float | None:
    """Mean gap of confidence and accuracy over bins of equal mass; None without documents.

    Never below 0, so it overstates on few documents: ten bins want some 300.
    """
    table = reliability_table(confidences, hits, bins)
    if not table:
        return None
    return math.fsum(item.n * abs(item.confidence - item.accuracy) for item in table) / sum(item.n for item in table)


def risk_coverage(confidences: Sequence[float], hits: Sequence[float]) -> tuple[CoveragePoint, ...]:
    """Accuracy on the surest 1, 2, … n documents."""
    import numpy as np

    sure, hit = checked(confidences, hits)
    if not sure:
        return ()
    order = np.argsort(-np.array(sure), kind="stable")
    ranked = np.array(sure)[order]
    _, group, counts = np.unique(-ranked, return_inverse=True, return_counts=True)
    # In any order of a tied group, each of its places holds the group's mean on average.
    expected = (np.bincount(group, weights=np.array(hit)[order]) / counts)[group]
    ranks = np.arange(1, len(sure) + 1)
    rows = zip(ranks / len(sure), np.cumsum(expected) / ranks, ranked, strict=True)
    return tuple(CoveragePoint(float(a), float(b), float(c)) for a, b, c in rows)


def selective_accuracy(confidences: Sequence[float], hits: Sequence[float], coverage: float) -> float | None:
    """Accuracy on the surest documents that make up this share, rounded up to whole documents."""
    points = risk_coverage(confidences, hits)
    if not 0 < coverage <= 1:
        raise DataError(Fault("selective accuracy", f"a coverage of {coverage}", "a number above 0, 1 at most"))
    return points[math.ceil(coverage * len(points) - 1e-9) - 1].accuracy if points else None


def area_under_risk_coverage(confidences: Sequence[float], hits: Sequence[float]) -> float | None:
    """AURC (Geifman and El-Yaniv 2017): mean share of misses over all coverages; less is better."""
    points = risk_coverage(confidences, hits)
    return math.fsum(1 - point.accuracy for point in points) / len(points) if points else None


def confidence_auroc(confidences: Sequence[float], hits: Sequence[float]) -> float | None:
    """Probability that a hit is surer than a miss, ties half; None without hits or without misses."""
    import numpy as np

    sure, hit = (np.array(part) for part in checked(confidences, hits))
    positives = int(hit.sum()) if len(hit) else 0
    negatives = len(hit) - positives
    if not positives or not negatives:
        return None
    _, group, counts = np.unique(sure, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    return float((ranks[hit == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def resampled(measure: Measure, confidences: Sequence[float], hits: Sequence[float], how: Resampling) -> Estimate:
    """One of the measures above with bootstrap error and interval over documents."""
    import numpy as np

    from assay.stats.bootstrap import bootstrap_statistic

    def of_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        found = [measure(row[:, 0].tolist(), row[:, 1].tolist()) for row in rows]
        return np.array([math.nan if value is None else value for value in found])

    sure, hit = checked(confidences, hits)
    return bootstrap_statistic(np.array([sure, hit]).T, of_rows, how)


def checked(confidences: Sequence[float], hits: Sequence[float]) -> tuple[list[float], list[float]]:
    """Confidences and hits as numbers, one of each per document."""
    if len(confidences) != len(hits):
        raise unequal("hits", len(hits), len(confidences))
    hit = [float(value) for value in hits]
    if not is_binary(hit):
        raise DataError(Fault("hits", "values other than 0 and 1", "0 or 1 per document"))
    return within(confidences, 0.0, 1.0, "confidences"), hit
