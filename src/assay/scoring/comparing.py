"""Systems on the same documents of one task and metric: differences, tests, effects, what so many documents can show.

In: every system's documents, and which two to compare. Out: a `PairedScore` per pair, without correction and verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.core.comparisons import (
    EVERY_FLIP,
    Agreement,
    CompareWish,
    Effect,
    Flip,
    Margin,
    PairedScore,
)
from assay.core.scores import Estimate
from assay.scoring.flipping import pair_flips
from assay.scoring.inverting import Ends, ends_of_flips, ends_of_outcomes, ends_of_redrawn, everything, shown
from assay.scoring.keeping import MEANS
from assay.scoring.matching import Entry, Matched
from assay.scoring.redrawing import Redrawn, difference_test, is_redrawable, redrawn_pairs, replicates_for
from assay.scoring.verdicts import are_too_few, tested_levels
from assay.stats import agreement, bootstrap, means, paired, power
from assay.stats.clustered import clustered_error
from assay.stats.flips import FlipTest

Floats = NDArray[np.float64]
# A spread so small, beside the values it is made of, is what rounding leaves of 0.
_HAIR = 1e-13


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair's numbers, and the difference of every document where the metric is a mean of them.

    Attributes:
        score: with the intervals of a single test.
        ends: the interval of the difference at any level, by the inversion of the pair's test.
        spread: standard deviation of the differences, the unit of `d_z`; 0 where all differ alike or it has no say.
        is_bounded: whether both scores are means of values from 0 to 1, which are never further apart than 1.
        is_style: whether what stands behind `@` in the task's name is a style, chosen on purpose, and not a prompt.
    """

    score: PairedScore
    differences: Floats | None
    clusters: Sequence[str] | None
    documents: Sequence[int]
    ends: Ends
    spread: float = 0.0
    is_bounded: bool = False
    is_style: bool = False

    def at(self, alpha: float) -> PairedScore:
        """The pair with intervals of level 1 − α."""
        score = self.score
        difference = shown(score.difference, self.ends(1 - alpha), alpha, self.is_bounded)
        return replace(score, difference=difference, effect=_effect(score, difference, self.spread))


def at_tested_levels(items: Sequence[Compared], wish: CompareWish) -> list[PairedScore]:
    """The pairs, each with the interval of the level at which the correction over all of them tests it."""
    levels = tested_levels([item.score.p for item in items], wish)
    return [item.at(level) for item, level in zip(items, levels, strict=True)]


def is_comparable(aggregation: str) -> bool:
    """Whether there is a paired test for metrics that are aggregated so."""
    return aggregation in MEANS or is_redrawable(aggregation)


def are_alike(first: str, second: str) -> bool:
    """Whether values that are aggregated so and so mean the same, document by document."""
    return first == second or (first in MEANS and second in MEANS)


def compare_all(matches: Sequence[Matched], higher_is_better: bool | None, wish: CompareWish) -> list[Compared]:
    """Every pair's numbers.

    Args:
        matches: the pairs of one task and metric.
        higher_is_better: the metric's direction.
        wish: tests and margin.
    """
    is_mean = bool(matches) and matches[0].first.kept.aggregation in MEANS
    flips = pair_flips(matches, wish)
    drawn: Sequence[_Pair | None] = [None] * len(matches)
    if wish.test == "bootstrap" or not is_mean:
        drawn = redrawn_pairs(matches, wish.seed)
    kind = _Documents if is_mean else _Whole
    return [
        _compared(match, kind(match, flips.get(id(match)), own).found(wish), higher_is_better, wish)
        for match, own in zip(matches, drawn, strict=True)
    ]


