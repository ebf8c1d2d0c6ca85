"""Where the spread of scores comes from: documents, prompts, examples, orders, draws, and which of them to buy more of.

Method of moments on balanced, fully crossed tables, every factor random (Searle, Casella and McCulloch 1992,
chapter 4): the mean square of an effect S is expected to be Σ_{T ⊇ S} σ²_T · Π_{f ∉ T} levels(f). Solving these
equations gives the components; σ²_T over the product of the levels of T, summed, gives the squared error of the grand
mean. That error is itself a sum of mean squares, so its degrees of freedom are Satterthwaite's (1946): three prompts
that differ much leave two, and ± 1.96 standard errors would cover 85 % where 95 % are claimed (these cover 92).

A factor may have a known number of levels, as orders of choices have. Of K levels that were drawn k times without
replacement, an effect T of such factors alone adds σ²_T · (1 − Π k/K) as much, and nothing where all were asked; the
other effects add what they did (Cornfield and Tukey 1956, in terms of the components as they are estimated here).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.variance_axes import DOCUMENT
from assay.stats.clustered import clustered_mean
from assay.stats.means import bounded_interval, is_rounding_error, standard_error, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The factors whose combination an effect belongs to.
Effect = tuple[str, ...]
# What rounding leaves of a distance of 0, beside the scores.
_TOLERANCE = 1e-12
# Effect → mean square and degrees of freedom.
_Squares = Mapping[Effect, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """One source of variance.

    Attributes:
        effect: the factors whose combination it belongs to. The largest effect holds the residual, too.
        variance: what it adds to the variance of a single score; estimates below 0 are set to 0.
        share: of the variance of a single score; None where all scores are equal.
        share_of_mean: of the squared error of the grand mean; None where that is 0.
        degrees: of freedom.
        is_negative: whether the estimate was below 0: the source is too small to be told from noise.
    """

    effect: Effect
    variance: float
    share: float | None
    share_of_mean: float | None
    degrees: int
    is_negative: bool


@dataclass(frozen=True, slots=True)
class StderrForecast:
    """The standard error of the grand mean with another number of levels of one factor.

    Attributes:
        factor: whose levels change.
        levels: how many there were.
        doubled: standard error with twice as many.
        halved: with half as many.
    """

    factor: str
    levels: int
    doubled: float
    halved: float


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A table of scores, taken apart.

    Attributes:
        mean: over the whole table.
        stderr: of the mean, for new levels of all factors that have more; None where nothing tells it.
        components: largest first.
        forecasts: per factor that has more levels, the one that would help most first; none without an error.
        levels: factor → levels that were used.
        unvaried: factors with one level, of whose variance the table says nothing.
        left_out: documents left out because a score of theirs was missing.
        low: lower end of the mean's 95 % interval, for the same; None where there is no error.
        high: upper end.
        degrees: of freedom of the standard error.
        exhausted: factors all of whose levels were used: there are no others that the error could speak of.
    """

    mean: float
    stderr: float | None
    components: tuple[VarianceComponent, ...]
    forecasts: tuple[StderrForecast, ...]
    levels: Mapping[str, int]
    unvaried: tuple[str, ...]
    left_out: int
    low: float | None = None
    high: float | None = None
    degrees: float | None = None
    exhausted: tuple[str, ...] = ()

    def component(self, *effect: str) -> VarianceComponent:
        """The component of these factors, in any order."""
        return next(item for item in self.components if set(item.effect) == set(effect))


def decompose(
    scores: NDArray[np.float64],
    factors: Sequence[str],
    nested: str | None = None,
    clusters: Sequence[Hashable] | None = None,
    totals: Mapping[str, int] = MappingProxyType({}),
) -> Decomposition:
    """Takes a table of scores apart.

    A missing score (NaN) leaves its document out of the whole table, so that the rest stays balanced; without a factor
    `document` the table is refused.

    Args:
        scores: one axis per factor.
        factors: the axes' names, such as `document`, `prompt`, `seed`, `order`, `draw`.
        nested: the factor whose levels have nothing in common between cells, as sampling draws have: the third draw of
            one prompt is no relative of the third of another. It makes the residual.
        clusters: the cluster of every document; None where each stands for itself. What documents add to the error of
            the mean is then what clusters leave of it.
        totals: factor → how many levels there are, of which the table has some or all; others have no end.
    """
    import numpy as np

    names, table = list(factors), np.asarray(scores, dtype=np.float64)
    if table.ndim != len(names) or len(set(names)) < len(names) or (nested is not None and nested not in names):
        found = f"{table.ndim} axes named {', '.join(names)}"
        raise DataError(Fault("variance", found, "one name per axis, each once, the nested one among them"))
    table, has_all = _complete(table, names)
    unvaried = tuple(name for name, size in zip(names, table.shape, strict=True) if size == 1)
    design_effect = _design_effect(
        table, names, [own for own, is_kept in zip(clusters or (), has_all, strict=False) if is_kept]
    )
    table = table.reshape([size for size in table.shape if size > 1])
    names = [name for name in names if name not in unvaried]
    if not names:
        raise DataError(Fault("variance", "one level of every factor", "two or more of one factor at least"))
    nested = nested if nested in names else None
    squares = _squares(table, names, nested)
    sizes = dict(zip(names, table.shape, strict=True))
    raw = _moments(squares, sizes, nested)
    kept = {effect: max(0.0, value) for effect, value in raw.items()}
    population = _Population(design_effect, totals)
    error = math.sqrt(_variance_of_mean(kept, sizes, population)) or None
    degrees = None if error is None else _degrees(squares, sizes, nested, population, error**2)
    return Decomposition(
        float(table.mean()),
        error,
        _components(squares, raw, sizes, population),
        () if error is None else _forecasts(kept, sizes, population),
        sizes,
        unvaried,
        int(len(has_all) - has_all.sum()),
        *_interval(table, error, degrees),
        degrees,
        tuple(name for name in names if population.is_exhausted(name, sizes)),
    )


