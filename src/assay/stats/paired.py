"""Paired 0/1 outcomes: McNemar's test with the interval that inverts it, Newcombe's interval, Cochran's Q.

The difference of two proportions is ψ·θ: ψ is the share of discordant documents, which exactly one system has right,
and θ the margin of wins among these. McNemar's test is whether θ is 0; its inversion is the binomial interval of θ.
Combined with the interval of ψ it is that of the difference, which excludes 0 exactly when the test rejects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from assay.core.errors import DataError, Fault
from assay.stats.inputs import is_binary, length_error, require_finite
from assay.stats.means import LEVEL, exact_interval, wilson_interval
from assay.stats.multiple_testing import SMALLEST_P


@dataclass(frozen=True, slots=True)
class CochranTest:
    """Cochran's Q test of whether several methods differ. Fields are None if there is nothing to compare.

    Attributes:
        q: Cochran's statistic.
        degrees: degrees of freedom: methods minus one.
        p: its upper tail under the chi-square distribution.
        n: number of documents.
    """

    q: float | None
    degrees: int
    p: float | None
    n: int


def newcombe_interval(both: float, wins: float, losses: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Newcombe's interval for the difference of two paired proportions.

    Method 10 of Newcombe (1998), Statistics in Medicine 17, 2635-2650: the Wilson intervals of both proportions,
    combined by their correlation, which is shrunk towards 0 by half a document.

    Args:
        both: documents that both systems have right.
        wins: documents that only the first has right.
        losses: documents that only the second has right.
        n: number of documents.
        level: nominal coverage of the interval.
    """
    right_a, right_b = both + wins, both + losses
    p_a, p_b = right_a / n, right_b / n
    low_a, high_a = wilson_interval(right_a, n, level)
    low_b, high_b = wilson_interval(right_b, n, level)
    neither = n - both - wins - losses
    link = float(both * neither - wins * losses)
    link = link if link < 0 else max(0.0, link - n / 2)
    spread = math.sqrt(right_a) * math.sqrt(n - right_a) * math.sqrt(right_b) * math.sqrt(n - right_b)
    phi = link / spread if spread else 0.0
    difference = (wins - losses) / n
    below = _combined_half_width(p_a - low_a, high_b - p_b, phi)
    above = _combined_half_width(high_a - p_a, p_b - low_b, phi)
    return max(-1.0, difference - below), min(1.0, difference + above)


def _combined_half_width(one: float, other: float, phi: float) -> float:
    # Rounding can leave a tiny negative number where the two terms cancel.
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def outcome_interval(
    wins: int, losses: int, n: int, level: float = LEVEL, is_mid_p: bool = False
) -> tuple[float, float]:
    """Interval for the difference of two paired proportions that inverts McNemar's test.

    It excludes 0 exactly when McNemar's p is below 1 − level.

    Args:
        wins: documents that only the first has right.
        losses: documents that only the second has right.
        n: number of documents.
        level: nominal coverage of the interval.
        is_mid_p: whether the test is the mid-p one.
    """
    discordant = wins + losses
    of_share = mid_p_interval if is_mid_p else exact_interval
    share = ValueWithInterval(discordant / n, *of_share(discordant, n, level))
    if not discordant:
        return -share.high, share.high
    low, high = of_share(wins, discordant, level)
    lead = ValueWithInterval((wins - losses) / discordant, 2 * low - 1, 2 * high - 1)
    low, high = product_interval(lead, share)
    high = high if wins < losses else max(high, _end_near_1(wins, losses, n, level))
    low = low if losses < wins else min(low, -_end_near_1(losses, wins, n, level))
    return max(-1.0, low), min(1.0, high)


def _end_near_1(wins: int, losses: int, n: int, level: float) -> float:
    """The end away from 0, by a gamma distribution of the distance of the difference from 1, which few documents cause.

    Fay and Feuer (1997), Statistics in Medicine 16, 791-801, for weighted sums of counts; with multinomial variance.
    If nearly all documents are won, half-widths combined by their squares stay short of 1 at any level.
    """
    from scipy.special import gammaincinv

    ties = n - wins - losses
    below = (ties + 2 * losses) / n
    variance = ((ties + 4 * losses) / n - below * below) / n
    if variance <= 0:  # only wins, or only ties
        return (wins - losses) / n
    return 1 - variance / below * float(gammaincinv(below * below / variance, (1 - level) / 2))


@dataclass(frozen=True, slots=True)
class ValueWithInterval:
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float

    @property
    def mirrored(self) -> ValueWithInterval:
        """The same for the negative value."""
        return ValueWithInterval(-self.value, -self.high, -self.low)


