"""Bootstrap resampling: seeded standard errors, intervals and tests of any statistic of documents.

Documents are resampled singly, in pairs (the same resample for both systems) or by whole clusters. Intervals are
percentile intervals, expanded for small samples, because bootstrap replicates vary too little (Hesterberg 2015, The
American Statistician 69, 371-386).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.stats import inputs
from assay.stats.inputs import length_error
from assay.stats.means import LEVEL, empty_estimate

Values = NDArray[np.float64]
# Takes resampled values of shape (replicates, n) or (replicates, n, columns), returns one number per replicate.
Statistic = Callable[[Values], Values]

# Small enough to stay in the CPU cache.
_CELLS_AT_ONCE = 200_000
DEFAULT_REPLICATES = 2000
# Fewer documents, or clusters, have too few distinct resamples for a 95 % interval: with two, it would reach from one
# to the other, and the true value lies between them half the time.
MIN_UNITS = 3
# A category of a multinomial draw costs about as much as eight resampled documents.
_DRAWS_PER_CATEGORY = 8
# If a larger share of resamples lacks the statistic, an interval would be meaningless.
MAX_UNDEFINED_SHARE = 0.05
Seed = int | bytes | Sequence[int]


@dataclass(frozen=True, slots=True)
class Resampling:
    """Bootstrap settings.

    Attributes:
        seed: a number, several, or bytes such as a digest.
        replicates: number of resamples.
        level: nominal coverage of the interval.
    """

    seed: Seed = 0
    replicates: int = DEFAULT_REPLICATES
    level: float = LEVEL


def percentile_estimate(values: Values, statistic: Statistic, seed: int = 0) -> Estimate:
    """A statistic with its bootstrap standard error (not divided again) and percentile interval."""
    return bootstrap_statistic(values, statistic, Resampling(seed))


def counted_estimate(counts: Values, statistic: Statistic, seed: Seed = 0) -> Estimate:
    """Multinomial bootstrap of documents that fall into groups of identical ones; fast for few groups.

    Args:
        counts: number of documents per group.
        statistic: vectorised over such counts, one row per replicate.
        seed: bootstrap seed.
    """
    n = int(counts.sum())
    value = float(statistic(counts[None])[0])
    if n < MIN_UNITS:
        return Estimate(value, None, None, None, n=n, method="bootstrap", level=LEVEL)
    generator, parts = make_generator(seed), []
    for rows in row_blocks(DEFAULT_REPLICATES, len(counts)):
        parts.append(statistic(generator.multinomial(n, counts / n, size=rows).astype(np.float64)))
    return replicates_estimate(value, np.concatenate(parts), n)


def median_estimate(values: Values, is_upper: bool = False, seed: Seed = 0) -> Estimate:
    """The median, with an exact bootstrap that resamples no documents.

    Of n sorted documents, a resample has its median at index ⌊n·U⌋, where U is the median of n uniform numbers: a beta
    variable (David and Nagaraja 2003, Order Statistics, 2.1), so that a replicate costs one or two random numbers.

    Args:
        values: one per document.
        is_upper: whether the upper of two middle values is the median, rather than their mean.
        seed: bootstrap seed.
    """
    n = len(values)
    if n == 0:
        return empty_estimate("bootstrap")
    ranked, middle, generator = np.sort(values), n // 2, make_generator(seed)
    is_one = is_upper or n % 2 == 1
    value = float(ranked[middle] if is_one else (ranked[middle - 1] + ranked[middle]) / 2)
    if n < MIN_UNITS:
        return Estimate(value, None, None, None, n=n, method="bootstrap", level=LEVEL)
    if is_one:
        found = _at(ranked, generator.beta(middle + 1, n - middle, DEFAULT_REPLICATES))
    else:
        lower = generator.beta(middle, n - middle + 1, DEFAULT_REPLICATES)
        upper = lower + (1 - lower) * generator.beta(1, n - middle, DEFAULT_REPLICATES)
        found = (_at(ranked, lower) + _at(ranked, upper)) / 2
    return replicates_estimate(value, found, n)


def _at(ranked: Values, shares: Values) -> Values:
    return np.take(ranked, np.minimum((shares * len(ranked)).astype(np.int64), len(ranked) - 1))


def prefers_multinomial(groups: int, n: int) -> bool:
    """Whether documents fall into so few groups that multinomial counts are faster than resampling documents."""
    return groups * _DRAWS_PER_CATEGORY <= n


def bootstrap_statistic(values: Values, statistic: Statistic, how: Resampling) -> Estimate:
    """Any statistic of the values, bootstrapped over documents.

    Args:
        values: one row per document.
        statistic: vectorised over resamples of documents.
        how: seed, replicates and level.
    """
    return _bootstrapped(len(values), lambda indices: statistic(take_rows(values, indices)), how)


def replicate_test(
    value: float, replicates: Values, n: int, clusters: int | None = None, level: float = LEVEL
) -> tuple[Estimate, float | None]:
    """Bootstrap test of a difference: its estimate with percentile interval, and the two-sided p-value of 0.

    p is below α exactly when the percentile interval of level 1 − α excludes 0, so that the two never contradict each
    other, and p is invariant under monotone transformations of both systems' statistics (a perplexity or its
    logarithm). The observed data count as one more replicate on either side, so that p is never 0. There is neither p
    nor interval without a finite difference, or if many resamples have none; and no interval if there are so few
    replicates that no difference has a p below 1 − level.

    Args:
        value: the observed difference.
        replicates: the differences of the resamples; NaN where a resample has none.
        n: number of documents.
        clusters: number of clusters, if whole clusters were resampled.
        level: nominal coverage of the interval.
    """
    found = replicates_estimate(value, replicates, n, clusters, level)
    if found.low is None:
        return found, None
    known = np.sort(replicates[~np.isnan(replicates)])
    units = n if clusters is None else clusters
    tail_count = min(int(np.sum(known <= 0)), int(np.sum(known >= 0)))
    fewest = min_tail_count(len(known), units, level)
    ends = (float(known[fewest - 1]), float(known[-fewest])) if fewest > 0 else (None, None)
    return replace(found, low=ends[0], high=ends[1]), tail_p(tail_count, len(known), units)


def tail_p(beyond: int, replicates: int, units: int) -> float:
    """Two-sided p-value if `beyond` of the replicates are at or beyond 0; the observed data count as one more."""
    return expanded_p(min(1.0, 2 * (beyond + 1) / (replicates + 1)), units)


def min_tail_count(replicates: int, units: int, level: float) -> int:
    """Fewest replicates beyond a value for which its p is at least 1 − level; 0 or less if none are needed."""
    return math.ceil(float(expanded_tails(units, level)[0]) * (replicates + 1) - 1 - 1e-9)


def replicates_estimate(
    value: float, replicates: Values, n: int, clusters: int | None = None, level: float = LEVEL
) -> Estimate:
    """An estimate with a percentile interval of replicates; arguments as in `replicate_test`.

    There is neither standard error nor interval if the value is not finite, if documents are too few, or if a replicate
    is infinite or many are missing.
    """
    units, method = (n, "bootstrap") if clusters is None else (clusters, "cluster-bootstrap")
    known = replicates[~np.isnan(replicates)]
    is_defined = units >= MIN_UNITS and len(known) >= (1 - MAX_UNDEFINED_SHARE) * len(replicates)
    # Infinite replicates all lie on one side, and dropping them would move that end.
    if not is_defined or not np.isfinite(value) or not np.all(np.isfinite(known)):
        return Estimate(
            None if np.isnan(value) else value, None, None, None, n=n, method=method, level=level, clusters=clusters
        )
    low, high = np.quantile(known, expanded_tails(units, level))
    return Estimate(
        value, float(np.std(known, ddof=1)), float(low), float(high), n=n, method=method, level=level, clusters=clusters
    )


def smallest_p(replicates: int, units: int) -> float:
    """The p-value if all replicates are on the same side of 0: the smallest that this many replicates can give."""
    return tail_p(0, replicates, units)


def bootstrap_counts(units: int, replicates: int, seed: Seed, cells: int | None = None) -> Iterator[Values]:
    """Counts of each document (or cluster) in resamples: blocks of rows, one row per resample.

    Args:
        units: number of documents, or clusters.
        replicates: rows in total.
        seed: bootstrap seed.
        cells: cells that a row will be expanded to, if more than units; bounds the memory.
    """
    generator = make_generator(seed)
    for rows in row_blocks(replicates, cells or units):
        indices = generator.integers(0, units, size=(rows, units)) + units * np.arange(rows)[:, None]
        yield np.bincount(indices.ravel(), minlength=rows * units).reshape(rows, units).astype(np.float64)


def group_sums(groups: NDArray[np.int64]) -> Statistic:
    """How often documents of each group occur in resamples, from how often each document does.

    Args:
        groups: the group of each document, numbered from 0 without gaps.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return lambda resample_counts: np.asarray(np.add.reduceat(resample_counts[:, order], starts, axis=1))


