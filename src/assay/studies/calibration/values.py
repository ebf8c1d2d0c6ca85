"""The reliability of a task: accuracy by confidence, and accuracy on the most confident documents."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from assay.stats.calibration import CoveragePoint, ReliabilityBin


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

    def to_json(self) -> dict[str, Any]:
        """The table and curve as JSON data."""
        return asdict(self)
