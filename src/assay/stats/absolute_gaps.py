"""Sums of gaps without their signs, such as calibration errors over bins. Noise makes them larger; intervals know.

Takes what every document brings to every gap; gives an estimate by redrawn documents or clusters.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.core.scores import Estimate
from assay.stats.bootstrap import (
    DEFAULT_REPLICATES,
    MIN_UNITS,
    Seed,
    Values,
    bootstrap_counts,
    cluster_indices,
    expanded_tails,
    min_tail_count,
    spread,
    tail_p,
)
from assay.stats.means import LEVEL, empty_estimate


def absolute_gaps_estimate(
    parts: Values, weights: Values, clusters: Sequence[Hashable] | None = None, seed: Seed = 0, upper_bound: float = 1.0
) -> Estimate:
    """A sum of gaps without their signs, such as a calibration error over bins: Σ|gap|, each Σparts/Σweights.

    Args:
        parts: what every document brings to every gap, one row per document.
        weights: what it brings to the whole.
        clusters: the cluster of each document, to redraw whole clusters; None for single documents.
        seed: of the bootstrap.
        most: what the sum can be at most.
    """
    n = len(parts)
    if n == 0:
        return empty_estimate("gap-bootstrap")
    ((gaps, replicates),) = bootstrap_gaps([(parts, weights)], clusters, seed, DEFAULT_REPLICATES)
    value, cluster_count = float(np.abs(gaps).sum()), None if clusters is None else len(set(clusters))
    if np.isnan(value) or not len(replicates):
        return Estimate(None if np.isnan(value) else value, None, None, None, n, "gap-bootstrap", LEVEL, cluster_count)
    whole = _gap_interval(gaps, replicates, n, cluster_count)
    return spread(whole) if whole.high is None else spread(replace(whole, high=min(upper_bound, whole.high)))


def bootstrap_gaps(
    systems: Sequence[tuple[Values, Values]], clusters: Sequence[Hashable] | None, seed: Seed, replicates: int
) -> list[tuple[Values, Values]]:
    """Per system the gaps of all documents, and of redrawn sets, one row per set: the same sets for all systems.

    There is no row where there are too few documents or clusters to redraw.

    Args:
        systems: what every document brings to every gap, and to the whole; documents in the same order.
        clusters: the cluster of each document; None for single documents.
        seed: of the sets.
        replicates: how many sets.
    """
    columns = [np.column_stack(contributions) for contributions in systems]
    documents = len(columns[0])
    if clusters is not None:
        own = cluster_indices(clusters, documents)
        columns = [np.stack([np.bincount(own, column) for column in singly.T], axis=1) for singly in columns]
    units = len(columns[0])
    parts: list[list[Values]] = [[np.empty((0, own.shape[1] - 1))] for own in columns]
    for resample_counts in bootstrap_counts(units, replicates, seed, documents) if units >= MIN_UNITS else ():
        for part, system in zip(parts, columns, strict=True):
            # Not by BLAS, whose threads get in each other's way on a busy machine, for so narrow a product.
            part.append(_gaps(np.einsum("ru,uk->rk", resample_counts, system)))
    gaps = [_gaps(system.sum(axis=0)[None])[0] for system in columns]
    return [(own, np.concatenate(part)) for own, part in zip(gaps, parts, strict=True)]


def _gaps(sums: Values) -> Values:
    """Per row of summed parts and weight; NaN without weight."""
    weight = sums[:, -1:]
    return np.asarray(np.where(weight > 0, sums[:, :-1] / np.maximum(weight, 1e-300), np.nan))


def _gap_interval(gaps: Values, replicates: Values, n: int, clusters: int | None = None) -> Estimate:
    """The sum of gaps without their signs, from redrawn gaps, one row per redrawn set.

    Noise makes every gap larger, so that this sum lies above the truth, redrawn ones lie above it once more, and their
    percentiles miss a truth near 0 always. Instead, with γ for the true gaps: Σ|g| − Σ|γ| is Σ|g − γ| at most, which
    gives the lower end, and no less than the noise along the gaps' own signs, which gives the upper. So the interval
    covers 95 % or more, and holds 0 where all gaps may be noise.
    """
    value = float(np.abs(gaps).sum())
    if not np.all(np.isfinite(replicates)):  # some redrawn sets have no such gaps
        return Estimate(value, None, None, None, n, "gap-bootstrap", LEVEL, clusters)
    noise = replicates - gaps
    below, above = expanded_tails(n if clusters is None else clusters)
    low = max(0.0, value - float(np.quantile(np.abs(noise).sum(axis=1), above)))
    high = max(value, value - float(np.quantile(noise @ np.sign(gaps), below)))
    error = float(np.std(np.abs(replicates).sum(axis=1), ddof=1))
    return Estimate(value, error, low, high, n, "gap-bootstrap", LEVEL, clusters)


@dataclass(frozen=True, slots=True)
class GapNoise:
    """What noise does to a sum of gaps in each redrawn set: at most (Σ|noise|), and along the gaps' own signs."""

    upper_bound: Values
    signed_sum: Values


def gap_noise(gaps: Values, replicates: Values) -> GapNoise:
    """From the gaps found and redrawn ones, one row per set."""
    noise = replicates - gaps
    return GapNoise(np.abs(noise).sum(axis=1), noise @ np.sign(gaps))


def bootstrap_difference_test(found: Estimate, first: GapNoise, second: GapNoise) -> tuple[Estimate, float | None]:
    """The difference of two such sums on the same documents, and the two-sided p of none.

    The sum of the noisier system lies further above its truth, so that percentiles of redrawn differences find what is
    not there. Both ends take the bounds of `_of_gaps` instead: the truth of the one sum may be lower by Σ|noise|, that
    of the other higher by the noise along its signs. So the interval covers 95 % or more, and the test errs in 5 % or
    less.

    Args:
        found: second less first, with its error and an interval of the wanted level.
        first: noise in each redrawn set.
        second: that of the second system, in the same sets.
    """
    value, units = found.value, found.n if found.clusters is None else found.clusters
    down, up = second.upper_bound - first.signed_sum, first.upper_bound - second.signed_sum
    known = np.isfinite(down) & np.isfinite(up)
    if value is None or not known.any():
        return found, None
    down, up = np.sort(down[known]), np.sort(up[known])
    fewest = min_tail_count(len(down), units, found.level)
    tail_count = min(int(np.sum(down >= value)), int(np.sum(up >= -value)))
    p = tail_p(tail_count, len(down), units)
    if fewest <= 0:
        return replace(found, low=None, high=None, method="gap-bootstrap"), p
    low, high = value - float(down[-fewest]), value + float(up[-fewest])
    return replace(found, low=min(low, value), high=max(high, value), method="gap-bootstrap"), p
