"""Verdicts: correction for multiple testing, and one sentence per pair, over all tasks, and for the comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from assay.core.plural import plural, verb
from assay.core.scores import Estimate
from assay.core.task_variants import task_family
from assay.scoring.metrics.aggregations import CORPUS_METRICS
from assay.stats import multiple_testing as multiple
from assay.stats import power
from assay.studies.paired.paired_values import CompareOptions, OverallScore, PairedScore, RankedSystem, RankTable

_TEST_NAMES = {
    "mcnemar": "McNemar",
    "mcnemar-midp": "McNemar mid-p",
    "sign-flip": "sign-flip",
    "cluster-sign-flip": "sign-flip by cluster",
    "bootstrap": "bootstrap",
    "cluster-bootstrap": "bootstrap by cluster",
    "random-effects-t": "random-effects t",
}
# Bootstrap resamples: p is at least 2 / this. Scoring a resampled corpus takes long.
REPLICATES, _CORPUS_REPLICATES = 10_000, 2_000
# An interval end this close to 0 counts as 0.
_TOLERANCE = 1e-12
_CORRECTION_NAMES = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


def adjusted_p_values(p_values: Sequence[float | None], correction: str) -> list[float | None]:
    """The p-values adjusted over all of them."""
    adjust = multiple.holm if correction == "holm" else multiple.benjamini_hochberg
    return adjust(list(p_values))


def adjusted_levels(p_values: Sequence[float | None], options: CompareOptions) -> list[float]:
    """The level at which the correction tests each pair: an interval of level 1 − this agrees with the verdict."""
    levels = multiple.holm_levels if options.correction == "holm" else multiple.benjamini_hochberg_levels
    return levels(list(p_values), options.alpha)


def with_verdicts(pairs: Sequence[PairedScore], options: CompareOptions) -> list[PairedScore]:
    """The pairs with adjusted p, outcome and sentence."""
    adjusted = adjusted_p_values([pair.p for pair in pairs], options.correction)
    tests = sum(p is not None for p in adjusted)
    found = []
    for pair, p in zip(pairs, adjusted, strict=True):
        own = replace(pair, adjusted=p, outcome=_outcome(pair, p, options.alpha))
        found.append(replace(own, verdict=_sentence(own, options, tests)))
    return found


def _outcome(pair: PairedScore, adjusted: float | None, alpha: float) -> str:
    if pair.wins == pair.losses == 0 and pair.n:
        return "same"
    return direction(pair.difference.value, adjusted, pair.higher_is_better, alpha)


def direction(difference: float | None, p: float | None, better: bool | None, alpha: float) -> str:
    """`better`, `worse`, `higher` or `lower` for a significant difference; `none` for any other."""
    if p is None or p >= alpha or not difference:
        return "none"
    if better is None:
        return "higher" if difference > 0 else "lower"
    return "better" if (difference > 0) is better else "worse"


def difference_text(value: float, is_share: bool) -> str:
    """A difference without its sign: points between shares, the metric's own unit elsewhere."""
    if not is_share:
        return f"{abs(value):.4g}"
    points = abs(100 * value)
    text = f"{points:.1f}" if points >= 0.095 else f"{points:.2g}"
    return f"{text.removesuffix('.0')} point{'' if text in ('1', '1.0') else 's'}"


def signed_text(value: float | None, is_share: bool) -> str:
    """A number of an interval, with its sign and without a unit."""
    if value is None:
        return "–"
    text = f"{100 * value:+.1f}" if is_share else f"{value:+.4g}"
    if text not in ("+0.0", "-0.0", "+0", "-0"):
        return text
    return "0" if abs(value) < _TOLERANCE else f"{100 * value:+.1g}"  # an end that is not 0 must not be displayed as 0


def p_text(p: float | None) -> str:
    """`p = 0.021`, `p < 0.001`."""
    if p is None:
        return "no p-value"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def level_text(level: float) -> str:
    """`95 %`, `99.17 %`: two digits of the remainder to 100 %."""
    left = float(f"{100 * (1 - level):.2g}")
    digits = max(0, 1 - math.floor(math.log10(left)))
    text = f"{100 - left:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text} %"