def cluster_bootstrap(values: Values, clusters: Sequence[Hashable], statistic: Statistic, how: Resampling) -> Estimate:
    """Cluster bootstrap: any statistic of the values, resampling whole clusters.

    Args:
        values: one row per document.
        clusters: the cluster of each document.
        statistic: vectorised over resamples; replicates with equally many documents are passed together.
        how: seed, replicates and level.
    """
    own = cluster_indices(clusters, len(values))
    sizes = np.bincount(own)
    # Documents of a cluster are made adjacent, so that a cluster is a range of indices.
    gathered = np.take(values, np.argsort(own, kind="stable"), axis=0)
    ends = np.cumsum(sizes)

    def of_clusters(chosen: NDArray[np.int64]) -> Values:
        return _by_size([_cluster_rows(row, sizes, ends) for row in chosen], gathered, statistic)

    found = _bootstrapped(len(sizes), of_clusters, how, len(values))
    return replace(found, n=len(values), method="cluster-" + found.method, clusters=len(sizes))


def _cluster_rows(chosen: NDArray[np.int64], sizes: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The document indices of these clusters, one cluster after the other."""
    own = sizes[chosen]
    after = np.cumsum(own)
    return np.asarray(np.repeat(ends[chosen] - after, own) + np.arange(after[-1]))


def expanded_tails(n: int, level: float = LEVEL) -> Values:
    """Tail probabilities of the expanded percentile interval: beyond 2.5 and 97.5 % with few documents.

    Replicates spread by √((n−1)/n) of what they should, and have normal quantiles where Student's are needed. For a
    mean, percentiles at Φ(∓√(n/(n−1)) · t) correct for both.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(-np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + level) / 2)))
    return np.array([tail, 1 - tail])


