"""Is one system as good as another? Equivalence and non-inferiority within a margin, on the same documents.

Two one-sided tests (Schuirmann 1987): equivalent at level α exactly when the 1 − 2α interval lies inside ±margin.
Measurements by Student's t, outcomes of 0 and 1 by Tango's score statistic (1998, Statistics in Medicine 17, 891-908).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from assay.stats.means import t_quantile

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Tails:
    """A paired difference: its interval, and the probability of so low and so high a one under a true difference."""

    difference: float
    low: float
    high: float
    method: str
    is_lower: Callable[[float], float]
    is_higher: Callable[[float], float]


def score_interval(wins: int, losses: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Tango's score interval for the difference of two proportions of the same documents.

    Args:
        wins: documents that only the first has right.
        losses: documents that only the second has right.
        n: all documents.
        level: probability that the interval claims to cover.
    """
    from scipy.optimize import brentq

    z = NormalDist().inv_cdf(0.5 + level / 2)
    difference = (wins - losses) / n

    def end(bound: float, sign: float) -> float:
        def off(delta: float) -> float:
            return score_statistic(wins, losses, n, delta) - sign * z

        # At ±1 the statistic is infinite, or 0 where all documents are won or lost.
        return bound if difference == bound else float(brentq(off, bound * (1 - 1e-12), difference, xtol=1e-12))

    return end(-1.0, 1.0), end(1.0, -1.0)


def score_statistic(wins: int, losses: int, n: int, delta: float) -> float:
    """Tango's statistic: how many standard errors the difference lies above delta, if delta is the true one."""
    # The most likely share of losses under delta solves a quadratic equation.
    b = (2 * n - wins + losses) * delta - wins - losses
    c = -losses * delta * (1 - delta)
    root = math.sqrt(max(0.0, b * b - 8 * n * c))
    loss_share = (root - b) / (4 * n) if b <= 0 else -2 * c / (root + b) if c else 0.0
    spread = n * (2 * loss_share + delta * (1 - delta))
    distance = wins - losses - n * delta
    if spread <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(spread)


def outcome_tails(wins: int, losses: int, n: int, alpha: float = ALPHA) -> Tails | None:
    """Tails of the difference of outcomes of 0 and 1, with its 1 − 2α interval; None below two documents."""
    if n < 2:
        return None
    low, high = score_interval(wins, losses, n, 1 - 2 * alpha)
    normal = NormalDist()

    def is_higher(true: float) -> float:
        return normal.cdf(-score_statistic(wins, losses, n, true)) if true > -1 else 0.0

    def is_lower(true: float) -> float:
        return normal.cdf(score_statistic(wins, losses, n, true)) if true < 1 else 0.0

    return Tails((wins - losses) / n, low, high, "score", is_lower, is_higher)


def measurement_tails(mean: float, error: float, n: int, alpha: float = ALPHA) -> Tails | None:
    """The same of measurements, from mean and standard error of their differences."""
    if n < 2:
        return None
    if error <= 1e-12 * abs(mean):
        return _all_equal(mean, n)
    from scipy.special import stdtr

    reach = t_quantile(n - 1, 1 - 2 * alpha) * error

    def is_higher(true: float) -> float:
        return float(stdtr(n - 1, (true - mean) / error))

    def is_lower(true: float) -> float:
        return float(stdtr(n - 1, (mean - true) / error))

    return Tails(mean, mean - reach, mean + reach, "t", is_lower, is_higher)


def _all_equal(mean: float, n: int) -> Tails:
    """All differences are equal, so Student's t says nothing. Were the median beyond the margin, each document would
    lie inside it with probability ½ at most: the sign test."""
    return Tails(
        mean,
        mean,
        mean,
        "sign",
        lambda true: 0.5**n if mean < true else 1.0,
        lambda true: 0.5**n if mean > true else 1.0,
    )
