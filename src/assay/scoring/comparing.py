"""Systems on the same documents of one task and metric: differences, tests, effects, what so many documents can show.

In: every system's documents, and which two to compare. Out: a `PairedScore` per pair, without correction and verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

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
from assay.scoring.keeping import MEANS
from assay.scoring.matching import Entry, Matched
from assay.scoring.redrawing import Redrawn, is_redrawable, redrawn_pairs
from assay.scoring.verdicts import REPLICATES, are_too_few
from assay.stats import agreement, bootstrap, clustered, equivalence, means, paired, power

Floats = NDArray[np.float64]
# Fewer pairs than this are flipped one by one.
_FEW_PAIRS = 3
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
    flips = _flip_table(matches, wish)
    if matches and matches[0].first.kept.aggregation not in MEANS:
        drawn = redrawn_pairs(matches, wish.seed)
        found = [
            _whole(match, own, higher_is_better, wish, flips.get(id(match)))
            for match, own in zip(matches, drawn, strict=True)
        ]
    else:
        found = [
            _Documents(*match.numbers, match.clusters, match.units).score(higher_is_better, wish, flips.get(id(match)))
            for match in matches
        ]
    return [_compared(match, own, higher_is_better, wish) for match, own in zip(matches, found, strict=True)]


def _compared(match: Matched, found: _Found, better: bool | None, wish: CompareWish) -> Compared:
    kept = match.first.kept
    scores = match.scores
    n = len(match.mine)
    left = len(kept.documents) - n, len(match.second.kept.documents) - n
    is_share = kept.aggregation in MEANS and better is not False and all(map(_is_share, scores))
    differences: Floats | None = None
    if kept.aggregation in MEANS:
        one, other = match.numbers
        differences = other - one
    # What is seen depends on how much one document's difference varies, whatever the test.
    error = found.difference.stderr or 0.0
    variance = n * error * error
    effect = wish.effect if wish.effect is not None else found.difference.value
    can_see = 0 < variance < math.inf and effect is not None
    least = power.minimum_detectable_effect(variance, n, alpha=wish.alpha) if can_see else None
    units = n if match.units is None else _count(match.units)
    if are_too_few(found.test, units, wish.alpha) or (is_share and least is not None and least > 1):
        least = None  # shares cannot be so far apart
    wins, losses, ties = found.counts or (None, None, None)
    head = (kept.task, kept.metric, kept.filter, better, is_share, match.first.label, match.second.label, n, left)
    score = PairedScore(
        *head,
        scores,
        found.difference,
        found.test,
        found.p,
        wins=wins,
        losses=losses,
        ties=ties,
        effect=found.effect,
        detectable=least,
        needed=power.documents_needed(effect or 0.0, variance, alpha=wish.alpha) if can_see else None,
        clusters=None if match.clusters is None else units,
        margin=found.margin,
        agreement=found.agreement,
        flips=_flips(match, wish.flips),
    )
    documents = kept.documents if match.is_whole else [kept.documents[place] for place in match.mine]
    return Compared(score, differences, match.clusters, documents)


def _is_share(estimate: Estimate) -> bool:
    return estimate.value is not None and 0 <= estimate.value <= 1


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


# Flipped signs


def _flip_table(matches: Sequence[Matched], wish: CompareWish) -> dict[int, float]:
    """The p of sign flips by pair: for many pairs on the same documents one draw of flips serves all."""
    if wish.test == "bootstrap" or len(matches) <= _FEW_PAIRS:
        return {}
    entries = {id(entry): entry for match in matches for entry in (match.first, match.second)}
    alike = {(tuple(own.kept.documents), own.kept.clusters and tuple(own.kept.clusters)) for own in entries.values()}
    if len(alike) != 1 or not all(match.is_whole for match in matches):
        return {}
    units = matches[0].units
    addends = [own.addends for own in entries.values()]
    known = [own for own in addends if own is not None and np.all(np.isfinite(own))]
    if len(known) < len(addends) or any(match.addends is None for match in matches):
        return {}
    if wish.test != "permutation" and units is None and all(map(_is_binary, known)):
        return {}
    # A cluster's documents turn together: as many signs as clusters, of their sums.
    every = known if units is None else [np.bincount(units, own) for own in known]
    order = {name: place for place, name in enumerate(entries)}
    table = paired.sign_flip_table([row.tolist() for row in every], np.random.default_rng(wish.seed))
    return {id(match): table[order[id(match.second)]][order[id(match.first)]] for match in matches}


def _flipped(gaps: Floats, clusters: Sequence[str] | None, wish: CompareWish, known: float | None) -> tuple[str, float]:
    """The test of flipped signs and its p, which may be known from a table of many pairs."""
    name = "sign-flip" if clusters is None else "cluster-sign-flip"
    if known is not None:
        return name, known
    generator = np.random.default_rng(wish.seed)
    if clusters is None:
        return name, paired.sign_flip_p(gaps.tolist(), generator)
    return name, clustered.cluster_sign_flip_p(gaps.tolist(), clusters, generator)


def _count(units: NDArray[np.int64]) -> int:
    return int(units.max(initial=-1)) + 1


def _is_binary(values: Floats) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


# Means of documents


@dataclass(frozen=True, slots=True)
class _Documents:
    """Two systems' numbers on the same documents."""

    first: Floats
    second: Floats
    clusters: Sequence[str] | None
    units: NDArray[np.int64] | None

    def score(self, better: bool | None, wish: CompareWish, known_p: float | None) -> _Found:
        gaps = self.second - self.first
        wins, losses = int(np.sum(gaps > 0)), int(np.sum(gaps < 0))
        n = len(gaps)
        binary = _is_binary(self.first) and _is_binary(self.second)
        spread = self._spread(gaps)
        difference = self._difference(gaps, spread, (wins, losses), binary)
        test, p = self._test(gaps, (wins, losses), binary, wish, known_p) if n else ("none", None)
        mean = float(gaps.mean()) if n else None
        size = power.discordant_odds_ratio(wins, losses) if binary else power.dz_of(mean, spread, n)
        effect = Effect(size.name, size.value, size.low, size.high)
        margin = None
        if wish.margin is not None:
            margin = self._margin(difference, (wins, losses) if binary else None, better, wish)
        agreed = self._agreement(wins, losses) if binary and n else None
        return _Found(difference, test, p, (wins, losses, n - wins - losses), effect, margin, agreed)

    def _agreement(self, wins: int, losses: int) -> Agreement:
        n = len(self.first)
        if self.units is not None:
            kappa = agreement.clustered_kappa(self.first, self.second, self.units)
            return Agreement((n - wins - losses) / n, kappa)
        both = int(np.sum(self.first * self.second))
        table = [[n - both - wins - losses, wins], [losses, both]]
        return Agreement((n - wins - losses) / n, agreement.kappa_of_table(table))

    def _spread(self, gaps: Floats) -> float:
        """Standard deviation of the differences; 0 where rounding alone tells them apart."""
        if len(gaps) < 2:
            return 0.0
        spread = float(np.std(gaps, ddof=1))
        return 0.0 if spread <= _HAIR * float(np.abs([self.first, self.second]).max()) else spread

    def _difference(self, gaps: Floats, spread: float, counts: tuple[int, int], binary: bool) -> Estimate:
        """As `paired_difference`, on arrays: thousands of pairs are compared in a moment."""
        n = len(gaps)
        if self.clusters is not None:
            found = None if self.units is None else clustered.difference_of_units(gaps, self.units)
            if found is None:  # no error, which takes care
                found = clustered.clustered_difference(self.second.tolist(), self.first.tolist(), self.clusters)
            return found.estimate
        method = "newcombe" if binary else "t"
        if n == 0:
            return means.nothing(method)
        wins, losses = counts
        mean = (wins - losses) / n if binary else float(gaps.mean())
        if n == 1:
            return Estimate(mean, None, None, None, 1, method)
        error = spread / math.sqrt(n)
        if binary:
            low, high = paired.newcombe_interval(int(np.sum(self.first * self.second)), wins, losses, n)
        elif n == 2 and error == 0:  # two equal differences say nothing of how far a third would lie from them
            return Estimate(mean, None, None, None, n, method)
        else:
            reach = means.t_quantile(n - 1) * error
            low, high = mean - reach, mean + reach
        return Estimate(mean, error, low, high, n, method)

    def _test(
        self, gaps: Floats, counts: tuple[int, int], binary: bool, wish: CompareWish, known_p: float | None
    ) -> tuple[str, float | None]:
        if wish.test == "bootstrap":
            sides, how = (
                np.stack([self.first, self.second], axis=1),
                bootstrap.Resampling(wish.seed, REPLICATES),
            )
            name = "bootstrap" if self.clusters is None else "cluster-bootstrap"
            return name, bootstrap.bootstrap_test(sides, _mean_gap, how, self.clusters)[1]
        is_plain = binary and self.clusters is None
        if is_plain and wish.test == "midp":
            return "mcnemar-midp", paired.mcnemar_mid_p(*counts)
        if is_plain and wish.test != "permutation":
            return "mcnemar", paired.mcnemar_p(*counts)
        return _flipped(gaps, self.clusters, wish, known_p)

    def _margin(
        self, difference: Estimate, counts: tuple[int, int] | None, better: bool | None, wish: CompareWish
    ) -> Margin:
        assert wish.margin is not None
        if self.clusters is not None:
            count = 0 if self.units is None else _count(self.units)
            return _margin_of(_reach(difference, count, wish.alpha), better, wish.margin)
        n = len(self.first)
        if counts is not None:
            tails = equivalence.outcome_tails(*counts, n, wish.alpha)
        else:
            tails = equivalence.measurement_tails(difference.value or 0.0, difference.stderr or 0.0, n, wish.alpha)
        if tails is None:
            return _margin_of(None, better, wish.margin)
        is_above, is_below = tails.is_higher(-wish.margin) <= wish.alpha, tails.is_lower(wish.margin) <= wish.alpha
        not_worse = None if better is None else is_above if better else is_below
        return Margin(wish.margin, is_above and is_below, not_worse, tails.low, tails.high)


