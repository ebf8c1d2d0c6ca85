"""Do raters agree, beyond chance? Judges with people, or a model with itself under other prompts.

Share of agreeing pairs, Cohen's κ for two raters, Krippendorff's α for any number with ratings missing; each with a
bootstrap interval over items.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Literal

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.inputs import unequal
from assay.stats.means import LEVEL, nothing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REPLICATES = 1000
Scale = Literal["nominal", "ordinal", "interval"]
Weights = Literal["none", "linear", "quadratic"]
_CELLS_AT_ONCE = 2_000_000
# Ordinal ratings are compared in a table of all pairs of values.
MOST_ORDINAL = 100


def percent_agreement(ratings: Sequence[Sequence[Hashable | None]], seed: int = 0) -> Estimate:
    """Share of pairs of raters that agree on an item, over items with two ratings or more.

    Args:
        ratings: per item, each rater's rating; None where it is missing.
        seed: of the bootstrap.
    """
    import numpy as np

    shares = []
    for own in _rated(ratings):
        pairs = math.comb(len(own), 2)
        shares.append(sum(math.comb(count, 2) for count in Counter(own).values()) / pairs)
    return _bootstrapped(np.array(shares)[:, None], lambda sums, n: sums[:, 0] / n, seed)


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], weights: Weights = "none", seed: int = 0
) -> Estimate:
    """Cohen's κ of two raters: agreement beyond what their habits alone would give. None where chance explains all.

    Args:
        first: one rater's rating per item.
        second: the other's, in the same order.
        weights: `none`, or disagreement by distance or squared distance of sorted ratings.
        seed: of the bootstrap.
    """
    import numpy as np

    if len(first) != len(second):
        raise unequal("second rater", len(second), len(first))
    if not first:
        return nothing("bootstrap")
    values = _values([first, second], is_sorted=weights != "none")
    size = len(values)
    cells = np.array([values[a] * size + values[b] for a, b in zip(first, second, strict=True)])
    gaps = np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(np.float64)
    cost = {"none": (gaps > 0).astype(np.float64), "linear": gaps, "quadratic": gaps**2}[weights]
    known, counts = np.unique(cells, return_counts=True)
    generator, n = np.random.default_rng(seed), len(cells)

    def kappas(tables: Floats) -> Floats:
        rows = np.zeros((len(tables), size))
        columns = np.zeros((len(tables), size))
        for place, cell in enumerate(known):
            rows[:, cell // size] += tables[:, place]
            columns[:, cell % size] += tables[:, place]
        seen = tables @ cost.reshape(-1)[known]
        return _beyond_chance(seen * n, np.einsum("ri,ij,rj->r", rows, cost, columns, optimize=True))

    drawn = generator.multinomial(n, counts / n, size=REPLICATES).astype(np.float64)
    return _estimate(float(kappas(counts[None].astype(np.float64))[0]), kappas(drawn), n)


def krippendorff_alpha(
    ratings: Sequence[Sequence[Hashable | None]], scale: Scale = "nominal", seed: int = 0
) -> Estimate:
    """Krippendorff's α: 1 less observed over expected disagreement. None where all ratings are equal.

    Items with fewer than two ratings say nothing and do not count.

    Args:
        ratings: per item, each rater's rating; None where it is missing.
        scale: `nominal`, `ordinal` (ratings that can be sorted) or `interval` (numbers).
        seed: of the bootstrap.
    """
    items = _rated(ratings)
    if not items:
        return nothing("bootstrap")
    if scale == "interval":
        return _interval_alpha(items, seed)
    values = _values(items, is_sorted=scale == "ordinal")
    if scale == "ordinal":
        return _ordinal_alpha(items, values, seed)
    return _nominal_alpha(items, values, seed)


def _nominal_alpha(items: Sequence[Sequence[Hashable]], values: dict[Hashable, int], seed: int) -> Estimate:
    """Columns: an item's disagreement, its ratings, then how often it has each value."""
    import numpy as np

    columns = np.zeros((len(items), 2 + len(values)))
    for row, own in zip(columns, items, strict=True):
        m, counts = len(own), Counter(own)
        row[:2] = (m * m - sum(count * count for count in counts.values())) / (m - 1), m
        for value, count in counts.items():
            row[2 + values[value]] = count

    def alphas(sums: Floats, _: int) -> Floats:
        total = sums[:, 1]
        return _beyond_chance(sums[:, 0] * (total - 1), total**2 - (sums[:, 2:] ** 2).sum(axis=1))

    return _bootstrapped(columns, alphas, seed)