def product_interval(factor: ValueWithInterval, scale: ValueWithInterval) -> tuple[float, float]:
    """Interval for the product of two estimates, the second nonnegative: it contains 0 exactly if the first's does.

    Variance recovered from both intervals (MOVER; Zou and Donner 2008, Statistics in Medicine 27, 1693-1702). The end
    further from 0 uses the variance of a product, a²ψ² + b²θ² + a²b², where a and b are the half-widths. The end
    towards 0 uses Fieller's form, with a²b² subtracted, which is 0 exactly where the first's end is.

    Args:
        factor: may have either sign.
        scale: not negative.
    """
    if factor.value < 0:
        low, high = product_interval(factor.mirrored, scale)
        return -high, -low
    product, up = factor.value * scale.value, scale.high - scale.value
    half_width = factor.high - factor.value
    high = product + math.sqrt(half_width**2 * scale.value**2 + up**2 * factor.value**2 + half_width**2 * up**2)
    # (θ² − a²) is the product of the end and its mirror image about θ, so its sign is the end's.
    towards = factor.low * (2 * factor.value - factor.low)
    if factor.low > 0:
        towards *= scale.low * (2 * scale.value - scale.low)
    else:
        towards *= scale.value**2 + up**2
    below = math.sqrt(max(0.0, product * product - towards))
    return (towards / (product + below) if product + below else 0.0), high


@lru_cache(maxsize=4096)  # a hundred systems have thousands of pairs, and few distinct discordant counts
def mid_p_interval(successes: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Interval for a proportion that inverts the mid-p binomial test: the observed count has half weight."""
    from scipy.optimize import brentq
    from scipy.special import bdtr, bdtrc

    tail = (1 - level) / 2

    def above(share: float) -> float:
        """P(more) + ½·P(equal), which is the tail probability at the lower end."""
        more = float(bdtrc(successes, n, share))
        return more + (float(bdtrc(successes - 1, n, share)) - more) / 2 if successes else (1 + more) / 2

    def below(share: float) -> float:
        fewer = float(bdtr(successes - 1, n, share)) if successes else 0.0
        return (fewer + float(bdtr(successes, n, share))) / 2

    low = brentq(lambda share: above(share) - tail, 0.0, 1.0, xtol=1e-14) if successes else 0.0
    high = brentq(lambda share: below(share) - tail, 0.0, 1.0, xtol=1e-14) if successes < n else 1.0
    return float(low), float(high)


def mcnemar_p(wins: int, losses: int) -> float:
    """McNemar's exact test: two-sided binomial p-value of wins against losses; 1 without either, never 0."""
    from scipy.special import bdtr

    return min(1.0, max(2 * float(bdtr(min(wins, losses), wins + losses, 0.5)), SMALLEST_P))


def mcnemar_mid_p(wins: int, losses: int) -> float:
    """McNemar's mid-p test: the observed split counts half, so that the size is closer to α; 1 without either, never 0.

    Fagerland, Lydersen and Laake (2013), BMC Medical Research Methodology 13:91. With few discordant documents, the
    exact test's size is far below α; that of this test is close to α and may exceed it slightly.
    """
    from scipy.special import bdtr

    few, count = min(wins, losses), wins + losses
    below = float(bdtr(few - 1, count, 0.5)) if few else 0.0
    return min(1.0, max(float(bdtr(few, count, 0.5)) + below, SMALLEST_P))


def cochran_q(methods: Sequence[Sequence[float]]) -> CochranTest:
    """Cochran's Q test of whether several methods differ. With two methods, the asymptotic McNemar test.

    Args:
        methods: per method, one 0 or 1 per document, documents in the same order.
    """
    rows = [require_finite(method, f"method {number}") for number, method in enumerate(methods, 1)]
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise length_error(f"method {number}", len(row), len(rows[0]))
        if not is_binary(row):
            raise DataError(Fault(f"Cochran's Q: method {number}", "values other than 0 and 1", "0 or 1 per document"))
    k, n = len(rows), len(rows[0]) if rows else 0
    if k < 2 or n == 0:
        return CochranTest(None, max(0, k - 1), None, n)
    per_method = [int(sum(row)) for row in rows]
    per_document = [int(sum(column)) for column in zip(*rows, strict=True)]
    total = sum(per_method)
    below = k * total - sum(count * count for count in per_document)
    if below == 0:  # every document is right by all methods, or wrong by all
        return CochranTest(0.0, k - 1, 1.0, n)
    q = (k - 1) * (k * sum(count * count for count in per_method) - total * total) / below
    from scipy.special import chdtrc

    return CochranTest(q, k - 1, float(chdtrc(k - 1, q)), n)
