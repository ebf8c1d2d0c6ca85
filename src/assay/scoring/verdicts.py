"""Correction over all tests, and what the numbers say in plain words: a sentence per pair, over all tasks, in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from assay.core.comparisons import CompareWish, OverallScore, PairedScore, Place, Table
from assay.core.scores import Estimate
from assay.stats import multiple, ranking

_TEST_NAMES = {
    "mcnemar": "McNemar",
    "mcnemar-midp": "McNemar mid-p",
    "sign-flip": "sign-flip",
    "cluster-sign-flip": "sign-flip by cluster",
    "bootstrap": "bootstrap",
    "cluster-bootstrap": "bootstrap by cluster",
}
_CORRECTION_NAMES = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


def corrected(p_values: Sequence[float | None], correction: str) -> list[float | None]:
    """The p-values adjusted over all of them."""
    adjust = multiple.holm if correction == "holm" else multiple.benjamini_hochberg
    return adjust(list(p_values))


def judged(pairs: Sequence[PairedScore], wish: CompareWish) -> list[PairedScore]:
    """The pairs with adjusted p, outcome and sentence."""
    adjusted = corrected([pair.p for pair in pairs], wish.correction)
    tests = sum(p is not None for p in adjusted)
    found = []
    for pair, p in zip(pairs, adjusted, strict=True):
        own = replace(pair, adjusted=p, outcome=_outcome(pair, p, wish.alpha))
        found.append(replace(own, verdict=_sentence(own, wish, tests)))
    return found


def _outcome(pair: PairedScore, adjusted: float | None, alpha: float) -> str:
    if pair.wins == pair.losses == 0 and pair.n:
        return "same"
    return direction(pair.difference.value, adjusted, pair.higher_is_better, alpha)


def direction(difference: float | None, p: float | None, better: bool | None, alpha: float) -> str:
    """`better`, `worse`, `higher` or `lower` of a difference beyond chance; `none` of any other."""
    if p is None or p >= alpha or not difference:
        return "none"
    if better is None:
        return "higher" if difference > 0 else "lower"
    return "better" if (difference > 0) is better else "worse"


def amount(value: float, is_share: bool) -> str:
    """A difference without its sign: points between shares, the metric's own unit elsewhere."""
    if not is_share:
        return f"{abs(value):.4g}"
    points = abs(100 * value)
    text = f"{points:.1f}" if points >= 0.095 else f"{points:.2g}"
    return f"{text.removesuffix('.0')} point{'' if text in ('1', '1.0') else 's'}"


def signed(value: float | None, is_share: bool) -> str:
    """A number of an interval, with its sign and without a unit."""
    if value is None:
        return "–"
    text = f"{100 * value:+.1f}" if is_share else f"{value:+.4g}"
    return "0" if text in ("+0.0", "-0.0", "+0", "-0") else text


def p_text(p: float | None) -> str:
    """`p = 0.021`, `p < 0.001`."""
    if p is None:
        return "no p-value"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def evidence(pair: PairedScore, wish: CompareWish, tests: int) -> str:
    """Interval, test and p of a pair, in brackets."""
    low, high = pair.difference.low, pair.difference.high
    parts = []
    if low is not None and high is not None:
        parts.append(
            f"{100 * pair.difference.level:g} % interval {signed(low, pair.is_share)} to {signed(high, pair.is_share)}"
        )
    after = f" after {_CORRECTION_NAMES[wish.correction]} over {tests} tests" if tests > 1 else ""
    if pair.adjusted is not None:
        parts.append(f"{_TEST_NAMES.get(pair.test, pair.test)} {p_text(pair.adjusted)}{after}")
    return f" ({', '.join(parts)})" if parts else ""


def _sentence(pair: PairedScore, wish: CompareWish, tests: int) -> str:
    first, second, n = pair.first, pair.second, pair.n
    across = f" Differing: {'; '.join(pair.differing)}." if len(pair.differing) > 1 else ""
    if n == 0 or pair.difference.value is None:
        return f"{second} and {first} have no scored document in common.{across}"
    if pair.outcome == "same":
        return f"{second} and {first} have the same value on all {n:,} documents{_closeness(pair)}.{across}"
    if pair.p is None or n < 2:
        return f"{n:,} document{'s say' if n > 1 else ' says'} nothing about {second} and {first}.{across}"
    seen = evidence(pair, wish, tests)
    if pair.outcome == "none":
        return f"No difference was found between {second} and {first}{seen}{_sight(pair)}{_closeness(pair)}.{across}"
    word = "higher" if pair.difference.value > 0 else "lower"
    meaning = {"better": ", which is better", "worse": ", which is worse"}.get(pair.outcome, "")
    meaning = "" if pair.higher_is_better else meaning
    size = amount(pair.difference.value, pair.is_share)
    found = f"{second} scores {size} {word} than {first}{meaning}{seen}: more than chance explains"
    return f"{found}{_closeness(pair)}.{across}"


