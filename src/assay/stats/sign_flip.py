"""Paired sign-flip permutation test of a mean difference, and the interval that inverts it.

In: per document (or cluster) its contribution to a sum of differences, and its weight. Out: the p-value of no
difference, and the interval of all differences that the same test does not reject.

The statistic is |Σe|/√Σe², where e is a document's contribution minus a hypothesised difference μ times its weight: a
monotone transformation of Student's t. Its critical value is that of the sign flips of the differences themselves, so
the test of μ = 0 is the permutation test, and the other μ that are not rejected lie between the roots of a quadratic,
as in Fieller's interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.stats.inputs import length_error, row_blocks
from assay.stats.means import t_quantile
from assay.stats.multiple_testing import SMALLEST_P

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIGN_FLIPS = 10_000
MAX_ENUMERATED = 12
_CELLS_AT_ONCE = 2_000_000
# Rounding error of a difference between two sums, relative to their terms.
_TOLERANCE = 1e-12
# Pairs whose flipped sums are in memory at once.
_PAIRS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Moments:
    """The sums that the statistic of any hypothesised difference is computed from.

    Attributes:
        scale: unit of differences and residuals: squares of very large or small numbers would overflow or vanish.
        weight: Σw.
        weight_squares: Σw².
        squares: Σr² of the residuals from the mean difference.
        cross_products: Σrw.
        whole: Σd² of the differences.
    """

    scale: float
    weight: float
    weight_squares: float
    squares: float
    cross_products: float
    whole: float

    def half_widths(self, critical: float) -> tuple[float, float]:
        """How far below and above the mean difference the squared statistic stays within a critical value."""
        first = self.weight * self.weight - critical * self.weight_squares
        if first <= 0:
            return math.inf, math.inf
        middle = critical * self.cross_products / first
        root = math.sqrt(middle * middle + critical * self.squares / first)
        return self.scale * (root + middle), self.scale * (root - middle)


@dataclass(frozen=True, slots=True)
class SignFlipTest:
    """The test of one pair.

    Attributes:
        p: two-sided p-value of no difference.
        value: Σ differences / Σ weights.
        total: |Σ differences|, minus its rounding error.
        tolerance: rounding error between equal sums.
        flips: number of sign flips evaluated.
        plus_one: 1 if flips were drawn at random, since the observed data count as one more; 0 if enumerated.
        sums: their |Σ|, largest first, as many as the requested intervals need.
        moments: moments of differences and weights.
        units: number of differences.
        nonzero_count: number of nonzero differences.
        nonzero_share: the share of the total weight that these have.
    """

    p: float
    value: float
    total: float
    tolerance: float
    flips: int
    plus_one: int
    sums: Floats
    moments: Moments
    units: int
    nonzero_count: int
    nonzero_share: float

    def interval(self, level: float) -> tuple[float, float]:
        """All differences that are not rejected at 1 − level; never narrower than the interval of a lower level.

        If there are too few nonzero differences for any flip to reject, it is Student's t interval, extended to 0. It
        is infinite if that has no end either, and at levels beyond what Hoeffding's bound shows for drawn flips.
        """
        ends = self._ends(self._critical(1 - level))
        if math.isfinite(ends[0]) or self.plus_one or self.units < 2:
            return ends
        square = t_quantile(self.units - 1, level) ** 2
        low, high = self._ends(max(self.units * square / (self.units - 1 + square), self._largest()))
        return min(0.0, low), max(0.0, high)

    def widest_interval(self) -> tuple[float, float]:
        """The interval of the highest level at which a flip rejects anything; the value itself if none does."""
        return self._ends(self._largest())

    def rejects_any(self, level: float) -> bool:
        """Whether any difference can be rejected at this level; always if flips were drawn, by Hoeffding's bound."""
        return bool(self.plus_one) or math.isfinite(self._ends(self._critical(1 - level))[0])

    def _ends(self, critical: float) -> tuple[float, float]:
        below, above = self.moments.half_widths(critical)
        return self.value - below, self.value + above

    def _critical(self, alpha: float) -> float:
        """Critical value of the squared statistic: halfway between the last value not rejected and the first rejected.

        Halfway, because the sums of few differences, or of 0/1 outcomes, are far apart, and any value between two of
        them gives the same test.
        """
        bound = 2 * math.log(2 / alpha) if self.plus_one else math.inf  # of `hoeffding_bound`
        fewest = math.ceil(alpha * (self.flips + self.plus_one) - self.plus_one - 1e-9)
        whole = self._whole
        if fewest <= 0 or not whole:
            return bound
        last = float(self.sums[fewest - 1])
        beyond = self.sums[: fewest - 1][self.sums[: fewest - 1] > last + 2 * self.tolerance]
        first = min(float(beyond[-1]) if len(beyond) else math.inf, self.total if self.total > last else math.inf)
        return min(bound, ((last + first) / 2) ** 2 / whole)

    def _largest(self) -> float:
        """The largest critical value among all flips that leaves a finite interval; 0 if none does."""
        import numpy as np

        if not self._whole:
            return 0.0
        sums, moments = self.sums, self.moments
        values = ((sums[:-1] + sums[1:]) / 2) ** 2 / self._whole
        is_end = (sums[:-1] > sums[1:] + 2 * self.tolerance) & (values < moments.weight**2 / moments.weight_squares)
        return float(np.max(values[is_end], initial=0.0))

    @property
    def _whole(self) -> float:
        return self.moments.whole * self.moments.scale**2


