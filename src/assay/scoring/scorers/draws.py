"""Several draws of one answer: each judged by itself, and what they are worth together.

In: per draw whether it is right and what it says. Out: a document's pass@k and the like; None below k draws.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.stats import pass_at_k as stats


@dataclass(frozen=True, slots=True)
class DrawsView:
    """The draws of a document after a pipeline.

    Attributes:
        values: what each is worth by the metric that judges single draws; 0 where no answer was found.
        answers: what each votes for; None where no answer was found.
        document_id: the document's place.
    """

    values: tuple[float, ...]
    answers: tuple[Hashable | None, ...]
    document_id: int

    @property
    def right(self) -> int:
        return sum(value == 1 for value in self.values)


def pass_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Is one of k draws right?"""
    return stats.pass_at_k(len(view.values), view.right, options["k"])


def pass_hat_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Are all of k draws right?"""
    return stats.pass_hat_k(len(view.values), view.right, options["k"])


def g_pass_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Is at least the share tau of k draws right?"""
    return stats.g_pass_at_k(len(view.values), view.right, options["k"], options["tau"])


def mean_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """The mean of k draws."""
    return stats.mean_at_k(view.values, options["k"])


def majority_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Is what most of k draws say right?"""
    k, n = options["k"], len(view.values)
    if n < k:
        return None
    import numpy as np

    # Its own stream for every document, so that no document's value depends on the others.
    generator = np.random.default_rng((view.document_id, n, k))
    return stats.majority_at_k(view.answers, [value == 1 for value in view.values], k, generator)