@dataclass(frozen=True, slots=True)
class _DesignEffect:
    """How much more (or less) the documents' error is for their lying in clusters, and in how many they lie."""

    factor: float = 1.0
    clusters: int | None = None


@dataclass(frozen=True, slots=True)
class _Population:
    """What the levels were drawn from: documents perhaps of clusters, other factors perhaps of so many levels."""

    design_effect: _DesignEffect
    totals: Mapping[str, int]

    def is_exhausted(self, name: str, sizes: Mapping[str, float]) -> bool:
        """Whether the table has all levels of a factor."""
        return sizes[name] >= self.totals.get(name, math.inf)

    def factor(self, effect: Effect, sizes: Mapping[str, float]) -> float:
        """By what the error of a component is multiplied."""
        if DOCUMENT in effect:
            return self.design_effect.factor
        return 1 - math.prod(min(1.0, sizes[name] / self.totals.get(name, math.inf)) for name in effect)


def _design_effect(table: NDArray[np.float64], names: Sequence[str], clusters: Sequence[Hashable]) -> _DesignEffect:
    if not clusters or DOCUMENT not in names:
        return _DesignEffect()
    axis = list(names).index(DOCUMENT)
    means = table.mean(axis=tuple(other for other in range(table.ndim) if other != axis)).tolist()
    alone, found = standard_error(means), clustered_mean(means, clusters)
    if alone and found.clusters < 2:
        raise DataError(Fault("variance", "all documents are of one cluster", "two or more"))
    if not alone or not found.estimate.stderr:
        # Clusters with equal means tell of no error among clusters, which is not the same as that there is none.
        return _DesignEffect(clusters=found.clusters)
    return _DesignEffect((found.estimate.stderr / alone) ** 2, found.clusters)


