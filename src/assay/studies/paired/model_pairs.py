"""Models of a matrix or study, paired as `assay compare` pairs runs: documents by name, each with its cluster."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.recorded_values import DocumentValues
from assay.studies.paired.matching import SystemEntry
from assay.studies.paired.paired_values import Comparison, OverallScore, PairedScore


class EntryFactory:
    """Makes entries whose documents have the same numbers wherever they have the same names.

    Args:
        task: what the entries are of, with the metric and its pipeline.
        numbers: document → its number, filled by the way; shared by columns whose documents may be the same.
    """

    def __init__(self, task: str, metric: str, filter: str = "none", numbers: dict[str, int] | None = None) -> None:
        self._head = (task, metric, filter, "mean")
        self._numbers: dict[str, int] = {} if numbers is None else numbers

    def entry(
        self, model: str, documents: Sequence[str], values: Sequence[float], clusters: Sequence[str] | None
    ) -> SystemEntry:
        """A model's documents, their values and the cluster of each."""
        places = [self._numbers.setdefault(name, len(self._numbers)) for name in documents]
        return SystemEntry(model, DocumentValues(*self._head, places, values, clusters))


def to_comparison(pair: PairedScore | OverallScore, task: str, cell: str) -> Comparison:
    """A pair as a matrix or study tells it: first less second."""
    gap = pair.difference
    value, low, high = (None if end is None else -end for end in (gap.value, gap.high, gap.low))
    p, adjusted = (1.0 if found is None else found for found in (pair.p, pair.adjusted))
    names = (task, cell, pair.first, pair.second)
    return Comparison(*names, value, low, high, p, adjusted, pair.test, gap.n, gap.clusters, gap.level)
