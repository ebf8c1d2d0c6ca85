"""Scores of groups: weighted means over leaf tasks, their standard errors, and combined standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from assay.core.scores import Estimate
from assay.stats.means import LEVEL, empty_estimate, t_quantile
from assay.stats.multiple_testing import SMALLEST_P


def group_estimate(
    leaves: Sequence[Estimate], sizes: Sequence[int], by_size: bool, families: Sequence[Hashable] | None = None
) -> Estimate:
    """Mean over leaf tasks, weighted by size or equally. Leaves are independent samples, except within a family.

    The interval combines the leaves' own intervals (MOVER; Zou and Donner 2008), so that a group whose leaves
    all score 0 or 1 still has an interval of realistic width.

    Args:
        leaves: the leaves' estimates, each with a value.
        sizes: documents per leaf.
        by_size: whether a leaf is weighted by its number of documents.
        families: the family of each leaf; leaves of a family share documents, such as prompts of one task, and are
            treated as perfectly correlated: their errors add up, the worst case. None if there are no families.
    """
    if not leaves or not sum(sizes):
        return empty_estimate("group")
    weights = [float(size) if by_size else 1.0 for size in sizes]
    total = math.fsum(weights)
    value = math.fsum(w * (leaf.value or 0.0) for w, leaf in zip(weights, leaves, strict=True)) / total
    n = sum(sizes)
    shares, family_keys = [weight / total for weight in weights], families or range(len(leaves))
    error = None
    if all(leaf.stderr is not None for leaf in leaves):
        error = _combined(shares, [leaf.stderr or 0.0 for leaf in leaves], family_keys)
    if any(leaf.low is None or leaf.high is None for leaf in leaves):
        return Estimate(value, error, None, None, n=n, method="group", level=LEVEL, clusters=_clusters(leaves))
    below = _combined(shares, [(leaf.value or 0.0) - (leaf.low or 0.0) for leaf in leaves], family_keys)
    above = _combined(shares, [(leaf.high or 0.0) - (leaf.value or 0.0) for leaf in leaves], family_keys)
    return Estimate(
        value, error, value - below, value + above, n=n, method="mover", level=LEVEL, clusters=_clusters(leaves)
    )


def _clusters(leaves: Sequence[Estimate]) -> int | None:
    """Number of clusters over all leaves; a document of a leaf without clusters is one. None if no leaf has any."""
    if all(leaf.clusters is None for leaf in leaves):
        return None
    return sum(leaf.n if leaf.clusters is None else leaf.clusters for leaf in leaves)


def _combined(shares: Sequence[float], half_widths: Sequence[float], families: Sequence[Hashable]) -> float:
    sums: dict[Hashable, float] = {}
    for family, share, half_width in zip(families, shares, half_widths, strict=True):
        sums[family] = sums.get(family, 0.0) + share * half_width
    # hypot, because the squares of extreme perplexities overflow.
    return math.hypot(*sums.values())


@dataclass(frozen=True, slots=True)
class CombinedStderr:
    """Standard error of a weighted sum of independent estimates, with degrees of freedom: Student's t test of 0 and
    the interval that inverts it."""

    stderr: float
    degrees: float

    def p(self, value: float) -> float:
        """Two-sided p-value of a sum of 0; the standard error must be above 0."""
        from scipy.special import stdtr

        return min(1.0, max(2 * float(stdtr(self.degrees, -abs(value) / self.stderr)), SMALLEST_P))

    def interval_around(self, value: float) -> Callable[[float], tuple[float, float]]:
        """A function from level to interval."""

        def ends(level: float) -> tuple[float, float]:
            half_width = t_quantile(self.degrees, level) * self.stderr
            return value - half_width, value + half_width

        return ends


def combined_stderr(parts: Sequence[tuple[float, float]], weights: Sequence[float]) -> CombinedStderr:
    """Combines standard errors and degrees of freedom of independent estimates (Welch-Satterthwaite, 1946)."""
    squares = [(weight * error) ** 2 for (error, _), weight in zip(parts, weights, strict=True)]
    spread = math.fsum(square**2 / degrees for square, (_, degrees) in zip(squares, parts, strict=True) if degrees > 0)
    total = math.fsum(squares)
    return CombinedStderr(math.sqrt(total), max(1.0, total**2 / spread) if spread > 0 else 1.0)


def lm_eval_group_stderr(errors: Sequence[float | None], sizes: Sequence[int], by_size: bool) -> float | None:
    """lm-eval's standard error of a group: pooled variance by size, else root of squares over k."""
    known = [error for error in errors if error is not None]
    if len(known) < len(errors) or not known:
        return None
    if not by_size:
        return math.sqrt(math.fsum(error * error for error in known)) / len(known)
    total = sum(sizes)
    if total <= len(sizes):
        return None
    spread = math.fsum((n - 1) * n * error * error for n, error in zip(sizes, known, strict=True))
    return math.sqrt(spread / (total - len(sizes)) / total)
