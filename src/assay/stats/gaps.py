"""Sums of gaps without their signs, such as calibration errors over bins. Noise makes them larger; intervals know.

Takes what every document brings to every gap; gives an estimate by redrawn documents or clusters.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from assay.core.scores import Estimate
from assay.stats.bootstrap import (
    FEWEST,
    OWN_REPLICATES,
    Seed,
    Values,
    expanded_tails,
    numbered,
    redrawn_times,
    spread,
)
from assay.stats.means import LEVEL, nothing


def gaps_estimate(
    parts: Values, weights: Values, clusters: Sequence[Hashable] | None = None, seed: Seed = 0, most: float = 1.0
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
        return nothing("gap-bootstrap")
    columns, told = np.column_stack([parts, weights]), None
    if clusters is not None:
        own = numbered(clusters, n)
        singly, columns = columns, np.zeros((int(own.max()) + 1, columns.shape[1]))
        np.add.at(columns, own, singly)
        told = len(columns)
    gaps = _gaps(columns.sum(axis=0)[None])[0]
    value, units = float(np.abs(gaps).sum()), len(columns)
    if np.isnan(value) or units < FEWEST:
        return Estimate(None if np.isnan(value) else value, None, None, None, n, "gap-bootstrap", LEVEL, told)
    # Not by BLAS, whose threads get in each other's way on a busy machine, for so narrow a product.
    found = [_gaps(np.einsum("ru,uk->rk", times, columns)) for times in redrawn_times(units, OWN_REPLICATES, seed)]
    whole = _of_gaps(gaps, np.concatenate(found), n, told)
    return spread(whole) if whole.high is None else spread(replace(whole, high=min(most, whole.high)))


def _gaps(sums: Values) -> Values:
    """Per row of summed parts and weight; NaN without weight."""
    weight = sums[:, -1:]
    return np.asarray(np.where(weight > 0, sums[:, :-1] / np.maximum(weight, 1e-300), np.nan))


def _of_gaps(gaps: Values, replicates: Values, n: int, clusters: int | None = None) -> Estimate:
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
