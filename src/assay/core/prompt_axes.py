"""One task in several prompts: what each prompt scored, and how far the score moves with the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.variance_axes import LevelScores


@dataclass(frozen=True, slots=True)
class PromptAxis(LevelScores):
    """The scores of one task by one metric, prompt by prompt. Prompts without a score count in no number.

    Attributes:
        task: the task's own name.
        metric: name of the metric.
        filter: name of the pipeline.
        scores: prompt → score; None where nothing could be scored.
        documents: prompt → documents that count.
        left_out: prompt → documents of the split that it cannot put.
        shared: documents that count with every prompt that has a score; None where that is not known.
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