def _sight(pair: PairedScore) -> str:
    if pair.detectable is None:
        return ""
    least = amount(pair.detectable, pair.is_share)
    return f": {pair.n:,} documents would show one of {least} or more"


def _closeness(pair: PairedScore) -> str:
    """What a margin says."""
    if pair.margin is None:
        return ""
    size = amount(pair.margin.margin, pair.is_share)
    if pair.margin.is_equivalent:
        return f"; equivalent within ±{size}"
    if pair.outcome == "better":
        return ""
    if pair.margin.is_not_worse:
        return f"; not worse by more than {size}, but not shown to be equivalent"
    return f"; not shown to be equivalent within ±{size}"


def overall_sentence(score: OverallScore, wish: CompareWish, tests: int) -> str:
    """A pair over all tasks."""
    value, low, high = score.difference.value, score.difference.low, score.difference.high
    if value is None or score.adjusted is None:
        return f"{score.second} and {score.first} cannot be compared over all tasks."
    ends = f"95 % interval {signed(low, True)} to {signed(high, True)}, " if low is not None else ""
    after = f" after {_CORRECTION_NAMES[wish.correction]} over {tests} pairs" if tests > 1 else ""
    seen = f" ({ends}sign-flip {p_text(score.adjusted)}{after})"
    count = f"Over {len(score.tasks)} tasks, each counted once,"
    if score.outcome == "none":
        return f"{count} no difference was found between {score.second} and {score.first}{seen}."
    word = "higher" if value > 0 else "lower"
    size = amount(value, True)
    return f"{count} {score.second} scores {size} {word} than {score.first}{seen}: more than chance explains."


def conclusion(pairs: Sequence[PairedScore], overall: Sequence[OverallScore]) -> str:
    """The whole comparison in one sentence."""
    if len(pairs) == 1:
        return pairs[0].verdict
    if len(overall) == 1:
        return overall[0].verdict
    found = sum(pair.outcome not in ("none", "same") for pair in pairs)
    told = (
        "No difference beyond chance was found" if not found else f"{found:,} differences are more than chance explains"
    )
    told = "1 difference is more than chance explains" if found == 1 else told
    return f"{told}, of {len(pairs):,} pairs tested."


def ranked(
    labels: Sequence[str],
    scores: dict[str, Estimate],
    pairs: Sequence[PairedScore] | Sequence[OverallScore],
    better: bool,
) -> tuple[Place, ...]:
    """Places of systems that were all compared with each other; those that cannot be told apart share a letter."""
    separated = []
    for pair in pairs:
        if pair.outcome in ("better", "worse"):
            separated.append((pair.second, pair.first) if pair.outcome == "better" else (pair.first, pair.second))
    sign = -1.0 if better else 1.0
    best_first = sorted(labels, key=lambda label: sign * (scores[label].value or 0.0))
    ranks, letters = ranking.ranks(best_first, separated), ranking.letters(best_first, separated)
    beaten = {label: sum(label == better_one for better_one, _ in separated) for label in labels}
    places = [
        Place(label, scores[label], ranks[label], len(labels) - beaten[label], letters[label]) for label in best_first
    ]
    # Stable, so that systems of one rank stand in the order of their scores.
    return tuple(sorted(places, key=lambda place: place.rank))


def table(labels: Sequence[str], scores: dict[str, Estimate], pairs: Sequence[PairedScore]) -> Table | None:
    """Ranks on one task and metric; None where not every two systems were compared, or no direction is known."""
    compared = {frozenset((pair.first, pair.second)) for pair in pairs}
    wanted = {frozenset(two) for two in combinations(labels, 2)}
    better = pairs[0].higher_is_better if pairs else None
    if len(labels) < 3 or compared != wanted or better is None:
        return None
    return Table(pairs[0].task, pairs[0].metric, pairs[0].filter, ranked(labels, scores, pairs, better))
