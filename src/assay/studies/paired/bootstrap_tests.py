"""Paired bootstrap tests of metrics that are not means over documents: F1, calibration, perplexity, BLEU.

Every resample has the same documents for all systems, so each system is resampled once, however many pairs there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate, Value
from assay.scoring.metrics import value_types as reading
from assay.scoring.metrics.aggregations import CORPUS_METRICS, MEAN_AGGREGATIONS
from assay.stats import agreement, bootstrap
from assay.stats.means import LEVEL
from assay.studies.paired.intervals import sign_test_interval, unbounded_interval
from assay.studies.paired.matching import MatchedPair, SystemEntry
from assay.studies.paired.verdicts import replicates_for

if TYPE_CHECKING:
    from assay.stats.absolute_gaps import GapNoise

Floats = NDArray[np.float64]
# Counts of each document in resamples, one row per resample → the score of each; NaN where it is undefined.
StatisticByCounts = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class BootstrapScore:
    """A system's score on some documents, and on bootstrap resamples of them.

    Attributes:
        noise: for a score that is a sum of absolute gaps, its noise in each resample; None for other scores.
    """

    value: float
    replicates: Floats
    noise: GapNoise | None = None


@dataclass(frozen=True, slots=True)
class BootstrapPair:
    """Two systems' scores on the same bootstrap resamples of their common documents."""

    match: MatchedPair
    first: BootstrapScore
    second: BootstrapScore

    def test(self, level: float = LEVEL) -> tuple[Estimate, float | None]:
        """The second score minus the first with its interval, and the two-sided p-value of no difference."""
        first, second = self.first, self.second
        with np.errstate(invalid="ignore"):  # the difference of two infinite perplexities is undefined
            value, apart = second.value - first.value, second.replicates - first.replicates
        found, p = bootstrap.replicate_test(value, apart, len(self.match.mine), self.match.cluster_count, level)
        if first.noise is None or second.noise is None or p is None:
            return found, p
        from assay.stats import absolute_gaps

        return absolute_gaps.bootstrap_difference_test(found, first.noise, second.noise)

    def difference(self) -> tuple[Estimate, float | None]:
        """The same, without standard error and interval if every resample has the same difference."""
        found, p = self.test()
        return bootstrap.spread(found), p

    def interval(self, level: float) -> tuple[float, float]:
        """The interval that inverts the test."""
        found, _ = self.test(level)
        if found.low is None or found.high is None:
            return unbounded_interval(level)
        units = self.match.cluster_count or len(self.match.mine)
        return (found.low, found.high) if found.low < found.high else sign_test_interval(found.low, units, level)


def bootstrap_pairs(matches: Sequence[MatchedPair], seed: int) -> list[BootstrapPair]:
    """Per pair, both systems' scores on the same resamples of the common documents."""
    bootstrapped: dict[tuple[Hashable, ...], BootstrapScore] = {}
    gathered: dict[tuple[int, tuple[str, ...] | None], dict[tuple[Hashable, ...], Sequence[Value]]] = {}
    named = []
    for match in matches:
        clusters = match.clusters
        own = None if clusters is None else tuple(clusters)
        group = gathered.setdefault((len(match.mine), own), {})
        names = _name(match.first, match.mine, own), _name(match.second, match.theirs, own)
        for place, name in enumerate(names):
            if name not in group:
                group[name] = match.values[place]
        named.append(names)
    for (_, own), group in gathered.items():
        found = _bootstrap_scores(list(group.values()), matches[0].first.recorded.aggregation, own, seed)
        bootstrapped.update(zip(group, found, strict=True))
    return [
        BootstrapPair(match, bootstrapped[one], bootstrapped[other])
        for match, (one, other) in zip(matches, named, strict=True)
    ]


def _name(entry: SystemEntry, places: Sequence[int], clusters: Hashable) -> tuple[Hashable, ...]:
    """A key that is equal for the same documents of a system in the same clusters."""
    return id(entry), places if isinstance(places, range) else tuple(places), clusters


