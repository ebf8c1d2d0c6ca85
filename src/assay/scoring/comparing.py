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
from assay.scoring.flipping import flip_ps
from assay.scoring.keeping import MEANS
from assay.scoring.matching import Entry, Matched
from assay.scoring.redrawing import Redrawn, difference_test, is_redrawable, redrawn_pairs, replicates_for
from assay.scoring.verdicts import are_too_few
from assay.stats import agreement, bootstrap, clustered, equivalence, means, paired, power

Floats = NDArray[np.float64]
# A spread so small, beside the values it is made of, is what rounding leaves of 0.
_HAIR = 1e-13


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair's numbers, and the difference of every document where the metric is a mean of them."""

    score: PairedScore
    differences: Floats | None
    clusters: Sequence[str] | None
    documents: Sequence[int]


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
    flips = flip_ps(matches, wish)
    drawn: Sequence[_Pair | None] = [None] * len(matches)
    if wish.test == "bootstrap" or not is_mean:
        drawn = redrawn_pairs(matches, wish.seed)
    kind = _Documents if is_mean else _Whole
    return [
        _compared(match, kind(match, flips.get(id(match)), own).score(higher_is_better, wish), higher_is_better, wish)
        for match, own in zip(matches, drawn, strict=True)
    ]


def _compared(match: Matched, found: _Found, better: bool | None, wish: CompareWish) -> Compared:
    kept = match.first.kept
    n = len(match.mine)
    left = len(kept.documents) - n, len(match.second.kept.documents) - n
    is_share = better is not False and match.first.is_share and match.second.is_share
    least, needed = _sight(match, found, is_share, wish)
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
        effect=found.effect,
        detectable=least,
        needed=needed,
        clusters=match.cluster_count,
        margin=found.margin,
        agreement=found.agreement,
        flips=_flips(match, wish.flips),
    )
    documents = kept.documents if match.is_whole else [kept.documents[place] for place in match.mine]
    differences = match.gaps if kept.aggregation in MEANS else None
    return Compared(score, differences, match.clusters, documents)


def _sight(match: Matched, found: _Found, is_share: bool, wish: CompareWish) -> tuple[float | None, int | None]:
    """The smallest difference that so many documents show, and how many it takes to show the wanted one.

    Both depend on how much one document's difference varies; of outcomes, on how many differ at all.
    """
    n, effect = len(match.mine), wish.effect if wish.effect is not None else found.difference.value
    replicates = replicates_for(match.first.kept.aggregation)
    are_few = are_too_few(found.test, match.cluster_count or n, wish.alpha, replicates)
    if effect is None or n == 0:
        return None, None
    if match.is_binary and match.clusters is None and found.counts is not None:
        discordance = (n - found.counts[2]) / n
        least = None if are_few else power.detectable_outcomes(discordance, n, alpha=wish.alpha)
        return least, power.outcomes_needed(effect, discordance, alpha=wish.alpha) if abs(effect) <= 1 else None
    error = found.difference.stderr or 0.0
    variance = n * error * error
    if not 0 < variance < math.inf:
        return None, None
    seen = power.minimum_detectable_effect(variance, n, alpha=wish.alpha)
    is_possible = seen is not None and not (is_share and seen > 1)  # shares cannot be so far apart
    needed = power.documents_needed(effect, variance, alpha=wish.alpha)
    # No test gives a small p to fewer.
    fewest = bootstrap.FEWEST if found.test.endswith("bootstrap") else power.fewest_to_show(wish.alpha)
    return seen if is_possible and not are_few else None, None if needed is None else max(needed, fewest)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a test says: second less first."""

    difference: Estimate
    test: str
    p: float | None
    counts: tuple[int, int, int] | None = None
    effect: Effect | None = None
    margin: Margin | None = None
    agreement: Agreement | None = None


_Pair = tuple[Redrawn, Redrawn]


# Means of documents


@dataclass(frozen=True, slots=True)
class _Documents:
    """Two systems' numbers on the same documents, and what flips and redrawn sets say where they were wanted."""

    match: Matched
    flipped: float | None
    drawn: _Pair | None

    def score(self, better: bool | None, wish: CompareWish) -> _Found:
        gaps = self.match.gaps
        assert gaps is not None
        wins, losses = int(np.sum(gaps > 0)), int(np.sum(gaps < 0))
        n, binary = len(gaps), self.match.is_binary
        spread = self._spread(gaps)
        difference = _with_width(self._difference(gaps, spread, (wins, losses)))
        if self.match.first.is_share and self.match.second.is_share:
            difference = _of_shares(difference)
        test, p = self._test((wins, losses), wish) if n else ("none", None)
        mean = float(gaps.mean()) if n else None
        size = power.discordant_odds_ratio(wins, losses) if binary else power.dz_of(mean, spread, n)
        # Its interval takes documents for independent.
        ends = (size.low, size.high) if self.match.clusters is None else (None, None)
        margin = None
        if wish.margin is not None:
            margin = self._margin(difference, (wins, losses), better, wish)
        agreed = self._agreement(wins, losses) if binary and n else None
        effect = Effect(size.name, size.value, *ends)
        return _Found(difference, test, p, (wins, losses, n - wins - losses), effect, margin, agreed)

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

    def _difference(self, gaps: Floats, spread: float, counts: tuple[int, int]) -> Estimate:
        first, second = self.match.numbers
        clusters, units = self.match.clusters, self.match.units
        if clusters is None:
            outcomes = (int(np.sum(first * second)), *counts) if self.match.is_binary else None
            return paired.paired_difference(gaps, spread, outcomes)
        found = None if units is None else clustered.difference_of_units(gaps, units)
        if found is None:  # no error, which takes care
            found = clustered.clustered_difference(second.tolist(), first.tolist(), clusters)
        return found.estimate

    def _test(self, counts: tuple[int, int], wish: CompareWish) -> tuple[str, float | None]:
        clusters = "" if self.match.clusters is None else "cluster-"
        if self.drawn is not None:
            return f"{clusters}bootstrap", difference_test(self.drawn, self.match)[1]
        if self.flipped is not None:
            return f"{clusters}sign-flip", self.flipped
        if wish.test == "midp":
            return "mcnemar-midp", paired.mcnemar_mid_p(*counts)
        return "mcnemar", paired.mcnemar_p(*counts)

    def _margin(self, difference: Estimate, counts: tuple[int, int], better: bool | None, wish: CompareWish) -> Margin:
        assert wish.margin is not None
        if self.match.clusters is not None:
            return _margin_of(_reach(difference, self.match, wish.alpha), better, wish.margin)
        n = len(self.match.mine)
        if self.match.is_binary:
            tails = equivalence.outcome_tails(*counts, n, wish.alpha)
        else:
            tails = equivalence.measurement_tails(difference.value or 0.0, difference.stderr or 0.0, n, wish.alpha)
        if tails is None:
            return _margin_of(None, better, wish.margin)
        is_above, is_below = tails.is_higher(-wish.margin) <= wish.alpha, tails.is_lower(wish.margin) <= wish.alpha
        not_worse = None if better is None else is_above if better else is_below
        ends = (None, None) if tails.low == tails.high else (tails.low, tails.high)
        return Margin(wish.margin, is_above and is_below, not_worse, *ends)


