"""Scores of a run with several prompts, seeds, orders or draws: per level of each axis, and by source of variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from assay.core.scores import Estimate
from assay.stats.variance import Decomposition

_MEAN_FIELDS = ("mean", "stderr", "low", "high", "degrees")


class LevelScores:
    """The scores of the levels of an axis: `scores`, level → score; a level without a score (None) is not counted."""

    __slots__ = ()
    scores: Mapping[str, float | None]

    @property
    def known(self) -> dict[str, float]:
        """The levels that have a score."""
        return {name: score for name, score in self.scores.items() if score is not None and math.isfinite(score)}

    @property
    def mean(self) -> float | None:
        """Mean over levels; each counts once, whatever its number of documents."""
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
        """Sample standard deviation over levels; None for fewer than two."""
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
    """One axis: its levels, and whether the same choices are predicted at all of them.

    Attributes:
        name: `prompt`, `seed`, `order` or `draw`.
        scores: level → mean score over the levels of all other axes.
        agreement: share of pairs of levels that predict the same choice of a document, the other axes at their first
            level; None for tasks without choices, and for levels whose choices are not the same.
        alpha: Krippendorff's α of the same predictions.
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
class PromptAxis(LevelScores):
    """The scores of one task by one metric, prompt by prompt. Prompts without a score count in no number.

    Attributes:
        task: the task's own name.
        metric: name of the metric.
        filter: name of the pipeline.
        scores: prompt → score; None if nothing could be scored.
        documents: prompt → number of documents that count.
        left_out: prompt → number of documents of the split that it cannot render.
        shared: documents that count with every prompt that has a score; None if unknown.
    """

    task: str
    metric: str
    filter: str
    scores: Mapping[str, float | None]
    documents: Mapping[str, int]
    left_out: Mapping[str, int]
    shared: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The axis as JSON data."""
        return {
            "task": self.task,
            "metric": self.metric,
            "filter": self.filter,
            "prompts": len(self.known),
            **self.summary(),
            "documents": dict(self.documents),
            "left_out": dict(self.left_out),
            "shared_documents": self.shared,
        }


@dataclass(frozen=True, slots=True)
class TaskVariance:
    """A task evaluated in several variants, by one metric.

    Attributes:
        task: the task's own name.
        metric: name of the metric.
        filter: name of the pipeline.
        axes: the axes that were varied.
        parts: the variance decomposition of the scores; None if it cannot be computed.
        documents_only_stderr: standard error of the mean with documents as the only random factor, as if the prompts,
            seeds, orders and draws of the run were the only ones.
        reason: why the scores were not decomposed.
        available: factor → number of available levels, if known.
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
        """The result as JSON data."""
        head = {"task": self.task, "metric": self.metric, "filter": self.filter}
        axes = [axis.to_json() for axis in self.axes]
        if self.parts is None:
            return {**head, "axes": axes, "reason": self.reason}
        parts = asdict(self.parts)
        own = {**{name: parts[name] for name in _MEAN_FIELDS}, "stderr_of_documents_alone": self.documents_only_stderr}
        rest = {name: value for name, value in parts.items() if name not in _MEAN_FIELDS}
        return {**head, **own, "axes": axes, **rest, "available": dict(self.available)}
