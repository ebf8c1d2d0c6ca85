"""Many tests at once: p-values adjusted so that the number of tests no longer makes findings.

Holm's for "not one of the claims is false", Benjamini and Hochberg's for "at most a share α of the findings is".
Tests without a p-value (None) keep none and do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

from assay.core.errors import DataError, Fault

P = TypeVar("P", float, float | None)
# No test is sure: a p too small for a float is this.
SMALLEST_P = sys.float_info.min


def holm(p_values: Sequence[P]) -> list[P]:
    """Holm's (1979) adjustment, in the order given: those below α hold all together, however the tests depend."""
    ordered = _ordered(p_values)
    adjusted = list(p_values)
    reached = 0.0
    for rank, (p, place) in enumerate(ordered):
        reached = max(reached, min(1.0, (len(ordered) - rank) * p))
        adjusted[place] = reached
    return adjusted


def benjamini_hochberg(p_values: Sequence[P]) -> list[P]:
    """Benjamini and Hochberg's (1995) adjustment, in the order given: of those below α, a share α is false at most.

    Holds for tests that are independent or positively dependent, as those of one model against several are.
    """
    ordered = _ordered(p_values)
    adjusted = list(p_values)
    reached = 1.0
    for rank, (p, place) in reversed(list(enumerate(ordered, 1))):
        reached = min(reached, len(ordered) / rank * p)
        adjusted[place] = reached
    return adjusted


def holm_levels(p_values: Sequence[float | None], alpha: float) -> list[float]:
    """The level at which Holm's procedure tests each: an interval of 1 − this leaves 0 out exactly where it rejects.

    The hypothesis with the r-th smallest of m p-values is tested at α/(m − r + 1) as long as all before it were
    rejected; those that are not rejected were all tested at the level at which the procedure stopped. Equal p-values
    have the level of the first of them. A test without a p-value keeps α.
    """
    ordered, levels = _ordered(p_values), [alpha] * len(p_values)
    rejected = sum(p is not None and p < alpha for p in holm(p_values))
    first = 0
    for rank, (p, place) in enumerate(ordered):
        first = rank if p != ordered[first][0] else first
        levels[place] = alpha / (len(ordered) - min(first, rejected))
    return levels


def benjamini_hochberg_levels(p_values: Sequence[float | None], alpha: float) -> list[float]:
    """The same for Benjamini and Hochberg's procedure: α·R/m for all of m tests, of which R are rejected, or α/m.

    These are the intervals of Benjamini and Yekutieli (2005): of those of the findings, a share α at most is expected
    to miss the truth.
    """
    tests = sum(p is not None for p in p_values)
    rejected = sum(p is not None and p < alpha for p in benjamini_hochberg(p_values))
    return [alpha if p is None else alpha * (max(1, rejected) / tests) for p in p_values]


def _ordered(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """The known p-values with their places, smallest first."""
    known = [(p, place) for place, p in enumerate(p_values) if p is not None]
    for p, place in known:
        if not 0 <= p <= 1:
            raise DataError(Fault(f"p-value {place}", f"{p}", "a number from 0 to 1, or none"))
    return sorted(known)
