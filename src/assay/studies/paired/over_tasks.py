"""Two systems over several tasks, every task counted once: the mean difference, its test, the interval that inverts it.

A task in several variants (seeds, orders, prompts, styles) has the same documents in all of them: a document's
contribution to the difference over all variants is one number, whose sign is flipped as a whole. Prompts, seeds and
orders are treated as a random sample if there are enough of them: see `crossed_variants`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.core.task_variants import task_family
from assay.stats.pooled import CombinedStderr, combined_stderr
from assay.stats.sign_flip import SignFlipTest, sign_flip_table, sign_flip_test, sign_flip_tests
from assay.studies.paired.crossed_variants import TaskVariants, task_variants
from assay.studies.paired.differences import PairedComparison
from assay.studies.paired.intervals import IntervalFunction, bounded_sign_flip_interval, with_interval
from assay.studies.paired.paired_values import CompareOptions, OverallScore
from assay.studies.paired.sign_flip_tests import max_alpha
from assay.studies.paired.verdicts import adjusted_levels, adjusted_p_values, direction, overall_sentence

Floats = NDArray[np.float64]
# More pairs than this share one draw of sign flips.
_FEW_PAIRS = 3


@dataclass(frozen=True, slots=True)
class _SystemPair:
    """Two systems with their tasks; variants of one task, which share documents, are grouped."""

    items: Sequence[PairedComparison]
    families: Sequence[TaskVariants]

    @classmethod
    def of(cls, items: Sequence[PairedComparison]) -> _SystemPair:
        found: dict[str, list[PairedComparison]] = {}
        for item in items:
            found.setdefault(task_family(item.score.task), []).append(item)
        return cls(items, [task_variants(name, own) for name, own in found.items()])

    @property
    def is_random(self) -> bool:
        """Whether variants of any task are treated as a random sample."""
        return any(family.random for family in self.families)

    def error(self) -> CombinedStderr:
        """The standard error of the mean difference, each variant counted once."""
        weights = [len(family.items) / len(self.items) for family in self.families]
        parts = [(family.error, family.degrees) for family in self.families]
        return combined_stderr(parts, weights)

    def estimate(self, test: str) -> Estimate:
        """The mean difference without its interval."""
        values = [item.score.difference.value or 0.0 for item in self.items]
        clusters = None
        if any(item.clusters is not None for item in self.items):
            clusters = sum(family.units for family in self.families)
        documents = sum(family.documents for family in self.families)
        error = self.error().stderr or None
        return Estimate(math.fsum(values) / len(values), error, None, None, documents, test, clusters=clusters)


def overall_scores(options: CompareOptions, columns: Sequence[Sequence[PairedComparison]]) -> list[OverallScore]:
    """Per pair, the mean difference over the tasks whose scores are shares, every task counted once."""
    gathered: dict[tuple[str, str], list[PairedComparison]] = {}
    for own in columns:
        for item in own:
            score = item.score
            if score.is_share and score.higher_is_better and score.n:
                gathered.setdefault((score.first, score.second), []).append(item)
    several = {pair: _SystemPair.of(items) for pair, items in gathered.items() if len(items) > 1}
    tested = _test_pairs(several, options)
    p_values = [p for _, p, _ in tested]
    levels, adjusted = adjusted_levels(p_values, options), adjusted_p_values(p_values, options.correction)
    found = []
    for (names, pair), (test, p, ends), alpha, after in zip(several.items(), tested, levels, adjusted, strict=True):
        estimate = with_interval(pair.estimate(test), ends(1 - alpha), alpha, is_share=True)
        outcome = direction(estimate.value, after, True, options.alpha)
        tasks = tuple(item.score.task for item in pair.items)
        random = tuple(text for own in pair.families for text in own.random)
        fixed = tuple(text for own in pair.families for text in own.fixed)
        whole = OverallScore(
            *names,
            tasks=tasks,
            difference=estimate,
            p=p,
            adjusted=after,
            outcome=outcome,
            verdict="",
            test=test,
            random=random,
            fixed=fixed,
        )
        found.append(replace(whole, verdict=overall_sentence(whole, options, len(several))))
    return found


_TestOutcome = tuple[str, float, IntervalFunction]


def _test_pairs(several: Mapping[tuple[str, str], _SystemPair], options: CompareOptions) -> list[_TestOutcome]:
    """Per pair, the test's name, its p-value and the interval that inverts it."""
    found: dict[tuple[str, str], _TestOutcome] = {}
    for names, pair in several.items():
        error = pair.error()
        if pair.is_random and error.stderr:
            value = pair.estimate("").value or 0.0
            found[names] = ("random-effects-t", error.p(value), error.interval_around(value))
    rest = {names: pair for names, pair in several.items() if names not in found}
    for (names, pair), flips in zip(rest.items(), _sign_flip_tests(rest, options), strict=True):
        is_clustered = any(item.clusters is not None for item in pair.items)
        found[names] = ("cluster-sign-flip" if is_clustered else "sign-flip", flips.p, _interval_function(flips, pair))
    return [found[names] for names in several]


