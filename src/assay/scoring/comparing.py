"""Systems on the same documents of one task and metric: differences, tests, effects, what so many documents can show.

In: every system's documents, and which two to compare. Out: a `PairedScore` per pair, without correction and verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assay.core.comparisons import (
    EVERY_FLIP,
    CompareWish,
    DocumentValues,
    Effect,
    Flip,
    Margin,
    PairedScore,
)
from assay.core.scores import Estimate
from assay.scoring.keeping import CORPORA, MEANS
from assay.scoring.metrics import reading, resampling
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.stats import bootstrap, clustered, equivalence, means, paired, power

Floats = NDArray[np.float64]
# Fewer pairs than this are flipped one by one.
_FEW_PAIRS = 3
# p can be no smaller than two in so many; scoring a redrawn corpus takes long.
_REPLICATES, _CORPUS_REPLICATES = 10_000, 2_000


@dataclass(frozen=True)
class Entry:
    """A system's documents under one metric."""

    label: str
    kept: DocumentValues

    @cached_property
    def places(self) -> dict[int, int]:
        """Document → where its value stands."""
        return {document: place for place, document in enumerate(self.kept.documents)}

    @cached_property
    def numbers(self) -> Floats:
        """The values of a mean."""
        return np.asarray(self.kept.values, dtype=np.float64)

    @cached_property
    def is_known(self) -> bool:
        """Whether every value of a mean is a finite number."""
        return bool(np.all(np.isfinite(self.numbers)))

    @cached_property
    def estimate(self) -> Estimate:
        """The score over all documents that the system has."""
        return _estimate(self.kept, range(len(self.kept.documents)))


@dataclass(frozen=True, slots=True)
class Matched:
    """Two entries with the places of the documents that both have; the cluster of each where they are known."""

    first: Entry
    second: Entry
    mine: Sequence[int]
    theirs: Sequence[int]

    @property
    def is_whole(self) -> bool:
        """Whether both have all their documents in it."""
        return len(self.mine) == len(self.first.kept.documents) == len(self.second.kept.documents)

    @property
    def numbers(self) -> tuple[Floats, Floats]:
        """The values of a mean, document by document."""
        if isinstance(self.mine, range):
            return self.first.numbers, self.second.numbers
        return self.first.numbers[list(self.mine)], self.second.numbers[list(self.theirs)]

    @property
    def clusters(self) -> list[str] | None:
        known = self.first.kept.clusters or self.second.kept.clusters
        places = self.mine if self.first.kept.clusters else self.theirs
        return None if known is None else [known[place] for place in places]


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair's numbers, and the difference of every document where the metric is a mean of them."""

    score: PairedScore
    differences: Floats | None
    clusters: Sequence[str] | None


def is_comparable(aggregation: str) -> bool:
    """Whether there is a paired test for metrics that are aggregated so."""
    return aggregation in MEANS or aggregation in CORPORA or aggregation in _STATISTICS


def matched(first: Entry, second: Entry, common: Mapping[int, int] | None = None) -> Matched:
    """Documents that both scored, by their place in the split, or by a table: document of the first → of the second."""
    one, other = first.kept.documents, second.kept.documents
    is_known = first.kept.aggregation not in MEANS or (first.is_known and second.is_known)
    if common is None and one == other and is_known:
        return Matched(first, second, range(len(one)), range(len(one)))
    links = {document: document for document in one} if common is None else common
    pairs = [
        (place, second.places[links[document]])
        for place, document in enumerate(one)
        if document in links and links[document] in second.places
    ]
    if not is_known:
        known = np.isfinite(first.numbers), np.isfinite(second.numbers)
        pairs = [(mine, theirs) for mine, theirs in pairs if known[0][mine] and known[1][theirs]]
    return Matched(first, second, [mine for mine, _ in pairs], [theirs for _, theirs in pairs])


def compare_all(matches: Sequence[Matched], higher_is_better: bool | None, wish: CompareWish) -> list[Compared]:
    """Every pair's numbers.

    Args:
        matches: the pairs of one task and metric.
        higher_is_better: the metric's direction.
        wish: tests and margin.
    """
    flips = _flip_table(matches, wish)
    return [_compared(match, higher_is_better, wish, flips) for match in matches]


def _compared(match: Matched, better: bool | None, wish: CompareWish, flips: Mapping[int, float]) -> Compared:
    kept = match.first.kept
    scores = _scores(match)
    n = len(match.mine)
    left = len(kept.documents) - n, len(match.second.kept.documents) - n
    is_share = kept.aggregation in MEANS and better is not False and all(map(_is_share, scores))
    differences: Floats | None = None
    if kept.aggregation in MEANS:
        one, other = match.numbers
        differences = other - one
        found = _Documents(one, other, match.clusters).score(better, wish, flips.get(id(match)))
    else:
        found = _whole(match, better, wish)
    # What is seen depends on how much one document's difference varies, whatever the test.
    variance = 0.0 if found.difference.stderr is None else n * found.difference.stderr**2
    effect = wish.effect if wish.effect is not None else found.difference.value
    can_see = variance > 0 and effect is not None
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
        detectable=power.minimum_detectable_effect(variance, n, alpha=wish.alpha) if can_see else None,
        needed=power.documents_needed(effect or 0.0, variance, alpha=wish.alpha) if can_see else None,
        clusters=None if match.clusters is None else len(set(match.clusters)),
        margin=found.margin,
        flips=_flips(match, wish.flips),
    )
    return Compared(score, differences, match.clusters)


