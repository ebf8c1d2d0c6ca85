"""Do raters agree, beyond chance? Judges with people, or a model with itself under other prompts.

Share of agreeing pairs, Cohen's κ for two raters, Krippendorff's α for any number with ratings missing; each with a
bootstrap interval over items.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
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
# Ordinal ratings are compared in a table of all pairs of values.
MOST_ORDINAL = 100
# A spread so small, beside what it is made of, is what rounding leaves of 0.
_HAIR = 1e-9


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far several raters agree on the same items.

    Attributes:
        raters: their names.
        items: items that two raters or more have rated.
        share: of pairs of raters that agree on an item.
        alpha: Krippendorff's α of all raters together.
        kappas: Cohen's κ of every two raters, on the items that both have rated.
    """

    raters: tuple[str, ...]
    items: int
    share: Estimate
    alpha: Estimate
    kappas: Mapping[tuple[str, str], Estimate]


def rater_agreement(
    ratings: Mapping[str, Sequence[Hashable | None]], scale: Scale = "nominal", seed: int = 0
) -> RaterAgreement:
    """Do judges agree, beyond chance? Share of agreeing pairs, Krippendorff's α, and Cohen's κ of every two.

    Args:
        ratings: rater → a rating per item, in the same order of items; None where there is none.
        scale: `nominal` for labels; `ordinal` for marks that can be sorted; `interval` for numbers whose distances
            mean something. κ weighs disagreement by squared distance of the sorted marks on the last two.
        seed: of the bootstrap.
    """
    names = tuple(ratings)
    if len(names) < 2:
        raise DataError(Fault("agreement", f"{len(names)} raters", "two or more"))
    for name in names[1:]:
        if len(ratings[name]) != len(ratings[names[0]]):
            raise unequal(f"rater {name}", len(ratings[name]), len(ratings[names[0]]))
    items = list(zip(*ratings.values(), strict=True))
    weights: Weights = "none" if scale == "nominal" else "quadratic"
    kappas = {}
    for one, other in combinations(names, 2):
        both = [(a, b) for a, b in zip(ratings[one], ratings[other], strict=True) if a is not None and b is not None]
        kappas[one, other] = cohen_kappa([a for a, _ in both], [b for _, b in both], weights, seed)
    share, alpha = percent_agreement(items, seed), krippendorff_alpha(items, scale, seed)
    return RaterAgreement(names, share.n, share, alpha, kappas)


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
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    weights: Weights = "none",
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """Cohen's κ of two raters: agreement beyond what their habits alone would give. None where chance explains all.

    Args:
        first: one rater's rating per item.
        second: the other's, in the same order.
        weights: `none`, or disagreement by distance or squared distance of sorted ratings.
        seed: of the bootstrap.
        clusters: the cluster of each item, to redraw whole clusters; None for single items.
    """
    import numpy as np

    if len(first) != len(second):
        raise unequal("second rater", len(second), len(first))
    if not first:
        return nothing("bootstrap")
    kappas, places = _kappas(first, second, weights)
    if clusters is None:
        return _redrawn_kappas(kappas, places, seed)
    from assay.stats.bootstrap import numbered

    own = numbered(clusters, len(first))
    columns = np.zeros((int(own.max()) + 1, len(kappas.known)))
    np.add.at(columns, (own, places), 1.0)
    found = _bootstrapped(columns, lambda sums, _: kappas(sums), seed)
    return replace(found, n=len(first), clusters=len(columns), method="cluster-bootstrap")


def kappa_of_times(first: Sequence[Hashable], second: Sequence[Hashable]) -> Callable[[Floats], Floats]:
    """Cohen's κ of sets in which each item comes so often, one row per set; NaN where chance explains all."""
    from assay.stats.bootstrap import group_sums

    kappas, places = _kappas(first, second, "none")
    counted = group_sums(places)
    return lambda times: kappas(counted(times))


def _kappas(
    first: Sequence[Hashable], second: Sequence[Hashable], weights: Weights
) -> tuple[_Kappas, NDArray[np.int64]]:
    """κ of counts of the cells that two raters' items fall into, and the cell of each item."""
    import numpy as np

    values = _values([first, second], is_sorted=weights != "none")
    size = len(values)
    cells = np.array([values[a] * size + values[b] for a, b in zip(first, second, strict=True)])
    known, places = np.unique(cells, return_inverse=True)
    return _Kappas(size, known, weights), places


def kappa_of_table(table: Sequence[Sequence[int]]) -> Estimate:
    """Cohen's κ from counts, with its large-sample error: no resampling, for thousands of tables.

    Equation 13 of Fleiss, Cohen and Everitt (1969), Psychological Bulletin 72, 323-327.

    Args:
        table: how many items the first rater gave the row's rating and the second the column's.
    """
    n = sum(map(sum, table))
    if not n:
        return nothing("delta")
    places = range(len(table))
    shares = [[count / n for count in row] for row in table]
    first, second = [sum(row) for row in shares], [sum(column) for column in zip(*shares, strict=True)]
    seen, chance = sum(shares[i][i] for i in places), sum(first[i] * second[i] for i in places)
    if chance >= 1:
        return Estimate(None, None, None, None, n, "delta", LEVEL)
    agreed = sum(shares[i][i] * ((1 - chance) - (second[i] + first[i]) * (1 - seen)) ** 2 for i in places)
    differing = sum(shares[i][j] * (second[i] + first[j]) ** 2 for i in places for j in places if i != j)
    whole = agreed + (1 - seen) ** 2 * differing
    spread = whole - (seen * chance - 2 * chance + seen) ** 2
    value, error = (seen - chance) / (1 - chance), math.sqrt(max(0.0, spread) / n) / (1 - chance) ** 2
    if spread <= _HAIR * whole:  # all items agree, or a rater has one rating for all: the spread tells nothing
        return Estimate(value, None, None, None, n, "delta", LEVEL)
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
    return Estimate(value, error, max(-1.0, value - reach), min(1.0, value + reach), n, "delta", LEVEL)