def _complete(table: NDArray[np.float64], names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The table without the documents that miss a score, and which have all of theirs."""
    import numpy as np

    if np.isinf(table).any() or not table.size:
        raise DataError(Fault("variance", "infinite scores or none at all", "finite numbers, NaN for missing ones"))
    gaps = np.isnan(table)
    if not gaps.any():
        documents = table.shape[list(names).index(DOCUMENT)] if DOCUMENT in names else 0
        return table, np.ones(documents, dtype=np.bool_)
    if DOCUMENT not in names:
        found = f"{int(gaps.sum())} missing scores"
        raise DataError(
            Fault("variance", found, "a score in every cell", f"Name an axis `{DOCUMENT}` to leave some out")
        )
    axis = list(names).index(DOCUMENT)
    others = tuple(other for other in range(table.ndim) if other != axis)
    has_all: NDArray[np.bool_] = np.logical_not(np.asarray(gaps.any(axis=others)))
    if has_all.sum() < 2:
        raise DataError(Fault("variance", f"{int(has_all.sum())} documents with all scores", "two or more"))
    return np.compress(has_all, table, axis=axis), has_all


def _squares(table: NDArray[np.float64], names: Sequence[str], nested: str | None) -> _Squares:
    """Effect → its mean square and degrees of freedom."""
    squares = _mean_squares(table, names, [name for name in names if name != nested])
    if nested is not None:
        # Within cells: all that the crossed factors leave. Its effect has every factor.
        axis = list(names).index(nested)
        size = table.shape[axis]
        squares[tuple(names)] = (float(table.var(axis=axis, ddof=1).mean()), table.size // size * (size - 1))
    # What rounding leaves of scores that are equal.
    least = (_TOLERANCE * float(abs(table).max())) ** 2
    return {effect: (0.0 if square <= least else square, degrees) for effect, (square, degrees) in squares.items()}


def _moments(squares: _Squares, sizes: Mapping[str, int], nested: str | None) -> dict[Effect, float]:
    """Effect → its variance component as the moments give it."""
    found = {}
    for effect in squares:
        terms = [sign * squares[other][0] for other, sign in _wider(effect, squares, nested)]
        # Mean squares that cancel but for rounding leave nothing.
        total = 0.0 if is_rounding_error(abs(math.fsum(terms)), max(map(abs, terms))) else math.fsum(terms)
        found[effect] = total / math.prod(size for name, size in sizes.items() if name not in effect)
    return found


def _wider(effect: Effect, squares: _Squares, nested: str | None) -> list[tuple[Effect, int]]:
    """The mean squares that give a component, with their signs: the equations of their expectations, inverted."""
    wider = [other for other in squares if set(effect) <= set(other)]
    crossed = max(len(other) for other in squares) - (nested is not None)
    if nested is not None and nested not in effect and len(effect) < crossed:
        wider = [other for other in wider if nested not in other]  # the residual cancels among narrower effects
    return [(other, (-1) ** (len(other) - len(effect))) for other in wider]


def _mean_squares(
    table: NDArray[np.float64], names: Sequence[str], crossed: Sequence[str]
) -> dict[Effect, tuple[float, int]]:
    """Effect of crossed factors → its mean square and degrees of freedom."""
    import numpy as np

    sizes = dict(zip(names, table.shape, strict=True))
    centred = table - table.mean()
    found: dict[Effect, tuple[float, int]] = {}
    for count in range(1, len(crossed) + 1):
        for effect in combinations(crossed, count):
            part = centred.mean(axis=tuple(a for a, name in enumerate(names) if name not in effect), keepdims=True)
            for axis, name in enumerate(names):
                if name in effect:
                    part = part - part.mean(axis=axis, keepdims=True)
            degrees = math.prod(sizes[name] - 1 for name in effect)
            found[effect] = (float(np.sum(part**2)) * (table.size // part.size) / degrees, degrees)
    return found


def _variance_of_mean(components: Mapping[Effect, float], sizes: Mapping[str, float], population: _Population) -> float:
    return math.fsum(_part(effect, value, sizes, population) for effect, value in components.items())


def _part(effect: Effect, value: float, sizes: Mapping[str, float], population: _Population) -> float:
    """What a component adds to the squared error of the mean."""
    return value / math.prod(sizes[name] for name in effect) * population.factor(effect, sizes)


def _degrees(
    squares: _Squares, sizes: Mapping[str, int], nested: str | None, population: _Population, variance: float
) -> float | None:
    """Satterthwaite's degrees of freedom of the squared error of the mean; None where that is 0.

    The components with documents sum up to the documents' mean square; the others are sums of mean squares as they are.
    """
    weights: dict[Effect, float] = {}
    for effect in squares:
        if DOCUMENT not in effect:
            for other, sign in _wider(effect, squares, nested):
                weights[other] = weights.get(other, 0.0) + sign * population.factor(effect, sizes)
    cells = math.prod(sizes.values())
    terms = [((weight * squares[effect][0] / cells) ** 2, squares[effect][1]) for effect, weight in weights.items()]
    if DOCUMENT in sizes:
        design_effect = population.design_effect
        count = sizes[DOCUMENT] if design_effect.clusters is None else design_effect.clusters
        terms.append(((design_effect.factor * squares[(DOCUMENT,)][0] / cells) ** 2, count - 1))
    spread = math.fsum(square / degrees for square, degrees in terms if degrees)
    return max(1.0, variance**2 / spread) if spread > 0 else None


def _interval(
    table: NDArray[np.float64], error: float | None, degrees: float | None
) -> tuple[float | None, float | None]:
    """95 % ends of the mean; none without an error."""
    if degrees is None or error is None:
        return None, None
    mean = float(table.mean())
    if table.min() >= 0 and table.max() <= 1:
        return bounded_interval(mean, error, degrees)
    reach = t_quantile(degrees) * error
    return mean - reach, mean + reach


def _components(
    squares: _Squares, raw: Mapping[Effect, float], sizes: Mapping[str, int], population: _Population
) -> tuple[VarianceComponent, ...]:
    kept = {effect: max(0.0, value) for effect, value in raw.items()}
    total, of_mean = math.fsum(kept.values()), _variance_of_mean(kept, sizes, population)
    found = [
        VarianceComponent(
            effect,
            value,
            value / total if total > 0 else None,
            _part(effect, value, sizes, population) / of_mean if of_mean > 0 else None,
            squares[effect][1],
            raw[effect] < 0,
        )
        for effect, value in kept.items()
    ]
    return tuple(sorted(found, key=lambda item: -item.variance))


def _forecasts(
    kept: Mapping[Effect, float], sizes: Mapping[str, int], population: _Population
) -> tuple[StderrForecast, ...]:
    def with_times(factor: str, times: float) -> float:
        return math.sqrt(_variance_of_mean(kept, {**sizes, factor: sizes[factor] * times}, population))

    found = [
        StderrForecast(name, size, with_times(name, 2), with_times(name, 0.5))
        for name, size in sizes.items()
        if not population.is_exhausted(name, sizes)
    ]
    return tuple(sorted(found, key=lambda item: item.doubled))