def _interval_alpha(items: Sequence[Sequence[Hashable]], seed: int) -> Estimate:
    """Columns: an item's squared distances, its ratings, their sum and their squares' sum."""
    import numpy as np

    numbers = [[_number(value) for value in own] for own in items]
    # Distances do not change when all move together, and large numbers would lose digits.
    middle = math.fsum(value for own in numbers for value in own) / sum(len(own) for own in numbers)
    columns = np.empty((len(items), 4))
    for row, own in zip(columns, numbers, strict=True):
        moved = [value - middle for value in own]
        m, total, squares = len(moved), math.fsum(moved), math.fsum(value * value for value in moved)
        row[:] = 2 * math.fsum((value - total / m) ** 2 for value in moved) * m / (m - 1), m, total, squares

    def alphas(sums: Floats, _: int) -> Floats:
        n = sums[:, 1]
        chance = 2 * (n * sums[:, 3] - sums[:, 2] ** 2)
        # Equal ratings leave a hair of rounding where nothing is expected to differ.
        chance = np.where(chance > 1e-12 * n * sums[:, 3], chance, 0.0)
        return _beyond_chance(sums[:, 0] * (n - 1), chance)

    return _bootstrapped(columns, alphas, seed)


def _ordinal_alpha(items: Sequence[Sequence[Hashable]], values: dict[Hashable, int], seed: int) -> Estimate:
    """Columns: an item's table of paired values; distances depend on how often each value is used."""
    import numpy as np

    size = len(values)
    if size > MOST_ORDINAL:
        raise DataError(Fault("ordinal agreement", f"{size} values", f"{MOST_ORDINAL} at most", "Use `interval`"))
    columns = np.empty((len(items), size * size))
    for row, own in zip(columns, items, strict=True):
        counts = np.bincount([values[value] for value in own], minlength=size)
        row[:] = ((np.outer(counts, counts) - np.diag(counts)) / (len(own) - 1)).reshape(-1)

    def alphas(sums: Floats, _: int) -> Floats:
        tables = sums.reshape(-1, size, size)
        used = tables.sum(axis=2)
        ranks = np.cumsum(used, axis=1) - used / 2
        squares = (ranks[:, :, None] - ranks[:, None, :]) ** 2
        seen = (tables * squares).sum(axis=(1, 2))
        chance = np.einsum("ri,rij,rj->r", used, squares, used, optimize=True)
        return _beyond_chance(seen * (used.sum(axis=1) - 1), chance)

    return _bootstrapped(columns, alphas, seed)


def _beyond_chance(seen: Floats, chance: Floats) -> Floats:
    """1 − seen/chance; NaN where chance has no disagreement to offer."""
    import numpy as np

    return np.asarray(np.where(chance > 0, 1 - seen / np.where(chance > 0, chance, 1.0), np.nan))


def _bootstrapped(columns: Floats, statistic: Callable[[Floats, int], Floats], seed: int) -> Estimate:
    """A statistic of column sums, with items redrawn: a matrix product of how often each is."""
    import numpy as np

    n = len(columns)
    if n == 0:
        return nothing("bootstrap")
    generator = np.random.default_rng(seed)
    parts, left = [], REPLICATES
    most = max(1, _CELLS_AT_ONCE // max(columns.shape))
    while left:
        rows = min(left, most)
        places = generator.integers(0, n, size=(rows, n)) + np.arange(rows)[:, None] * n
        times = np.bincount(places.reshape(-1), minlength=rows * n).reshape(rows, n)
        parts.append(statistic(times.astype(np.float64) @ columns, n))
        left -= rows
    return _estimate(float(statistic(columns.sum(axis=0)[None], n)[0]), np.concatenate(parts), n)


def _estimate(value: float, replicates: Floats, n: int) -> Estimate:
    """Redrawn items that all agree on one value have no coefficient; they are left out of error and interval."""
    import numpy as np

    known = replicates[np.isfinite(replicates)]
    if math.isnan(value):
        return Estimate(None, None, None, None, n, "bootstrap", LEVEL)
    if n == 1 or len(known) < 2:
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(np.std(known, ddof=1)), float(low), float(high), n, "bootstrap", LEVEL)


def _rated(ratings: Sequence[Sequence[Hashable | None]]) -> list[list[Hashable]]:
    """The items with two ratings or more, without the missing ones."""
    present = [[value for value in own if value is not None] for own in ratings]
    return [own for own in present if len(own) > 1]


def _values(rows: Sequence[Sequence[Hashable]], is_sorted: bool) -> dict[Hashable, int]:
    """Value → its number, by size where asked."""
    found = dict.fromkeys(value for row in rows for value in row)
    if not is_sorted:
        return {value: place for place, value in enumerate(found)}
    try:
        return {value: place for place, value in enumerate(sorted(found))}  # type: ignore[type-var]
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in found}))
        raise DataError(Fault("agreement", f"ratings of kinds {kinds}", "ratings that can be sorted")) from None


def _number(value: Hashable) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise DataError(Fault("agreement", f"the rating {value!r}", "finite numbers on an interval scale"))
    return float(value)