def evidence_text(found: PairedScore | OverallScore, options: CompareOptions, tests: int, noun: str = "tests") -> str:
    """Interval, test and p-value of a pair, in brackets."""
    gap, is_share = found.difference, isinstance(found, OverallScore) or found.is_share
    parts = []
    if gap.low is not None and gap.high is not None:
        ends = f"{signed_text(gap.low, is_share)} to {signed_text(gap.high, is_share)}"
        parts.append(f"{level_text(gap.level)} interval {ends}")
    after = f" after {_CORRECTION_NAMES[options.correction]} over {tests} {noun}" if tests > 1 else ""
    if found.adjusted is not None:
        parts.append(f"{_TEST_NAMES.get(found.test, found.test)} {p_text(found.adjusted)}{after}")
    return f" ({', '.join(parts)})" if parts else ""


def _sentence(pair: PairedScore, options: CompareOptions, tests: int) -> str:
    first, second, n = pair.first, pair.second, pair.n
    across = f" Differing: {'; '.join(pair.run_differences)}." if len(pair.run_differences) > 1 else ""
    if n == 0:
        return f"{second} and {first} have no scored document in common.{across}"
    if pair.outcome == "same":
        where = f"all {n:,} documents" if n > 1 else "the only document"
        return f"{second} and {first} have the same value on {where}{_equivalence_text(pair)}.{across}"
    scoreless = _scoreless(pair)
    if scoreless:
        return f"{second} and {first} cannot be compared: {scoreless}.{across}"
    if pair.difference.value is None or pair.p is None or n < 2:
        return f"{second} and {first} cannot be tested on {plural(n, 'document')}.{across}"
    seen = evidence_text(pair, options, tests)
    if pair.outcome == "none":
        sight = _detectable_text(pair, options.alpha, tests)
        return f"No difference was found between {second} and {first}{seen}{sight}{_equivalence_text(pair)}.{across}"
    word = "higher" if pair.difference.value > 0 else "lower"
    meaning = {"better": ", which is better", "worse": ", which is worse"}.get(pair.outcome, "")
    meaning = "" if pair.higher_is_better else meaning
    size = difference_text(pair.difference.value, pair.is_share)
    found = (
        f"{second} scores {size} {word} than {first}{meaning}{seen}: more than chance explains{_alpha_text(options)}"
    )
    return f"{found}{_equivalence_text(pair)}.{across}"


def _alpha_text(options: CompareOptions) -> str:
    """The level of the test, unless it is 5 %."""
    return "" if options.alpha == 0.05 else f" at the {100 * options.alpha:g} % level"


def cannot_reach_alpha(test: str, units: int, alpha: float, replicates: int = REPLICATES) -> bool:
    """Whether the p of a test with this many documents, or clusters, can never be below α."""
    if test.endswith("bootstrap"):
        from assay.stats.bootstrap import MIN_UNITS, smallest_p

        return units < MIN_UNITS or smallest_p(replicates, units) >= alpha
    # A mid-p test gives the observed split half weight.
    return units < power.min_documents(2 * alpha if test == "mcnemar-midp" else alpha)


def min_units(test: str, alpha: float) -> int:
    """The fewest documents, or clusters, with which a test can reject."""
    if test.endswith("bootstrap"):
        from assay.stats.bootstrap import MIN_UNITS

        return MIN_UNITS
    return power.min_documents(alpha)


def replicates_for(aggregation: str) -> int:
    """Number of bootstrap resamples for an aggregation."""
    return _CORPUS_REPLICATES if aggregation in CORPUS_METRICS else REPLICATES


def _scoreless(pair: PairedScore) -> str:
    """Which scores are not finite on these documents; empty if both are."""
    found = []
    for label, score in zip((pair.first, pair.second), pair.scores, strict=True):
        if score.value is None or not math.isfinite(score.value):
            what = "undefined" if score.value is None or math.isnan(score.value) else "infinite"
            found.append(f"the score of {label} is {what}")
    return " and ".join(found)


def _detectable_text(pair: PairedScore, alpha: float, tests: int) -> str:
    """What this many documents can detect: any difference at all, and how large it must be."""
    units, noun = (pair.n, "document") if pair.clusters is None else (pair.clusters, "cluster")
    if cannot_reach_alpha(pair.test, units, alpha):
        return f": {plural(units, noun)} {verb(units, 'is', 'are')} too few to show any"
    if pair.detectable is None:
        return ""
    least = difference_text(pair.detectable, pair.is_share)
    return f": {pair.n:,} documents would show one of {least} or more{' in a single test' if tests > 1 else ''}"


def _equivalence_text(pair: PairedScore) -> str:
    """The result of the margin's test."""
    if pair.margin is None:
        return ""
    size = difference_text(pair.margin.margin, pair.is_share)
    if pair.margin.is_equivalent:
        return f"; equivalent within ±{size}"
    if pair.outcome == "better":
        return ""
    if pair.margin.is_not_worse:
        return f"; not worse by more than {size}, but not shown to be equivalent"
    return f"; not shown to be equivalent within ±{size}"


