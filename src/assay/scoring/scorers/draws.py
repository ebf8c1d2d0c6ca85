"""Values over several draws of one answer: pass@k and the like.

In: per draw its score and its answer. Out: a document's value; None with fewer than k draws.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.stats import pass_at_k as estimators


@dataclass(frozen=True, slots=True)
class DrawsView:
    """The draws of a document after a pipeline.

    Attributes:
        values: the score of each single draw; 0 if no answer was found.
        answers: the vote of each; None if no answer was found.
        document_id: the document's index.
    """

    values: tuple[float, ...]
    answers: tuple[Hashable | None, ...]
    document_id: int

    @property
    def right(self) -> int:
        return sum(value == 1 for value in self.values)


def pass_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Probability that one of k draws is right."""
    return estimators.pass_at_k(len(view.values), view.right, options["k"])


def pass_hat_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Probability that all of k draws are right."""
    return estimators.pass_hat_k(len(view.values), view.right, options["k"])


def g_pass_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Probability that at least the share tau of k draws is right."""
    return estimators.g_pass_at_k(len(view.values), view.right, options["k"], options["tau"])


def mean_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """The mean of k draws."""
    return estimators.mean_at_k(view.values, options["k"])


def majority_at_k(view: DrawsView, options: Mapping[str, Any]) -> float | None:
    """Probability that the majority answer of k draws is right."""
    k, n = options["k"], len(view.values)
    if n < k:
        return None
    import numpy as np

    # A random stream per document, so that no document's value depends on the others.
    generator = np.random.default_rng((view.document_id, n, k))
    return estimators.majority_at_k(view.answers, [value == 1 for value in view.values], k, generator)
