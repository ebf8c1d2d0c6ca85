"""Is one system as good as another? Equivalence and non-inferiority within a margin, on the same documents.

Two one-sided tests (Schuirmann 1987): equivalent at level α exactly when the 1 − 2α interval lies inside ±margin.
Measurements by Student's t, outcomes of 0 and 1 by Tango's score statistic (1998, Statistics in Medicine 17, 891-908).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from assay.core.errors import DataError, Fault
from assay.stats.inputs import is_binary, same_documents, share
from assay.stats.means import standard_error, t_quantile

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class MarginTest:
    """Whether a difference stays within a margin.

    Attributes:
        claim: `equivalent` (no more than the margin apart) or `not worse` (the first is no more than it below).
        holds: whether the data shows it; False says that it is not shown, not that it is false.
        p: of the claim's opposite; None below two documents.
        difference: mean of the first minus mean of the second.
        low: lower end of the interval.
        high: upper end.
        margin: largest difference that does not matter.
        method: `t`, `score`, or `sign` where all differences are equal.
        n: documents.
        level: of the interval: 1 − 2α.
    """

    claim: str
    holds: bool
    p: float | None
    difference: float | None
    low: float | None
    high: float | None
    margin: float
    method: str
    n: int
    level: float


@dataclass(frozen=True, slots=True)
class _Tails:
    """A paired difference: its interval, and the probability of so low and so high a one under a true difference."""

    difference: float
    low: float
    high: float
    method: str
    is_lower: Callable[[float], float]
    is_higher: Callable[[float], float]


def equivalence(a: Sequence[float], b: Sequence[float], margin: float, alpha: float = ALPHA) -> MarginTest:
    """Tests that a and b are no more than the margin apart.

    Args:
        a: the first system's value per document.
        b: the second system's, in the same order.
        margin: largest difference that does not matter.
        alpha: level of the test.
    """
    return _tested("equivalent", a, b, margin, alpha)


def non_inferiority(a: Sequence[float], b: Sequence[float], margin: float, alpha: float = ALPHA) -> MarginTest:
    """Tests that a is no more than the margin below b; arguments as in `equivalence`."""
    return _tested("not worse", a, b, margin, alpha)


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


def _tested(claim: str, a: Sequence[float], b: Sequence[float], margin: float, alpha: float) -> MarginTest:
    if not 0 < margin < math.inf:
        raise DataError(Fault("margin", f"{margin}", "a number above 0", "Say how large a difference does not matter"))
    level = 1 - 2 * share(alpha, "alpha")
    first, second = same_documents(a, b)
    binary = is_binary(first) and is_binary(second)
    n = len(first)
    if n < 2:
        difference = first[0] - second[0] if n else None
        method = "score" if binary else "t"
        return MarginTest(claim, False, None, difference, None, None, margin, method, n, level)
    differences = [x - y for x, y in zip(first, second, strict=True)]
    tails = _outcomes(differences, level) if binary else _measurements(differences, level)
    above = tails.is_higher(-margin)
    p = above if claim == "not worse" else max(above, tails.is_lower(margin))
    return MarginTest(claim, p <= alpha, p, tails.difference, tails.low, tails.high, margin, tails.method, n, level)


def _outcomes(differences: Sequence[float], level: float) -> _Tails:
    n = len(differences)
    wins, losses = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
    low, high = score_interval(wins, losses, n, level)
    normal = NormalDist()

    def is_higher(true: float) -> float:
        return normal.cdf(-score_statistic(wins, losses, n, true)) if true > -1 else 0.0

    def is_lower(true: float) -> float:
        return normal.cdf(score_statistic(wins, losses, n, true)) if true < 1 else 0.0

    return _Tails((wins - losses) / n, low, high, "score", is_lower, is_higher)


def _measurements(differences: Sequence[float], level: float) -> _Tails:
    n = len(differences)
    mean, error = math.fsum(differences) / n, standard_error(differences) or 0.0
    if error <= 1e-12 * abs(mean):
        return _all_equal(mean, n)
    from scipy.special import stdtr

    reach = t_quantile(n - 1, level) * error

    def is_higher(true: float) -> float:
        return float(stdtr(n - 1, (true - mean) / error))

    def is_lower(true: float) -> float:
        return float(stdtr(n - 1, (mean - true) / error))

    return _Tails(mean, mean - reach, mean + reach, "t", is_lower, is_higher)


def _all_equal(mean: float, n: int) -> _Tails:
    """All differences are equal, so Student's t says nothing. Were the median beyond the margin, each document would
    lie inside it with probability ½ at most: the sign test."""
    return _Tails(
        mean,
        mean,
        mean,
        "sign",
        lambda true: 0.5**n if mean < true else 1.0,
        lambda true: 0.5**n if mean > true else 1.0,
    )