def _of_shares(found: Estimate) -> Estimate:
    """Shares cannot be further apart than 1."""
    if found.low is None or found.high is None or (found.low >= -1 and found.high <= 1):
        return found
    return replace(found, low=max(-1.0, found.low), high=min(1.0, found.high))


def _with_width(found: Estimate) -> Estimate:
    """Without error and interval where all documents differ alike: that says nothing of how far another would lie."""
    if found.low is None or found.low != found.high:
        return found
    return replace(found, stderr=None, low=None, high=None)


def _reach(difference: Estimate, match: Matched, alpha: float) -> tuple[float, float] | None:
    """The 1 − 2α interval of clusters by Student's t."""
    value, error, clusters = difference.value, difference.stderr, match.cluster_count or 0
    if value is None or clusters < 2:
        return None
    if error is None:  # all clusters differ alike: the sign test, as for documents
        return (value, value) if 0.5**clusters <= alpha else None
    if error == 0:  # outcomes of 0 and 1: Newcombe's interval is wide enough
        return None if difference.low is None or difference.high is None else (difference.low, difference.high)
    reach = means.t_quantile(clusters - 1, 1 - 2 * alpha) * error
    return value - reach, value + reach


def _margin_of(ends: tuple[float, float] | None, better: bool | None, margin: float) -> Margin:
    """Equivalent exactly when the 1 − 2α interval lies inside ±margin; one without width is not shown."""
    if ends is None:
        return Margin(margin, False, None if better is None else False, None, None)
    low, high = ends
    not_worse = None if better is None else low > -margin if better else high < margin
    shown = (None, None) if low == high else ends
    return Margin(margin, -margin < low and high < margin, not_worse, *shown)


# Statistics of all documents together


@dataclass(frozen=True, slots=True)
class _Whole:
    """By redrawing the same documents for both; the p of scores that are sums over the same texts by flipped signs."""

    match: Matched
    flipped: float | None
    drawn: _Pair | None

    def score(self, better: bool | None, wish: CompareWish) -> _Found:
        assert self.drawn is not None
        n, clusters = len(self.match.mine), "" if self.match.clusters is None else "cluster-"
        if n == 0:
            return _Found(means.nothing("bootstrap"), "none", None)
        difference, p = difference_test(self.drawn, self.match)
        test = f"{clusters}bootstrap"
        if self.flipped is not None and difference.value is not None and math.isfinite(difference.value):
            test, p = f"{clusters}sign-flip", self.flipped
        one, other = self.match.values
        margin = None if wish.margin is None else self._margin(wish.margin, better, wish)
        counts = (0, 0, n) if one == other else None
        return _Found(bootstrap.spread(difference), test, p, counts, margin=margin)

    def _margin(self, margin: float, better: bool | None, wish: CompareWish) -> Margin:
        assert self.drawn is not None
        ends, _ = difference_test(self.drawn, self.match, 1 - 2 * wish.alpha)
        known = None if ends.low is None or ends.high is None else (ends.low, ends.high)
        if known is not None and known[0] == known[1]:  # redrawing tells nothing: the sign test, as for means
            known = known if 0.5 ** (self.match.cluster_count or len(self.match.mine)) <= wish.alpha else None
        return _margin_of(known, better, margin)


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
