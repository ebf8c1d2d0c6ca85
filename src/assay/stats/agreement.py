"""Inter-rater agreement: percent agreement, Cohen's κ and Krippendorff's α, for judges, humans or repeated prompts.

Cohen's κ is for two raters, Krippendorff's α for any number with missing ratings; each with a bootstrap interval over
items.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from assay.core.call_checks import checked
from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.inputs import length_error
from assay.stats.means import LEVEL, empty_estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REPLICATES = 1000
Scale = Literal["nominal", "ordinal", "interval"]
Weights = Literal["none", "linear", "quadratic"]
# A variance this small relative to its terms is rounding error of 0.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Agreement of several raters on the same items.

    Attributes:
        raters: their names.
        items: items rated by two raters or more.
        share: share of rater pairs that agree on an item.
        alpha: Krippendorff's α of all raters together.
        kappas: Cohen's κ of every pair of raters, on the items that both have rated.
    """

    raters: tuple[str, ...]
    items: int
    share: Estimate
    alpha: Estimate
    kappas: Mapping[tuple[str, str], Estimate]


@checked()
def rater_agreement(
    ratings: Mapping[str, Sequence[Hashable | None]], scale: Scale = "nominal", seed: int = 0
) -> RaterAgreement:
    """Percent agreement, Krippendorff's α, and Cohen's κ of every pair of raters.

    Args:
        ratings: rater → a rating per item, items in the same order; None for a missing rating.
        scale: `nominal` for labels; `ordinal` for ranked marks; `interval` for numbers whose distances are meaningful.
            On the last two, κ weights disagreement by the squared distance of the sorted marks.
        seed: bootstrap seed.
    """
    names = tuple(ratings)
    if len(names) < 2:
        raise DataError(Fault("agreement", f"{len(names)} raters", "two or more"))
    for name in names[1:]:
        if len(ratings[name]) != len(ratings[names[0]]):
            raise length_error(f"rater {name}", len(ratings[name]), len(ratings[names[0]]))
    items = list(zip(*ratings.values(), strict=True))
    weights: Weights = "none" if scale == "nominal" else "quadratic"
    kappas = {}
    for one, other in combinations(names, 2):
        both = [(a, b) for a, b in zip(ratings[one], ratings[other], strict=True) if a is not None and b is not None]
        kappas[one, other] = cohen_kappa([a for a, _ in both], [b for _, b in both], weights, seed)
    share, alpha = percent_agreement(items, seed), krippendorff_alpha(items, scale, seed)
    return RaterAgreement(names, share.n, share, alpha, kappas)


