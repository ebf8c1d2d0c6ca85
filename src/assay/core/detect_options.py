"""The difference that planned runs are to detect, and the assumptions of the power calculation."""

from __future__ import annotations

from dataclasses import dataclass

from assay.core.call_checks import checked_dataclass


@checked_dataclass
@dataclass(frozen=True, slots=True)
class DetectOptions:
    """A difference that a comparison of two planned runs is to find, and what is assumed of them.

    Without a `discordance` or `deviation` two runs are taken to be independent and right half of the time, which makes
    the difference of a score from 0 to 1 vary the most: they differ on half of the documents.

    Attributes:
        difference: of the two scores; 0.02 is 2 points.
        alpha: level of the test.
        discordance: share of documents on which one run alone is right.
        deviation: standard deviation of a document's score in a single run, of scores other than 0 and 1.
        correlation: of the two runs' scores over documents.
    """

    difference: float
    alpha: float = 0.05
    discordance: float | None = None
    deviation: float | None = None
    correlation: float = 0.0

    @property
    def variance(self) -> float:
        """Of one document's difference, before its mean is taken off; of outcomes, the share that differ."""
        if self.discordance is not None:
            return self.discordance
        deviation = 0.5 if self.deviation is None else self.deviation
        return 2 * deviation**2 * (1 - self.correlation)
