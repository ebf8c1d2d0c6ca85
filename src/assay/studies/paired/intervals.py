"""Intervals of a difference, at any level, that invert the test of the pair.

In: two matched systems and their test. Out: a function of the level, whose interval excludes 0 exactly when the p of
the test is below 1 − level.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.stats.means import exact_interval, t_quantile
from assay.stats.paired import ValueWithInterval, outcome_interval, product_interval
from assay.studies.paired.matching import MatchedPair, cluster_sums

if TYPE_CHECKING:
    from assay.stats.sign_flip import SignFlipTest

Floats = NDArray[np.float64]
# Level → both ends; infinite if the test cannot reject any difference at that level.
IntervalFunction = Callable[[float], tuple[float, float]]
# Scale of a linear score per nat of log-likelihood.
_LINEAR = {"weighted_nats": 1.0, "bits_per_byte": 1 / math.log(2)}
# exp of larger numbers overflows.
_LARGEST = 700.0


def unbounded_interval(level: float) -> tuple[float, float]:
    """The unbounded interval: nothing is known."""
    return -math.inf, math.inf


def mcnemar_interval(wins: int, losses: int, n: int, is_mid_p: bool = False) -> IntervalFunction:
    """The interval that inverts McNemar's test."""
    return lambda level: outcome_interval(wins, losses, n, level, is_mid_p)


def sign_flip_interval(sign_flip: SignFlipTest, match: MatchedPair, is_alike: bool = False) -> IntervalFunction:
    """The interval that inverts the sign-flip test, on the scale of the score.

    Args:
        sign_flip: the test of the documents' contributions to the sums behind the scores.
        match: the pair.
        is_alike: whether all documents, or clusters, have the same difference up to rounding.
    """
    aggregation = match.first.recorded.aggregation
    units = match.cluster_count or len(match.mine)
    if is_alike or not sign_flip.nonzero_count:
        return partial(sign_test_interval, sign_flip.value, units)
    if match.first.is_share and match.second.is_share:
        return partial(bounded_sign_flip_interval, sign_flip)
    if aggregation in _LINEAR:
        return lambda level: _scaled(sign_flip.interval(level), -_LINEAR[aggregation])
    if aggregation.endswith("perplexity"):
        return _Perplexities.of(sign_flip, match).ends
    return sign_flip.interval


def bounded_sign_flip_interval(sign_flip: SignFlipTest, level: float) -> tuple[float, float]:
    """The same for scores from 0 to 1.

    If too few documents differ for any rejection, the difference is bounded by the upper limit of the share of
    documents that differ. Documents, or clusters, of unequal weight count as the number of equally weighted ones with
    the same error (Kish 1965): two large clusters that differ are not two of a hundred.
    """
    if sign_flip.rejects_any(level) or sign_flip.nonzero_count == sign_flip.units:
        return sign_flip.interval(level)
    units = sign_flip.moments.weight**2 / sign_flip.moments.weight_squares
    most = exact_interval(sign_flip.nonzero_share * units, units, level)[1]
    low, high = sign_flip.widest_interval()
    return min(-most, low), max(most, high)


def sign_test_interval(value: float, units: int, level: float) -> tuple[float, float]:
    """The interval by the sign test, for documents that all have the same difference."""
    return (value, value) if 2 * 0.5**units < 1 - level else unbounded_interval(level)


def _scaled(ends: tuple[float, float], factor: float) -> tuple[float, float]:
    low, high = sorted(factor * end for end in ends)
    return low, high


@dataclass(frozen=True, slots=True)
class _Perplexities:
    """The difference of two perplexities of the same texts: their geometric mean times 2·sinh(λ/2).

    λ is the logarithm of their ratio, with the interval of the sign flips; that of the geometric mean is Student's on
    the logarithmic scale.
    """

    sign_flip: SignFlipTest
    nats: float
    error: float
    units: int

    @classmethod
    def of(cls, sign_flip: SignFlipTest, match: MatchedPair) -> _Perplexities:
        addends, lengths, units = match.addends, match.lengths, match.units
        assert addends is not None
        sums, weights = -(addends[0] + addends[1]) / 2, np.ones(len(addends[0])) if lengths is None else lengths
        mean = float(sums.sum() / weights.sum())
        rest = sums - mean * weights
        rest = rest if units is None else cluster_sums(units, rest)
        count = len(rest)
        error = math.sqrt(count / (count - 1) * float(rest @ rest)) / float(weights.sum())
        return cls(sign_flip, mean, error, count)

    def ends(self, level: float) -> tuple[float, float]:
        low, high = _scaled(self.sign_flip.interval(level), -1.0)
        reach = t_quantile(self.units - 1, level) * self.error
        if max(map(abs, (low, high, self.nats + reach))) > _LARGEST:
            return unbounded_interval(level)
        ratio = ValueWithInterval(*(2 * math.sinh(nats / 2) for nats in (-self.sign_flip.value, low, high)))
        middle = ValueWithInterval(*(math.exp(self.nats + step) for step in (0.0, -reach, reach)))
        return product_interval(ratio, middle)


def with_interval(difference: Estimate, ends: tuple[float, float], alpha: float, is_share: bool) -> Estimate:
    """The difference with an interval of level 1 − α.

    Shares differ by at most 1. There is no interval if an end is infinite, or if all documents have the same
    difference, which does not allow an estimate of the variance.
    """
    low, high = ends
    if is_share:
        low, high = max(-1.0, low), min(1.0, high)
    if difference.value is None or low == high or math.isinf(low) or math.isinf(high):
        return replace(difference, low=None, high=None, level=1 - alpha)
    return replace(difference, low=low, high=high, level=1 - alpha)
