"""Variance components (ANOVA) of scores: documents, prompts, few-shot examples, choice orders and draws.

Method of moments on balanced, fully crossed tables, every factor random (Searle, Casella and McCulloch 1992,
chapter 4): the expected mean square of an effect S is Σ_{T ⊇ S} σ²_T · Π_{f ∉ T} levels(f). Solving these
equations gives the components; σ²_T over the product of the levels of T, summed, is the squared standard error of the
grand mean. That is itself a sum of mean squares, so its degrees of freedom are Satterthwaite's (1946): three prompts
that differ much leave two, and ± 1.96 standard errors would cover 85 % instead of the nominal 95 % (these cover 92).

A factor may have a known number of levels, such as the orders of choices. If k of K levels were drawn without
replacement, the contribution of an effect T of such factors only is multiplied by (1 − Π k/K), which is 0 if all were
evaluated; the other effects contribute as before (Cornfield and Tukey 1956, in terms of the components as estimated
here).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.task_variants import DOCUMENT
from assay.stats.clustered import clustered_mean
from assay.stats.means import bounded_interval, is_rounding_error, standard_error, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The factors whose combination an effect belongs to.
Effect = tuple[str, ...]
# Rounding error of a deviation of 0, relative to the scores.
_TOLERANCE = 1e-12
# Effect → mean square and degrees of freedom.
_Squares = Mapping[Effect, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """One source of variance.

    Attributes:
        effect: the factors whose combination it belongs to. The largest effect includes the residual.
        variance: its contribution to the variance of a single score; estimates below 0 are set to 0.
        share: its share of the variance of a single score; None if all scores are equal.
        share_of_mean: its share of the squared standard error of the grand mean; None if that is 0.
        degrees: degrees of freedom.
        is_negative: whether the estimate was below 0: the source is too small to be distinguished from noise.
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
        factor: the factor whose levels change.
        levels: number of levels used.
        doubled: standard error with twice as many.
        halved: standard error with half as many.
    """

    factor: str
    levels: int
    doubled: float
    halved: float


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Variance decomposition of a table of scores.

    Attributes:
        mean: mean over the whole table.
        stderr: standard error of the mean, for new levels of all factors that have more; None if unknown.
        components: the variance components, largest first.
        forecasts: one per factor that has more levels, the most useful first; empty without a standard error.
        levels: factor → number of levels used.
        unvaried: factors with one level, whose variance cannot be estimated.
        left_out: documents left out because one of their scores was missing.
        low: lower end of the mean's 95 % interval, likewise; None without a standard error.
        high: upper end.
        degrees: degrees of freedom of the standard error.
        exhausted: factors all of whose levels were used, so that there are no new levels to generalise to.
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
    """Variance components of a table of scores.

    A missing score (NaN) removes its document from the whole table, so that the rest stays balanced; without a factor
    `document` the table is rejected.

    Args:
        scores: one axis per factor.
        factors: the axes' names, such as `document`, `prompt`, `seed`, `order`, `draw`.
        nested: the factor whose levels are unrelated between cells, such as sampling draws: the third draw of one
            prompt has nothing in common with the third of another. It becomes the residual.
        clusters: the cluster of every document; None if documents are independent. The documents' contribution to
            the standard error is then cluster-robust.
        totals: factor → size of its population of levels, of which the table has some or all; others are infinite.
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
    nonnegative = {effect: max(0.0, value) for effect, value in raw.items()}
    population = _Population(design_effect, totals)
    error = math.sqrt(_variance_of_mean(nonnegative, sizes, population)) or None
    degrees = None if error is None else _degrees(squares, sizes, nested, population, error**2)
    low, high = _interval(table, error, degrees)
    return Decomposition(
        mean=float(table.mean()),
        stderr=error,
        components=_components(squares, raw, sizes, population),
        forecasts=() if error is None else _forecasts(nonnegative, sizes, population),
        levels=sizes,
        unvaried=unvaried,
        left_out=int(len(has_all) - has_all.sum()),
        low=low,
        high=high,
        degrees=degrees,
        exhausted=tuple(name for name in names if population.is_exhausted(name, sizes)),
    )


@dataclass(frozen=True, slots=True)
class _DesignEffect:
    """Design effect: by how much clustering inflates (or deflates) the documents' error, and the number of clusters."""

    factor: float = 1.0
    clusters: int | None = None


