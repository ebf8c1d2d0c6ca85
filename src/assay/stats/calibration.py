"""Calibration: reliability diagrams, and accuracy against coverage, from confidences and 0/1 correctness.

Documents of equal confidence are never distinguished by their order: they share a bin, and count as their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.errors import DataError, Fault
from assay.stats.inputs import is_binary, length_error, require_within
from assay.stats.means import wilson_interval

BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Documents of like confidence.

    Attributes:
        least: their lowest confidence.
        most: their highest.
        confidence: their mean confidence.
        accuracy: share of hits.
        low: lower end of the accuracy's 95 % interval, Wilson's.
        high: upper end.
        n: documents.
    """

    least: float
    most: float
    confidence: float
    accuracy: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class CoveragePoint:
    """Accuracy when only the most confident documents are answered.

    Attributes:
        coverage: share of documents answered.
        accuracy: expected share of hits among them.
        threshold: confidence of the least sure of them.
    """

    coverage: float
    accuracy: float
    threshold: float


def reliability_table(
    confidences: Sequence[float], hits: Sequence[float], bins: int = BINS
) -> tuple[ReliabilityBin, ...]:
    """Reliability diagram in bins of equal mass, from lowest to highest confidence; ties can leave fewer bins."""
    import numpy as np

    if bins < 1:
        raise DataError(Fault("reliability", f"{bins} bins", "one or more"))
    sure, hit = (np.array(part) for part in checked(confidences, hits))
    if not len(sure):
        return ()
    _, group, counts = np.unique(sure, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - counts / 2  # the middle rank of each tied group
    bin_indices = np.minimum((middles * bins / len(sure)).astype(np.int64), bins - 1)[group]
    found = []
    for index in np.unique(bin_indices):
        own, right = sure[bin_indices == index], hit[bin_indices == index]
        n, accuracy = len(own), float(right.mean())
        low, high = wilson_interval(float(right.sum()), n)
        found.append(
            ReliabilityBin(
                least=float(own.min()),
                most=float(own.max()),
                confidence=float(own.mean()),
                accuracy=accuracy,
                low=low,
                high=high,
                n=n,
            )
        )
    return tuple(found)


def risk_coverage(confidences: Sequence[float], hits: Sequence[float]) -> tuple[CoveragePoint, ...]:
    """Risk-coverage curve: accuracy on the 1, 2, … n most confident documents."""
    import numpy as np

    sure, hit = checked(confidences, hits)
    if not sure:
        return ()
    order = np.argsort(-np.array(sure), kind="stable")
    ranked = np.array(sure)[order]
    _, group, counts = np.unique(-ranked, return_inverse=True, return_counts=True)
    # In random order, every rank of a tied group has the group's mean in expectation.
    expected = (np.bincount(group, weights=np.array(hit)[order]) / counts)[group]
    ranks = np.arange(1, len(sure) + 1)
    rows = zip(ranks / len(sure), np.cumsum(expected) / ranks, ranked, strict=True)
    return tuple(CoveragePoint(float(a), float(b), float(c)) for a, b, c in rows)


def checked(confidences: Sequence[float], hits: Sequence[float]) -> tuple[list[float], list[float]]:
    """Validates confidences and 0/1 correctness, one of each per document."""
    if len(confidences) != len(hits):
        raise length_error("hits", len(hits), len(confidences))
    hit = [float(value) for value in hits]
    if not is_binary(hit):
        raise DataError(Fault("hits", "values other than 0 and 1", "0 or 1 per document"))
    return require_within(confidences, 0.0, 1.0, "confidences"), hit
