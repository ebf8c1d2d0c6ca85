"""Resampling: our seeded intervals of any statistic, and lm-eval's bootstrap error with its very random stream.

Documents are redrawn, singly, in pairs (the same ones for both systems) or by whole clusters. Intervals are percentiles
or BCa (bias-corrected and accelerated; Efron 1987), which also follows a skewed statistic.

lm-eval draws with Python's generator in chunks of 1000 replicates, chunk i seeded with i. numpy's Mersenne
Twister, given the same state, yields the same numbers, so the replicates agree and come many at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.stats.inputs import unequal
from assay.stats.means import LEVEL, nothing

Values = NDArray[np.float64]
# Takes resampled values of shape (replicates, n) or (replicates, n, columns), gives one number per replicate.
Statistic = Callable[[Values], Values]

_CHUNK = 1000
_CELLS_AT_ONCE = 2_000_000
OWN_REPLICATES = 2000
# Fewer documents, or clusters, can be redrawn in so few ways that no interval of 95 % is among them: of two, it would
# reach from the one to the other, between which the truth lies half the time.
FEWEST = 3
# A category of a multinomial draw costs as much as eight redrawn documents.
_DRAWS_PER_CATEGORY = 8
# More documents are left out in so many groups at a time, as in Efron and Narasimhan (2020).
_MOST_LEFT_OUT = 1000
Seed = int | bytes | Sequence[int]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How to resample.

    Attributes:
        seed: a number, several, or bytes such as a digest.
        replicates: how many times.
        interval: `percentile`, or `bca` where the statistic may be biased or skewed.
        level: probability that the interval claims to cover.
    """

    seed: Seed = 0
    replicates: int = OWN_REPLICATES
    interval: Literal["percentile", "bca"] = "percentile"
    level: float = LEVEL


def percentile_estimate(values: Values, statistic: Statistic, seed: int = 0) -> Estimate:
    """A statistic of the values, its bootstrap error (not divided again) and percentile interval."""
    n = len(values)
    if n == 0:
        return nothing("bootstrap")
    value = float(statistic(values[None])[0])
    if n < FEWEST:
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
    generator = np.random.default_rng(seed)
    parts = []
    for rows in _row_blocks(OWN_REPLICATES, n):
        parts.append(statistic(values[generator.integers(0, n, size=(rows, n))]))
    replicates = np.concatenate(parts)
    if not np.all(np.isfinite(replicates)):  # some redrawn sets have no such statistic
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(np.std(replicates, ddof=1)), float(low), float(high), n, "bootstrap", LEVEL)


def bootstrap_mean(values: Values, how: Resampling) -> Estimate:
    """The mean, bootstrapped: 100,000 documents × 1,000 replicates in seconds, and at once where few values differ."""
    n = len(values)
    if n == 0:
        return nothing("bootstrap")
    value = float(values.mean())
    if n < FEWEST:
        return Estimate(value, None, None, None, n, "bootstrap", how.level)
    left_out = (n * value - values) / (n - 1)
    return _estimate(value, _redrawn_means(values, how), left_out, n, how)


def bootstrap_statistic(values: Values, statistic: Statistic, how: Resampling) -> Estimate:
    """Any statistic of the values, bootstrapped over documents.

    Args:
        values: one row per document.
        statistic: of many resampled sets of documents at once.
        how: seed, replicates and interval.
    """
    return _bootstrapped(len(values), lambda places: statistic(values[places]), how)


def paired_bootstrap(a: Values, b: Values, statistic: Statistic, how: Resampling) -> Estimate:
    """The statistic of a less that of b; every replicate redraws the same documents for both.

    Args:
        a: the first system's values, one row per document.
        b: the second system's, in the same order.
        statistic: of many resampled sets of documents at once.
        how: seed, replicates and interval.
    """
    if len(a) != len(b):
        raise unequal("second system", len(b), len(a))
    return _bootstrapped(len(a), lambda places: statistic(a[places]) - statistic(b[places]), how)


