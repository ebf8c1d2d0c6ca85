"""Resampling: seeded errors, intervals and tests of any statistic of documents.

Documents are redrawn, singly, in pairs (the same ones for both systems) or by whole clusters. Intervals are
percentiles, read further out with few documents, because redrawn ones vary too little (Hesterberg 2015, The American
Statistician 69, 371-386).
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
# Takes resampled values of shape (replicates, n) or (replicates, n, columns), gives one number per replicate.
Statistic = Callable[[Values], Values]

# Few enough to stay in the cache.
_CELLS_AT_ONCE = 200_000
DEFAULT_REPLICATES = 2000
# Fewer documents, or clusters, can be redrawn in so few ways that no interval of 95 % is among them: of two, it would
# reach from the one to the other, between which the truth lies half the time.
MIN_UNITS = 3
# A category of a multinomial draw costs as much as eight redrawn documents.
_DRAWS_PER_CATEGORY = 8
# With a larger share of redrawn sets that have no such statistic, an interval would be made up.
MAX_UNDEFINED_SHARE = 0.05
Seed = int | bytes | Sequence[int]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How to resample.

    Attributes:
        seed: a number, several, or bytes such as a digest.
        replicates: how many times.
        level: probability that the interval claims to cover.
    """

    seed: Seed = 0
    replicates: int = DEFAULT_REPLICATES
    level: float = LEVEL


def percentile_estimate(values: Values, statistic: Statistic, seed: int = 0) -> Estimate:
    """A statistic of the values, its bootstrap error (not divided again) and percentile interval."""
    return bootstrap_statistic(values, statistic, Resampling(seed))


def counted_estimate(counts: Values, statistic: Statistic, seed: Seed = 0) -> Estimate:
    """The same for documents that are alike in groups: how often each group is redrawn is multinomial, which is quick.

    Args:
        counts: how many documents each group has.
        statistic: of many such counts at once, one row per replicate.
        seed: of the bootstrap.
    """
    n = int(counts.sum())
    value = float(statistic(counts[None])[0])
    if n < MIN_UNITS:
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
    generator, parts = make_generator(seed), []
    for rows in row_blocks(DEFAULT_REPLICATES, len(counts)):
        parts.append(statistic(generator.multinomial(n, counts / n, size=rows).astype(np.float64)))
    return replicates_estimate(value, np.concatenate(parts), n)


def median_estimate(values: Values, is_upper: bool = False, seed: Seed = 0) -> Estimate:
    """The median, bootstrapped without redrawing a document.

    Of n documents sorted, a redrawn set has the median at the place ⌊n·U⌋, where U is that of n uniform numbers: a beta
    variable (David and Nagaraja 2003, Order Statistics, 2.1), so that a replicate costs one number or two.

    Args:
        values: one per document.
        is_upper: whether the upper of two middle values is the median, and not their mean.
        seed: of the bootstrap.
    """
    n = len(values)
    if n == 0:
        return empty_estimate("bootstrap")
    ranked, middle, generator = np.sort(values), n // 2, make_generator(seed)
    is_one = is_upper or n % 2 == 1
    value = float(ranked[middle] if is_one else (ranked[middle - 1] + ranked[middle]) / 2)
    if n < MIN_UNITS:
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
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
    """Whether documents fall into so few groups that drawing how often each comes is quicker than redrawing them."""
    return groups * _DRAWS_PER_CATEGORY <= n


def bootstrap_statistic(values: Values, statistic: Statistic, how: Resampling) -> Estimate:
    """Any statistic of the values, bootstrapped over documents.

    Args:
        values: one row per document.
        statistic: of many resampled sets of documents at once.
        how: seed, replicates and level.
    """
    return _bootstrapped(len(values), lambda places: statistic(take_rows(values, places)), how)