def sign_flip_test(
    differences: Floats, weights: Floats | None, generator: np.random.Generator, max_alpha: float = 1.0
) -> SignFlipTest:
    """The test of one pair. Enumerates all flips of up to 12 nonzero differences, otherwise draws 10,000.

    If the p-value is below the resolution of the draws, it is bounded instead, see `hoeffding_bound`.

    Args:
        differences: contribution of each document, or cluster, to the sum of differences.
        weights: contribution of each to the denominator; None for 1.
        generator: random generator of the flips.
        max_alpha: no interval of a level below 1 − this will be requested.
    """
    return sign_flip_tests([(differences, weights)], generator, max_alpha)[0]


def sign_flip_tests(
    pairs: Sequence[tuple[Floats, Floats | None]], generator: np.random.Generator, max_alpha: float = 1.0
) -> list[SignFlipTest]:
    """`sign_flip_test` of several pairs; one draw of flips serves all pairs, whatever documents they have.

    A flip is a fair coin per difference, so it does not matter which document a coin belongs to in which pair.
    """
    every = [_WeightedDifferences.of(*own) for own in pairs]
    found = {index: own.enumerated(max_alpha) for index, own in enumerate(every) if own.can_enumerate}
    sampled = [index for index, own in enumerate(every) if not own.can_enumerate]
    size, first = max((len(every[index].nonzero) for index in sampled), default=0), deepcopy(generator)
    for start in range(0, len(sampled), _PAIRS_AT_ONCE):
        chunk = sampled[start : start + _PAIRS_AT_ONCE]
        sums = _flipped_sums([every[index].nonzero for index in chunk], size, deepcopy(first))
        for column, index in enumerate(chunk):
            found[index] = every[index].test(sums[:, column], 1, max_alpha)
    return [found[index] for index in range(len(pairs))]


def sign_flip_table(
    systems: Sequence[Floats],
    weights: Floats | None,
    pairs: Sequence[tuple[int, int]],
    generator: np.random.Generator,
    max_alpha: float = 1.0,
) -> list[SignFlipTest]:
    """Sign-flip tests of pairs of systems on the same documents, second minus first; much faster than one by one.

    Args:
        systems: per system, each document's contribution to its sum, documents in the same order.
        weights: contribution of each document to the common denominator; None for 1.
        pairs: indices of systems.
        generator: random generator of the flips, one draw of which serves all pairs.
        max_alpha: no interval of a level below 1 − this will be requested.
    """

    for number, system in enumerate(systems, 1):
        if len(system) != len(systems[0]):
            raise length_error(f"system {number}", len(system), len(systems[0]))
    sums = _flipped_sums(systems, len(systems[0]) if systems else 0, generator)
    found = []
    for first, second in pairs:
        own = _WeightedDifferences.of(systems[second] - systems[first], weights)
        can_enumerate = own.can_enumerate
        found.append(
            own.enumerated(max_alpha) if can_enumerate else own.test(sums[:, second] - sums[:, first], 1, max_alpha)
        )
    return found


