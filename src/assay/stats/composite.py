"""Scores composed of several estimates: weighted means, normalisation, scale, each with its uncertainty.

Takes estimates and the source of each, gives an `Estimate`. Standard errors follow from the delta method, intervals
from MOVER (Zou and Donner 2008) over the transformed ends. Sources are independent; errors of one source, such as two
metrics on the same documents, add up, the worst case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from assay.core.scores import Estimate
from assay.stats.means import LEVEL

# Source → half-width or standard error; None if one of them is unknown.
_Spread = Mapping[Hashable, float]


@dataclass(frozen=True, slots=True)
class Composite:
    """A value composed of estimates, with its uncertainty by source.

    Attributes:
        value: the value.
        errors: source → its share of the standard error; None if it cannot be estimated.
        below: source → its share of the distance to the lower end; None likewise.
        above: source → its share of the distance to the upper end; None likewise.
    """

    value: float
    errors: _Spread | None
    below: _Spread | None
    above: _Spread | None

    def estimate(self, n: int) -> Estimate:
        """The value with standard error and interval; `n` is the number of documents."""
        error = None if self.errors is None else _total(self.errors)
        if self.below is None or self.above is None:
            return Estimate(self.value, error, None, None, n=n, method="delta", level=LEVEL)
        low, high = self.value - _total(self.below), self.value + _total(self.above)
        return Estimate(self.value, error, low, high, n=n, method="delta-mover", level=LEVEL)


def composite(estimate: Estimate, source: Hashable) -> Composite:
    """An estimate that has a value, and its source."""
    value, low, high = estimate.value or 0.0, estimate.low, estimate.high
    return Composite(
        value,
        None if estimate.stderr is None else {source: estimate.stderr},
        None if low is None else {source: value - low},
        None if high is None else {source: high - value},
    )


def weighted_mean(parts: Sequence[Composite], weights: Sequence[float]) -> Composite:
    """The mean of some parts, of which there is at least one; the weights are positive."""
    shares = [weight / math.fsum(weights) for weight in weights]
    return Composite(
        math.fsum(share * part.value for share, part in zip(shares, parts, strict=True)),
        _sums([part.errors for part in parts], shares),
        _sums([part.below for part in parts], shares),
        _sums([part.above for part in parts], shares),
    )


def normalised(part: Composite, floor: float, ceiling: float) -> Composite:
    """0 below the floor, else (x − floor) / (ceiling − floor); a function that never falls, so that ends stay ends.

    Below the floor, where the slope is 0, the standard error is 0, too; the upper end may be above 0.
    """

    def apply(value: float) -> float:
        return above_floor(value, floor, ceiling)

    slope = 1 / (ceiling - floor) if part.value > floor else 0.0
    return Composite(
        apply(part.value),
        None if part.errors is None else {source: slope * error for source, error in part.errors.items()},
        _moved(part.below, part.value, -1, apply),
        _moved(part.above, part.value, 1, apply),
    )


def above_floor(value: float, floor: float, ceiling: float) -> float:
    """0 below the floor, else the share of the way from the floor to the ceiling."""
    return (value - floor) / (ceiling - floor) if value > floor else 0.0


def scaled(part: Composite, factor: float) -> Composite:
    """A value times a positive constant."""
    spreads = (_sums([own], [factor]) for own in (part.errors, part.below, part.above))
    return Composite(factor * part.value, *spreads)


def _moved(spread: _Spread | None, value: float, sign: int, apply: Callable[[float], float]) -> _Spread | None:
    """Distances to an end after a transformation: those of the sources keep their proportions."""
    if spread is None:
        return None
    total = _total(spread)
    ratio = abs(apply(value + sign * total) - apply(value)) / total if total else 0.0
    return {source: ratio * width for source, width in spread.items()}


def _sums(spreads: Sequence[_Spread | None], shares: Sequence[float]) -> _Spread | None:
    sums: dict[Hashable, float] = {}
    for spread, share in zip(spreads, shares, strict=True):
        if spread is None:
            return None
        for source, width in spread.items():
            sums[source] = sums.get(source, 0.0) + share * width
    return sums


def _total(spread: _Spread) -> float:
    # hypot, because the squares of extreme perplexities overflow.
    return math.hypot(*spread.values())
