"""Power analysis: minimum detectable effect, required sample size, and odds ratios.

n = (z_{1−α/2} + z_power)² · ω² / δ², with ω² the variance over documents of the two systems' difference (Miller 2024,
arXiv 2411.00640).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from assay.core.errors import DataError, Fault
from assay.stats.inputs import require_share
from assay.stats.means import exact_interval
from assay.stats.paired import mid_p_interval

POWER = 0.8
ALPHA = 0.05
# Levels of intervals are numbers below 1, which a float has none of within 1e-16.
MIN_ALPHA = 1e-9


def minimum_detectable_effect(
    variance_of_one: float, n: int, power: float = POWER, alpha: float = ALPHA
) -> float | None:
    """Minimum detectable effect: the smallest true difference that a two-sided test finds; None without documents.

    Args:
        variance_of_one: variance of one document's difference.
        n: number of documents.
        power: power of the test.
        alpha: level of the test.
    """
    if n < 1:
        return None
    return _quantile_sum(power, alpha) * math.sqrt(_positive(variance_of_one) / n)


def min_documents(alpha: float = ALPHA) -> int:
    """Fewest documents for which a sign test can reject: with fewer, even if all are won, p = 2·½ⁿ is α or more."""
    return math.floor(math.log2(2 / require_share(alpha, "alpha"))) + 1


def outcomes_needed(effect: float, discordance: float, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """Sample size that McNemar's test needs to find this difference of two proportions; None for no difference.

    Connor (1987), Biometrics 43, 207-211, with 1/|δ| added for the exact test: (z_α·√ψ + z_power·√(ψ − δ²))²/δ², where
    ψ is the share of discordant documents, which is at least the difference.

    Args:
        effect: difference of the proportions.
        discordance: share of discordant documents.
        power: power of the test.
        alpha: level of the test.
    """
    size = abs(effect)
    if size == 0:
        return None
    normal, discordant = NormalDist(), max(discordance, size)
    level, chance = normal.inv_cdf(1 - require_share(alpha, "alpha") / 2), normal.inv_cdf(require_share(power, "power"))
    numerator = level * math.sqrt(discordant) + chance * math.sqrt(max(0.0, discordant - size * size))
    return max(min_documents(alpha), math.ceil((numerator / size) ** 2 + 1 / size - 1e-9))


@lru_cache(maxsize=4096)  # a hundred systems have thousands of pairs, and few distinct discordant counts
def detectable_outcomes(discordance: float, n: int, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """Minimum detectable difference of two proportions with n documents; None if they cannot show any."""

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
    """Sample size that a two-sided test needs to find this difference; None for no difference.

    Normal approximation: below about 30 documents a few more are needed.
    """
    if effect == 0:
        return None
    exact = _quantile_sum(power, alpha) ** 2 * _positive(variance_of_one) / effect**2
    return max(1, math.ceil(exact - 1e-9))  # rounding must not require one more


def odds_ratio(wins: int, losses: int) -> float | None:
    """Conditional odds ratio of paired outcomes, wins per loss; None without either, infinite without a loss."""
    return _odds(wins / (wins + losses)) if wins + losses else None


def odds_ratio_interval(wins: int, losses: int, level: float, is_mid_p: bool = False) -> tuple[float, float]:
    """Interval of the odds ratio that inverts McNemar's test: it excludes 1 exactly when the test rejects."""
    of_share = mid_p_interval if is_mid_p else exact_interval
    low, high = of_share(wins, wins + losses, level)
    return _odds(low), _odds(high)


def _odds(probability: float) -> float:
    return probability / (1 - probability) if probability < 1 else math.inf


def _quantile_sum(power: float, alpha: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - require_share(alpha, "alpha") / 2) + normal.inv_cdf(require_share(power, "power"))


def _positive(value: float) -> float:
    if not value >= 0 or math.isinf(value):
        raise DataError(Fault("variance", f"{value}", "a finite number, 0 or more"))
    return value
