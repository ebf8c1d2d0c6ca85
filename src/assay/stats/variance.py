"""Where the spread of scores comes from: documents, prompts, examples, orders, draws, and which of them to buy more of.

Method of moments on balanced, fully crossed tables, every factor random (Searle, Casella and McCulloch 1992,
chapter 4): the mean square of an effect S is expected to be Σ_{T ⊇ S} σ²_T · Π_{f ∉ T} levels(f). Solving these
equations gives the components; σ²_T over the product of the levels of T, summed, gives the squared error of the grand
mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.variance_axes import DOCUMENT, Component, Decomposition, Effect, Forecast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def decompose(scores: NDArray[np.float64], factors: Sequence[str], nested: str | None = None) -> Decomposition:
    """Takes a table of scores apart.

    A missing score (NaN) leaves its document out of the whole table, so that the rest stays balanced; without a factor
    `document` the table is refused.

    Args:
        scores: one axis per factor.
        factors: the axes' names, such as `document`, `prompt`, `seed`, `order`, `draw`.
        nested: the factor whose levels have nothing in common between cells, as sampling draws have: the third draw of
            one prompt is no relative of the third of another. It makes the residual.
    """
    import numpy as np

    names, table = list(factors), np.asarray(scores, dtype=np.float64)
    if table.ndim != len(names) or len(set(names)) < len(names) or (nested is not None and nested not in names):
        found = f"{table.ndim} axes named {', '.join(names)}"
        raise DataError(Fault("variance", found, "one name per axis, each once, the nested one among them"))
    table, left_out = _complete(table, names)
    unvaried = tuple(name for name, size in zip(names, table.shape, strict=True) if size == 1)
    table = table.reshape([size for size in table.shape if size > 1])
    names = [name for name in names if name not in unvaried]
    if not names:
        raise DataError(Fault("variance", "one level of every factor", "two or more of one factor at least"))
    nested = nested if nested in names else None
    raw = _moments(table, names, nested)
    sizes = dict(zip(names, table.shape, strict=True))
    kept = {effect: max(0.0, value) for effect, (value, _) in raw.items()}
    stderr = math.sqrt(_variance_of_mean(kept, sizes))
    return Decomposition(
        float(table.mean()), stderr, _components(raw, kept, sizes), _forecasts(kept, sizes), sizes, unvaried, left_out
    )


def _complete(table: NDArray[np.float64], names: Sequence[str]) -> tuple[NDArray[np.float64], int]:
    """The table without the documents that miss a score, and how many those are."""
    import numpy as np

    if np.isinf(table).any() or not table.size:
        raise DataError(Fault("variance", "infinite scores or none at all", "finite numbers, NaN for missing ones"))
    gaps = np.isnan(table)
    if not gaps.any():
        return table, 0
    if DOCUMENT not in names:
        found = f"{int(gaps.sum())} missing scores"
        raise DataError(
            Fault("variance", found, "a score in every cell", f"Name an axis `{DOCUMENT}` to leave some out")
        )
    axis = list(names).index(DOCUMENT)
    has_all = ~gaps.any(axis=tuple(other for other in range(table.ndim) if other != axis))
    if has_all.sum() < 2:
        raise DataError(Fault("variance", f"{int(has_all.sum())} documents with all scores", "two or more"))
    return np.compress(has_all, table, axis=axis), int((~has_all).sum())


def _moments(table: NDArray[np.float64], names: Sequence[str], nested: str | None) -> dict[Effect, tuple[float, int]]:
    """Effect → its variance component as the moments give it, and degrees of freedom."""
    sizes = dict(zip(names, table.shape, strict=True))
    crossed = [name for name in names if name != nested]
    squares = _mean_squares(table, names, crossed)
    if nested is not None:
        # Within cells: all that the crossed factors leave. Its effect has every factor.
        axis = list(names).index(nested)
        squares[tuple(names)] = (
            float(table.var(axis=axis, ddof=1).mean()),
            table.size // sizes[nested] * (sizes[nested] - 1),
        )
    found = {}
    for effect, (_, degrees) in squares.items():
        # Inverts the equations of the expected mean squares: wider effects, with alternating signs.
        wider = [other for other in squares if set(effect) <= set(other)]
        if nested is not None and nested not in effect and len(effect) < len(crossed):
            wider = [other for other in wider if nested not in other]  # the residual cancels among narrower effects
        total = math.fsum((-1) ** (len(other) - len(effect)) * squares[other][0] for other in wider)
        found[effect] = (total / math.prod(size for name, size in sizes.items() if name not in effect), degrees)
    return found


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


def _variance_of_mean(components: Mapping[Effect, float], sizes: Mapping[str, float]) -> float:
    return math.fsum(value / math.prod(sizes[name] for name in effect) for effect, value in components.items())


def _components(
    raw: Mapping[Effect, tuple[float, int]], kept: Mapping[Effect, float], sizes: Mapping[str, int]
) -> tuple[Component, ...]:
    total, of_mean = math.fsum(kept.values()), _variance_of_mean(kept, sizes)
    found = []
    for effect, value in kept.items():
        part = value / math.prod(sizes[name] for name in effect)
        found.append(
            Component(
                effect,
                value,
                value / total if total > 0 else None,
                part / of_mean if of_mean > 0 else None,
                raw[effect][1],
                raw[effect][0] < 0,
            )
        )
    return tuple(sorted(found, key=lambda item: -item.variance))


def _forecasts(kept: Mapping[Effect, float], sizes: Mapping[str, int]) -> tuple[Forecast, ...]:
    def with_times(factor: str, times: float) -> float:
        return math.sqrt(_variance_of_mean(kept, {**sizes, factor: sizes[factor] * times}))

    found = [Forecast(name, size, with_times(name, 2), with_times(name, 0.5)) for name, size in sizes.items()]
    return tuple(sorted(found, key=lambda item: item.doubled))