def clustered_kappa(first: Floats, second: Floats, units: NDArray[np.int64]) -> Estimate:
    """Cohen's κ of outcomes of 0 and 1 in clusters, with its large-sample error: no resampling, for thousands of pairs.

    What each item adds to κ, by the delta method, is summed within clusters, as in `clustered.clustered_mean`; the
    interval is Student's with clusters − 1 degrees.

    Args:
        first: one rater's outcomes; there is at least one.
        second: the other's.
        units: the cluster of each item as a number, none left out from 0 on.
    """
    import numpy as np

    from assay.stats.means import t_quantile

    n, clusters = len(first), int(units.max()) + 1
    p, q = float(first.mean()), float(second.mean())
    seen, chance = float((first == second).mean()), p * q + (1 - p) * (1 - q)
    if chance >= 1:
        return Estimate(None, None, None, None, n, "clustered-delta", LEVEL, clusters)
    value = (seen - chance) / (1 - chance)
    by_chance = np.where(first == 1, q, 1 - q) + np.where(second == 1, p, 1 - p) - 2 * chance
    added = ((first == second) - seen) / (1 - chance) - (1 - seen) / (1 - chance) ** 2 * by_chance
    sums = np.bincount(units, added)
    spread = float((sums * sums).sum())
    if clusters < 2 or spread <= _HAIR * n:  # all items agree, or clusters are alike: the spread tells nothing
        return Estimate(value, None, None, None, n, "clustered-delta", LEVEL, clusters)
    error = math.sqrt(clusters / (clusters - 1) * spread) / n
    reach = t_quantile(clusters - 1) * error
    ends = max(-1.0, value - reach), min(1.0, value + reach)
    return Estimate(value, error, *ends, n, "clustered-delta", LEVEL, clusters)


class _Kappas:
    """κ of tables of counts, one table per row; columns are the cells that have any."""

    def __init__(self, size: int, known: NDArray[np.int64], weights: Weights) -> None:
        import numpy as np

        gaps = np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(np.float64)
        self.known = known
        # Cells of one row are side by side, those of one column after reordering: sums of stretches.
        self.by_column = np.argsort(known % size, kind="stable")
        self.rows, self.row_starts = np.unique(known // size, return_index=True)
        self.columns, self.column_starts = np.unique(known[self.by_column] % size, return_index=True)
        self.cost = {"none": (gaps > 0).astype(np.float64), "linear": gaps, "quadratic": gaps**2}[weights]

    def __call__(self, tables: Floats) -> Floats:
        import numpy as np

        rows = np.add.reduceat(tables, self.row_starts, axis=1)
        columns = np.add.reduceat(np.take(tables, self.by_column, axis=1), self.column_starts, axis=1)
        seen = tables @ self.cost.reshape(-1)[self.known]
        expected = np.einsum("ri,ri->r", rows @ self.cost[np.ix_(self.rows, self.columns)], columns)
        # Redrawn clusters differ in size, so every table has a total of its own.
        return _beyond_chance(seen * tables.sum(axis=1), expected)


def _redrawn_kappas(kappas: _Kappas, cells: NDArray[np.int64], seed: int) -> Estimate:
    """κ with items redrawn: how often each cell is drawn is multinomial, which is quick where there are few."""
    import numpy as np

    from assay.stats.bootstrap import are_few, row_blocks

    n, size, generator = len(cells), len(kappas.known), np.random.default_rng(seed)
    counts, parts = np.bincount(cells, minlength=size), []
    for rows in row_blocks(REPLICATES, max(n, size)):
        if are_few(size, n):
            drawn = generator.multinomial(n, counts / n, size=rows)
        else:
            places = np.take(cells, generator.integers(0, n, size=(rows, n))) + size * np.arange(rows)[:, None]
            drawn = np.bincount(places.reshape(-1), minlength=rows * size).reshape(rows, size)
        parts.append(kappas(drawn.astype(np.float64)))
    return _estimate(float(kappas(counts[None].astype(np.float64))[0]), np.concatenate(parts), n)


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

    from assay.stats.bootstrap import redrawn_times

    n = len(columns)
    if n == 0:
        return nothing("bootstrap")
    drawn = redrawn_times(n, REPLICATES, seed, max(columns.shape))
    parts = [statistic(times @ columns, n) for times in drawn]
    return _estimate(float(statistic(columns.sum(axis=0)[None], n)[0]), np.concatenate(parts), n)


def _estimate(value: float, replicates: Floats, n: int) -> Estimate:
    """Redrawn items that all agree on one value have no coefficient; they are left out of error and interval."""
    import numpy as np

    from assay.stats.bootstrap import FEWEST, expanded_tails, spread

    known = replicates[np.isfinite(replicates)]
    if math.isnan(value):
        return Estimate(None, None, None, None, n, "bootstrap", LEVEL)
    if n < FEWEST or len(known) < 2:
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
    low, high = np.quantile(known, expanded_tails(n))
    return spread(Estimate(value, float(np.std(known, ddof=1)), float(low), float(high), n, "bootstrap", LEVEL))


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
