"""One task in several prompts: what each prompt scored, and how far the score moves with the prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PromptAxis:
    """The scores of one task by one metric, prompt by prompt. Prompts without a score count in no number.

    Attributes:
        task: the task's own name.
        metric: name of the metric.
        filter: name of the pipeline.
        scores: prompt → score; None where nothing could be scored.
        documents: prompt → documents that count.
        left_out: prompt → documents of the split that it cannot put.
    """

    task: str
    metric: str
    filter: str
    scores: Mapping[str, float | None]
    documents: Mapping[str, int]
    left_out: Mapping[str, int]

    @property
    def known(self) -> dict[str, float]:
        """The prompts that have a score."""
        return {name: score for name, score in self.scores.items() if score is not None and math.isfinite(score)}

    @property
    def mean(self) -> float | None:
        """Mean over prompts; each counts once, whatever its documents."""
        return math.fsum(self.known.values()) / len(self.known) if self.known else None

    @property
    def lowest(self) -> str | None:
        """The prompt with the lowest score."""
        return min(self.known, key=lambda name: self.known[name]) if self.known else None

    @property
    def highest(self) -> str | None:
        """The prompt with the highest score."""
        return max(self.known, key=lambda name: self.known[name]) if self.known else None

    @property
    def spread(self) -> float | None:
        """Highest minus lowest score."""
        return max(self.known.values()) - min(self.known.values()) if self.known else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over prompts, as of a sample of them; None for fewer than two."""
        if len(self.known) < 2 or self.mean is None:
            return None
        squares = math.fsum((score - self.mean) ** 2 for score in self.known.values())
        return math.sqrt(squares / (len(self.known) - 1))

    def to_json(self) -> dict[str, Any]:
        """The axis as JSON data."""
        known = self.known
        return {
            "task": self.task,
            "metric": self.metric,
            "filter": self.filter,
            "prompts": len(known),
            "mean": self.mean,
            "min": min(known.values(), default=None),
            "max": max(known.values(), default=None),
            "spread": self.spread,
            "standard_deviation": self.deviation,
            "lowest": self.lowest,
            "highest": self.highest,
            "scores": dict(self.scores),
            "documents": dict(self.documents),
            "left_out": dict(self.left_out),
        }