def _interval_function(flips: SignFlipTest, pair: _SystemPair) -> IntervalFunction:
    """The interval of the test; without width if all differ equally, the tasks' mean interval if none differs."""
    if pair.error().stderr:
        return partial(bounded_sign_flip_interval, flips)
    if flips.value:
        return lambda level: (flips.value, flips.value)

    def ends(level: float) -> tuple[float, float]:
        every = [item.ends(level) for item in pair.items]
        return sum(low for low, _ in every) / len(every), sum(high for _, high in every) / len(every)

    return ends


def _sign_flip_tests(pairs: Mapping[tuple[str, str], _SystemPair], options: CompareOptions) -> list[SignFlipTest]:
    """Sign-flip tests over all documents, weighted so that every task counts once."""
    most = max_alpha(options)
    by_table = _table(pairs, options)
    if by_table:
        return by_table
    every = [_contributions(pair.items) for pair in pairs.values()]
    if len(pairs) <= _FEW_PAIRS:
        return [sign_flip_test(*own, np.random.default_rng(options.seed), most) for own in every]
    return sign_flip_tests(every, np.random.default_rng(options.seed), most)


def _contributions(items: Sequence[PairedComparison]) -> tuple[Floats, Floats]:
    """Each document's, or cluster's, contribution to the mean difference over these tasks, and its weight."""
    sums: dict[Hashable, tuple[float, float]] = {}
    families = {task_family(item.score.task) for item in items}
    if all(item.clusters is None for item in items) and len(families) == len(items):  # no two share documents
        gaps = [item.differences / (len(items) * item.score.n) for item in items if item.differences is not None]
        weights = [np.full(item.score.n, 1 / (len(items) * item.score.n)) for item in items]
        return np.concatenate(gaps), np.concatenate(weights)
    for item in items:
        assert item.differences is not None
        family, units, weight = task_family(item.score.task), item.clusters or item.documents, 1 / item.score.n
        for unit, gap in zip(units, item.differences.tolist(), strict=True):
            total, whole = sums.get((family, unit), (0.0, 0.0))
            sums[family, unit] = total + gap * weight / len(items), whole + weight / len(items)
    gathered = np.array(list(sums.values()))
    return gathered[:, 0], gathered[:, 1]


def _share_clusters(pairs: Sequence[Sequence[PairedComparison]]) -> bool:
    """Whether all pairs have the same clusters in each task, or none."""
    return all(
        (item.clusters and tuple(item.clusters)) == (first.clusters and tuple(first.clusters))
        for items in pairs
        for item, first in zip(items, pairs[0], strict=True)
    )


def _table(pairs: Mapping[tuple[str, str], _SystemPair], options: CompareOptions) -> list[SignFlipTest]:
    """The same for many pairs on the same documents, by one draw of flips; empty if that does not apply."""
    several = {names: pair.items for names, pair in pairs.items()}
    every = [item for items in several.values() for item in items]
    sizes = {tuple((item.score.task, item.score.n) for item in items) for items in several.values()}
    is_partial = any(any(item.score.left_out) for item in every)
    if len(several) <= _FEW_PAIRS or len(sizes) != 1 or is_partial or not _share_clusters(list(several.values())):
        return []
    base = next(iter(several))[0]
    # Every system minus the first: their differences are those of the systems themselves.
    parts = {pair[1]: _contributions(items) for pair, items in several.items() if pair[0] == base}
    weights = next(iter(parts.values()))[1]
    rows = {base: np.zeros(len(weights)), **{label: own for label, (own, _) in parts.items()}}
    if not all(label in rows for pair in several for label in pair):
        return []
    order = {label: place for place, label in enumerate(rows)}
    places = [(order[first], order[second]) for first, second in several]
    return sign_flip_table(
        list(rows.values()), weights, places, np.random.default_rng(options.seed), max_alpha(options)
    )