def replicate_test(
    value: float, replicates: Values, n: int, clusters: int | None = None, level: float = LEVEL
) -> tuple[Estimate, float | None]:
    """A difference from redrawn ones: its estimate with percentiles, and the two-sided p of 0.

    p is below α exactly when the percentile interval of level 1 − α leaves 0 out, so that the two never contradict each
    other, and it stays the same where both systems' statistics are carried over to another scale (a perplexity or its
    logarithm). The data itself counts as one more on either side, so that p is never 0. There is neither p nor interval
    where there is no finite difference, or where many redrawn sets have none; nor is there an interval where so few
    sets were redrawn that no difference has a p below 1 − level.

    Args:
        value: the difference found.
        replicates: those of redrawn sets of documents; NaN where a set has none.
        n: documents.
        clusters: how many, where whole clusters were redrawn.
        level: probability that the interval claims to cover.
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
    """The two-sided p where so many of the redrawn sets lie at 0 or beyond it; the data counts as one more."""
    return expanded_p(min(1.0, 2 * (beyond + 1) / (replicates + 1)), units)


def min_tail_count(replicates: int, units: int, level: float) -> int:
    """The fewest redrawn sets beyond a value with which its p is at least 1 − level; at most 0 where none need be."""
    return math.ceil(float(expanded_tails(units, level)[0]) * (replicates + 1) - 1 - 1e-9)


def replicates_estimate(
    value: float, replicates: Values, n: int, clusters: int | None = None, level: float = LEVEL
) -> Estimate:
    """An estimate with percentiles of redrawn sets; arguments as in `replicate_test`.

    There is neither error nor interval where the value is not finite, where documents are too few, or where a redrawn
    set has an infinite value, or many have none.
    """
    units, method = (n, "bootstrap") if clusters is None else (clusters, "cluster-bootstrap")
    known = replicates[~np.isnan(replicates)]
    is_defined = units >= MIN_UNITS and len(known) >= (1 - MAX_UNDEFINED_SHARE) * len(replicates)
    # Infinite ones lie all on one side, and leaving them out would move that end.
    if not is_defined or not np.isfinite(value) or not np.all(np.isfinite(known)):
        return Estimate(None if np.isnan(value) else value, None, None, None, n, method, level, clusters)
    low, high = np.quantile(known, expanded_tails(units, level))
    return Estimate(value, float(np.std(known, ddof=1)), float(low), float(high), n, method, level, clusters)


def smallest_p(replicates: int, units: int) -> float:
    """The p where every redrawn set lies on the same side of 0: no test by so many replicates gives a smaller one."""
    return tail_p(0, replicates, units)


def bootstrap_counts(units: int, replicates: int, seed: Seed, cells: int | None = None) -> Iterator[Values]:
    """How often each document (or cluster) is in a redrawn set: blocks of rows, one per set.

    Args:
        units: documents, or clusters.
        replicates: rows in all.
        seed: of the draws.
        cells: what a row will be made into, where that is more than units; bounds the memory.
    """
    generator = make_generator(seed)
    for rows in row_blocks(replicates, cells or units):
        places = generator.integers(0, units, size=(rows, units)) + units * np.arange(rows)[:, None]
        yield np.bincount(places.ravel(), minlength=rows * units).reshape(rows, units).astype(np.float64)


def group_sums(groups: NDArray[np.int64]) -> Statistic:
    """How often documents of each group are in redrawn sets, from how often each document is.

    Args:
        groups: the group of each document, as a number; none is left out from 0 on.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return lambda resample_counts: np.asarray(np.add.reduceat(resample_counts[:, order], starts, axis=1))


def cluster_bootstrap(values: Values, clusters: Sequence[Hashable], statistic: Statistic, how: Resampling) -> Estimate:
    """Any statistic of the values, bootstrapped over whole clusters.

    Args:
        values: one row per document.
        clusters: the cluster of each document.
        statistic: of many resampled sets of documents at once; replicates with equally many documents come together.
        how: seed, replicates and level.
    """
    own = cluster_indices(clusters, len(values))
    sizes = np.bincount(own)
    # Documents of a cluster side by side, so that a cluster is a stretch of places.
    gathered = np.take(values, np.argsort(own, kind="stable"), axis=0)
    ends = np.cumsum(sizes)

    def of_clusters(chosen: NDArray[np.int64]) -> Values:
        return _by_size([_cluster_rows(row, sizes, ends) for row in chosen], gathered, statistic)

    found = _bootstrapped(len(sizes), of_clusters, how, len(values))
    return replace(found, n=len(values), method="cluster-" + found.method, clusters=len(sizes))


