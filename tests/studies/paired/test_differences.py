"""Two systems on the same documents: numbers computed by hand, and held against scipy and scikit-learn."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from assay.core.recorded_values import DocumentValues
from assay.studies.paired.differences import compare_pairs, with_adjusted_intervals
from assay.studies.paired.matching import SystemEntry, match_documents
from assay.studies.paired.paired_values import ALL_FLIPS, CompareOptions, PairedScore
from assay.studies.paired.verdicts import with_verdicts

# Both right 4, only the second 3, only the first 1, neither 2.
FIRST = [1, 1, 1, 1, 0, 0, 0, 1, 0, 0]
SECOND = [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]


def entry(label: str, values: Sequence[Any], aggregation: str = "mean", **changes: Any) -> SystemEntry:
    given = {"documents": tuple(range(len(values))), "clusters": None, **changes}
    return SystemEntry(label, DocumentValues("t", "m", "none", aggregation, values=tuple(values), **given))


def compare(first: SystemEntry, second: SystemEntry, better: bool | None = True, **options: Any) -> PairedScore:
    return compare_pairs([match_documents(first, second)], better, CompareOptions(**options))[0].score


def test_outcomes_of_zero_and_one() -> None:
    found = compare(entry("a", FIRST), entry("b", SECOND))
    assert (found.n, found.wins, found.losses, found.ties) == (10, 3, 1, 6)
    assert [score.value for score in found.scores] == [0.5, 0.7]
    assert found.difference.value == pytest.approx(0.2)
    assert (found.test, found.p) == ("mcnemar", pytest.approx(2 * (1 + 4) / 16))
    assert found.effect is not None and (found.effect.name, found.effect.value) == ("odds_ratio", pytest.approx(3))
    # 4 of 10 differ: (1.95996·√0.4 + 0.84162·√(0.4 − 0.2²))²/0.2² + 1/0.2 = 76.03 + 5. A difference of δ above 0.4 is
    # seen by (1.95996·√δ + 0.84162·√(δ − δ²))²/δ² + 1/δ documents, which is 10 for 0.68985.
    assert found.needed == 82
    assert found.detectable == pytest.approx(0.68985, abs=1e-5)


def test_a_requested_difference_has_its_own_number_of_documents_besides_the_observed_one() -> None:
    found = compare(entry("a", FIRST), entry("b", SECOND), detect=0.1)
    # (1.95996·√0.4 + 0.84162·√(0.4 − 0.1²))²/0.1² + 1/0.1
    assert (found.needed, found.needed_to_detect) == (82, 322)
    assert compare(entry("a", FIRST), entry("b", SECOND)).needed_to_detect is None
    measured = compare(entry("a", [0.5, 1.0, 4.0, 2.0]), entry("b", [1.5, 3.0, 7.0, 2.0]), None, detect=0.5)
    variance = 4 * (measured.difference.stderr or 0.0) ** 2
    assert measured.needed_to_detect == math.ceil((1.959964 + 0.841621) ** 2 * variance / 0.25)


def test_the_standard_errors_with_and_without_pairing_belong_to_their_correlation() -> None:
    stats = pytest.importorskip("scipy.stats")
    generator = random.Random(4)
    one = [generator.random() for _ in range(40)]
    other = [0.6 * value + 0.4 * generator.random() for value in one]
    for first, second in ((one, other), ([float(v > 0.5) for v in one], [float(v > 0.5) for v in other])):
        found = compare(entry("a", first), entry("b", second))
        assert found.correlation == pytest.approx(stats.pearsonr(first, second).statistic)
        assert found.unpaired == pytest.approx(math.hypot(stats.sem(first), stats.sem(second)))
        assert found.difference.stderr == pytest.approx(stats.sem([b - a for a, b in zip(first, second, strict=True)]))
        assert found.difference.stderr is not None and found.difference.stderr < found.unpaired
    same = compare(entry("a", one), entry("b", one))
    assert (same.correlation, compare(entry("a", [1.0]), entry("b", [0.0])).unpaired) == (None, None)


def test_scores_of_all_documents_together_have_both_standard_errors_from_resampled_sets() -> None:
    generator = random.Random(5)
    truth = [generator.randrange(2) for _ in range(80)]
    sides = [[(label, label if generator.random() < 0.8 else 1 - label) for label in truth] for _ in range(2)]
    found = compare(*(entry(name, side, "f1") for name, side in zip("ab", sides, strict=True)))
    assert found.unpaired is not None and found.correlation is not None and found.difference.stderr is not None
    assert abs(found.correlation) < 0.4 and found.difference.stderr == pytest.approx(found.unpaired, rel=0.25)


def is_contradicted(found: PairedScore, alpha: float) -> bool:
    """Whether the interval says other than the p of a single test."""
    low, high = found.difference.low, found.difference.high
    assert found.p is not None and found.difference.level == pytest.approx(1 - alpha)
    if low is None or high is None:
        return False
    return (found.p < alpha) == (low <= 0 <= high)


@pytest.mark.parametrize("test", ["exact", "midp", "permutation", "bootstrap"])
@pytest.mark.parametrize("clusters", [None, 2])
def test_no_test_of_outcomes_contradicts_its_interval(test: str, clusters: int | None) -> None:
    """Every split of up to 14 documents that differ, of 20, also in clusters of two."""
    names = None if clusters is None else tuple(str(place // clusters) for place in range(20))
    for wins in range(0, 15, 2 if test == "bootstrap" else 1):
        losses = 14 - wins if test == "bootstrap" else (14 - wins) // 2
        one = [0] * wins + [1] * losses + [1] * (20 - wins - losses)
        other = [1] * wins + [0] * losses + [1] * (20 - wins - losses)
        for alpha in (0.2, 0.05, 0.01):
            found = compare(entry("a", one, clusters=names), entry("b", other, clusters=names), test=test, alpha=alpha)
            assert not is_contradicted(found, alpha), (wins, losses, alpha)
            assert found.difference.low is not None


@pytest.mark.parametrize("correction", ["holm", "bh"])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.01])
def test_no_verdict_after_correction_contradicts_its_interval(correction: str, alpha: float) -> None:
    """Eight tasks, of which some differ: each interval is of the level at which its task is tested."""
    generator, options = random.Random(7), CompareOptions(alpha=alpha, correction=correction)
    levels = set()
    for _ in range(12):
        items = []
        for place, shift in enumerate((0.0, 0.0, 0.0, 0.1, 0.2, 0.25, 0.3, 0.5)):
            sides = [[float(generator.random() < 0.4 + own) for _ in range(60)] for own in (0.0, shift)]
            entries = [entry(f"{place}", own) for own in sides]
            items += compare_pairs([match_documents(*entries)], True, options)
        for pair in with_verdicts(with_adjusted_intervals(items, options), options):
            low, high = pair.difference.low, pair.difference.high
            assert low is not None and high is not None and pair.effect is not None
            assert (pair.outcome in ("none", "same")) == (low <= 0 <= high), pair.verdict
            assert pair.effect.low is not None and pair.effect.high is not None
            assert (pair.outcome in ("none", "same")) == (pair.effect.low <= 1 <= pair.effect.high)
            levels.add(round(pair.difference.level, 6))
    assert len(levels) > 2 and max(levels) <= 1 - alpha / 8 + 1e-6
    if correction == "holm":
        assert max(levels) == pytest.approx(1 - alpha / 8, abs=1e-6)


@pytest.mark.parametrize("aggregation", ["mean", "perplexity", "bits_per_byte", "weighted_perplexity", "f1", "ece"])
def test_no_test_of_other_values_contradicts_its_interval(aggregation: str) -> None:
    generator = random.Random(6)
    for shift in (0.0, 0.1, 0.2, 0.3, 0.5):
        sides = [_drawn_values(aggregation, generator, own) for own in (0.0, shift)]
        for alpha in (0.2, 0.05, 0.01):
            found = compare(*(entry(n, own, aggregation) for n, own in zip("ab", sides, strict=True)), alpha=alpha)
            assert not is_contradicted(found, alpha)
            assert found.difference.low is not None


def _drawn_values(aggregation: str, generator: random.Random, shift: float) -> list[Any]:
    if aggregation == "f1":
        return [(place % 2, place % 2 if generator.random() < 0.6 + shift / 2 else 1) for place in range(40)]
    if aggregation == "ece":
        return [(0.5 + shift / 2, float(generator.random() < 0.6)) for _ in range(40)]
    values = [generator.gauss(shift, 1) - 3 for _ in range(40)]
    has_lengths = aggregation in ("bits_per_byte", "weighted_perplexity")
    return [(value, 1.0 + place % 3) for place, value in enumerate(values)] if has_lengths else values


def test_tests_can_be_chosen() -> None:
    one, other = entry("a", FIRST), entry("b", SECOND)
    assert compare(one, other, test="midp").p == pytest.approx(0.625 - 4 / 16)
    flipped = compare(one, other, test="permutation")
    # Of 16 ways to sign four ones, 5 sum to 2 or more and 5 to −2 or less.
    assert (flipped.test, flipped.p) == ("sign-flip", pytest.approx(10 / 16))
    drawn = compare(one, other, test="bootstrap")
    assert drawn.test == "bootstrap" and drawn.p is not None and 0.2 < drawn.p < 0.7


def test_measurements_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = [0.5, 1.0, 4.0, 2.0], [1.5, 3.0, 7.0, 2.0]
    found = compare(entry("a", a), entry("b", b), None)
    assert (found.test, found.p) == ("sign-flip", pytest.approx(2 / 8))  # the tie cannot turn
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)  # no difference has a p below 2 in 8
    assert (found.difference.low, found.difference.high) == pytest.approx((expected.low, expected.high))
    assert found.effect is not None and found.effect.value == pytest.approx(1.5 / math.sqrt(5 / 3))
    generator = random.Random(1)
    a, b = ([generator.gauss(0, 1) for _ in range(200)] for _ in "ab")
    found, expected = compare(entry("a", a), entry("b", b), None), stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx((expected.low, expected.high), abs=0.01)
    assert found.effect is not None and found.difference.low is not None and found.difference.value is not None
    assert found.effect.low == pytest.approx(found.difference.low * found.effect.value / found.difference.value)


def test_differences_that_differ_only_by_rounding_are_equal() -> None:
    """An interval of no width would say that another document cannot differ otherwise."""
    one = [0.1 * place for place in range(20)]
    found = compare(entry("a", one), entry("b", [value + 0.5 for value in one]), margin=0.6)
    assert found.difference.value == pytest.approx(0.5)
    assert (found.difference.stderr, found.difference.low, found.difference.high) == (None, None, None)
    assert found.effect is not None and found.effect.value is None and found.detectable is None
    assert found.margin is not None and found.margin.is_equivalent
    assert (found.margin.low, found.margin.high) == (None, None)
    two = compare(entry("a", [1.0, 2.0]), entry("b", [1.5, 2.5]))
    assert (two.difference.stderr, two.difference.low) == (None, None)


def test_what_rounding_leaves_of_0_is_not_a_finding() -> None:
    found = compare(entry("a", [0.1 + 0.2] * 30), entry("b", [0.3] * 30))
    assert (found.wins, found.losses, found.p) == (0, 0, 1.0)


def test_proportions_are_recognised_by_the_values_and_not_by_their_means() -> None:
    assert compare(entry("a", [0.5, 1.0]), entry("b", [0.0, 0.25])).is_share
    assert not compare(entry("a", [0.0, 1.0]), entry("b", [0.0, 1.5])).is_share
    assert not compare(entry("a", [0.5, 1.0]), entry("b", [0.0, 0.25]), False).is_share


def test_effects_of_clusters_have_no_interval_of_single_documents() -> None:
    clusters = tuple(f"c{place // 4}" for place in range(24))
    one, other = [float(place % 3 == 0) for place in range(24)], [float(place % 4 != 0) for place in range(24)]
    found = compare(entry("a", one, clusters=clusters), entry("b", other, clusters=clusters))
    assert found.effect is not None and found.effect.value is not None
    assert (found.effect.low, found.effect.high) == (None, None)


def test_shares_are_never_further_apart_than_1() -> None:
    found = compare(entry("a", [0.0, 0.1, 0.9]), entry("b", [1.0, 0.2, 0.0]))
    assert (found.difference.low, found.difference.high) == (-1.0, 1.0)


def test_few_flips_do_not_make_a_small_difference_visible() -> None:
    """One of 1,000 outcomes differs; six flips one way are the fewest that any test can find."""
    found = compare(entry("a", [1.0] * 1000), entry("b", [0.0] + [1.0] * 999))
    assert found.detectable is not None and found.detectable * 1000 > 7.8
    won = compare(entry("a", [0.0] * 180 + [1.0] * 20), entry("b", [1.0] * 200))
    assert won.needed == 7


def test_many_pairs_with_documents_in_another_order_have_the_p_of_each_alone() -> None:
    generator = random.Random(3)
    truth = [generator.random() for _ in range(10)]
    orders = [generator.sample(range(10), 10) for _ in range(4)]
    systems = [
        entry(str(place), [truth[document] + 0.1 * place + generator.random() for document in order])
        for place, order in enumerate(orders)
    ]
    matches = [
        match_documents(
            systems[one], systems[other], {place: orders[other].index(orders[one][place]) for place in range(10)}
        )
        for one in range(4)
        for other in range(one)
    ]
    together = compare_pairs(matches, True, CompareOptions())
    assert [found.score.p for found in together] == [
        compare_pairs([match], True, CompareOptions())[0].score.p for match in matches
    ]


def test_bootstrap_of_means_resamples_each_system_once_and_agrees_with_its_interval() -> None:
    generator = random.Random(6)
    systems = [entry(str(place), [generator.gauss(place / 3, 1) for _ in range(50)]) for place in range(4)]
    matches = [match_documents(systems[0], other) for other in systems[1:]]
    for found in compare_pairs(matches, True, CompareOptions(test="bootstrap")):
        assert found.score.test == "bootstrap" and found.score.p is not None
        low, high = found.score.difference.low, found.score.difference.high
        assert low is not None and high is not None
        assert (found.score.p < 0.05) == (not low <= 0 <= high)


def test_clustered_scores_have_clustered_intervals() -> None:
    pairs = [(1.0, float(place % 3 == 0)) for place in range(24)]
    clusters = tuple(f"c{place // 8}" for place in range(24))
    found = compare(entry("a", pairs, "f1", clusters=clusters), entry("b", pairs[::-1], "f1", clusters=clusters))
    assert [score.method for score in found.scores] == ["cluster-bootstrap"] * 2


def test_documents_are_paired_by_their_place() -> None:
    found = compare(entry("a", [1, 0, 1], documents=(4, 5, 6)), entry("b", [0, 0], documents=(6, 4)))
    assert (found.n, found.left_out, found.losses) == (2, (1, 0), 2)


def test_documents_without_a_number_are_left_out() -> None:
    found = compare(entry("a", [1.0, math.nan, 0.5], "nanmean"), entry("b", [2.0, 1.0, math.inf], "nanmean"), None)
    assert (found.n, found.left_out, found.difference.value) == (1, (2, 2), 1.0)
    assert found.difference.low is None


def test_no_document_in_common_gives_nulls() -> None:
    found = compare(entry("a", [1], documents=(0,)), entry("b", [1], documents=(1,)))
    assert (found.n, found.p, found.difference.value, found.detectable) == (0, None, None, None)


def test_whole_clusters_are_flipped() -> None:
    clusters = ("x", "x", "y", "y", "z", "z")
    one = entry("a", [0] * 6, clusters=clusters)
    found = compare(one, entry("b", [1] * 6, clusters=clusters))
    # Three clusters turn together: 2 of 8 ways are as far from 0.
    assert (found.test, found.p, found.clusters) == ("cluster-sign-flip", pytest.approx(2 / 8), 3)


def test_f1_is_resampled_over_the_same_documents() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    right = [1, 1, 1, 0, 0, 1, 0, 1]
    picks = [1, 0, 1, 1, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0, 0, 1]
    one, other = (entry(str(place), list(zip(right, own, strict=True)), "f1") for place, own in enumerate(picks))
    found = compare(one, other)
    expected = metrics.f1_score(right, picks[1]) - metrics.f1_score(right, picks[0])
    assert found.difference.value == pytest.approx(expected)
    assert found.test == "bootstrap" and found.wins is None
    assert compare(one, one).p == 1.0


def test_perplexities_are_compared_as_ratios_of_sums() -> None:
    one = entry("a", [(-2.0, 1.0), (-6.0, 3.0)], "weighted_perplexity")
    other = entry("b", [(-1.0, 1.0), (-3.0, 3.0)], "weighted_perplexity")
    found = compare(one, other, False)
    assert found.difference.value == pytest.approx(math.exp(1) - math.exp(2))
    assert [score.value for score in found.scores] == [pytest.approx(math.exp(2)), pytest.approx(math.exp(1))]


@pytest.mark.parametrize("aggregation", ["weighted_perplexity", "weighted_nats", "bits_per_byte"])
def test_scores_that_are_sums_over_the_same_texts_flip_the_signs_of_what_each_adds(aggregation: str) -> None:
    one = entry("a", [(-2.0, 1.0), (-6.0, 3.0), (-5.0, 2.0), (-1.0, 9.0)], aggregation)
    other = entry("b", [(-1.0, 1.0), (-3.0, 3.0), (-5.5, 2.0), (-1.0, 9.0)], aggregation)
    found = compare(one, other, False)
    # Of 8 ways to sign 1, 3 and ½ only those without and with all but the last, each either way, reach 3½.
    assert (found.test, found.p) == ("sign-flip", 4 / 8)
    assert (found.difference.method, found.difference.low) == ("sign-flip", None)  # one text is most of the length
    in_pairs = compare(
        entry("a", one.recorded.values, aggregation, clusters=("x", "x", "y", "y")),
        entry("b", other.recorded.values, aggregation, clusters=("x", "x", "y", "y")),
        False,
    )
    assert (in_pairs.test, in_pairs.p) == ("cluster-sign-flip", 1.0)  # 4 and −½: two of four ways reach 3½, either way


def test_perplexities_of_answers_flip_the_signs_of_log_likelihoods() -> None:
    one, other = ([-1.0, -2.0, -1.5, -1.5, -1.0], [-0.5, -1.0, -1.2, -1.1, -0.3])
    found = compare(entry("a", one, "perplexity"), entry("b", other, "perplexity"), False)
    assert (found.test, found.p) == ("sign-flip", 2 / 32)
    assert (
        compare(entry("a", one, "perplexity"), entry("b", other, "perplexity"), False, test="bootstrap").test
        == "bootstrap"
    )


def test_sums_over_other_lengths_are_resampled() -> None:
    values = [(-2.0, 1.0), (-6.0, 3.0), (-5.0, 2.0)]
    longer = [(total, length + 1) for total, length in values]
    found = compare(entry("a", values, "weighted_perplexity"), entry("b", longer, "weighted_perplexity"), False)
    assert found.test == "bootstrap"


def test_many_pairs_of_perplexities_have_the_same_p_as_each_alone() -> None:
    generator = random.Random(1)
    systems = [
        entry(str(place), [(-generator.expovariate(1), float(length)) for length in range(1, 9)], "bits_per_byte")
        for place in range(4)
    ]
    matches = [match_documents(one, other) for place, one in enumerate(systems) for other in systems[:place]]
    together = compare_pairs(matches, False, CompareOptions())
    alone = [compare_pairs([match], False, CompareOptions())[0] for match in matches]
    assert [found.score.p for found in together] == [found.score.p for found in alone]
    assert {found.score.test for found in together} == {"sign-flip"}


def test_bootstrap_and_interval_never_contradict_each_other() -> None:
    generator = random.Random(5)
    for shift in (0.0, 0.3, 0.6, 3.0):
        ends = [-generator.expovariate(0.2) for _ in range(40)]
        one = entry("a", ends, "perplexity")
        other = entry("b", [value + shift + generator.gauss(0, 1) for value in ends], "perplexity")
        found = compare(one, other, False, test="bootstrap")
        assert found.difference.low is not None and found.difference.high is not None and found.p is not None
        assert (found.p < 0.05) == (not found.difference.low <= 0 <= found.difference.high)


def test_text_labels_are_numbered() -> None:
    right = ["b", "b", "c", "c"]
    one = entry("a", list(zip(right, ["b", "c", "c", "c"], strict=True)), "matthews_corrcoef")
    other = entry("b", list(zip(right, ["a", "b", "c", "c"], strict=True)), "matthews_corrcoef")
    found = compare(one, other)
    values = [score.value for score in found.scores]
    assert values[0] is not None and values[1] is not None
    assert found.difference.value == pytest.approx(values[1] - values[0])


def test_many_pairs_share_their_flips() -> None:
    generator = random.Random(1)
    entries = [entry(f"s{k}", [generator.gauss(0.2 * k, 1) for _ in range(30)]) for k in range(4)]
    matches = [match_documents(entries[i], entries[j]) for i in range(4) for j in range(i + 1, 4)]
    together = [item.score.p for item in compare_pairs(matches, True, CompareOptions())]
    alone = [compare_pairs([match], True, CompareOptions())[0].score.p for match in matches]
    assert together == [pytest.approx(p, abs=0.02) for p in alone]


def test_many_clustered_pairs_share_their_flips() -> None:
    generator = random.Random(2)
    clusters = tuple(f"c{place // 2}" for place in range(60))
    entries = [entry(f"s{k}", [generator.gauss(0.2 * k, 1) for _ in range(60)], clusters=clusters) for k in range(4)]
    matches = [match_documents(entries[i], entries[j]) for i in range(4) for j in range(i + 1, 4)]
    together = [item.score for item in compare_pairs(matches, True, CompareOptions())]
    alone = [compare_pairs([match], True, CompareOptions())[0].score for match in matches]
    assert [score.p for score in together] == [pytest.approx(score.p, abs=0.02) for score in alone]
    assert {score.test for score in together} == {"cluster-sign-flip"}


def test_margins_know_which_way_is_worse() -> None:
    one, other = entry("a", [1.0, 2.0, 3.0, 4.0] * 4), entry("b", [0.9, 2.1, 2.9, 4.0] * 4)
    close = compare(one, other, margin=0.5).margin
    assert close is not None and close.is_equivalent and close.is_not_worse
    far = entry("c", [0.0, 1.1, 2.0, 2.9] * 4)
    lower = compare(one, far, True, margin=0.5).margin
    less_is_better = compare(one, far, False, margin=0.5).margin
    assert lower is not None and not lower.is_equivalent and lower.is_not_worse is False
    assert less_is_better is not None and less_is_better.is_not_worse is True
    assert compare(one, other, None, margin=0.5).margin.is_not_worse is None  # type: ignore[union-attr]


def test_margins_of_perplexities_and_of_clusters() -> None:
    one = entry("a", [-1.0, -2.0, -1.5, -1.5, -1.0], "perplexity")
    same = compare(one, one, False, margin=0.5).margin
    assert same is not None and same.is_equivalent and same.is_not_worse
    few = entry("a", [-1.0, -2.0, -1.5], "perplexity")
    assert not compare(few, few, False, margin=0.5).margin.is_equivalent  # type: ignore[union-attr]  # as for means
    worse = compare(few, entry("b", [-3.0, -4.0, -3.5], "perplexity"), False, margin=0.5).margin
    assert worse is not None and not worse.is_equivalent and worse.is_not_worse is False


def test_margins_of_clusters() -> None:
    def margin(one: list[float], other: list[float], size: float = 2.0) -> bool:
        names = tuple(str(place // 2) for place in range(len(one)))
        found = compare(entry("a", one, clusters=names), entry("b", other, clusters=names), margin=size).margin
        assert found is not None
        return found.is_equivalent

    # Sixteen clusters differ by 0.05 and 0.1 on average, eight each: 0.075 ± about 1.75·0.0065.
    assert margin([1.0, 2.0, 3.0, 4.0] * 8, [1.1, 2.0, 3.1, 4.1] * 8, 0.09)
    assert not margin([1.0, 2.0, 3.0, 4.0] * 8, [1.1, 2.0, 3.1, 4.1] * 8, 0.08)
    assert not margin([1.0, 2.0, 3.0, 4.0], [1.1, 2.1, 3.1, 4.1])  # two clusters that agree are no proof
    assert margin([1, 0, 1, 0], [1, 0, 1, 0], 0.9) and not margin([1, 0, 1, 0], [1, 0, 1, 0], 0.5)


def test_flips_are_listed_both_ways() -> None:
    one, other = entry("a", FIRST), entry("b", SECOND)
    assert [flip.document for flip in compare(one, other, flips=1).flips] == [7, 4]
    assert [flip.document for flip in compare(one, other, flips=ALL_FLIPS).flips] == [4, 5, 6, 7]
    assert compare(one, other).flips == ()


def test_outcomes_agree_beyond_chance() -> None:
    """Six of ten alike. By chance 0.5·0.7 + 0.5·0.3 = 0.5 would be: (0.6 − 0.5)/0.5."""
    metrics = pytest.importorskip("sklearn.metrics")
    found = compare(entry("a", FIRST), entry("b", SECOND)).agreement
    assert found is not None
    assert (found.equal, found.kappa.value, found.kappa.n) == (0.6, pytest.approx(0.2), 10)
    assert found.kappa.value == pytest.approx(metrics.cohen_kappa_score(FIRST, SECOND))
    assert found.kappa.low is not None and found.kappa.low < 0.2


def test_agreement_accounts_for_clusters() -> None:
    clusters = tuple("aabbccddee")
    found = compare(entry("a", FIRST, clusters=clusters), entry("b", SECOND, clusters=clusters)).agreement
    assert found is not None
    assert (found.equal, found.kappa.value, found.kappa.clusters) == (0.6, pytest.approx(0.2), 5)


def test_measurements_and_no_documents_have_no_agreement() -> None:
    assert compare(entry("a", [0.1, 0.2]), entry("b", [0.3, 0.2])).agreement is None
    assert compare(entry("a", [1]), entry("b", [1], documents=(7,))).agreement is None


def test_few_large_clusters_that_differ_are_no_small_share() -> None:
    """Two clusters of 50 differ, a hundred of one document do not: 35 points lie in the interval, and in no margin."""
    clusters = (*("x" * 50), *("y" * 50), *(str(place) for place in range(100)))
    other = [1] * 40 + [0] * 10 + [1] * 30 + [0] * 120
    found = compare(entry("a", [0] * 200, clusters=clusters), entry("b", other, clusters=clusters), margin=0.2)
    low, high = found.difference.low, found.difference.high
    assert found.difference.value == 0.35 and low is not None and high is not None
    assert low < 0 < 0.35 < high
    assert found.margin is not None and not found.margin.is_equivalent
