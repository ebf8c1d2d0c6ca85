"""What a comparison can see: the smallest difference, the documents needed for one, and how large an effect is.

n = (z_{1−α/2} + z_power)² · (ω² + s_A²/K_A + s_B²/K_B) / δ², with ω² the variance over documents of the difference of
the two systems' true means, s² the variance of draws within a document and K draws (Miller 2024, arXiv 2411.00640).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, variance

from assay.core.errors import DataError, Fault
from assay.stats.inputs import finite, share, unequal
from assay.stats.means import LEVEL
from assay.stats.proportions import exact_interval

POWER = 0.8
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class PairedVariance:
    """What makes a paired difference uncertain.

    Attributes:
        between: variance over documents of the true difference, ω².
        within_a: variance of the first system's draws within a document; 0 where it answers the same every time.
        within_b: the same of the second.
    """

    between: float
    within_a: float = 0.0
    within_b: float = 0.0

    def of_one_document(self, draws_a: int = 1, draws_b: int = 1) -> float:
        """Variance of one document's difference of means over so many draws."""
        return self.between + self.within_a / draws_a + self.within_b / draws_b


@dataclass(frozen=True, slots=True)
class EffectSize:
    """How large a difference is, in a unit that does not depend on the metric.

    Attributes:
        name: `d_z` (mean over standard deviation of the differences), `odds_ratio` (wins per loss) or `g` (share of
            wins among discordant documents, less one half).
        value: None where nothing differs; an odds ratio without a loss is infinite.
        low: lower end of its interval.
        high: upper end.
        n: documents it stands on: all of them for `d_z`, the discordant ones otherwise.
        method: of the interval: `noncentral-t` or `exact`; `none` without one.
        level: probability that the interval claims to cover.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    level: float = LEVEL


def minimum_detectable_effect(
    variance_of_one: float, n: int, power: float = POWER, alpha: float = ALPHA
) -> float | None:
    """The smallest true difference that a two-sided test finds with this power; None without documents.

    Args:
        variance_of_one: variance of one document's difference.
        n: documents.
        power: probability to find it.
        alpha: level of the test.
    """
    if n < 1:
        return None
    return _reach(power, alpha) * math.sqrt(_positive(variance_of_one) / n)


def fewest_to_show(alpha: float = ALPHA) -> int:
    """With fewer documents, all of them won, a test of signs still has a p of α or more: 2·½ⁿ."""
    return math.floor(math.log2(2 / share(alpha, "alpha"))) + 1


def outcomes_needed(effect: float, discordance: float, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """How many documents McNemar's test needs to find this difference of two shares; None for no difference.

    Connor (1987), Biometrics 43, 207-211, with 1/|δ| added for the test's exactness: (z_α·√ψ + z_power·√(ψ − δ²))²/δ²,
    where ψ is the share of documents on which the two differ, which is no smaller than the difference.

    Args:
        effect: difference of the shares.
        discordance: share of documents on which the two differ.
        power: probability to find it.
        alpha: level of the test.
    """
    size = abs(effect)
    if size == 0:
        return None
    normal, differing = NormalDist(), max(discordance, size)
    level, chance = normal.inv_cdf(1 - share(alpha, "alpha") / 2), normal.inv_cdf(share(power, "power"))
    reach = level * math.sqrt(differing) + chance * math.sqrt(max(0.0, differing - size * size))
    return max(fewest_to_show(alpha), math.ceil((reach / size) ** 2 + 1 / size - 1e-9))


@lru_cache(maxsize=4096)  # a hundred systems have thousands of pairs, and few numbers of documents that differ
def detectable_outcomes(discordance: float, n: int, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The smallest difference of two shares for which n documents are enough; None where they can show none."""

    def suffices(size: float) -> bool:
        needed = outcomes_needed(size, discordance, power, alpha)
        return needed is not None and needed <= n

    low, high = 0.0, 1.0
    if not suffices(high):
        return None
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def documents_needed(effect: float, variance_of_one: float, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """How many documents a two-sided test needs to find this difference; None for no difference.

    The normal approximation: below some 30 documents a few more are needed.
    """
    if effect == 0:
        return None
    exact = _reach(power, alpha) ** 2 * _positive(variance_of_one) / effect**2
    return max(1, math.ceil(exact - 1e-9))  # rounding must not ask for one more


def paired_variance(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> PairedVariance | None:
    """Splits the variance of a paired difference by the draws of each document; None below two documents.

    A system with one draw per document cannot tell its own variance within: it counts as 0 and is part of `between`.

    Args:
        a: per document, the first system's draws.
        b: per document, the second system's, documents in the same order.
    """
    if len(a) != len(b):
        raise unequal("second system", len(b), len(a))
    if len(a) < 2:
        return None
    first = [finite(draws, "first system") for draws in a]
    second = [finite(draws, "second system") for draws in b]
    if not all(first) or not all(second):
        raise DataError(Fault("paired variance", "a document without draws", "one draw or more of each system"))
    within_a, noise_a = _within(first)
    within_b, noise_b = _within(second)
    differences = [math.fsum(x) / len(x) - math.fsum(y) / len(y) for x, y in zip(first, second, strict=True)]
    return PairedVariance(max(0.0, variance(differences) - noise_a - noise_b), within_a, within_b)


def _within(draws: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Mean variance within documents, and mean of what it leaves in a document's mean."""
    known = [(variance(own), len(own)) for own in draws if len(own) > 1]
    if not known:
        return 0.0, 0.0
    within = math.fsum(value for value, _ in known) / len(known)
    return within, math.fsum(within / len(own) for own in draws) / len(draws)


def cohen_dz(differences: Sequence[float], level: float = LEVEL) -> EffectSize:
    """Cohen's d_z: the mean difference in standard deviations of the differences, with the noncentral t's interval."""
    data = finite(differences, "effect size")
    n = len(data)
    spread = math.sqrt(variance(data)) if n > 1 else 0.0
    return dz_of(math.fsum(data) / n if n else None, spread, n, level)


def dz_of(mean: float | None, spread: float, n: int, level: float = LEVEL) -> EffectSize:
    """The same from mean and standard deviation of n differences."""
    if spread == 0 or mean is None:
        return EffectSize("d_z", 0.0 if mean == 0 else None, None, None, n, "none", level)
    value = mean / spread
    from scipy.special import nctdtrinc

    # The noncentralities under which the t found would lie on either tail.
    t, tail = value * math.sqrt(n), (1 - level) / 2
    low, high = (float(nctdtrinc(n - 1, p, t)) / math.sqrt(n) for p in (1 - tail, tail))
    return EffectSize("d_z", value, low, high, n, "noncentral-t", level)


def discordant_odds_ratio(wins: int, losses: int, level: float = LEVEL) -> EffectSize:
    """Wins per loss: the conditional odds ratio of paired outcomes, with the exact binomial interval."""
    count = wins + losses
    if count == 0:
        return EffectSize("odds_ratio", None, None, None, 0, "none", level)
    low, high = exact_interval(wins, count, level)
    return EffectSize("odds_ratio", _odds(wins / count), _odds(low), _odds(high), count, "exact", level)


def cohen_g(wins: int, losses: int, level: float = LEVEL) -> EffectSize:
    """Cohen's g: how far the share of wins among discordant documents is from one half."""
    count = wins + losses
    if count == 0:
        return EffectSize("g", None, None, None, 0, "none", level)
    low, high = exact_interval(wins, count, level)
    return EffectSize("g", wins / count - 0.5, low - 0.5, high - 0.5, count, "exact", level)


def _odds(probability: float) -> float:
    return probability / (1 - probability) if probability < 1 else math.inf


def _reach(power: float, alpha: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - share(alpha, "alpha") / 2) + normal.inv_cdf(share(power, "power"))


def _positive(value: float) -> float:
    if not value >= 0 or math.isinf(value):
        raise DataError(Fault("variance", f"{value}", "a finite number, 0 or more"))
    return value
