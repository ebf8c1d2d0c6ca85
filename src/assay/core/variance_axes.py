"""A task asked in several ways: what each level of each axis scored, and how much of the variance each source makes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from assay.core.scores import Estimate

DOCUMENT, PROMPT, SEED, ORDER, DRAW = "document", "prompt", "seed", "order", "draw"
# Stands behind a task's name: the levels at which it was asked. A name may well have a # of its own, such as c#.
_LEVELS = re.compile(rf"(?:#(?:{SEED}|{ORDER})=-?\d+)+\Z")
Effect = tuple[str, ...]
_MEAN_FIELDS = ("mean", "stderr", "low", "high", "degrees")


def base_name(name: str) -> str:
    """The name of a task without the levels at which it was asked."""
    return _LEVELS.sub("", name)


def task_family(name: str) -> str:
    """The task that a name asks in one of several ways: without levels, prompt and style. All have its documents."""
    return base_name(name).partition("@")[0]


def is_variant(name: str) -> bool:
    """Whether a task was asked at levels of an axis."""
    return _LEVELS.search(name) is not None


class LevelScores:
    """What the levels of an axis scored: `scores`, level → score; one without a score (None) counts nowhere."""

    __slots__ = ()
    scores: Mapping[str, float | None]

    @property
    def known(self) -> dict[str, float]:
        """The levels that have a score."""
        return {name: score for name, score in self.scores.items() if score is not None and math.isfinite(score)}

    @property
    def mean(self) -> float | None:
        """Mean over levels; each counts once, whatever its documents."""
        return math.fsum(self.known.values()) / len(self.known) if self.known else None

    @property
    def lowest(self) -> str | None:
        """The level with the lowest score."""
        return min(self.known, key=lambda name: self.known[name]) if self.known else None

    @property
    def highest(self) -> str | None:
        """The level with the highest score."""
        return max(self.known, key=lambda name: self.known[name]) if self.known else None

    @property
    def spread(self) -> float | None:
        """Highest minus lowest score."""
        return max(self.known.values()) - min(self.known.values()) if self.known else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over levels, as of a sample of them; None for fewer than two."""
        if len(self.known) < 2 or self.mean is None:
            return None
        squares = math.fsum((score - self.mean) ** 2 for score in self.known.values())
        return math.sqrt(squares / (len(self.known) - 1))

    def summary(self) -> dict[str, Any]:
        """Mean, spread and worst case as JSON data."""
        known = self.known
        return {
            "mean": self.mean,
            "min": min(known.values(), default=None),
            "max": max(known.values(), default=None),
            "spread": self.spread,
            "standard_deviation": self.deviation,
            "lowest": self.lowest,
            "highest": self.highest,
            "scores": dict(self.scores),
        }


@dataclass(frozen=True, slots=True)
class VarianceAxis(LevelScores):
    """One axis: its levels, and whether the same choices are picked at all of them.

    Attributes:
        name: `prompt`, `seed`, `order` or `draw`.
        scores: level → mean score over the levels of all other axes.
        agreement: share of pairs of levels that pick the same choice of a document, the other axes at their first
            level; None for tasks without choices, and for levels whose choices are not the same.
        alpha: Krippendorff's α of the same picks.
    """

    name: str
    scores: Mapping[str, float | None]
    agreement: Estimate | None = None
    alpha: Estimate | None = None

    def to_json(self) -> dict[str, Any]:
        """The axis as JSON data."""
        agreed = {"agreement": self.agreement, "krippendorff_alpha": self.alpha}
        return {
            "axis": self.name,
            "levels": len(self.scores),
            **self.summary(),
            **{name: asdict(estimate) for name, estimate in agreed.items() if estimate is not None},
        }


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """One source of variance.

    Attributes:
        effect: the factors whose combination it belongs to. The largest effect holds the residual, too.
        variance: what it adds to the variance of a single score; estimates below 0 are set to 0.
        share: of the variance of a single score; None where all scores are equal.
        share_of_mean: of the squared error of the grand mean; None where that is 0.
        degrees: of freedom.
        is_negative: whether the estimate was below 0: the source is too small to be told from noise.
    """

    effect: Effect
    variance: float
    share: float | None
    share_of_mean: float | None
    degrees: int
    is_negative: bool


@dataclass(frozen=True, slots=True)
class StderrForecast:
    """The standard error of the grand mean with another number of levels of one factor.

    Attributes:
        factor: whose levels change.
        levels: how many there were.
        doubled: standard error with twice as many.
        halved: with half as many.
    """

    factor: str
    levels: int
    doubled: float
    halved: float


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A table of scores, taken apart.

    Attributes:
        mean: over the whole table.
        stderr: of the mean, for new levels of all factors that have more; None where nothing tells it.
        components: largest first.
        forecasts: per factor that has more levels, the one that would help most first; none without an error.
        levels: factor → levels that were used.
        unvaried: factors with one level, of whose variance the table says nothing.
        left_out: documents left out because a score of theirs was missing.
        low: lower end of the mean's 95 % interval, for the same; None where there is no error.
        high: upper end.
        degrees: of freedom of the standard error.
        exhausted: factors all of whose levels were used: there are no others that the error could speak of.
    """

    mean: float
    stderr: float | None
    components: tuple[VarianceComponent, ...]
    forecasts: tuple[StderrForecast, ...]
    levels: Mapping[str, int]
    unvaried: tuple[str, ...]
    left_out: int
    low: float | None = None
    high: float | None = None
    degrees: float | None = None
    exhausted: tuple[str, ...] = ()

    def component(self, *effect: str) -> VarianceComponent:
        """The component of these factors, in any order."""
        return next(item for item in self.components if set(item.effect) == set(effect))


@dataclass(frozen=True, slots=True)
class TaskVariance:
    """A task asked in several ways, by one metric.

    Attributes:
        task: the task's own name.
        metric: name of the metric.
        filter: name of the pipeline.
        axes: what was varied.
        parts: the table of scores, taken apart; None where that cannot be done.
        naive: standard error of the mean with documents as the only chance: what it would be had the prompts, seeds,
            orders and draws of the run been the only ones there are.
        reason: why the scores were not taken apart.
        available: factor → how many levels there are to ask, where that is known.
    """

    task: str
    metric: str
    filter: str
    axes: tuple[VarianceAxis, ...]
    parts: Decomposition | None = None
    documents_only_stderr: float | None = None
    reason: str = ""
    available: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON data."""
        head = {"task": self.task, "metric": self.metric, "filter": self.filter}
        axes = [axis.to_json() for axis in self.axes]
        if self.parts is None:
            return {**head, "axes": axes, "reason": self.reason}
        parts = asdict(self.parts)
        own = {**{name: parts[name] for name in _MEAN_FIELDS}, "stderr_of_documents_alone": self.documents_only_stderr}
        rest = {name: value for name, value in parts.items() if name not in _MEAN_FIELDS}
        return {**head, **own, "axes": axes, **rest, "available": dict(self.available)}