def _bootstrap_scores(
    systems: Sequence[Sequence[Value]], aggregation: str, clusters: Sequence[str] | None, seed: int
) -> list[BootstrapScore]:
    n = len(systems[0])
    if n == 0:
        return [BootstrapScore(math.nan, np.empty(0)) for _ in systems]
    if aggregation in _GAP_STATISTICS:
        from assay.stats.absolute_gaps import bootstrap_gaps

        contributions = [_GAP_STATISTICS[aggregation](values) for values in systems]
        drawn = bootstrap_gaps(contributions, clusters, seed, replicates_for(aggregation))
        return [_absolute_gap_score(own, sets) for own, sets in drawn]
    makers = [statistic_by_counts(aggregation, values) for values in systems]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite and undefined scores are reported as such
        own = [float(statistic(np.ones((1, n)))[0]) for statistic in makers]
        units = None if clusters is None else bootstrap.cluster_indices(clusters, n)
        count = n if units is None else int(units.max()) + 1
        parts: list[list[Floats]] = [[np.empty(0)] for _ in systems]
        if count >= bootstrap.MIN_UNITS:
            for resample_counts in bootstrap.bootstrap_counts(count, replicates_for(aggregation), seed, n):
                of_documents = resample_counts if units is None else resample_counts[:, units]
                for part, statistic, value in zip(parts, makers, own, strict=True):
                    part.append(
                        statistic(of_documents) if math.isfinite(value) else np.full(len(resample_counts), np.nan)
                    )
    return [BootstrapScore(value, np.concatenate(part)) for value, part in zip(own, parts, strict=True)]


def _absolute_gap_score(own: Floats, drawn: Floats) -> BootstrapScore:
    """A sum of absolute gaps, with its noise."""
    from assay.stats.absolute_gaps import gap_noise

    return BootstrapScore(float(np.abs(own).sum()), np.abs(drawn).sum(axis=1), gap_noise(own, drawn))


def can_bootstrap(aggregation: str) -> bool:
    """Whether there is a bootstrap test for an aggregation."""
    return aggregation in CORPUS_METRICS or aggregation in _GAP_STATISTICS or aggregation in _STATISTICS


def statistic_by_counts(aggregation: str, values: Sequence[Value]) -> StatisticByCounts:
    """The score as a function of how often each document occurs.

    Args:
        aggregation: name of the aggregation.
        values: one per document; there is at least one.
    """
    if aggregation in CORPUS_METRICS:
        from assay.scoring.metrics.corpus import CountedSegments

        return CountedSegments(values, aggregation).scores_by_counts
    if aggregation in _GAP_STATISTICS:
        return _gaps(*_GAP_STATISTICS[aggregation](values))
    return _STATISTICS[aggregation](values)


def _mean(values: Sequence[Any]) -> StatisticByCounts:
    numbers = np.asarray(values, dtype=np.float64)
    return lambda resample_counts: np.asarray((resample_counts @ numbers) / resample_counts.sum(axis=1))


def _perplexity(values: Sequence[Any]) -> StatisticByCounts:
    numbers = np.asarray(values, dtype=np.float64)
    return lambda resample_counts: np.asarray(np.exp(-(resample_counts @ numbers) / resample_counts.sum(axis=1)))