def _compared(match: Matched, found: _Found, better: bool | None, wish: CompareWish) -> Compared:
    kept = match.first.kept
    n = len(match.mine)
    left = len(kept.documents) - n, len(match.second.kept.documents) - n
    is_bounded = match.first.is_share and match.second.is_share
    is_share = better is not False and is_bounded
    least, needed, wished = _sight(match, found, is_share, wish)
    wins, losses, ties = found.counts or (None, None, None)
    head = (kept.task, kept.metric, kept.filter, better, is_share, match.first.label, match.second.label, n, left)
    score = PairedScore(
        *head,
        match.scores,
        found.difference,
        found.test,
        found.p,
        wins=wins,
        losses=losses,
        ties=ties,
        unpaired=found.unpaired,
        correlation=found.correlation,
        detectable=least,
        needed=needed,
        needed_to_detect=wished,
        clusters=match.cluster_count,
        margin=None if wish.margin is None else _margin_of(found.ends(1 - 2 * wish.alpha), better, wish.margin),
        agreement=found.agreement,
        flips=_flips(match, wish.flips),
    )
    documents = kept.documents if match.is_whole else [kept.documents[place] for place in match.mine]
    differences = match.gaps if kept.aggregation in MEANS else None
    item = Compared(score, differences, match.clusters, documents, found.ends, found.spread, is_bounded)
    return replace(item, score=item.at(wish.alpha))


def _effect(score: PairedScore, difference: Estimate, spread: float) -> Effect | None:
    """How large the difference is, free of units; its interval is that of the difference, and agrees with it."""
    if score.wins is None or score.losses is None or score.test == "none":
        return None
    if score.agreement is not None:  # outcomes of 0 and 1
        ends: tuple[float | None, float | None] = (None, None)
        if score.test.startswith("mcnemar") and score.wins + score.losses:
            is_mid_p = score.test == "mcnemar-midp"
            ends = power.odds_ratio_interval(score.wins, score.losses, difference.level, is_mid_p)
        return Effect("odds_ratio", power.odds_ratio(score.wins, score.losses), *ends)
    value = difference.value
    if not spread or value is None:
        return Effect("d_z", 0.0 if value == 0 else None, None, None)
    if score.clusters is not None or difference.low is None or difference.high is None:
        return Effect("d_z", value / spread, None, None)
    return Effect("d_z", value / spread, difference.low / spread, difference.high / spread)


def _sight(
    match: Matched, found: _Found, is_share: bool, wish: CompareWish
) -> tuple[float | None, int | None, int | None]:
    """The smallest difference that so many documents show; how many show the observed one, and the wished one.

    All depend on how much one document's difference varies; of outcomes, on how many differ at all.
    """
    n, effects = len(match.mine), (found.difference.value, wish.detect)
    replicates = replicates_for(match.first.kept.aggregation)
    are_few = are_too_few(found.test, match.cluster_count or n, wish.alpha, replicates)
    if found.difference.value is None or n == 0:
        return None, None, None
    if match.is_binary and match.clusters is None and found.counts is not None:
        discordance = (n - found.counts[2]) / n
        least = None if are_few else power.detectable_outcomes(discordance, n, alpha=wish.alpha)
        observed, wished = (_outcomes_needed(effect, discordance, wish.alpha) for effect in effects)
        return least, observed, wished
    error = found.difference.stderr or 0.0
    variance = n * error * error
    if not 0 < variance < math.inf:
        return None, None, None
    seen = power.minimum_detectable_effect(variance, n, alpha=wish.alpha)
    is_possible = seen is not None and not (is_share and seen > 1)  # shares cannot be so far apart
    # No test gives a small p to fewer.
    fewest = bootstrap.FEWEST if found.test.endswith("bootstrap") else power.fewest_to_show(wish.alpha)
    observed, wished = (_documents_needed(effect, variance, fewest, wish.alpha) for effect in effects)
    return seen if is_possible and not are_few else None, observed, wished


def _outcomes_needed(effect: float | None, discordance: float, alpha: float) -> int | None:
    if effect is None or abs(effect) > 1:
        return None
    return power.outcomes_needed(effect, discordance, alpha=alpha)


