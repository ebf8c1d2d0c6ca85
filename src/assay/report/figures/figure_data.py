"""Data of the figures as plain numbers, and the statistics computed from them before drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.core.errors import DataError, Fault

_HISTOGRAM_BINS = 40


@dataclass(frozen=True, slots=True)
class SpreadBar:
    """One task and model: the score by every method.

    Attributes:
        task: name of the task.
        model: name of the model.
        scores: method → score as a share of 1.
        chance: accuracy of random guessing, if known.
        n: number of documents, if known.
        reach: 95 % quantile of the spread under sampling noise alone, if known.
    """

    task: str
    model: str
    scores: Mapping[str, float]
    chance: float | None = None
    n: int | None = None
    reach: float | None = None

    def known(self) -> dict[str, float]:
        """The scores that are numbers."""
        return {name: score for name, score in self.scores.items() if math.isfinite(score)}

    @property
    def is_finding(self) -> bool | None:
        """Whether the spread exceeds what sampling alone would produce; None if unknown."""
        scores = self.known().values()
        return max(scores) - min(scores) > self.reach if scores and self.reach is not None else None

    def heights(self) -> list[float]:
        """All values that the axis must include."""
        scores = list(self.known().values())
        ends = [min(scores) + self.reach] if scores and self.reach is not None else []
        return [*scores, *ends, *([] if self.chance is None else [self.chance])]


@dataclass(frozen=True, slots=True)
class LengthPanel:
    """Lengths of the choices per document, and whether one method got the document wrong.

    Attributes:
        label: name of what the panel shows, such as a task and a method.
        correct: length of the correct choice.
        wrong: median length of the wrong choices.
        missed: whether the method predicted a wrong choice.
        unit: unit of the lengths, such as `characters`.
    """

    label: str
    correct: Sequence[float]
    wrong: Sequence[float]
    missed: Sequence[bool]
    unit: str


@dataclass(frozen=True, slots=True)
class PositionRow:
    """Shares of documents in which each position is predicted and is right."""

    label: str
    picked: Sequence[float]
    right: Sequence[float]
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """A panel's points and the statistics drawn across them."""

    means: list[float]
    all: list[float]
    missed: list[int]

    @classmethod
    def of(cls, panel: LengthPanel) -> Lengths:
        sizes = {len(panel.correct), len(panel.wrong), len(panel.missed)}
        if len(sizes) > 1:
            found = f"{len(panel.correct)} correct, {len(panel.wrong)} wrong, {len(panel.missed)} missed"
            raise DataError(Fault(f'panel "{panel.label}"', found, "one of each per document"))
        if not all(math.isfinite(length) for length in (*panel.correct, *panel.wrong)):
            raise DataError(Fault(f'panel "{panel.label}"', "a length that is not a finite number"))
        pairs = list(zip(map(float, panel.correct), map(float, panel.wrong), strict=True))
        places = [index for index, miss in enumerate(panel.missed) if miss]
        return cls([(right + wrong) / 2 for right, wrong in pairs], [right - wrong for right, wrong in pairs], places)

    @property
    def mean(self) -> float | None:
        return _mean(self.all)

    @property
    def missed_mean(self) -> float | None:
        return _mean(self.missed_values)

    @property
    def missed_values(self) -> list[float]:
        return [self.all[index] for index in self.missed]

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation of the differences."""
        if len(self.all) < 2:
            return None
        mean = math.fsum(self.all) / len(self.all)
        return math.sqrt(math.fsum((value - mean) ** 2 for value in self.all) / (len(self.all) - 1))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def bin_edges(values: Sequence[float], limits: tuple[float, float]) -> list[float]:
    """Edges of equal bins over the limits. Integer lengths get integer bin widths, to avoid comb artefacts."""
    width = (limits[1] - limits[0]) / _HISTOGRAM_BINS
    start = limits[0]
    if all(float(2 * value).is_integer() for value in values):
        width = float(max(1, math.ceil(width)))
        # No value is on an edge, and whole numbers are in the middle of a bin of width 1.
        start = math.floor(limits[0]) - (0.5 if all(value.is_integer() for value in values) else 0.25)
    return [start + step * width for step in range(math.ceil((limits[1] - start) / width) + 1)]


def densities(values: Sequence[float], edges: Sequence[float]) -> list[float]:
    """Share of the values per bin and unit. Values beyond the edges are not redistributed."""
    width = edges[1] - edges[0]
    counts = [0] * (len(edges) - 1)
    for value in values:
        index = math.floor((value - edges[0]) / width)
        if 0 <= index < len(counts):
            counts[index] += 1
    return [count / max(1, len(values)) / width for count in counts]


def axis_limits(values: Sequence[float]) -> tuple[float, float]:
    """Axis limits that include all values, except those more than four interquartile ranges outside the quartiles."""
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    first, third = ordered[len(ordered) // 4], ordered[min(len(ordered) - 1, 3 * len(ordered) // 4)]
    reach = 4 * (third - first)
    if reach > 0:
        low, high = max(low, first - reach), min(high, third + reach)
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


SCORE_BIN = 5  # points


@dataclass(frozen=True, slots=True)
class PromptColumn:
    """A task with several prompts: its name, and prompt → score from 0 to 1."""

    name: str
    scores: Mapping[str, float]

    def __post_init__(self) -> None:
        for prompt, score in self.scores.items():
            if not 0 <= score <= 1:
                raise DataError(Fault(f"{self.name}, prompt {prompt}", f"a score of {score}", "one from 0 to 1"))

    def histogram(self, step: float = SCORE_BIN) -> dict[float, int]:
        """Lower edge of a bin, in points → prompts in it; a score on an edge is in the upper bin, 100 in the last."""
        counts: dict[float, int] = {}
        for score in self.scores.values():
            # A score such as 0.15 is a little less in binary, which must not move it down a bin.
            edge = min(math.floor(100 * score / step + 1e-9) * step, 100 - step)
            counts[edge] = counts.get(edge, 0) + 1
        return dict(sorted(counts.items()))

    def groups(self, step: float) -> dict[float, int]:
        """The same with bins placed around the scores: each bin is centred on its first score if there is room.

        In a zoomed figure, a bar beside its only score would mislead.
        """
        counts: dict[float, int] = {}
        edge = -math.inf
        for score in sorted(100 * score for score in self.scores.values()):
            if score >= edge + step:
                edge = max(edge + step, score - step / 2)
            counts[edge] = counts.get(edge, 0) + 1
        return counts