def percent_agreement(
    ratings: Sequence[Sequence[Hashable | None]], seed: int = 0, clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """Percent agreement: share of rater pairs that agree on an item, over items with two ratings or more.

    Args:
        ratings: per item, each rater's rating; None for a missing one.
        seed: bootstrap seed.
        clusters: the cluster of each item, to resample whole clusters; None to resample items.
    """
    import numpy as np

    rated = _rated(ratings, clusters)
    pairs = np.array([math.comb(sum(own.values()), 2) for own in rated.kinds])
    alike = np.array([sum(math.comb(count, 2) for count in own.values()) for own in rated.kinds])
    return _bootstrap_estimate(
        rated.item_kinds, lambda counts: counts @ (alike / pairs) / counts.sum(axis=1), seed, rated.clusters
    )


def cohen_kappa(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    weights: Weights = "none",
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """Cohen's κ of two raters: agreement beyond chance agreement. None if chance agreement is 1.

    Args:
        first: one rater's rating per item.
        second: the other rater's ratings, in the same order.
        weights: `none`, or disagreement weighted by distance or squared distance of the sorted ratings.
        seed: bootstrap seed.
        clusters: the cluster of each item, to resample whole clusters; None to resample items.
    """
    if len(first) != len(second):
        raise length_error("second rater", len(second), len(first))
    if not first:
        return empty_estimate("bootstrap")
    kappas, item_cells = _kappas(first, second, weights)
    return _bootstrap_estimate(item_cells, kappas, seed, clusters)


def kappa_by_counts(first: Sequence[Hashable], second: Sequence[Hashable]) -> Callable[[Floats], Floats]:
    """Cohen's κ of resamples given as item counts, one row per resample; NaN if chance agreement is 1."""
    from assay.stats.bootstrap import group_sums

    kappas, item_cells = _kappas(first, second, "none")
    counted = group_sums(item_cells)
    return lambda resample_counts: kappas(counted(resample_counts))


def _kappas(
    first: Sequence[Hashable], second: Sequence[Hashable], weights: Weights
) -> tuple[_Kappas, NDArray[np.int64]]:
    """κ as a function of counts of the cells of the two raters' contingency table, and the cell of each item."""
    import numpy as np

    values = _values([first, second], is_sorted=weights != "none")
    size = len(values)
    cells = np.array([values[a] * size + values[b] for a, b in zip(first, second, strict=True)])
    known, item_cells = np.unique(cells, return_inverse=True)
    return _Kappas(size, known, weights), item_cells


def kappa_of_table(table: Sequence[Sequence[int]]) -> Estimate:
    """Cohen's κ from a contingency table, with its large-sample standard error; no resampling, for thousands of tables.

    Equation 13 of Fleiss, Cohen and Everitt (1969), Psychological Bulletin 72, 323-327.

    Args:
        table: number of items that the first rater gave the row's rating and the second the column's.
    """
    n = sum(map(sum, table))
    if not n:
        return empty_estimate("delta")
    labels = range(len(table))
    shares = [[count / n for count in row] for row in table]
    first, second = [sum(row) for row in shares], [sum(column) for column in zip(*shares, strict=True)]
    seen, chance = sum(shares[i][i] for i in labels), sum(first[i] * second[i] for i in labels)
    if chance >= 1:
        return Estimate(None, None, None, None, n=n, method="delta", level=LEVEL)
    agreed = sum(shares[i][i] * ((1 - chance) - (second[i] + first[i]) * (1 - seen)) ** 2 for i in labels)
    off_diagonal = sum(shares[i][j] * (second[i] + first[j]) ** 2 for i in labels for j in labels if i != j)
    whole = agreed + (1 - seen) ** 2 * off_diagonal
    spread = whole - (seen * chance - 2 * chance + seen) ** 2
    value, error = (seen - chance) / (1 - chance), math.sqrt(max(0.0, spread) / n) / (1 - chance) ** 2
    if spread <= _TOLERANCE * whole:  # all items agree, or a rater gives one rating to all: the variance is unknown
        return Estimate(value, None, None, None, n=n, method="delta", level=LEVEL)
    half_width = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
    return Estimate(
        value, error, max(-1.0, value - half_width), min(1.0, value + half_width), n=n, method="delta", level=LEVEL
    )


def clustered_kappa(first: Floats, second: Floats, units: NDArray[np.int64]) -> Estimate:
    """Cohen's κ of clustered 0/1 outcomes, with its large-sample standard error; no resampling, for thousands of pairs.

    Each item's influence on κ, by the delta method, is summed within clusters, as in `clustered.clustered_mean`; the
    interval is Student's t with clusters − 1 degrees of freedom.

    Args:
        first: one rater's outcomes; at least one.
        second: the other rater's outcomes.
        units: the cluster of each item, numbered from 0 without gaps.
    """
    import numpy as np

    from assay.stats.means import t_quantile

    n, clusters = len(first), int(units.max()) + 1
    p, q = float(first.mean()), float(second.mean())
    seen, chance = float((first == second).mean()), p * q + (1 - p) * (1 - q)
    if chance >= 1:
        return Estimate(None, None, None, None, n=n, method="clustered-delta", level=LEVEL, clusters=clusters)
    value = (seen - chance) / (1 - chance)
    by_chance = np.where(first == 1, q, 1 - q) + np.where(second == 1, p, 1 - p) - 2 * chance
    added = ((first == second) - seen) / (1 - chance) - (1 - seen) / (1 - chance) ** 2 * by_chance
    sums = np.bincount(units, added)
    spread = float((sums * sums).sum())
    if clusters < 2 or spread <= _TOLERANCE * n:  # all items agree, or clusters are identical: the variance is unknown
        return Estimate(value, None, None, None, n=n, method="clustered-delta", level=LEVEL, clusters=clusters)
    error = math.sqrt(clusters / (clusters - 1) * spread) / n
    half_width = t_quantile(clusters - 1) * error
    ends = max(-1.0, value - half_width), min(1.0, value + half_width)
    return Estimate(value, error, *ends, n=n, method="clustered-delta", level=LEVEL, clusters=clusters)


class _Kappas:
    """Vectorised κ of contingency tables, one table per row; columns are the nonempty cells. The full table is never
    built: there may be thousands of labels."""

    def __init__(self, size: int, known: NDArray[np.int64], weights: Weights) -> None:
        import numpy as np

        self.size, self.known, self.weights = size, known, weights
        # Cells of one row are adjacent, those of one column after reordering: sums of contiguous runs.
        self.by_column = np.argsort(known % size, kind="stable")
        self.rows, self.row_starts = np.unique(known // size, return_index=True)
        self.columns, self.column_starts = np.unique(known[self.by_column] % size, return_index=True)
        _, self.row_shared, self.column_shared = np.intersect1d(self.rows, self.columns, return_indices=True)
        gaps = np.abs(known // size - known % size).astype(np.float64)
        self.cost = {"none": np.minimum(gaps, 1.0), "linear": gaps, "quadratic": gaps**2}[weights]

    def __call__(self, tables: Floats) -> Floats:
        import numpy as np

        rows = np.add.reduceat(tables, self.row_starts, axis=1)
        columns = np.add.reduceat(np.take(tables, self.by_column, axis=1), self.column_starts, axis=1)
        # Resampled clusters differ in size, so every table has its own total.
        total = tables.sum(axis=1)
        return _beyond_chance(tables @ self.cost * total, self._expected(rows, columns, total))

    def _expected(self, rows: Floats, columns: Floats, total: Floats) -> Floats:
        """Σ row · column · cost over all pairs of labels."""
        import numpy as np

        if self.weights == "none":
            return np.asarray(total**2 - (rows[:, self.row_shared] * columns[:, self.column_shared]).sum(axis=1))
        if self.weights == "quadratic":  # distances from the rows' mean: the row and column terms add up
            mean = (rows @ self.rows / total)[:, None]
            apart = (rows * (self.rows - mean) ** 2).sum(axis=1) + (columns * (self.columns - mean) ** 2).sum(axis=1)
            return np.asarray(total * apart)
        # The distance of a pair i < j is the number of steps from i to j.
        below = np.zeros((2, len(rows), self.size))
        below[0][:, self.rows], below[1][:, self.columns] = rows, columns
        below = below.cumsum(axis=2)
        rest = total[:, None] - below
        return np.asarray((below[0] * rest[1] + below[1] * rest[0]).sum(axis=1))


def krippendorff_alpha(
    ratings: Sequence[Sequence[Hashable | None]],
    scale: Scale = "nominal",
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """Krippendorff's α: 1 minus observed over expected disagreement. None if all ratings are equal.

    Items with fewer than two ratings are not used.

    Args:
        ratings: per item, each rater's rating; None for a missing one.
        scale: `nominal`, `ordinal` (ratings that can be sorted) or `interval` (numbers).
        seed: bootstrap seed.
        clusters: the cluster of each item, to resample whole clusters; None to resample items.
    """
    rated = _rated(ratings, clusters)
    if not rated.kinds:
        return empty_estimate("bootstrap")
    if scale == "interval":
        return _bootstrap_estimate(rated.item_kinds, _interval_alpha(rated.kinds), seed, rated.clusters)
    used = _Used(rated.kinds, _values(list(map(list, rated.kinds)), is_sorted=scale == "ordinal"))
    alphas = used.ordinal_alphas if scale == "ordinal" else used.nominal_alphas
    return _bootstrap_estimate(rated.item_kinds, alphas, seed, rated.clusters, len(used.kinds))


class _Used:
    """Vectorised α of resamples given as counts of item kinds, one row per resample. Sparse: one entry per kind and
    value, sorted by value, with its frequency, since there may be as many values as items."""

    def __init__(self, kinds: Sequence[Counter[Hashable]], values: dict[Hashable, int]) -> None:
        import numpy as np

        entries = [(values[v], index, often) for index, own in enumerate(kinds) for v, often in own.items()]
        found = np.array(sorted(entries), dtype=np.int64)
        self.values, self.kinds, self.often = found[:, 0], found[:, 1], found[:, 2].astype(np.float64)
        self.starts = np.flatnonzero(np.diff(self.values, prepend=-1))
        self.by_kind = np.argsort(self.kinds, kind="stable")
        self.kind_starts = np.flatnonzero(np.diff(self.kinds[self.by_kind], prepend=-1))
        self.sizes = np.array([sum(own.values()) for own in kinds], dtype=np.float64)

    def nominal_alphas(self, counts: Floats) -> Floats:
        import numpy as np

        alike = np.bincount(self.kinds, self.often**2)
        total = counts @ self.sizes
        seen = counts @ ((self.sizes**2 - alike) / (self.sizes - 1))
        return _beyond_chance(seen * (total - 1), total**2 - (self._used(counts) ** 2).sum(axis=1))

    def ordinal_alphas(self, counts: Floats) -> Floats:
        """Ordinal distances depend on how often each value is used: Σ(a − b)² over all pairs of m ranks is
        2·(m·Σa² − (Σa)²)."""
        import numpy as np

        used, total = self._used(counts), counts @ self.sizes
        ranks = np.cumsum(used, axis=1) - used / 2
        own, often = ranks[:, self.values[self.by_kind]], self.often[self.by_kind]
        sums = np.add.reduceat(own * often, self.kind_starts, axis=1)
        squares = np.add.reduceat(own**2 * often, self.kind_starts, axis=1)
        seen = (counts * 2 * (self.sizes * squares - sums**2) / (self.sizes - 1)).sum(axis=1)
        # The mean rank is half the total.
        chance = 2 * total * (used * (ranks - total[:, None] / 2) ** 2).sum(axis=1)
        return _beyond_chance(seen * (total - 1), chance)

    def _used(self, counts: Floats) -> Floats:
        """Frequency of each value in each resample."""
        import numpy as np

        return np.asarray(np.add.reduceat(counts[:, self.kinds] * self.often, self.starts, axis=1))


def _interval_alpha(kinds: Sequence[Counter[Hashable]]) -> Callable[[Floats], Floats]:
    """α on the interval scale. Columns: a kind's squared distances, ratings, sum and sum of squares."""
    import numpy as np

    numbers = [[_number(value) for value in own.elements()] for own in kinds]
    # Distances are invariant to shifts, and large numbers would lose digits.
    middle = math.fsum(value for own in numbers for value in own) / sum(len(own) for own in numbers)
    columns = np.empty((len(kinds), 4))
    for row, own in zip(columns, numbers, strict=True):
        moved = [value - middle for value in own]
        m, total, squares = len(moved), math.fsum(moved), math.fsum(value * value for value in moved)
        row[:] = 2 * math.fsum((value - total / m) ** 2 for value in moved) * m / (m - 1), m, total, squares

    def alphas(counts: Floats) -> Floats:
        sums = counts @ columns
        n = sums[:, 1]
        chance = 2 * (n * sums[:, 3] - sums[:, 2] ** 2)
        # Equal ratings leave rounding error where the expected disagreement is 0.
        chance = np.where(chance > 1e-12 * n * sums[:, 3], chance, 0.0)
        return _beyond_chance(sums[:, 0] * (n - 1), chance)

    return alphas


def _beyond_chance(seen: Floats, chance: Floats) -> Floats:
    """1 − observed/expected disagreement; NaN if the expected disagreement is 0."""
    import numpy as np

    return np.asarray(np.where(chance > 0, 1 - seen / np.where(chance > 0, chance, 1.0), np.nan))


def _bootstrap_estimate(
    kinds: NDArray[np.int64],
    statistic: Callable[[Floats], Floats],
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    cells: int = 0,
) -> Estimate:
    """Bootstrap estimate of a statistic of the counts of item kinds, resampling items or whole clusters.

    Args:
        kinds: the kind of each item, numbered from 0 without gaps: items of one kind have the same ratings.
        statistic: vectorised over resamples, one row each; NaN where it is undefined.
        seed: bootstrap seed.
        clusters: the cluster of each item; None to resample items.
        cells: cells that the statistic needs per row, if more than items; bounds the memory.
    """
    import numpy as np

    from assay.stats.bootstrap import bootstrap_counts, cluster_indices, group_sums, replicates_estimate, spread

    n = len(kinds)
    if n == 0:
        return empty_estimate("bootstrap")
    value, cluster_count = float(statistic(np.bincount(kinds)[None].astype(np.float64))[0]), None
    if clusters is None:
        drawn = _bootstrap_counts(kinds, seed, max(n, cells))
    else:
        own, counted = cluster_indices(clusters, n), group_sums(kinds)
        cluster_count = int(own.max()) + 1
        resample_counts = bootstrap_counts(cluster_count, REPLICATES, seed, max(n, cells))
        drawn = (counted(np.take(block, own, axis=1)) for block in resample_counts)
    replicates = np.concatenate([statistic(block) for block in drawn])
    return spread(replicates_estimate(value, replicates, n, cluster_count))


def _bootstrap_counts(kinds: NDArray[np.int64], seed: int, cells: int) -> Iterator[Floats]:
    """Multinomial bootstrap counts of each kind, in blocks of rows; fast if there are few kinds."""
    import numpy as np

    from assay.stats.bootstrap import prefers_multinomial, row_blocks

    counts, n, generator = np.bincount(kinds), len(kinds), np.random.default_rng(seed)
    size = len(counts)
    for rows in row_blocks(REPLICATES, cells):
        if prefers_multinomial(size, n):
            yield generator.multinomial(n, counts / n, size=rows).astype(np.float64)
        else:
            codes = np.take(kinds, generator.integers(0, n, size=(rows, n))) + size * np.arange(rows)[:, None]
            yield np.bincount(codes.reshape(-1), minlength=rows * size).reshape(rows, size).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Rated:
    """The items with two ratings or more.

    Attributes:
        kinds: value → frequency, once for all items with the same ratings.
        item_kinds: the kind of each item.
        clusters: the cluster of each item, if known.
    """

    kinds: list[Counter[Hashable]]
    item_kinds: NDArray[np.int64]
    clusters: list[Hashable] | None


def _rated(ratings: Sequence[Sequence[Hashable | None]], clusters: Sequence[Hashable] | None) -> _Rated:
    from assay.stats.bootstrap import cluster_indices

    if clusters is not None and len(clusters) != len(ratings):
        raise length_error("clusters", len(clusters), len(ratings))
    present = [Counter(value for value in own if value is not None) for own in ratings]
    multiply_rated = [index for index, own in enumerate(present) if own.total() > 1]
    alike = [frozenset(present[index].items()) for index in multiply_rated]
    kinds = [Counter(dict(own)) for own in dict.fromkeys(alike)]
    return _Rated(
        kinds,
        cluster_indices(alike, len(multiply_rated)),
        None if clusters is None else [clusters[index] for index in multiply_rated],
    )


def _values(rows: Sequence[Sequence[Hashable]], is_sorted: bool) -> dict[Hashable, int]:
    """Value → its number; sorted by value on request."""
    found = dict.fromkeys(value for row in rows for value in row)
    if not is_sorted:
        return {value: index for index, value in enumerate(found)}
    try:
        return {value: index for index, value in enumerate(sorted(found))}  # type: ignore[type-var]
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in found}))
        raise DataError(Fault("agreement", f"ratings of kinds {kinds}", "ratings that can be sorted")) from None


def _number(value: Hashable) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise DataError(Fault("agreement", f"the rating {value!r}", "finite numbers on an interval scale"))
    return float(value)
