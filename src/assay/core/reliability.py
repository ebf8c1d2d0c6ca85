"""Whether confidence keeps its promise, as plain numbers: accuracy by confidence, and on the surest documents."""

from __future__ import annotations

from dataclasses import dataclass


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
    """What remains when only the surest documents are answered.

    Attributes:
        coverage: share of documents answered.
        accuracy: expected share of hits among them.
        threshold: confidence of the least sure of them.
    """

    coverage: float
    accuracy: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """A task's confidences against its hits.

    Attributes:
        n: documents.
        bins: of equal mass, from the least sure to the surest.
        curve: accuracy on the surest documents, at a hundred coverages at most.
    """

    n: int
    bins: tuple[ReliabilityBin, ...]
    curve: tuple[CoveragePoint, ...]