def _documents_needed(effect: float | None, variance: float, fewest: int, alpha: float) -> int | None:
    needed = None if effect is None else power.documents_needed(effect, variance, alpha=alpha)
    return None if needed is None else max(needed, fewest)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a test says: second less first.

    Attributes:
        unpaired: standard error that the difference would have, were the documents of the two not the same.
        correlation: of the two over documents.
    """

    difference: Estimate
    test: str
    p: float | None
    ends: Ends = everything
    counts: tuple[int, int, int] | None = None
    spread: float = 0.0
    unpaired: float | None = None
    correlation: float | None = None
    agreement: Agreement | None = None


_Pair = tuple[Redrawn, Redrawn]


def _correlated(first: float | None, second: float | None, error: float | None) -> tuple[float | None, float | None]:
    """The standard error of an unpaired difference, and the correlation that makes the paired one: from all three."""
    if first is None or second is None:
        return None, None
    unpaired = math.hypot(first, second)
    if error is None or not 0 < unpaired < math.inf or not first * second:
        return unpaired, None
    correlation = (unpaired - error) * (unpaired + error) / (2 * first * second)
    return unpaired, max(-1.0, min(1.0, correlation))


# Means of documents


@dataclass(frozen=True, slots=True)
class _Documents:
    """Two systems' numbers on the same documents, and what flips and redrawn sets say where they were wanted."""

    match: Matched
    flipped: FlipTest | None
    drawn: _Pair | None

    def found(self, wish: CompareWish) -> _Found:
        gaps = self.match.gaps
        assert gaps is not None
        wins, losses = int(np.sum(gaps > 0)), int(np.sum(gaps < 0))
        n, binary = len(gaps), self.match.is_binary
        if n == 0:
            return _Found(means.nothing("none"), "none", None, counts=(0, 0, 0))
        test, p = self._test((wins, losses), wish)
        spread, error = self._spread(gaps), self._error(gaps)
        mean = (wins - losses) / n if binary else float(gaps.mean())
        difference = Estimate(mean, error, None, None, n, test, clusters=self.match.cluster_count)
        agreed = self._agreement(wins, losses) if binary else None
        counts = (wins, losses, n - wins - losses)
        one, other = self.match.scores
        correlated = _correlated(one.stderr, other.stderr, error)
        return _Found(difference, test, p, self._ends((wins, losses), test, error), counts, spread, *correlated, agreed)

    def _agreement(self, wins: int, losses: int) -> Agreement:
        first, second = self.match.numbers
        n, units = len(first), self.match.units
        if units is not None:
            return Agreement((n - wins - losses) / n, agreement.clustered_kappa(first, second, units))
        both = int(np.sum(first * second))
        table = [[n - both - wins - losses, wins], [losses, both]]
        return Agreement((n - wins - losses) / n, agreement.kappa_of_table(table))

    def _spread(self, gaps: Floats) -> float:
        """Standard deviation of the differences; 0 where rounding alone tells them apart."""
        if len(gaps) < 2:
            return 0.0
        spread = float(np.std(gaps, ddof=1))
        return 0.0 if spread <= _HAIR * float(np.abs(self.match.numbers).max()) else spread

    def _error(self, gaps: Floats) -> float | None:
        """Standard error of the mean difference; None where measurements, or clusters, all differ alike."""
        units = self.match.units
        if len(gaps) < 2 or (units is not None and self.match.cluster_count == 1):
            return None
        error = self._spread(gaps) / math.sqrt(len(gaps)) if units is None else clustered_error(gaps, units)
        return error if error or self.match.is_binary else None

    def _test(self, counts: tuple[int, int], wish: CompareWish) -> tuple[str, float | None]:
        clusters = "" if self.match.clusters is None else "cluster-"
        if self.drawn is not None:
            return f"{clusters}bootstrap", difference_test(self.drawn, self.match)[1]
        if self.flipped is not None:
            return f"{clusters}sign-flip", self.flipped.p
        if wish.test == "midp":
            return "mcnemar-midp", paired.mcnemar_mid_p(*counts)
        return "mcnemar", paired.mcnemar_p(*counts)

    def _ends(self, counts: tuple[int, int], test: str, error: float | None) -> Ends:
        units = self.match.cluster_count or len(self.match.mine)
        if units < 2:
            return everything
        if self.match.is_binary and (counts == (0, 0) or test.startswith("mcnemar")):
            return ends_of_outcomes(*counts, units, test == "mcnemar-midp")
        if self.drawn is not None:
            return ends_of_redrawn(self.drawn, self.match)
        assert self.flipped is not None
        return ends_of_flips(self.flipped, self.match, not error)


