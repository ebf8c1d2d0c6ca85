"""Multiple testing: adjusted p-values and levels by Holm and by Benjamini-Hochberg.

Holm's correction controls the family-wise error rate, Benjamini-Hochberg's the false discovery rate. Tests without a
p-value (None) stay None and do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

from assay.core.errors import DataError, Fault

P = TypeVar("P", float, float | None)
# No test is certain: a p-value too small for a float is this.
SMALLEST_P = sys.float_info.min


def holm(p_values: Sequence[P]) -> list[P]:
    """Holm's correction (1979), in the order given: controls the family-wise error rate under any dependence."""
    ordered = _ordered(p_values)
    adjusted = list(p_values)
    reached = 0.0
    for rank, (p, index) in enumerate(ordered):
        reached = max(reached, min(1.0, (len(ordered) - rank) * p))
        adjusted[index] = reached
    return adjusted


def benjamini_hochberg(p_values: Sequence[P]) -> list[P]:
    """Benjamini and Hochberg's correction (1995), in the order given: controls the false discovery rate.

    Valid for tests that are independent or positively dependent, as those of one model against several are.
    """
    ordered = _ordered(p_values)
    adjusted = list(p_values)
    reached = 1.0
    for rank, (p, index) in reversed(list(enumerate(ordered, 1))):
        reached = min(reached, len(ordered) / rank * p)
        adjusted[index] = reached
    return adjusted


def holm_levels(p_values: Sequence[float | None], alpha: float) -> list[float]:
    """The level of each test in Holm's procedure: the interval of level 1 − this excludes 0 exactly if it rejects.

    The hypothesis with the r-th smallest of m p-values is tested at α/(m − r + 1) as long as all before it were
    rejected; those not rejected are tested at the level at which the procedure stopped. Equal p-values have the level
    of the first of them. A test without a p-value has level α.
    """
    ordered, levels = _ordered(p_values), [alpha] * len(p_values)
    rejected = sum(p is not None and p < alpha for p in holm(p_values))
    first = 0
    for rank, (p, index) in enumerate(ordered):
        first = rank if p != ordered[first][0] else first
        levels[index] = alpha / (len(ordered) - min(first, rejected))
    return levels


def benjamini_hochberg_levels(p_values: Sequence[float | None], alpha: float) -> list[float]:
    """The same for the Benjamini-Hochberg procedure: α·R/m for all m tests, of which R are rejected, or α/m.

    These are the intervals of Benjamini and Yekutieli (2005): among the selected ones, an expected share of at most α
    misses the true value.
    """
    tests = sum(p is not None for p in p_values)
    rejected = sum(p is not None and p < alpha for p in benjamini_hochberg(p_values))
    return [alpha if p is None else alpha * (max(1, rejected) / tests) for p in p_values]


def _ordered(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """The known p-values with their indices, smallest first."""
    known = [(p, index) for index, p in enumerate(p_values) if p is not None]
    for p, index in known:
        if not 0 <= p <= 1:
            raise DataError(Fault(f"p-value {index}", f"{p}", "a number from 0 to 1, or none"))
    return sorted(known)