def _is_share(estimate: Estimate) -> bool:
    return estimate.value is not None and 0 <= estimate.value <= 1


def _scores(match: Matched) -> tuple[Estimate, Estimate]:
    """Both scores on the documents in common; those of all documents are made once per system."""
    if match.is_whole:
        return match.first.estimate, match.second.estimate
    return _estimate(match.first.kept, match.mine), _estimate(match.second.kept, match.theirs)


def _estimate(kept: DocumentValues, places: Sequence[int]) -> Estimate:
    values = [kept.values[place] for place in places]
    if kept.clusters is not None and kept.aggregation in MEANS:
        return clustered.clustered_mean(values, [kept.clusters[place] for place in places]).estimate  # type: ignore[arg-type]
    if kept.aggregation == "brier_score":  # kept as the distances that its reading makes of probabilities
        return means.mean_estimate(values)  # type: ignore[arg-type]
    aggregation = AGGREGATIONS[kept.aggregation]
    return aggregation.estimate(aggregation.read(values))


@dataclass(frozen=True, slots=True)
class _Found:
    """What a test says: second less first."""

    difference: Estimate
    test: str
    p: float | None
    counts: tuple[int, int, int] | None = None
    effect: Effect | None = None
    margin: Margin | None = None


# Means of documents


def _flip_table(matches: Sequence[Matched], wish: CompareWish) -> dict[int, float]:
    """The p of sign flips by pair: for many pairs on the same documents one draw of flips serves all."""
    if wish.test not in (None, "permutation") or len(matches) <= _FEW_PAIRS:
        return {}
    usual = [match for match in matches if match.first.kept.aggregation in MEANS and match.clusters is None]
    entries = {id(entry): entry for match in usual for entry in (match.first, match.second)}
    documents = {tuple(entry.kept.documents) for entry in entries.values()}
    if len(documents) != 1 or not all(match.is_whole for match in usual):
        return {}
    if wish.test is None and all(_is_binary(entry.numbers) for entry in entries.values()):
        return {}
    rows = [entry.numbers.tolist() for entry in entries.values()]
    order = {name: place for place, name in enumerate(entries)}
    table = paired.sign_flip_table(rows, np.random.default_rng(wish.seed))
    return {id(match): table[order[id(match.second)]][order[id(match.first)]] for match in usual}


def _is_binary(values: Floats) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


@dataclass(frozen=True, slots=True)
class _Documents:
    """Two systems' numbers on the same documents."""

    first: Floats
    second: Floats
    clusters: Sequence[str] | None

    def score(self, better: bool | None, wish: CompareWish, known_p: float | None) -> _Found:
        gaps = self.second - self.first
        wins, losses = int(np.sum(gaps > 0)), int(np.sum(gaps < 0))
        n = len(gaps)
        binary = _is_binary(self.first) and _is_binary(self.second)
        difference = self._difference(gaps, wins, losses, binary)
        test, p = self._test(gaps, (wins, losses), binary, wish, known_p) if n else ("none", None)
        spread = float(np.std(gaps, ddof=1)) if n > 1 else 0.0
        mean = float(gaps.mean()) if n else None
        size = power.discordant_odds_ratio(wins, losses) if binary else power.dz_of(mean, spread, n)
        effect = Effect(size.name, size.value, size.low, size.high)
        margin = None if wish.margin is None else self._margin(difference, better, wish.margin, wish.alpha)
        return _Found(difference, test, p, (wins, losses, n - wins - losses), effect, margin)

    def _difference(self, gaps: Floats, wins: int, losses: int, binary: bool) -> Estimate:
        """As `paired_difference`, on arrays: thousands of pairs are compared in a moment."""
        n = len(gaps)
        if self.clusters is not None:
            found = clustered.clustered_difference(self.second.tolist(), self.first.tolist(), self.clusters)
            return found.estimate
        method = "newcombe" if binary else "t"
        if n == 0:
            return means.nothing(method)
        mean = (wins - losses) / n if binary else float(gaps.mean())
        if n == 1:
            return Estimate(mean, None, None, None, 1, method)
        error = float(np.std(gaps, ddof=1)) / math.sqrt(n)
        if binary:
            low, high = paired.newcombe_interval(int(np.sum(self.first * self.second)), wins, losses, n)
        else:
            reach = means.t_quantile(n - 1) * error
            low, high = mean - reach, mean + reach
        return Estimate(mean, error, low, high, n, method)

    def _test(
        self, gaps: Floats, counts: tuple[int, int], binary: bool, wish: CompareWish, known_p: float | None
    ) -> tuple[str, float | None]:
        if wish.test == "bootstrap":
            sides, how = np.stack([self.first, self.second], axis=1), bootstrap.Resampling(wish.seed, _REPLICATES)
            name = "bootstrap" if self.clusters is None else "cluster-bootstrap"
            return name, bootstrap.bootstrap_test(sides, _mean_gap, how, self.clusters)[1]
        if self.clusters is not None:
            generator = np.random.default_rng(wish.seed)
            return "cluster-sign-flip", clustered.cluster_sign_flip_p(gaps.tolist(), self.clusters, generator)
        if binary and wish.test == "midp":
            return "mcnemar-midp", paired.mcnemar_mid_p(*counts)
        if binary and wish.test != "permutation":
            return "mcnemar", paired.mcnemar_p(*counts)
        if known_p is not None:
            return "sign-flip", known_p
        return "sign-flip", paired.sign_flip_p(gaps.tolist(), np.random.default_rng(wish.seed))

    def _margin(self, difference: Estimate, better: bool | None, margin: float, alpha: float) -> Margin:
        if self.clusters is not None:
            return _margin_of(_reach(difference, len(set(self.clusters)), alpha), better, margin)
        one, other = self.first.tolist(), self.second.tolist()
        equal = equivalence.equivalence(other, one, margin, alpha)
        worse = (one, other) if better is False else (other, one)
        not_worse = None if better is None else equivalence.non_inferiority(*worse, margin, alpha).holds
        return Margin(margin, equal.holds, not_worse, equal.low, equal.high)


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


