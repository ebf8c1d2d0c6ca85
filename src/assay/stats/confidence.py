"""Confidence metrics (adaptive ECE, AUROC, AURC, selective accuracy) with bootstrap intervals.

Documents are sorted by confidence once. A resample is then a vector of counts, and every metric a matter of
cumulative sums: no resample is sorted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.calibration import BINS, checked
from assay.stats.means import LEVEL, empty_estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # (confidence of each tied group, its documents per resample, its hits per resample) → the metric per resample
    _Measure = Callable[[Floats, Floats, Floats], Floats]

REPLICATES = 1000


def confidence_estimate(
    confidences: Sequence[float],
    hits: Sequence[float],
    measure: str,
    coverage: float | None = None,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> Estimate:
    """A confidence metric with bootstrap standard error and interval over documents; None if it is undefined.

    Percentile intervals; for `ece_adaptive`, which noise biases upwards, those of `absolute_gaps`.

    Args:
        confidences: from 0 to 1.
        hits: 0 or 1, in the same order.
        measure: `ece_adaptive`, `auroc`, `aurc` or `selective_acc`.
        coverage: for `selective_acc`, the share of documents to answer.
        clusters: the cluster of each document, to resample whole clusters; None to resample documents.
        seed: bootstrap seed.
    """
    import numpy as np

    from assay.stats.absolute_gaps import absolute_gaps_estimate
    from assay.stats.bootstrap import MIN_UNITS, bootstrap_counts, cluster_indices, replicates_estimate, spread

    sure, hit = (np.array(part) for part in checked(confidences, hits))
    n = len(sure)
    if n == 0:
        return empty_estimate("bootstrap")
    if measure == "ece_adaptive":
        return absolute_gaps_estimate(gap_contributions(sure, hit), np.ones(n), clusters, seed)
    order = np.argsort(sure, kind="stable")
    units = np.arange(n) if clusters is None else cluster_indices(cluster_indices(clusters, n)[order].tolist(), n)
    count, method = (n, "bootstrap") if clusters is None else (int(units.max()) + 1, "cluster-bootstrap")
    statistic = measure_by_counts(sure[order], hit[order], measure, coverage)
    value, cluster_count = float(statistic(np.ones((1, n)))[0]), None if clusters is None else count
    if math.isnan(value) or count < MIN_UNITS:
        return Estimate(
            None if math.isnan(value) else value,
            None,
            None,
            None,
            n=n,
            method=method,
            level=LEVEL,
            clusters=cluster_count,
        )
    replicates = [
        statistic(resample_counts if clusters is None else np.take(resample_counts, units, axis=1))
        for resample_counts in bootstrap_counts(count, REPLICATES, seed, n)
    ]
    return spread(replicates_estimate(value, np.concatenate(replicates), n, cluster_count))


def measure_by_counts(
    sure: Floats, hit: Floats, measure: str, coverage: float | None = None
) -> Callable[[Floats], Floats]:
    """The metric of resamples given as document counts, one row per resample; NaN where it is undefined.

    Args:
        sure: confidence of each document.
        hit: 0 or 1.
        measure: `auroc`, `aurc` or `selective_acc`.
        coverage: for `selective_acc`.
    """
    import numpy as np

    found = _measure(measure, coverage)
    order = np.argsort(sure, kind="stable")
    is_sorted = bool(np.all(np.diff(order) == 1))
    sure, hit = sure[order], hit[order]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(sure) > 0]))

    def by_group(per_document: Floats) -> Floats:
        return per_document if len(starts) == len(sure) else np.add.reduceat(per_document, starts, axis=1)

    def statistic(resample_counts: Floats) -> Floats:
        own = resample_counts if is_sorted else resample_counts[:, order]
        return found(sure[starts], by_group(own), by_group(own * hit))

    return statistic


def gap_contributions(sure: Floats, hit: Floats) -> Floats:
    """Each document's contribution to each bin of `ece_adaptive`, one row per document."""
    import numpy as np

    parts = np.zeros((len(sure), BINS))
    parts[np.arange(len(sure)), _bins(sure)] = sure - hit
    return parts


def _measure(name: str, coverage: float | None) -> _Measure:
    if name == "selective_acc":
        if coverage is None or not 0 < coverage <= 1:
            raise DataError(Fault("selective accuracy", f"a coverage of {coverage}", "a number above 0, 1 at most"))
        share = coverage
        return lambda sure, counts, hits: _selective(counts, hits, share)
    known: dict[str, _Measure] = {"auroc": _auroc, "aurc": _risk}
    if name not in known:
        names = ", ".join(("ece_adaptive", *known, "selective_acc"))
        raise DataError(Fault("calibration", f'the measure "{name}"', names))
    return known[name]


def _bins(sure: Floats) -> NDArray[np.int64]:
    """Bins of equal mass, as in `calibration.reliability_table`: a tied group goes to the bin of its middle rank."""
    import numpy as np

    _, group, counts = np.unique(sure, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    return np.asarray(np.minimum((middles * BINS / len(sure)).astype(np.int64), BINS - 1)[group])


def _auroc(sure: Floats, counts: Floats, hits: Floats) -> Floats:
    import numpy as np

    misses = counts - hits
    pairs = hits.sum(axis=1) * misses.sum(axis=1)
    below = np.cumsum(misses, axis=1)
    below -= misses / 2
    won = np.einsum("rg,rg->r", hits, below)
    return np.asarray(np.where(pairs > 0, won / np.maximum(pairs, 1), np.nan))


def _selective(counts: Floats, hits: Floats, coverage: float) -> Floats:
    """Hits among the most confident: those of whole tied groups, and of the last group its expected share."""
    import numpy as np

    before, own, found = _ranked(counts, hits)
    answered = np.ceil(coverage * counts.sum(axis=1) - 1e-9)
    last = np.argmax(before + own >= answered[:, None], axis=1)
    rows = np.arange(len(counts))
    share = (answered - before[rows, last]) / own[rows, last]
    within = found[rows, last] * share
    return np.asarray(((np.cumsum(found, axis=1) - found)[rows, last] + within) / answered)


def _risk(sure: Floats, counts: Floats, hits: Floats) -> Floats:
    """AURC. Within a tied group hits grow by its mean m, so the accuracies at ranks a+1 … b sum to
    (H − m·a)·(1/(a+1) + … + 1/b) + m·(b − a), with H hits before it."""
    import numpy as np

    n, total = counts.sum(axis=1), hits.sum(axis=1)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(n.max()) + 1))])
    # In place where possible: allocating memory takes longer than the sums.
    above = np.cumsum(counts, axis=1)
    np.subtract(n[:, None], above, out=above)
    reached = np.take(harmonic, above.astype(np.int64))
    above *= hits
    above /= np.maximum(counts, 1.0)
    above += np.cumsum(hits, axis=1)
    rest = np.subtract(total[:, None], above, out=above)
    first = rest[:, 0] * (harmonic[n.astype(np.int64)] - reached[:, 0])
    sums = np.einsum("rg,rg->r", rest[:, 1:], reached[:, :-1] - reached[:, 1:]) + first
    # Σ m·(b − a) over all groups is the total number of hits.
    return np.asarray(1 - (sums + total) / n)


def _ranked(counts: Floats, hits: Floats) -> tuple[Floats, Floats, Floats]:
    """From the most confident group on: documents before it, its documents, its hits."""
    import numpy as np

    own, found = counts[:, ::-1], hits[:, ::-1]
    return np.cumsum(own, axis=1) - own, own, found