def _cluster_rows(chosen: NDArray[np.int64], sizes: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the documents of these clusters, one cluster after the other."""
    own = sizes[chosen]
    after = np.cumsum(own)
    return np.asarray(np.repeat(ends[chosen] - after, own) + np.arange(after[-1]))


def expanded_tails(n: int, level: float = LEVEL) -> Values:
    """The shares of replicates below the ends of an interval: beyond 2.5 and 97.5 % with few documents.

    Replicates spread by √((n−1)/n) of what they should, and their quantiles are the normal law's where Student's are
    meant. For a mean, percentiles at Φ(∓√(n/(n−1)) · t) make good for both.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(-np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + level) / 2)))
    return np.array([tail, 1 - tail])


def expanded_p(p: float, n: int) -> float:
    """The two-sided p that belongs to such intervals."""
    from scipy.special import ndtri, stdtr

    return float(2 * stdtr(n - 1, np.sqrt((n - 1) / n) * ndtri(p / 2)))


def cluster_indices(clusters: Sequence[Hashable], n: int) -> NDArray[np.int64]:
    """The cluster of each of n documents as a number, from 0 in the order in which they come."""
    if len(clusters) != n:
        raise length_error("clusters", len(clusters), n)
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(cluster, len(places)) for cluster in clusters], dtype=np.int64)


def spread(found: Estimate) -> Estimate:
    """A score's estimate, without error and interval where every redrawn set scores the same.

    A correlation of picks that are all alike, or F1 where all is right: redrawing cannot tell how far another set of
    documents would lie from these, and an interval of no width would say that it can.
    """
    if found.low is None or found.low != found.high:
        return found
    return Estimate(found.value, None, None, None, found.n, found.method, found.level, found.clusters)


def make_generator(seed: Seed) -> np.random.Generator:
    """A generator from a number, several, or bytes."""
    # The leading 1 keeps zero bytes at the front from vanishing.
    return np.random.default_rng(int.from_bytes(b"\1" + seed, "big") if isinstance(seed, bytes) else seed)


def _bootstrapped(
    n: int, of_indices: Callable[[NDArray[np.int64]], Values], how: Resampling, documents: int | None = None
) -> Estimate:
    """A statistic of n units by their places, bootstrapped; in blocks of as many documents as these units hold."""
    if n == 0:
        return empty_estimate("bootstrap")
    value = float(of_indices(np.arange(n)[None])[0])
    if n < MIN_UNITS:
        return Estimate(value, None, None, None, n, "bootstrap", how.level)
    generator = make_generator(how.seed)
    size = n if documents is None else documents
    parts = [of_indices(generator.integers(0, n, size=(rows, n))) for rows in row_blocks(how.replicates, size)]
    return replicates_estimate(value, np.concatenate(parts), n, level=how.level)


def _by_size(rows: Sequence[NDArray[np.int64]], values: Values, statistic: Statistic) -> Values:
    """The statistic of rows of places that may differ in length, those of one length together."""
    lengths = np.array([len(row) for row in rows])
    found = np.empty(len(rows))
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        for start in range(0, len(places), most := max(1, _CELLS_AT_ONCE // int(length))):
            block = places[start : start + most]
            found[block] = statistic(take_rows(values, np.stack([rows[place] for place in block])))
    return found


def take_rows(values: Values, places: NDArray[np.int64]) -> Values:
    """values[places], ten times as fast where a document has several columns."""
    return np.take(values, places, axis=0)


def row_blocks(rows: int, n: int) -> list[int]:
    """Row counts that add up to `rows` and keep each block's memory bounded."""
    return inputs.row_blocks(rows, n, _CELLS_AT_ONCE)
