"""What numbers say in plain words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay.core.scores import Estimate
from assay.studies.paired.paired_values import CompareOptions, Margin, OverallScore, PairedScore
from assay.studies.paired.verdicts import (
    adjusted_p_values,
    cannot_reach_alpha,
    conclusion,
    difference_text,
    level_text,
    p_text,
    ranking_table,
    signed_text,
    with_verdicts,
)


def score(value: float | None) -> Estimate:
    return Estimate(value, 0.01, None, None, 100, "t")


def pair(difference: float | None, p: float | None, **changes: Any) -> PairedScore:
    given = {"higher_is_better": True, "is_share": True, "first": "A", "second": "B", "n": 100, **changes}
    found = Estimate(difference, 0.01, changes.get("low", 0.004), changes.get("high", 0.058), given["n"], "t")
    for name in ("low", "high"):
        given.pop(name, None)
    counts = {"wins": 9, "losses": 5, "ties": 86, "scores": (score(0.5), score(0.53)), **given}
    return PairedScore(
        "t",
        "acc",
        "none",
        left_out=(0, 0),
        difference=found,
        test="mcnemar",
        p=p,
        **counts,
    )


def reported(*pairs: PairedScore, **options: Any) -> list[PairedScore]:
    return with_verdicts(pairs, CompareOptions(**options))


def test_a_difference_beyond_chance() -> None:
    found = reported(pair(0.031, 0.003), *(pair(0.0, 1.0) for _ in range(5)))[0]
    assert found.outcome == "better" and found.adjusted == pytest.approx(0.018)
    assert found.verdict == (
        "B scores 3.1 points higher than A (95 % interval +0.4 to +5.8, McNemar p = 0.018 after Holm over 6 tests): "
        "more than chance explains."
    )


def test_no_difference_says_what_would_be_seen() -> None:
    (found,) = reported(pair(0.031, 0.3, detectable=0.12))
    assert found.outcome == "none"
    assert found.verdict == (
        "No difference was found between B and A (95 % interval +0.4 to +5.8, McNemar p = 0.30): "
        "100 documents would show one of 12 points or more."
    )


def test_less_can_be_better() -> None:
    (found,) = reported(pair(-1.5, 0.001, higher_is_better=False, is_share=False, low=-2.0, high=-1.0))
    assert found.outcome == "better"
    assert found.verdict.startswith("B scores 1.5 lower than A, which is better (95 % interval -2 to -1, ")
    (worse,) = reported(pair(1.5, 0.001, higher_is_better=False, is_share=False))
    assert worse.is_worse and "1.5 higher than A, which is worse" in worse.verdict


def test_without_a_direction_nothing_is_better() -> None:
    assert [item.outcome for item in reported(pair(-0.1, 0.0001, higher_is_better=None))] == ["lower"]


def test_margins_are_reported() -> None:
    near = Margin(0.02, True, True, -0.01, 0.01)
    assert reported(pair(0.0, 1.0, margin=near))[0].verdict.endswith("; equivalent within ±2 points.")
    half = Margin(0.02, False, True, -0.01, 0.05)
    assert (
        "; not worse by more than 2 points, but not shown to be equivalent."
        in reported(pair(0.0, 1.0, margin=half))[0].verdict
    )
    far = Margin(0.02, False, False, -0.1, 0.1)
    assert reported(pair(0.0, 1.0, margin=far))[0].verdict.endswith("; not shown to be equivalent within ±2 points.")


def test_too_few_documents_show_nothing_however_they_differ() -> None:
    few = pair(0.5, 0.0625, n=5, wins=5, losses=0, detectable=None)
    assert reported(few)[0].verdict.endswith("McNemar p = 0.062): 5 documents are too few to show any.")
    assert reported(pair(0.5, 0.5, clusters=1))[0].verdict.endswith(": 1 cluster is too few to show any.")
    assert [cannot_reach_alpha(test, n, 0.05) for test, n in (("sign-flip", 5), ("sign-flip", 6))] == [True, False]
    assert [cannot_reach_alpha("mcnemar-midp", n, 0.05) for n in (4, 5)] == [True, False]
    assert [cannot_reach_alpha("bootstrap", n, 0.05) for n in (2, 3, 5)] == [True, True, False]


def test_what_is_seen_is_that_of_a_single_test() -> None:
    first, _ = reported(pair(0.0, 1.0, detectable=0.12), pair(0.0, 1.0))
    assert first.verdict.endswith("12 points or more in a single test.")


def test_scores_that_are_no_numbers_are_named() -> None:
    (endless,) = reported(pair(-math.inf, None, scores=(score(math.inf), score(3.0))))
    assert endless.verdict == "B and A cannot be compared: the score of A is infinite."
    (unknown,) = reported(pair(None, None, scores=(score(None), score(None))))
    assert unknown.verdict.endswith("the score of A is undefined and the score of B is undefined.")


def test_systems_without_a_score_come_last() -> None:
    labels, scores = ["A", "B", "C"], {"A": score(None), "B": score(0.7), "C": score(0.5)}
    pairs = [pair(None, None, first=one, second=two, higher_is_better=False) for one, two in ("AB", "AC", "BC")]
    found = ranking_table(labels, scores, reported(*pairs))
    assert found is not None and [place.label for place in found.places] == ["C", "B", "A"]


def test_equal_values_single_documents_and_none() -> None:
    assert (
        reported(pair(0.0, 1.0, n=1, wins=0, losses=0))[0].verdict
        == "B and A have the same value on the only document."
    )
    assert reported(pair(0.0, 1.0, wins=0, losses=0))[0].verdict == "B and A have the same value on all 100 documents."
    assert reported(pair(1.0, 1.0, n=1, wins=1, losses=0))[0].verdict == "B and A cannot be tested on 1 document."
    assert reported(pair(None, None, n=0))[0].verdict == "B and A have no scored document in common."


def test_what_differs_is_named_where_it_is_more_than_one_thing() -> None:
    (found,) = reported(pair(0.0, 1.0, run_differences=("model: x → y", "num_fewshot: 0 → 5")))
    assert found.verdict.endswith(" Differing: model: x → y; num_fewshot: 0 → 5.")


def test_corrections() -> None:
    assert adjusted_p_values([0.01, None, 0.04], "holm") == [0.02, None, 0.04]
    assert adjusted_p_values([0.01, None, 0.04], "bh") == [0.02, None, 0.04]
    assert adjusted_p_values([0.01, 0.02, 0.03], "holm") == [
        pytest.approx(0.03),
        pytest.approx(0.04),
        pytest.approx(0.04),
    ]
    assert adjusted_p_values([0.01, 0.02, 0.03], "bh") == [pytest.approx(0.03)] * 3


def test_sizes_and_probabilities_in_words() -> None:
    assert [difference_text(value, True) for value in (0.01, -0.031, 0.12, 0.0004)] == [
        "1 point",
        "3.1 points",
        "12 points",
        "0.04 points",
    ]
    assert difference_text(12.34567, False) == "12.35"
    assert [p_text(p) for p in (None, 0.0002, 0.0213, 0.61)] == ["no p-value", "p < 0.001", "p = 0.021", "p = 0.61"]


def test_tied_systems_share_a_letter() -> None:
    labels = ["A", "B", "C"]
    scores = {"A": score(0.9), "B": score(0.88), "C": score(0.5)}
    pairs = [
        pair(-0.02, 0.5, first="A", second="B"),
        pair(-0.4, 1e-6, first="A", second="C"),
        pair(-0.38, 1e-6, first="B", second="C"),
    ]
    found = ranking_table(labels, scores, reported(*pairs))
    assert found is not None
    shown = [(place.label, place.rank, place.last, place.letters) for place in found.places]
    assert shown == [("A", 1, 2, "a"), ("B", 1, 2, "a"), ("C", 3, 3, "b")]
    assert ranking_table(labels, scores, reported(*pairs[:2])) is None


def test_a_system_between_two_overlaps_both() -> None:
    labels, scores = ["A", "B", "C"], {"A": score(0.9), "B": score(0.7), "C": score(0.5)}
    pairs = [
        pair(-0.2, 0.5, first="A", second="B"),
        pair(-0.4, 1e-6, first="A", second="C"),
        pair(-0.2, 0.5, first="B", second="C"),
    ]
    found = ranking_table(labels, scores, reported(*pairs))
    assert found is not None
    shown = [(place.label, place.rank, place.last, place.letters) for place in found.places]
    assert shown == [("A", 1, 2, "a"), ("B", 1, 3, "ab"), ("C", 2, 3, "b")]


def test_the_conclusion_counts_findings() -> None:
    many = reported(pair(0.1, 1e-6), pair(0.0, 1.0), pair(0.0, 0.9))
    assert conclusion(many, []) == "1 difference is more than chance explains, of 3 comparisons."
    assert conclusion(many[1:], []) == "No difference beyond chance was found, of 2 comparisons."


def test_a_level_other_than_that_of_the_interval_is_reported() -> None:
    (found,) = with_verdicts([pair(0.1, 0.15)], CompareOptions(alpha=0.2))
    assert found.verdict.endswith("more than chance explains at the 20 % level.")


def test_the_conclusion_does_not_count_what_could_not_be_tested() -> None:
    lacking = reported(pair(0.0, 1.0), pair(None, None), pair(None, None))
    assert (
        conclusion(lacking, []) == "No difference beyond chance was found, of 1 comparison; 2 more could not be tested."
    )
    assert conclusion(lacking[1:], []) == "None of 2 comparisons could be tested."


def test_findings_of_single_tasks_are_reported_next_to_all_tasks() -> None:
    many = reported(pair(0.5, 1e-6), pair(-0.5, 1e-6), pair(0.0, 0.9))
    overall = OverallScore("A", "B", ("t", "u"), score(0.0), 1.0, 1.0, "none", "Over 2 tasks, nothing.")
    assert conclusion(many, [overall]) == (
        "Over 2 tasks, nothing; 2 of 3 single comparisons are more than chance explains."
    )


def test_levels_in_words_have_two_digits_of_what_is_left_out() -> None:
    shown = [level_text(1 - alpha) for alpha in (0.05, 0.2, 0.1, 0.5, 0.05 / 2, 0.05 / 6, 0.05 / 4950)]
    assert shown == ["95 %", "80 %", "90 %", "50 %", "97.5 %", "99.17 %", "99.999 %"]


def test_an_end_that_is_not_0_does_not_look_like_it() -> None:
    assert [signed_text(end, True) for end in (0.0004, -0.00001, 0.0, 1e-17)] == ["+0.04", "-0.001", "0", "0"]