def bootstrap_test(
    values: Values, statistic: Statistic, how: Resampling, clusters: Sequence[Hashable] | None = None
) -> tuple[Estimate, float | None]:
    """A statistic that is 0 where nothing differs, such as a difference: its estimate, and the two-sided p of 0.

    p is below α exactly when the percentile interval of level 1 − α leaves 0 out, so that the two never contradict each
    other, and it stays the same where both systems' statistics are carried over to another scale (a perplexity or its
    logarithm). The data itself counts as one more on either side, so that p is never 0; p is None where some redrawn
    sets have no such statistic.

    Args:
        values: one row per document; both systems' values side by side.
        statistic: of many resampled sets of documents at once.
        how: seed, replicates and interval.
        clusters: the cluster of each document, to redraw whole clusters; None for single documents.
    """
    seen: list[Values] = []

    def watched(rows: Values) -> Values:
        seen.append(statistic(rows))
        return seen[-1]

    plain = Resampling(how.seed, how.replicates, "percentile", how.level)
    if clusters is None:
        found = bootstrap_statistic(values, watched, plain)
    else:
        found = cluster_bootstrap(values, clusters, watched, plain)
    if found.value is None or found.low is None:
        return found, None
    # The first call is the statistic of the data itself.
    replicates = np.concatenate(seen[1:])
    fewest = min(int(np.sum(replicates <= 0)), int(np.sum(replicates >= 0)))
    return found, min(1.0, 2 * (fewest + 1) / (len(replicates) + 1))


def cluster_bootstrap(values: Values, clusters: Sequence[Hashable], statistic: Statistic, how: Resampling) -> Estimate:
    """Any statistic of the values, bootstrapped over whole clusters.

    Args:
        values: one row per document.
        clusters: the cluster of each document.
        statistic: of many resampled sets of documents at once; replicates with equally many documents come together.
        how: seed, replicates and interval.
    """
    if len(values) != len(clusters):
        raise unequal("clusters", len(clusters), len(values))
    gathered: dict[Hashable, list[int]] = {}
    for place, cluster in enumerate(clusters):
        gathered.setdefault(cluster, []).append(place)
    members = [np.array(own) for own in gathered.values()]

    def of_clusters(chosen: NDArray[np.int64]) -> Values:
        return _by_size([np.concatenate([members[one] for one in row]) for row in chosen], values, statistic)

    found = _bootstrapped(len(members), of_clusters, how)
    method, ends = "cluster-" + found.method, (found.low, found.high)
    return Estimate(found.value, found.stderr, *ends, len(values), method, how.level, len(members))


def seeded(seed: Seed) -> np.random.Generator:
    """A generator from a number, several, or bytes."""
    # The leading 1 keeps zero bytes at the front from vanishing.
    return np.random.default_rng(int.from_bytes(b"\1" + seed, "big") if isinstance(seed, bytes) else seed)


def _bootstrapped(n: int, of_places: Callable[[NDArray[np.int64]], Values], how: Resampling) -> Estimate:
    """A statistic of n units by their places, bootstrapped."""
    if n == 0:
        return nothing("bootstrap")
    value = float(of_places(np.arange(n)[None])[0])
    if n < FEWEST:
        return Estimate(value, None, None, None, n, "bootstrap", how.level)
    generator = seeded(how.seed)
    parts = [of_places(generator.integers(0, n, size=(rows, n))) for rows in _row_blocks(how.replicates, n)]
    left_out = _left_out(n, of_places) if how.interval == "bca" else np.empty(0)
    return _estimate(value, np.concatenate(parts), left_out, n, how)


def _estimate(value: float, replicates: Values, left_out: Values, n: int, how: Resampling) -> Estimate:
    method = "bca" if how.interval == "bca" else "bootstrap"
    if not np.all(np.isfinite(replicates)):  # some redrawn sets have no such statistic: an interval would be made up
        return Estimate(value, None, None, None, n, method, how.level)
    tails = np.array([(1 - how.level) / 2, (1 + how.level) / 2])
    if how.interval == "bca":
        tails = _bca_tails(tails, value, replicates, left_out)
    low, high = np.quantile(replicates, tails)
    return Estimate(value, float(np.std(replicates, ddof=1)), float(low), float(high), n, method, how.level)


