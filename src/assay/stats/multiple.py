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


def _ordered(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """The known p-values with their places, smallest first."""
    known = [(p, place) for place, p in enumerate(p_values) if p is not None]
    for p, place in known:
        if not 0 <= p <= 1:
            raise DataError(Fault(f"p-value {place}", f"{p}", "a number from 0 to 1, or none"))
    return sorted(known)