def _mean_gap(rows: Floats) -> Floats:
    return np.asarray((rows[..., 1] - rows[..., 0]).mean(axis=1))


def _reach(difference: Estimate, clusters: int, alpha: float) -> tuple[float, float] | None:
    """The 1 − 2α interval of clusters by Student's t."""
    value, error = difference.value, difference.stderr
    if value is None or error is None:
        return None
    if error == 0 and difference.method != "clustered-t":  # outcomes of 0 and 1: Newcombe's interval is wide enough
        return None if difference.low is None or difference.high is None else (difference.low, difference.high)
    if error == 0:  # all clusters differ alike: the sign test, as for documents
        return (value, value) if 0.5**clusters <= alpha else None
    reach = means.t_quantile(clusters - 1, 1 - 2 * alpha) * error
    return value - reach, value + reach


def _margin_of(ends: tuple[float, float] | None, better: bool | None, margin: float) -> Margin:
    """Equivalent exactly when the 1 − 2α interval lies inside ±margin."""
    if ends is None:
        return Margin(margin, False, None if better is None else False, None, None)
    low, high = ends
    not_worse = None if better is None else low > -margin if better else high < margin
    return Margin(margin, -margin < low and high < margin, not_worse, low, high)


# Statistics of all documents together


def _whole(
    match: Matched, drawn: tuple[Redrawn, Redrawn], better: bool | None, wish: CompareWish, known_p: float | None
) -> _Found:
    """By redrawing the same documents for both; the p of scores that are sums over the same texts by flipped signs."""
    one, other = match.values
    n, clusters = len(one), None if match.units is None else _count(match.units)
    test = "bootstrap" if clusters is None else "cluster-bootstrap"
    if n == 0:
        return _Found(means.nothing(test), "none", None)
    with np.errstate(invalid="ignore"):  # the difference of two infinite perplexities is undefined
        value, gaps = drawn[1].value - drawn[0].value, drawn[1].replicates - drawn[0].replicates
    difference, p = bootstrap.replicate_test(value, gaps, n, clusters)
    if wish.test != "bootstrap" and math.isfinite(value) and (sides := match.addends) is not None:
        test, p = _flipped(sides[1] - sides[0], match.clusters, wish, known_p)
    counts = (0, 0, n) if one == other else None
    margin = None
    if wish.margin is not None:
        ends, _ = bootstrap.replicate_test(value, gaps, n, clusters, 1 - 2 * wish.alpha)
        known = None if ends.low is None or ends.high is None else (ends.low, ends.high)
        if known is not None and known[0] == known[1]:  # redrawing tells nothing: the sign test, as for means
            known = known if 0.5 ** (clusters or n) <= wish.alpha else None
        margin = _margin_of(known, better, wish.margin)
    return _Found(difference, test, p, counts, margin=margin)


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