def hoeffding_bound(differences: Floats) -> float:
    """Upper bound of the permutation p-value for any differences: 2·exp(−(Σd)²/2Σd²), by Hoeffding's inequality.

    Without it a hundred systems could not be separated, however far apart: the smallest p-value of 10,000 draws is not
    small enough for a correction over thousands of pairs.
    """
    import numpy as np

    most = float(np.abs(differences).max(initial=0.0))
    if most == 0:
        return 1.0
    scaled = differences / most  # squares of very large or small numbers would overflow or vanish
    bound = 2 * math.exp(-(float(scaled.sum()) ** 2) / (2 * float((scaled * scaled).sum())))
    return min(1.0, max(bound, SMALLEST_P))


@dataclass(frozen=True, slots=True)
class _WeightedDifferences:
    """A pair's differences with their weights, and the nonzero ones, which alone matter for flips."""

    differences: Floats
    weights: Floats
    nonzero: Floats

    @classmethod
    def of(cls, differences: Floats, weights: Floats | None) -> _WeightedDifferences:
        import numpy as np

        own = np.ones(len(differences)) if weights is None else weights
        return cls(differences, own, differences[differences != 0])

    @property
    def can_enumerate(self) -> bool:
        """Whether all flips can be enumerated."""
        return len(self.nonzero) <= MAX_ENUMERATED

    def enumerated(self, max_alpha: float) -> SignFlipTest:
        """The test by enumeration of all flips."""
        import numpy as np

        count = len(self.nonzero)
        every = 2.0 * (np.arange(2**count)[:, None] >> np.arange(count) & 1) - 1
        return self.test(every @ self.nonzero, 0, max_alpha)

    def test(self, sums: Floats, plus_one: int, max_alpha: float) -> SignFlipTest:
        """The test from the sums of flipped differences."""
        import numpy as np

        total, whole, count = float(self.differences.sum()), float(self.weights.sum()), len(sums)
        size = np.abs(sums)
        # Sums of the same numbers in another order differ in the last digits; those are ties.
        tolerance = _TOLERANCE * float(np.abs(self.nonzero).sum())
        hits = int(np.sum(size >= abs(total) - tolerance))
        p = (hits + plus_one) / (count + plus_one)
        p = min(p, hoeffding_bound(self.nonzero)) if plus_one else p
        needed = min(count, max(1, math.ceil(max_alpha * (count + plus_one))))
        value = total / whole if whole else 0.0
        largest = -np.sort(-size if needed == count else np.partition(-size, needed - 1)[:needed])
        moments = self._moments(value)
        nonzero_share = float(self.weights[self.differences != 0].sum()) / whole if whole else 0.0
        return SignFlipTest(
            p=p,
            value=value,
            total=abs(total) - tolerance,
            tolerance=tolerance,
            flips=count,
            plus_one=plus_one,
            sums=largest,
            moments=moments,
            units=len(self.weights),
            nonzero_count=len(self.nonzero),
            nonzero_share=nonzero_share,
        )

    def _moments(self, value: float) -> Moments:
        import numpy as np

        own, scale = self.weights, float(np.abs(self.differences).max(initial=0.0)) or 1.0
        scaled = self.differences / scale
        rest = scaled - value / scale * own
        squares, whole = float(rest @ rest), float(scaled @ scaled)
        return Moments(scale, float(own.sum()), float(own @ own), squares, float(rest @ own), whole)


def _flipped_sums(systems: Sequence[Floats], size: int, generator: np.random.Generator) -> Floats:
    """10,000 sums per system from the same draw of random signs; signs beyond a system's documents have no effect."""
    import numpy as np

    values = np.zeros((size, len(systems)))
    for column, own in enumerate(systems):
        values[: len(own), column] = own
    sums = np.empty((SIGN_FLIPS, len(systems)))
    done = 0
    for rows in row_blocks(SIGN_FLIPS, max(1, size, len(systems)), _CELLS_AT_ONCE):
        signs = 2.0 * generator.integers(0, 2, size=(rows, size), dtype=np.int8) - 1
        sums[done : done + rows] = signs @ values
        done += rows
    return sums