def overall_sentence(score: OverallScore, options: CompareOptions, tests: int) -> str:
    """The verdict of a pair over all tasks."""
    value = score.difference.value
    if value is None or score.adjusted is None:
        return f"{score.second} and {score.first} cannot be compared over all tasks."
    seen = evidence_text(score, options, tests, "pairs")
    count = f"Over {_tasks_text(score.tasks)} counted once, {_scope_text(score)}"
    if score.outcome == "none":
        return f"{count}no difference was found between {score.second} and {score.first}{seen}."
    word = "higher" if value > 0 else "lower"
    size = difference_text(value, True)
    sentence = f"{count}{score.second} scores {size} {word} than {score.first}{seen}"
    return f"{sentence}: more than chance explains{_alpha_text(options)}."


def _scope_text(score: OverallScore) -> str:
    """The prompts, seeds or orders to which the sentence applies."""
    parts = []
    if score.random:
        parts.append(f"taking the {' and the '.join(score.random)} as a random sample")
    if score.fixed:
        parts.append(f"for these {' and '.join(score.fixed)} alone")
    return "".join(f"{part}, " for part in parts)


def _tasks_text(tasks: Sequence[str]) -> str:
    """`2 tasks, each`; variants on the same documents are one task."""
    families = list(dict.fromkeys(map(task_family, tasks)))
    if len(families) == len(tasks):
        return f"{len(tasks)} tasks, each"
    if len(families) == 1:
        return f"{len(tasks)} variants of {families[0]}, each"
    return f"{len(families)} tasks in {len(tasks)} variants, each variant"


def conclusion(pairs: Sequence[PairedScore], overall: Sequence[OverallScore]) -> str:
    """The whole comparison in one sentence."""
    if len(pairs) == 1:
        return pairs[0].verdict
    found = sum(pair.outcome not in ("none", "same") for pair in pairs)
    untested = sum(pair.p is None for pair in pairs)
    lacking = f"; {untested:,} more could not be tested" if untested else ""
    tested = len(pairs) - untested
    if len(overall) == 1:
        single = f"; {found:,} of {tested:,} single comparisons {verb(found, 'is', 'are')} more than chance explains"
        return f"{overall[0].verdict.removesuffix('.')}{single if found else ''}{lacking}."
    if not tested:
        return f"None of {len(pairs):,} comparisons could be tested."
    significant = f"{plural(found, 'difference is', 'differences are')} more than chance explains"
    sentence = significant if found else "No difference beyond chance was found"
    return f"{sentence}, of {plural(tested, 'comparison')}{lacking}."


def rank_systems(
    labels: Sequence[str],
    scores: dict[str, Estimate],
    pairs: Sequence[PairedScore] | Sequence[OverallScore],
    better: bool,
) -> tuple[RankedSystem, ...]:
    """Ranks of systems that were all compared with each other; those that are not separable share a letter."""
    separated = []
    for pair in pairs:
        if pair.outcome in ("better", "worse"):
            separated.append((pair.second, pair.first) if pair.outcome == "better" else (pair.first, pair.second))
    sign = -1.0 if better else 1.0
    best_first = sorted(labels, key=lambda label: _order(scores[label], sign))
    from assay.stats import ranking  # two systems have no ranks

    ranks, letters = ranking.rank_ranges(best_first, separated), ranking.letters(best_first, separated)
    places = [
        RankedSystem(label, scores[label], ranks[label].first, ranks[label].last, letters[label])
        for label in best_first
    ]
    # Stable, so that systems of one rank are in the order of their scores.
    return tuple(sorted(places, key=lambda place: place.rank))


def _order(estimate: Estimate, sign: float) -> float:
    """Best first; systems without a score last."""
    return math.inf if estimate.value is None or math.isnan(estimate.value) else sign * estimate.value


def ranking_table(labels: Sequence[str], scores: dict[str, Estimate], pairs: Sequence[PairedScore]) -> RankTable | None:
    """Ranks on one task and metric; None if not all pairs were compared, or the direction is unknown."""
    compared = {frozenset((pair.first, pair.second)) for pair in pairs}
    wanted = {frozenset(two) for two in combinations(labels, 2)}
    better = pairs[0].higher_is_better if pairs else None
    if len(labels) < 3 or compared != wanted or better is None:
        return None
    return RankTable(pairs[0].task, pairs[0].metric, pairs[0].filter, rank_systems(labels, scores, pairs, better))
