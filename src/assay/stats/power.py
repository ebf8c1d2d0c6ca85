"""What a comparison can see: the smallest difference, the documents needed for one, and how large an effect is.

n = (z_{1−α/2} + z_power)² · ω² / δ², with ω² the variance over documents of the two systems' difference (Miller 2024,
arXiv 2411.00640).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from assay.core.errors import DataError, Fault
from assay.stats.inputs import require_share
from assay.stats.paired import mid_p_interval
from assay.stats.proportions import exact_interval

POWER = 0.8
ALPHA = 0.05
# Levels of intervals are numbers below 1, which a float has none of within 1e-16.
MIN_ALPHA = 1e-9


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


def min_documents(alpha: float = ALPHA) -> int:
    """With fewer documents, all of them won, a test of signs still has a p of α or more: 2·½ⁿ."""
    return math.floor(math.log2(2 / require_share(alpha, "alpha"))) + 1


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
    level, chance = normal.inv_cdf(1 - require_share(alpha, "alpha") / 2), normal.inv_cdf(require_share(power, "power"))
    reach = level * math.sqrt(differing) + chance * math.sqrt(max(0.0, differing - size * size))
    return max(min_documents(alpha), math.ceil((reach / size) ** 2 + 1 / size - 1e-9))


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


def odds_ratio(wins: int, losses: int) -> float | None:
    """Wins per loss: the conditional odds ratio of paired outcomes; None without either, infinite without a loss."""
    return _odds(wins / (wins + losses)) if wins + losses else None


def odds_ratio_interval(wins: int, losses: int, level: float, is_mid_p: bool = False) -> tuple[float, float]:
    """Its interval by the inversion of McNemar's test: 1 is left out exactly when the test rejects."""
    of_share = mid_p_interval if is_mid_p else exact_interval
    low, high = of_share(wins, wins + losses, level)
    return _odds(low), _odds(high)


def _odds(probability: float) -> float:
    return probability / (1 - probability) if probability < 1 else math.inf


def _reach(power: float, alpha: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - require_share(alpha, "alpha") / 2) + normal.inv_cdf(require_share(power, "power"))


def _positive(value: float) -> float:
    if not value >= 0 or math.isinf(value):
        raise DataError(Fault("variance", f"{value}", "a finite number, 0 or more"))
    return value