def _ratio_rows(pairs: Floats) -> Floats:
    return np.asarray(-pairs[..., 0].sum(axis=1) / pairs[..., 1].sum(axis=1))


def _ratio_perplexity_rows(pairs: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(_ratio_rows(pairs)))


def _bits_rows(pairs: Floats) -> Floats:
    return _ratio_rows(pairs) / math.log(2)


_STATISTICS: dict[str, bootstrap.Statistic] = {
    "perplexity": resampling.perplexity_rows,
    "median": resampling.median_rows,
    "median_of_known": resampling.middle_rows,
    "f1": resampling.f1_rows,
    "matthews_corrcoef": resampling.matthews_rows,
    "ece": resampling.ece_rows,
    "position_bias": resampling.position_rows,
    "weighted_perplexity": _ratio_perplexity_rows,
    "weighted_nats": _ratio_rows,
    "bits_per_byte": _bits_rows,
}


def _whole(match: Matched, better: bool | None, wish: CompareWish) -> _Found:
    """By redrawing the same documents for both, whatever test is wished: nothing else fits such a metric."""
    rows, statistic = _joined(match)
    replicates = _CORPUS_REPLICATES if match.first.kept.aggregation in CORPORA else _REPLICATES
    how = bootstrap.Resampling(wish.seed, replicates)
    difference, p = bootstrap.bootstrap_test(rows, statistic, how, match.clusters)
    margin = None
    if wish.margin is not None:
        wider = bootstrap.Resampling(wish.seed, replicates, level=1 - 2 * wish.alpha)
        ends, _ = bootstrap.bootstrap_test(rows, statistic, wider, match.clusters)
        known = None if ends.low is None or ends.high is None else (ends.low, ends.high)
        margin = _margin_of(known, better, wish.margin)
    name = "bootstrap" if match.clusters is None else "cluster-bootstrap"
    return _Found(difference, name if len(rows) else "none", p, margin=margin)


def _joined(match: Matched) -> tuple[Floats, bootstrap.Statistic]:
    """Both systems' values side by side, one row per document, and the difference as a statistic of such rows."""
    one = [match.first.kept.values[place] for place in match.mine]
    other = [match.second.kept.values[place] for place in match.theirs]
    name = match.first.kept.aggregation
    if name in CORPORA:
        from assay.scoring.metrics.corpus import Corpus

        corpora = Corpus(one, name), Corpus(other, name)
        places = np.arange(len(one), dtype=np.float64)
        return places, lambda rows: corpora[1].scores(rows) - corpora[0].scores(rows)
    read = reading.label_pairs([*one, *other]) if name == "matthews_corrcoef" else [*one, *other]
    both = np.asarray(read, dtype=np.float64).reshape(2, len(one), -1)
    width = both.shape[2]
    return np.concatenate([both[0], both[1]], axis=1), _gap_of(_STATISTICS[name], width)


def _gap_of(statistic: bootstrap.Statistic, width: int) -> bootstrap.Statistic:
    def gap(rows: Floats) -> Floats:
        one, other = rows[..., :width], rows[..., width:]
        parts = (one[..., 0], other[..., 0]) if width == 1 else (one, other)
        return np.asarray(statistic(parts[1]) - statistic(parts[0]))

    return gap


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


def gaps_of(compared: Compared) -> list[float]:
    """Differences to flip the signs of: those of documents, or their sums by cluster."""
    assert compared.differences is not None
    if compared.clusters is None:
        return [float(value) for value in compared.differences]
    sums: dict[str, float] = {}
    for cluster, value in zip(compared.clusters, compared.differences, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + float(value)
    return list(sums.values())