@dataclass(frozen=True, slots=True)
class _Population:
    """Populations of the levels: documents possibly in clusters, other factors possibly with finitely many levels."""

    design_effect: _DesignEffect
    totals: Mapping[str, int]

    def is_exhausted(self, name: str, sizes: Mapping[str, float]) -> bool:
        """Whether the table contains all levels of a factor."""
        return sizes[name] >= self.totals.get(name, math.inf)

    def factor(self, effect: Effect, sizes: Mapping[str, float]) -> float:
        """The factor by which a component's contribution to the error is multiplied."""
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
        # Clusters with equal means leave the between-cluster error unknown, which does not mean that it is 0.
        return _DesignEffect(clusters=found.clusters)
    return _DesignEffect((found.estimate.stderr / alone) ** 2, found.clusters)


def _complete(table: NDArray[np.float64], names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The table without documents that lack a score, and a mask of the complete ones."""
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
        # Within cells: everything beyond the crossed factors. Its effect contains every factor.
        axis = list(names).index(nested)
        size = table.shape[axis]
        squares[tuple(names)] = (float(table.var(axis=axis, ddof=1).mean()), table.size // size * (size - 1))
    # Rounding error of equal scores.
    least = (_TOLERANCE * float(abs(table).max())) ** 2
    return {effect: (0.0 if square <= least else square, degrees) for effect, (square, degrees) in squares.items()}


def _moments(squares: _Squares, sizes: Mapping[str, int], nested: str | None) -> dict[Effect, float]:
    """Effect → its variance component by the method of moments."""
    found = {}
    for effect in squares:
        terms = [sign * squares[other][0] for other, sign in _wider(effect, squares, nested)]
        # Mean squares that cancel up to rounding give 0.
        total = 0.0 if is_rounding_error(abs(math.fsum(terms)), max(map(abs, terms))) else math.fsum(terms)
        found[effect] = total / math.prod(size for name, size in sizes.items() if name not in effect)
    return found


def _wider(effect: Effect, squares: _Squares, nested: str | None) -> list[tuple[Effect, int]]:
    """The mean squares that determine a component, with their signs: the inverted equations of their expectations."""
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
    """A component's contribution to the squared standard error of the mean."""
    return value / math.prod(sizes[name] for name in effect) * population.factor(effect, sizes)


def _degrees(
    squares: _Squares, sizes: Mapping[str, int], nested: str | None, population: _Population, variance: float
) -> float | None:
    """Satterthwaite's degrees of freedom of the squared standard error of the mean; None if that is 0.

    The components with documents sum to the documents' mean square; the others are sums of mean squares as they are.
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
    """95 % interval of the mean; None without a standard error."""
    if degrees is None or error is None:
        return None, None
    mean = float(table.mean())
    if table.min() >= 0 and table.max() <= 1:
        return bounded_interval(mean, error, degrees)
    half_width = t_quantile(degrees) * error
    return mean - half_width, mean + half_width


def _components(
    squares: _Squares, raw: Mapping[Effect, float], sizes: Mapping[str, int], population: _Population
) -> tuple[VarianceComponent, ...]:
    nonnegative = {effect: max(0.0, value) for effect, value in raw.items()}
    total, of_mean = math.fsum(nonnegative.values()), _variance_of_mean(nonnegative, sizes, population)
    found = [
        VarianceComponent(
            effect,
            value,
            value / total if total > 0 else None,
            _part(effect, value, sizes, population) / of_mean if of_mean > 0 else None,
            squares[effect][1],
            raw[effect] < 0,
        )
        for effect, value in nonnegative.items()
    ]
    return tuple(sorted(found, key=lambda item: -item.variance))


def _forecasts(
    nonnegative: Mapping[Effect, float], sizes: Mapping[str, int], population: _Population
) -> tuple[StderrForecast, ...]:
    def with_times(factor: str, times: float) -> float:
        return math.sqrt(_variance_of_mean(nonnegative, {**sizes, factor: sizes[factor] * times}, population))

    found = [
        StderrForecast(name, size, with_times(name, 2), with_times(name, 0.5))
        for name, size in sizes.items()
        if not population.is_exhausted(name, sizes)
    ]
    return tuple(sorted(found, key=lambda item: item.doubled))
