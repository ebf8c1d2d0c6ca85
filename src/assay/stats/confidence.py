"""Measures of confidence against hits with bootstrap intervals: those of `calibration`, of many redrawn sets at once.

Documents are sorted by confidence once. A redrawn set is then how often each is drawn, and every measure is a matter of
running sums: no set is sorted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.calibration import BINS, checked
from assay.stats.means import LEVEL, nothing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # (confidence of each tied group, documents in it per set, hits in it per set) → the measure per set
    _Measure = Callable[[Floats, Floats, Floats], Floats]

REPLICATES = 1000
_CELLS_AT_ONCE = 1_000_000
# With more redrawn sets than this that have no such measure, an interval would be made up.
_MOST_WITHOUT = 0.05


def confidence_estimate(
    confidences: Sequence[float], hits: Sequence[float], measure: str, coverage: float | None = None, seed: int = 0
) -> Estimate:
    """A measure with bootstrap error and percentile interval over documents; nulls where it is undefined.

    Args:
        confidences: from 0 to 1.
        hits: 0 or 1, in the same order.
        measure: `ece_adaptive`, `auroc`, `aurc` or `selective_acc`.
        coverage: of `selective_acc`, the share of documents to answer.
        seed: of the bootstrap.
    """
    import numpy as np

    sure, hit = (np.array(part) for part in checked(confidences, hits))
    n = len(sure)
    if n == 0:
        return nothing("bootstrap")
    found = _measure(measure, coverage)
    order = np.argsort(sure, kind="stable")
    sure, hit = sure[order], hit[order]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(sure) > 0]))

    def of_times(times: Floats) -> Floats:
        counts = np.add.reduceat(times, starts, axis=1)
        return found(sure[starts], counts, np.add.reduceat(times * hit, starts, axis=1))

    value = float(of_times(np.ones((1, n)))[0])
    if math.isnan(value) or n == 1:
        return Estimate(None if math.isnan(value) else value, None, None, None, n, "bootstrap", LEVEL)
    replicates = _redrawn(n, of_times, seed)
    known = replicates[np.isfinite(replicates)]
    if len(known) < (1 - _MOST_WITHOUT) * len(replicates):
        return Estimate(value, None, None, None, n, "bootstrap", LEVEL)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(np.std(known, ddof=1)), float(low), float(high), n, "bootstrap", LEVEL)


def _redrawn(n: int, of_times: Callable[[Floats], Floats], seed: int) -> Floats:
    import numpy as np

    generator, parts, left = np.random.default_rng(seed), [], REPLICATES
    while left:
        rows = min(left, max(1, _CELLS_AT_ONCE // n))
        places = generator.integers(0, n, size=(rows, n)) + np.arange(rows)[:, None] * n
        times = np.bincount(places.reshape(-1), minlength=rows * n).reshape(rows, n)
        parts.append(of_times(times.astype(np.float64)))
        left -= rows
    return np.concatenate(parts)


def _measure(name: str, coverage: float | None) -> _Measure:
    if name == "selective_acc":
        if coverage is None or not 0 < coverage <= 1:
            raise DataError(Fault("selective accuracy", f"a coverage of {coverage}", "a number above 0, 1 at most"))
        share = coverage
        return lambda sure, counts, hits: _selective(counts, hits, share)
    known: dict[str, _Measure] = {"ece_adaptive": _calibration_gap, "auroc": _auroc, "aurc": _risk}
    if name not in known:
        raise DataError(Fault("calibration", f'the measure "{name}"', ", ".join((*known, "selective_acc"))))
    return known[name]


def _calibration_gap(sure: Floats, counts: Floats, hits: Floats) -> Floats:
    """Bins of equal mass, as `calibration.reliability_table` makes them: a tied group goes where its middle rank is."""
    import numpy as np

    rows, n = len(counts), counts[0].sum()
    middles = np.cumsum(counts, axis=1) - counts / 2
    places = np.minimum((middles * BINS / n).astype(np.int64), BINS - 1) + BINS * np.arange(rows)[:, None]
    gaps = np.bincount(places.reshape(-1), (counts * sure - hits).reshape(-1), rows * BINS)
    return np.asarray(np.abs(gaps).reshape(rows, BINS).sum(axis=1) / n)


def _auroc(sure: Floats, counts: Floats, hits: Floats) -> Floats:
    import numpy as np

    misses = counts - hits
    below = np.cumsum(misses, axis=1) - misses
    pairs = hits.sum(axis=1) * misses.sum(axis=1)
    won = (hits * (below + misses / 2)).sum(axis=1)
    return np.asarray(np.where(pairs > 0, won / np.maximum(pairs, 1), np.nan))


def _selective(counts: Floats, hits: Floats, coverage: float) -> Floats:
    """Hits among the surest: those of whole groups, and of the last group as many as are left on average."""
    import numpy as np

    before, own, found = _ranked(counts, hits)
    answered = math.ceil(coverage * counts[0].sum() - 1e-9)
    last = np.argmax(before + own >= answered, axis=1)
    rows = np.arange(len(counts))
    share = (answered - before[rows, last]) / own[rows, last]
    within = found[rows, last] * share
    return np.asarray(((np.cumsum(found, axis=1) - found)[rows, last] + within) / answered)


def _risk(sure: Floats, counts: Floats, hits: Floats) -> Floats:
    """AURC. Within a group hits grow by its mean m, so accuracies at ranks a+1 … b sum up to
    (H − m·a)·(1/(a+1) + … + 1/b) + m·(b − a), with H hits before it."""
    import numpy as np

    before, own, found = _ranked(counts, hits)
    n = int(counts[0].sum())
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
    mean = np.where(own > 0, found / np.maximum(own, 1), 0.0)
    reached = harmonic[(before + own).astype(np.int64)] - harmonic[before.astype(np.int64)]
    earlier = np.cumsum(found, axis=1) - found
    sums = ((earlier - mean * before) * reached + mean * own).sum(axis=1)
    return np.asarray(1 - sums / n)


def _ranked(counts: Floats, hits: Floats) -> tuple[Floats, Floats, Floats]:
    """From the surest group on: documents before it, its documents, its hits."""
    import numpy as np

    own, found = counts[:, ::-1], hits[:, ::-1]
    return np.cumsum(own, axis=1) - own, own, found
