"""Clopper-Pearson interval for a proportion; the Wilson interval is in `means`."""

from __future__ import annotations

from assay.stats.means import LEVEL


def exact_interval(successes: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Clopper-Pearson (exact) interval: coverage is at least its level everywhere, and mostly well above it.

    Counts need not be whole numbers, since those of weighted documents are not.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return low, high