def _median(values: Sequence[Any], is_upper: bool) -> StatisticByCounts:
    """The median: lm-eval's, the upper of two middle values; or their mean."""
    numbers = np.asarray(values, dtype=np.float64)
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]

    def statistic(resample_counts: Floats) -> Floats:
        reached, n = np.cumsum(resample_counts[:, order], axis=1), resample_counts.sum(axis=1)
        upper = rising[np.argmax(reached > (n // 2)[:, None], axis=1)]
        lower = upper if is_upper else rising[np.argmax(reached > ((n - 1) // 2)[:, None], axis=1)]
        return np.asarray(np.where(lower == upper, upper, lower / 2 + upper / 2))

    return statistic


def _counted(values: Sequence[Any], of_counts: Callable[[Floats, Floats], Floats]) -> StatisticByCounts:
    """A statistic of label pairs, computed from the count of each distinct pair."""
    pairs, groups = np.unique(np.asarray(values, dtype=np.float64), axis=0, return_inverse=True)
    counted = bootstrap.group_sums(groups.reshape(-1))
    return lambda resample_counts: of_counts(pairs, counted(resample_counts))


def _matthews(values: Sequence[Any]) -> StatisticByCounts:
    from assay.scoring.metrics.resampled import matthews_of_counts

    return _counted(reading.label_pairs(values), matthews_of_counts)


def _f1(values: Sequence[Any]) -> StatisticByCounts:
    from assay.scoring.metrics.resampled import f1_of_counts

    return _counted(values, f1_of_counts)


def _gaps(parts: Floats, weights: Floats) -> StatisticByCounts:
    """Σ|gap|, each Σparts/Σweights."""

    def statistic(resample_counts: Floats) -> Floats:
        weight = resample_counts @ weights
        # Not by BLAS, whose threads slow each other down on a busy machine for so narrow a product.
        whole = np.abs(np.einsum("ru,uk->rk", resample_counts, parts)).sum(axis=1)
        return np.asarray(np.where(weight > 0, whole / np.maximum(weight, 1e-300), np.nan))

    return statistic


def _gaps_of(name: str, values: Sequence[Any]) -> tuple[Floats, Floats]:
    from assay.scoring.metrics.resampled import GAP_STATISTICS

    return GAP_STATISTICS[name](np.asarray(values, dtype=np.float64))


def _adaptive(values: Sequence[Any]) -> tuple[Floats, Floats]:
    from assay.stats.confidence import gap_contributions

    sure, hit = np.asarray(values, dtype=np.float64).T
    return gap_contributions(sure, hit), np.ones(len(sure))


def _by_confidence(measure: str, values: Sequence[Any]) -> StatisticByCounts:
    from assay.stats.confidence import measure_by_counts

    columns = np.asarray(values, dtype=np.float64).T
    coverage = float(columns[2][0]) if len(columns) > 2 else None
    return measure_by_counts(columns[0], columns[1], measure, coverage)


def _kappa(values: Sequence[Any]) -> StatisticByCounts:
    return agreement.kappa_by_counts([right for right, _ in values], [picked for _, picked in values])


def _ratio(values: Sequence[Any], scale: float = 1.0) -> StatisticByCounts:
    """−Σa/Σb."""
    top, bottom = np.asarray(values, dtype=np.float64).T

    def statistic(resample_counts: Floats) -> Floats:
        weight = resample_counts @ bottom
        return np.asarray(np.where(weight > 0, -scale * (resample_counts @ top) / np.maximum(weight, 1e-300), np.nan))

    return statistic


def _ratio_perplexity(values: Sequence[Any]) -> StatisticByCounts:
    nats = _ratio(values)
    return lambda resample_counts: np.asarray(np.exp(nats(resample_counts)))


# Sums of absolute gaps → each document's contribution to each gap, and to the denominator.
_GAP_STATISTICS: dict[str, Callable[[Sequence[Any]], tuple[Floats, Floats]]] = {
    "ece": partial(_gaps_of, "ece"),
    "ece_adaptive": _adaptive,
    "position_bias": partial(_gaps_of, "position_bias"),
}
_STATISTICS: dict[str, Callable[[Sequence[Any]], StatisticByCounts]] = {
    **dict.fromkeys(MEAN_AGGREGATIONS, _mean),
    "perplexity": _perplexity,
    "median": partial(_median, is_upper=True),
    "median_of_known": partial(_median, is_upper=False),
    "f1": _f1,
    "matthews_corrcoef": _matthews,
    "cohen_kappa": _kappa,
    "auroc": partial(_by_confidence, "auroc"),
    "aurc": partial(_by_confidence, "aurc"),
    "selective_acc": partial(_by_confidence, "selective_acc"),
    "weighted_perplexity": _ratio_perplexity,
    "weighted_nats": _ratio,
    "bits_per_byte": partial(_ratio, scale=1 / math.log(2)),
    "share_of_parts": partial(_ratio, scale=-1.0),
}
