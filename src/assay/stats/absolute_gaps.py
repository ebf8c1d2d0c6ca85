"""Bootstrap intervals for sums of absolute gaps, such as the expected calibration error over bins.

Sampling noise biases such sums upwards, which the intervals account for. In: each document's contribution to each gap.
Out: an estimate by bootstrap resampling of documents or clusters.
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
    """Bootstrap estimate of Σ|gap|, such as the ECE over bins, where each gap is Σparts/Σweights.

    Args:
        parts: each document's contribution to each gap, one row per document.
        weights: each document's contribution to the common denominator.
        clusters: the cluster of each document, to resample whole clusters; None to resample documents.
        seed: bootstrap seed.
        upper_bound: the largest possible value of the sum.
    """
    n = len(parts)
    if n == 0:
        return empty_estimate("gap-bootstrap")
    ((gaps, replicates),) = bootstrap_gaps([(parts, weights)], clusters, seed, DEFAULT_REPLICATES)
    value, cluster_count = float(np.abs(gaps).sum()), None if clusters is None else len(set(clusters))
    if np.isnan(value) or not len(replicates):
        return Estimate(
            None if np.isnan(value) else value,
            None,
            None,
            None,
            n=n,
            method="gap-bootstrap",
            level=LEVEL,
            clusters=cluster_count,
        )
    whole = _gap_interval(gaps, replicates, n, cluster_count)
    return spread(whole) if whole.high is None else spread(replace(whole, high=min(upper_bound, whole.high)))


def bootstrap_gaps(
    systems: Sequence[tuple[Values, Values]], clusters: Sequence[Hashable] | None, seed: Seed, replicates: int
) -> list[tuple[Values, Values]]:
    """Per system, the observed gaps and bootstrap replicates of them, one row per replicate; resamples are shared.

    There are no rows if there are too few documents or clusters to resample.

    Args:
        systems: each document's contribution to each gap and to the denominator; documents in the same order.
        clusters: the cluster of each document; None to resample documents.
        seed: bootstrap seed.
        replicates: number of resamples.
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
            # Not by BLAS: for so narrow a product its threads slow each other down on a busy machine.
            part.append(_gaps(np.einsum("ru,uk->rk", resample_counts, system)))
    gaps = [_gaps(system.sum(axis=0)[None])[0] for system in columns]
    return [(own, np.concatenate(part)) for own, part in zip(gaps, parts, strict=True)]


def _gaps(sums: Values) -> Values:
    """Gaps per row of summed parts and weight; NaN for a weight of 0."""
    weight = sums[:, -1:]
    return np.asarray(np.where(weight > 0, sums[:, :-1] / np.maximum(weight, 1e-300), np.nan))


def _gap_interval(gaps: Values, replicates: Values, n: int, clusters: int | None = None) -> Estimate:
    """Conservative interval for the sum of absolute gaps, from bootstrap replicates of the gaps, one row per resample.

    Noise increases every absolute gap, so the plug-in sum is biased upwards, replicates are biased once more, and
    percentiles always miss a true value near 0. Instead, with γ for the true gaps: Σ|g| − Σ|γ| is at most Σ|g − γ|,
    which gives the lower end, and at least the noise along the gaps' own signs, which gives the upper. So the interval
    covers 95 % or more, and contains 0 if all gaps may be noise.
    """
    value = float(np.abs(gaps).sum())
    if not np.all(np.isfinite(replicates)):  # some resamples have no such gaps
        return Estimate(value, None, None, None, n=n, method="gap-bootstrap", level=LEVEL, clusters=clusters)
    noise = replicates - gaps
    below, above = expanded_tails(n if clusters is None else clusters)
    low = max(0.0, value - float(np.quantile(np.abs(noise).sum(axis=1), above)))
    high = max(value, value - float(np.quantile(noise @ np.sign(gaps), below)))
    error = float(np.std(np.abs(replicates).sum(axis=1), ddof=1))
    return Estimate(value, error, low, high, n=n, method="gap-bootstrap", level=LEVEL, clusters=clusters)


@dataclass(frozen=True, slots=True)
class GapNoise:
    """Noise of a sum of absolute gaps per resample: its bound Σ|noise|, and the noise along the gaps' own signs."""

    upper_bound: Values
    signed_sum: Values


def gap_noise(gaps: Values, replicates: Values) -> GapNoise:
    """The noise from the observed gaps and their bootstrap replicates, one row per resample."""
    noise = replicates - gaps
    return GapNoise(np.abs(noise).sum(axis=1), noise @ np.sign(gaps))


def bootstrap_difference_test(found: Estimate, first: GapNoise, second: GapNoise) -> tuple[Estimate, float | None]:
    """Difference of two such sums on the same documents, with a conservative interval and two-sided p-value.

    The sum of the noisier system is biased further upwards, so percentiles of resampled differences find spurious
    effects. Both ends use the bounds of `_gap_interval` instead: one true sum may be lower by Σ|noise|, the other
    higher by the noise along its signs. So the interval covers 95 % or more, and the type I error is 5 % or less.

    Args:
        found: second minus first, with its standard error and an interval of the desired level.
        first: noise of the first system per resample.
        second: noise of the second system, in the same resamples.
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