def _margin_of(ends: tuple[float, float], better: bool | None, margin: float) -> Margin:
    """Equivalent exactly when the 1 − 2α interval lies inside ±margin; one without width is not shown."""
    low, high = ends
    not_worse = None if better is None else low > -margin if better else high < margin
    is_shown = low < high and math.isfinite(low) and math.isfinite(high)
    return Margin(margin, -margin < low and high < margin, not_worse, *(ends if is_shown else (None, None)))


# Statistics of all documents together


@dataclass(frozen=True, slots=True)
class _Whole:
    """By redrawing the same documents for both; scores that are sums over the same texts are tested by sign flips."""

    match: Matched
    flipped: FlipTest | None
    drawn: _Pair | None

    def found(self, wish: CompareWish) -> _Found:
        assert self.drawn is not None
        n, clusters = len(self.match.mine), "" if self.match.clusters is None else "cluster-"
        if n == 0:
            return _Found(means.nothing("bootstrap"), "none", None)
        difference, p = difference_test(self.drawn, self.match)
        difference = bootstrap.spread(difference)
        test, ends = f"{clusters}bootstrap", ends_of_redrawn(self.drawn, self.match)
        units = self.match.cluster_count or n
        if self.flipped is not None and difference.value is not None and math.isfinite(difference.value):
            test, p = f"{clusters}sign-flip", self.flipped.p
            ends = everything if units < 2 else ends_of_flips(self.flipped, self.match)
            difference = replace(difference, method=test)
        one, other = self.match.values
        counts = (0, 0, n) if one == other else None
        first, second = (_redrawn_error(own.replicates) for own in self.drawn)
        return _Found(difference, test, p, ends, counts, 0.0, *_correlated(first, second, difference.stderr))


def _redrawn_error(replicates: Floats) -> float | None:
    known = replicates[np.isfinite(replicates)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None


# Documents that are the same in both


def agreement_of(
    first: Sequence[Hashable], second: Sequence[Hashable], clusters: Sequence[str] | None, seed: int
) -> Agreement:
    """How far two systems give the same labels, document by document; there is at least one."""
    equal = sum(one == other for one, other in zip(first, second, strict=True)) / len(first)
    return Agreement(equal, agreement.cohen_kappa(first, second, seed=seed, clusters=clusters))


# Documents that score otherwise


def _flips(match: Matched, most: int) -> tuple[Flip, ...]:
    """Documents with another value, the largest losses and gains first."""
    if not most or match.first.kept.aggregation not in (*MEANS, "perplexity", "median", "median_of_known"):
        return ()
    found = [
        Flip(match.first.kept.documents[mine], float(one), float(other))
        for mine, theirs in zip(match.mine, match.theirs, strict=True)
        for one, other in ((_number(match.first, mine), _number(match.second, theirs)),)
        if one != other
    ]
    found.sort(key=lambda flip: (-abs(flip.second - flip.first), flip.document))
    if most == EVERY_FLIP:
        return tuple(found)
    # Both ways in turn, so that a few show either.
    gains = [flip for flip in found if flip.second > flip.first]
    losses = [flip for flip in found if flip.second < flip.first]
    return (*losses[:most], *gains[:most])


def _number(entry: Entry, place: int) -> float:
    value = entry.kept.values[place]
    return float(value) if not isinstance(value, tuple) else math.nan
