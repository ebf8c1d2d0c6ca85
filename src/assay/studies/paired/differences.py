"""Paired comparison on one task and metric: difference, test, interval, effect size, power.

In: matched pairs of systems. Out: a `PairedScore` per pair, without correction and verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.scoring.metrics.aggregations import MEAN_AGGREGATIONS
from assay.stats import agreement, means, paired, power
from assay.studies.paired.intervals import (
    IntervalFunction,
    mcnemar_interval,
    sign_flip_interval,
    unbounded_interval,
    with_interval,
)
from assay.studies.paired.matching import MatchedPair, SystemEntry
from assay.studies.paired.paired_values import (
    ALL_FLIPS,
    Agreement,
    CompareOptions,
    EffectSize,
    Flip,
    Margin,
    PairedScore,
)
from assay.studies.paired.sign_flip_tests import sign_flip_pairs
from assay.studies.paired.verdicts import adjusted_levels, cannot_reach_alpha, min_units, replicates_for

if TYPE_CHECKING:
    from assay.stats.sign_flip import SignFlipTest
    from assay.studies.paired.bootstrap_tests import BootstrapPair

Floats = NDArray[np.float64]
# A spread this small relative to the values is rounding error of 0.
_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """A pair's numbers, and the difference of every document if the metric is a mean over documents.

    Attributes:
        score: the pair with the intervals of a single test.
        ends: the interval of the difference at any level, which inverts the pair's test.
        spread: standard deviation of the differences, the unit of `d_z`; 0 if all are equal, or if not applicable.
        is_bounded: whether both scores are means of values from 0 to 1, which differ by at most 1.
        is_style: whether the part after `@` in the task's name is a style, chosen on purpose, rather than a prompt.
    """

    score: PairedScore
    differences: Floats | None
    clusters: Sequence[str] | None
    documents: Sequence[int]
    ends: IntervalFunction
    spread: float = 0.0
    is_bounded: bool = False
    is_style: bool = False

    def at(self, alpha: float) -> PairedScore:
        """The pair with intervals of level 1 − α."""
        score = self.score
        difference = with_interval(score.difference, self.ends(1 - alpha), alpha, self.is_bounded)
        return replace(score, difference=difference, effect=_effect(score, difference, self.spread))


def with_adjusted_intervals(items: Sequence[PairedComparison], options: CompareOptions) -> list[PairedScore]:
    """The pairs, each with an interval at the level at which the multiple-testing correction tests it."""
    levels = adjusted_levels([item.score.p for item in items], options)
    return [item.at(level) for item, level in zip(items, levels, strict=True)]


def is_comparable(aggregation: str) -> bool:
    """Whether there is a paired test for an aggregation."""
    if aggregation in MEAN_AGGREGATIONS:
        return True
    from assay.studies.paired.bootstrap_tests import can_bootstrap  # most metrics are means

    return can_bootstrap(aggregation)


def are_compatible(first: str, second: str) -> bool:
    """Whether per-document values of two aggregations mean the same."""
    return first == second or (first in MEAN_AGGREGATIONS and second in MEAN_AGGREGATIONS)


def compare_pairs(
    matches: Sequence[MatchedPair], higher_is_better: bool | None, options: CompareOptions
) -> list[PairedComparison]:
    """The paired comparison of every pair.

    Args:
        matches: the pairs of one task and metric.
        higher_is_better: the metric's direction.
        options: tests and margin.
    """
    is_mean = bool(matches) and matches[0].first.recorded.aggregation in MEAN_AGGREGATIONS
    flips = sign_flip_pairs(matches, options)
    resampled: Sequence[BootstrapPair | None] = [None] * len(matches)
    if options.test == "bootstrap" or not is_mean:
        from assay.studies.paired.bootstrap_tests import bootstrap_pairs

        resampled = bootstrap_pairs(matches, options.seed)
    kind = _MeanDifference if is_mean else _StatisticDifference
    return [
        _paired_comparison(match, kind(match, flips.get(id(match)), own).found(options), higher_is_better, options)
        for match, own in zip(matches, resampled, strict=True)
    ]


def _paired_comparison(
    match: MatchedPair, found: _TestResult, better: bool | None, options: CompareOptions
) -> PairedComparison:
    recorded = match.first.recorded
    n = len(match.mine)
    left = len(recorded.documents) - n, len(match.second.recorded.documents) - n
    is_bounded = match.first.is_share and match.second.is_share
    is_share = better is not False and is_bounded
    least, needed, requested = _power_analysis(match, found, is_share, options)
    wins, losses, ties = found.counts or (None, None, None)
    score = PairedScore(
        task=recorded.task,
        metric=recorded.metric,
        filter=recorded.filter,
        higher_is_better=better,
        is_share=is_share,
        first=match.first.label,
        second=match.second.label,
        n=n,
        left_out=left,
        scores=match.scores,
        difference=found.difference,
        test=found.test,
        p=found.p,
        wins=wins,
        losses=losses,
        ties=ties,
        unpaired=found.unpaired,
        correlation=found.correlation,
        detectable=least,
        needed=needed,
        needed_to_detect=requested,
        clusters=match.cluster_count,
        margin=None
        if options.margin is None
        else _margin_of(found.ends(1 - 2 * options.alpha), better, options.margin),
        agreement=found.agreement,
        flips=_changed_documents(match, options.flips),
    )
    documents = recorded.documents if match.is_whole else [recorded.documents[place] for place in match.mine]
    differences = match.differences if recorded.aggregation in MEAN_AGGREGATIONS else None
    item = PairedComparison(
        score=score,
        differences=differences,
        clusters=match.clusters,
        documents=documents,
        ends=found.ends,
        spread=found.spread,
        is_bounded=is_bounded,
    )
    return replace(item, score=item.at(options.alpha))


def _effect(score: PairedScore, difference: Estimate, spread: float) -> EffectSize | None:
    """Unit-free effect size; its interval agrees with that of the difference."""
    if score.wins is None or score.losses is None or score.test == "none":
        return None
    if score.agreement is not None:  # outcomes of 0 and 1
        ends: tuple[float | None, float | None] = (None, None)
        if score.test.startswith("mcnemar") and score.wins + score.losses:
            is_mid_p = score.test == "mcnemar-midp"
            ends = power.odds_ratio_interval(score.wins, score.losses, difference.level, is_mid_p)
        return EffectSize("odds_ratio", power.odds_ratio(score.wins, score.losses), *ends)
    value = difference.value
    if not spread or value is None:
        return EffectSize("d_z", 0.0 if value == 0 else None, None, None)
    if score.clusters is not None or difference.low is None or difference.high is None:
        return EffectSize("d_z", value / spread, None, None)
    return EffectSize("d_z", value / spread, difference.low / spread, difference.high / spread)


def _power_analysis(
    match: MatchedPair, found: _TestResult, is_share: bool, options: CompareOptions
) -> tuple[float | None, int | None, int | None]:
    """Detectable difference, and documents needed for the observed difference and for `options.detect`.

    All depend on the variance of one document's difference; for outcomes, on the share of discordant documents.
    """
    n, effects = len(match.mine), (found.difference.value, options.detect)
    replicates = replicates_for(match.first.recorded.aggregation)
    are_few = cannot_reach_alpha(found.test, match.cluster_count or n, options.alpha, replicates)
    if found.difference.value is None or n == 0:
        return None, None, None
    if match.is_binary and match.clusters is None and found.counts is not None:
        discordance = (n - found.counts[2]) / n
        least = None if are_few else power.detectable_outcomes(discordance, n, alpha=options.alpha)
        observed, requested = (_outcomes_needed(effect, discordance, options.alpha) for effect in effects)
        return least, observed, requested
    error = found.difference.stderr or 0.0
    variance = n * error * error
    if not 0 < variance < math.inf:
        return None, None, None
    seen = power.minimum_detectable_effect(variance, n, alpha=options.alpha)
    is_possible = seen is not None and not (is_share and seen > 1)  # shares cannot differ by more than 1
    fewest = min_units(found.test, options.alpha)
    observed, requested = (_documents_needed(effect, variance, fewest, options.alpha) for effect in effects)
    return seen if is_possible and not are_few else None, observed, requested


def _outcomes_needed(effect: float | None, discordance: float, alpha: float) -> int | None:
    if effect is None or abs(effect) > 1:
        return None
    return power.outcomes_needed(effect, discordance, alpha=alpha)


def _documents_needed(effect: float | None, variance: float, fewest: int, alpha: float) -> int | None:
    needed = None if effect is None else power.documents_needed(effect, variance, alpha=alpha)
    return None if needed is None else max(needed, fewest)


@dataclass(frozen=True, slots=True)
class _TestResult:
    """Result of a test; differences are second minus first.

    Attributes:
        unpaired: standard error that the difference would have if the two had different documents.
        correlation: correlation of the two over documents.
    """

    difference: Estimate
    test: str
    p: float | None
    ends: IntervalFunction = unbounded_interval
    counts: tuple[int, int, int] | None = None
    spread: float = 0.0
    unpaired: float | None = None
    correlation: float | None = None
    agreement: Agreement | None = None


def _correlated(first: float | None, second: float | None, error: float | None) -> tuple[float | None, float | None]:
    """The standard error of an unpaired difference, and the correlation, from the three standard errors."""
    if first is None or second is None:
        return None, None
    unpaired = math.hypot(first, second)
    if error is None or not 0 < unpaired < math.inf or not first * second:
        return unpaired, None
    correlation = (unpaired - error) * (unpaired + error) / (2 * first * second)
    return unpaired, max(-1.0, min(1.0, correlation))


# Means of documents


@dataclass(frozen=True, slots=True)
class _MeanDifference:
    """Difference of means over the same documents, by McNemar, sign-flip or bootstrap test."""

    match: MatchedPair
    sign_flip: SignFlipTest | None
    resampled: BootstrapPair | None

    def found(self, options: CompareOptions) -> _TestResult:
        differences = self.match.differences
        assert differences is not None
        wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
        n, binary = len(differences), self.match.is_binary
        if n == 0:
            return _TestResult(means.empty_estimate("none"), "none", None, counts=(0, 0, 0))
        test, p = self._test((wins, losses), options)
        spread, error = self._spread(differences), self._error(differences)
        mean = (wins - losses) / n if binary else float(differences.mean())
        difference = Estimate(mean, error, None, None, n, test, clusters=self.match.cluster_count)
        agreed = self._agreement(wins, losses) if binary else None
        counts = (wins, losses, n - wins - losses)
        one, other = self.match.scores
        unpaired, correlation = _correlated(one.stderr, other.stderr, error)
        return _TestResult(
            difference=difference,
            test=test,
            p=p,
            ends=self._ends((wins, losses), test, error),
            counts=counts,
            spread=spread,
            unpaired=unpaired,
            correlation=correlation,
            agreement=agreed,
        )

    def _agreement(self, wins: int, losses: int) -> Agreement:
        first, second = self.match.numbers
        n, units = len(first), self.match.units
        if units is not None:
            return Agreement((n - wins - losses) / n, agreement.clustered_kappa(first, second, units))
        both = int(np.sum(first * second))
        table = [[n - both - wins - losses, wins], [losses, both]]
        return Agreement((n - wins - losses) / n, agreement.kappa_of_table(table))

    def _spread(self, differences: Floats) -> float:
        """Standard deviation of the differences; 0 if they differ by rounding only."""
        if len(differences) < 2:
            return 0.0
        spread = float(np.std(differences, ddof=1))
        return 0.0 if spread <= _TOLERANCE * float(np.abs(self.match.numbers).max()) else spread

    def _error(self, differences: Floats) -> float | None:
        """Standard error of the mean difference; None if all measurements, or clusters, have the same difference."""
        units = self.match.units
        if len(differences) < 2 or (units is not None and self.match.cluster_count == 1):
            return None
        error: float | None = self._spread(differences) / math.sqrt(len(differences))
        if units is not None:
            from assay.stats.clustered import clustered_error  # few tasks have clusters

            error = clustered_error(differences, units)
        return error if error or self.match.is_binary else None

    def _test(self, counts: tuple[int, int], options: CompareOptions) -> tuple[str, float | None]:
        clusters = "" if self.match.clusters is None else "cluster-"
        if self.resampled is not None:
            return f"{clusters}bootstrap", self.resampled.test()[1]
        if self.sign_flip is not None:
            return f"{clusters}sign-flip", self.sign_flip.p
        if options.test == "midp":
            return "mcnemar-midp", paired.mcnemar_mid_p(*counts)
        return "mcnemar", paired.mcnemar_p(*counts)

    def _ends(self, counts: tuple[int, int], test: str, error: float | None) -> IntervalFunction:
        units = self.match.cluster_count or len(self.match.mine)
        if units < 2:
            return unbounded_interval
        if self.match.is_binary and (counts == (0, 0) or test.startswith("mcnemar")):
            return mcnemar_interval(*counts, units, test == "mcnemar-midp")
        if self.resampled is not None:
            return self.resampled.interval
        assert self.sign_flip is not None
        return sign_flip_interval(self.sign_flip, self.match, not error)


def _margin_of(ends: tuple[float, float], better: bool | None, margin: float) -> Margin:
    """Equivalent exactly when the 1 − 2α interval lies inside ±margin; an interval without width is not shown."""
    low, high = ends
    not_worse = None if better is None else low > -margin if better else high < margin
    is_shown = low < high and math.isfinite(low) and math.isfinite(high)
    return Margin(margin, -margin < low and high < margin, not_worse, *(ends if is_shown else (None, None)))


# Statistics of all documents together


@dataclass(frozen=True, slots=True)
class _StatisticDifference:
    """Difference of statistics over all documents, by bootstrap; sums over the same texts are tested by sign flips."""

    match: MatchedPair
    sign_flip: SignFlipTest | None
    resampled: BootstrapPair | None

    def found(self, options: CompareOptions) -> _TestResult:
        assert self.resampled is not None
        n, clusters = len(self.match.mine), "" if self.match.clusters is None else "cluster-"
        if n == 0:
            return _TestResult(means.empty_estimate("bootstrap"), "none", None)
        difference, p = self.resampled.difference()
        test = f"{clusters}bootstrap"
        ends: IntervalFunction = self.resampled.interval
        units = self.match.cluster_count or n
        if self.sign_flip is not None and difference.value is not None and math.isfinite(difference.value):
            test, p = f"{clusters}sign-flip", self.sign_flip.p
            ends = unbounded_interval if units < 2 else sign_flip_interval(self.sign_flip, self.match)
            difference = replace(difference, method=test)
        one, other = self.match.values
        counts = (0, 0, n) if one == other else None
        first, second = (_bootstrap_stderr(own.replicates) for own in (self.resampled.first, self.resampled.second))
        unpaired, correlation = _correlated(first, second, difference.stderr)
        return _TestResult(difference, test, p, ends, counts, unpaired=unpaired, correlation=correlation)


def _bootstrap_stderr(replicates: Floats) -> float | None:
    known = replicates[np.isfinite(replicates)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None


# Agreement


def label_agreement(
    first: Sequence[Hashable], second: Sequence[Hashable], clusters: Sequence[str] | None, seed: int
) -> Agreement:
    """Agreement of two systems' labels over at least one document."""
    equal = sum(one == other for one, other in zip(first, second, strict=True)) / len(first)
    return Agreement(equal, agreement.cohen_kappa(first, second, seed=seed, clusters=clusters))


# Documents with a different value


def _changed_documents(match: MatchedPair, most: int) -> tuple[Flip, ...]:
    """Documents with a different value, the largest losses and gains first."""
    if not most or match.first.recorded.aggregation not in (
        *MEAN_AGGREGATIONS,
        "perplexity",
        "median",
        "median_of_known",
    ):
        return ()
    found = [
        Flip(match.first.recorded.documents[mine], float(one), float(other))
        for mine, theirs in zip(match.mine, match.theirs, strict=True)
        for one, other in ((_number(match.first, mine), _number(match.second, theirs)),)
        if one != other
    ]
    found.sort(key=lambda flip: (-abs(flip.second - flip.first), flip.document))
    if most == ALL_FLIPS:
        return tuple(found)
    # Losses and gains alternate, so that a short list shows both.
    gains = [flip for flip in found if flip.second > flip.first]
    losses = [flip for flip in found if flip.second < flip.first]
    return (*losses[:most], *gains[:most])


def _number(entry: SystemEntry, place: int) -> float:
    value = entry.recorded.values[place]
    return float(value) if not isinstance(value, tuple) else math.nan