def expanded_p(p: float, n: int) -> float:
    """The two-sided p-value that corresponds to expanded percentile intervals."""
    from scipy.special import ndtri, stdtr

    return float(2 * stdtr(n - 1, np.sqrt((n - 1) / n) * ndtri(p / 2)))


def cluster_indices(clusters: Sequence[Hashable], n: int) -> NDArray[np.int64]:
    """The cluster of each of n documents as a number, from 0 in order of first occurrence."""
    if len(clusters) != n:
        raise length_error("clusters", len(clusters), n)
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.int64)


def spread(found: Estimate) -> Estimate:
    """A score's estimate, without standard error and interval if every resample scores the same.

    For a correlation of constant predictions, or F1 if everything is right, resampling cannot estimate the error for
    other documents, and an interval of width 0 would claim that there is none.
    """
    if found.low is None or found.low != found.high:
        return found
    return Estimate(
        found.value, None, None, None, n=found.n, method=found.method, level=found.level, clusters=found.clusters
    )


def make_generator(seed: Seed) -> np.random.Generator:
    """A random generator from a number, several, or bytes."""
    # The leading 1 keeps leading zero bytes significant.
    return np.random.default_rng(int.from_bytes(b"\1" + seed, "big") if isinstance(seed, bytes) else seed)


def _bootstrapped(
    n: int, of_indices: Callable[[NDArray[np.int64]], Values], how: Resampling, documents: int | None = None
) -> Estimate:
    """Bootstrap of a statistic of n units by their indices, in blocks bounded by the documents these units hold."""
    if n == 0:
        return empty_estimate("bootstrap")
    value = float(of_indices(np.arange(n)[None])[0])
    if n < MIN_UNITS:
        return Estimate(value, None, None, None, n=n, method="bootstrap", level=how.level)
    generator = make_generator(how.seed)
    size = n if documents is None else documents
    parts = [of_indices(generator.integers(0, n, size=(rows, n))) for rows in row_blocks(how.replicates, size)]
    return replicates_estimate(value, np.concatenate(parts), n, level=how.level)


def _by_size(rows: Sequence[NDArray[np.int64]], values: Values, statistic: Statistic) -> Values:
    """The statistic of rows of indices that may differ in length, those of equal length together."""
    lengths = np.array([len(row) for row in rows])
    found = np.empty(len(rows))
    for length in np.unique(lengths):
        indices = np.flatnonzero(lengths == length)
        for start in range(0, len(indices), most := max(1, _CELLS_AT_ONCE // int(length))):
            block = indices[start : start + most]
            found[block] = statistic(take_rows(values, np.stack([rows[index] for index in block])))
    return found


def take_rows(values: Values, indices: NDArray[np.int64]) -> Values:
    """values[indices], ten times as fast if a document has several columns."""
    return np.take(values, indices, axis=0)


def row_blocks(rows: int, n: int) -> list[int]:
    """Row counts that add up to `rows` and keep each block's memory bounded."""
    return inputs.row_blocks(rows, n, _CELLS_AT_ONCE)
