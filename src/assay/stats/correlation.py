"""Rank correlation: Spearman's ρ and Kendall's τ-b, with p-values that are valid for few pairs.

With up to seven pairs, the permutation test is exact: the usual approximations give a perfect ρ of three pairs a p of
0, although one order in three is as extreme. With more pairs, p is at least the share of the two perfect orders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any

from assay.core.errors import DataError, Fault
from assay.stats.multiple_testing import SMALLEST_P

MIN_UNITS = 3
MAX_PERMUTED = 7
# Sums of the same numbers in another order differ in the last digits.
_TOLERANCE = 1e-9


# The least n at which 2 / n!, the p of a perfect rank correlation, is below 0.05.
MIN_PAIRS_FOR_SIGNIFICANCE = 5


@dataclass(frozen=True, slots=True)
class Correlation:
    """Rank correlation of two lists.

    Attributes:
        value: from −1 to 1; None below three pairs, or where one list is constant.
        p: two-sided p-value: probability of a value this far from 0 if the lists are independent.
        n: pairs.
        method: method of the p-value: `permutation` (all orders), `exact`, `t` or `normal`; `none` without a value.
    """

    value: float | None
    p: float | None
    n: int
    method: str

    @property
    def has_too_few_pairs(self) -> bool:
        """Whether there are too few pairs for a perfect order to be significant: of four, 2 of 24 are perfect."""
        return self.n < MIN_PAIRS_FOR_SIGNIFICANCE


def spearman(a: Sequence[float], b: Sequence[float]) -> Correlation:
    """Spearman's ρ: Pearson's correlation of ranks, with mean ranks for ties."""
    if _says_nothing(a, b):
        return Correlation(None, None, len(a), "none")
    from scipy import stats

    found = stats.spearmanr(a, b)
    value = float(found.statistic)
    if len(a) > MAX_PERMUTED:
        return Correlation(value, max(float(found.pvalue), _smallest(len(a))), len(a), "t")
    first, second = stats.rankdata(a), stats.rankdata(b)
    first = first - first.mean()
    sums = second[_orders(len(a))] @ first
    return Correlation(value, _share(sums, float(second @ first)), len(a), "permutation")


def mean_ranks(values: Any) -> Any:
    """Ranks along the second axis of an array, from 1, with mean ranks for ties."""
    from scipy import stats

    return stats.rankdata(values, axis=1)


def kendall(a: Sequence[float], b: Sequence[float]) -> Correlation:
    """Kendall's τ-b: concordant minus discordant pairs, corrected for ties."""
    if _says_nothing(a, b):
        return Correlation(None, None, len(a), "none")
    import numpy as np
    from scipy import stats

    has_ties = len(set(a)) < len(a) or len(set(b)) < len(b)
    # scipy's own rule, repeated here so that the method can be named.
    is_exact = not has_ties and len(a) <= 33
    found = stats.kendalltau(a, b, method="exact" if is_exact else "asymptotic")
    value = float(found.statistic)
    if is_exact or len(a) > MAX_PERMUTED:
        p = max(float(found.pvalue), _smallest(len(a)))
        return Correlation(value, p, len(a), "exact" if is_exact else "normal")
    first, second = (np.sign(np.subtract.outer(values, values)) for values in (np.array(a), np.array(b)))
    orders = _orders(len(a))
    sums = np.einsum("ij,pij->p", first, second[orders[:, :, None], orders[:, None, :]])
    return Correlation(value, _share(sums, float(np.sum(first * second))), len(a), "permutation")


def _says_nothing(a: Sequence[float], b: Sequence[float]) -> bool:
    if len(a) != len(b):
        raise DataError(Fault("correlation", f"lists of {len(a)} and {len(b)} values", "one value of each per pair"))
    if not all(map(math.isfinite, (*a, *b))):
        raise DataError(
            Fault("correlation", "values that are not finite numbers", "finite ones", "Leave their pairs out")
        )
    return len(a) < MIN_UNITS or len(set(a)) == 1 or len(set(b)) == 1


def _smallest(n: int) -> float:
    """The share of the identical and the reversed order among all orders; with ties more orders are as extreme."""
    return max(2 / math.factorial(n), SMALLEST_P)


@cache
def _orders(n: int) -> Any:
    import numpy as np

    return np.array(list(permutations(range(n))))


def _share(sums: Any, observed: float) -> float:
    """The share of orders whose sum is at least as far from 0."""
    return float((abs(sums) >= abs(observed) - _TOLERANCE).mean())