def _bca_tails(tails: Values, value: float, replicates: Values, left_out: Values) -> Values:
    """The tails moved by the replicates' bias and by the acceleration that leaving out documents shows."""
    from scipy.special import ndtr, ndtri

    below = float(np.mean(replicates < value) + np.mean(replicates == value) / 2)
    if not 0 < below < 1:  # all replicates on one side: nothing to correct by
        return tails
    bias = ndtri(below)
    spread = left_out.mean() - left_out
    scale = float(np.sum(spread**2)) ** 1.5
    acceleration = float(np.sum(spread**3)) / (6 * scale) if scale > 0 else 0.0
    z = bias + ndtri(tails)
    return np.asarray(ndtr(bias + z / (1 - acceleration * z)))


def _left_out(n: int, of_places: Callable[[NDArray[np.int64]], Values]) -> Values:
    """The statistic without each unit in turn; of many units, without each of a thousand groups of equal size."""
    groups = min(n, _MOST_LEFT_OUT)
    size = n // groups
    # Units beyond the last full group stay in throughout.
    parts, done = [], 0
    for rows in _row_blocks(groups, n):
        starts = (np.arange(done, done + rows) * size)[:, None]
        kept = np.arange(n - size)[None]
        parts.append(of_places(np.where(kept < starts, kept, kept + size)))
        done += rows
    return np.concatenate(parts)


def _redrawn_means(values: Values, how: Resampling) -> Values:
    """Means of redrawn documents. Where few values differ, how often each is drawn is drawn instead: the same law."""
    generator, n = seeded(how.seed), len(values)
    distinct, counts = np.unique(values, return_counts=True)
    parts: list[Values] = []
    if len(distinct) * _DRAWS_PER_CATEGORY <= n:
        for rows in _row_blocks(how.replicates, len(distinct)):
            parts.append(generator.multinomial(n, counts / n, size=rows) @ distinct / n)
        return np.concatenate(parts)
    for rows in _row_blocks(how.replicates, n):
        parts.append(values[generator.integers(0, n, size=(rows, n))].mean(axis=1))
    return np.concatenate(parts)


def _by_size(rows: Sequence[NDArray[np.int64]], values: Values, statistic: Statistic) -> Values:
    """The statistic of rows of places that may differ in length, those of one length together."""
    lengths = np.array([len(row) for row in rows])
    found = np.empty(len(rows))
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        for start in range(0, len(places), most := max(1, _CELLS_AT_ONCE // int(length))):
            block = places[start : start + most]
            found[block] = statistic(values[np.stack([rows[place] for place in block])])
    return found


def harness_stderr(values: Values, statistic: Statistic, iterations: int) -> float | None:
    """lm-eval's bootstrap standard error: same seeds, same chunks, the remainder of the last chunk dropped."""
    n = len(values)
    if n <= 1 or iterations <= 1:
        return None
    chunk = min(_CHUNK, iterations)
    parts = []
    for number in range(iterations // chunk):
        generator = _python_stream(number)
        for rows in _row_blocks(chunk, n):
            places = np.floor(generator.random_sample((rows, n)) * n).astype(np.int64)
            parts.append(statistic(values[places]))
    return float(np.std(np.concatenate(parts), ddof=1))


def _python_stream(seed: int) -> np.random.RandomState:
    """numpy's generator in the state of Python's after seeding."""
    _, words, _ = random.Random(seed).getstate()
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(words[:-1], dtype=np.uint32), int(words[-1]), 0, 0.0))
    return stream


def _row_blocks(rows: int, n: int) -> list[int]:
    """Row counts that add up to `rows` and keep each block's memory bounded."""
    most = max(1, _CELLS_AT_ONCE // n)
    full, rest = divmod(rows, most)
    return [most] * full + ([rest] if rest else [])
