"""What one document is worth under each metric."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.requests import Instance
from assay.core.responses import Logprob
from assay.scoring.metrics.value_types import brier_scores
from assay.scoring.registry import metric_definition
from assay.scoring.scorers import generated_answer as answer
from assay.scoring.scorers import multiple_choice as choice
from assay.scoring.scorers import text_likelihood as likelihood
from assay.scoring.scorers.generated_answer import AnswerView, Rouge, answer_view
from assay.scoring.scorers.multiple_choice import ChoiceView, choice_view
from assay.scoring.scorers.text_likelihood import likelihood_view


def value(metric: str) -> Any:
    return metric_definition(metric).values["multiple_choice"]


def view(totals: list[float], choices: list[str], gold: Any, greedy: int = -1) -> ChoiceView:
    logprobs = [Logprob(total, 1, place == greedy) for place, total in enumerate(totals)]
    return choice_view(Instance("t", 0, (), choices=tuple(choices), gold=gold), logprobs)


def test_the_likeliest_choice_counts() -> None:
    assert choice.accuracy(view([-2, -1, -3], ["a", "b", "c"], 1), {}) == 1.0
    assert choice.accuracy(view([-2, -1, -3], ["a", "b", "c"], 0), {}) == 0.0


def test_the_first_choice_wins_a_tie() -> None:
    assert choice.accuracy(view([-2, -1, -1], ["a", "b", "c"], 1), {}) == 1.0
    assert choice.accuracy(view([-2, -1, -1], ["a", "b", "c"], 2), {}) == 0.0


def test_characters_normalise() -> None:
    long_first = view([-6.0, -4.0], ["abcdef", "ab"], 0)
    assert choice.accuracy(long_first, {}) == 0.0
    assert value("acc_norm")(long_first, {}) == 1.0


def test_characters_and_bytes_differ_for_other_scripts() -> None:
    """-3 over 2 letters or 6 bytes; -2 over 2 letters or 2 bytes."""
    shown = view([-3.0, -2.0], ["世界", "ab"], 0)
    assert value("acc_norm")(shown, {}) == 0.0
    assert value("acc_bytes")(shown, {}) == 1.0


def test_a_lone_surrogate_has_three_bytes() -> None:
    assert value("acc_bytes")(view([-3.0, -2.0], ["\ud800", "a"], 0), {}) == 1.0


def test_an_empty_choice_is_never_predicted_after_normalising() -> None:
    shown = view([-0.1, -9.0], ["", "abc"], 0)
    assert choice.accuracy(shown, {}) == 1.0
    assert value("acc_norm")(shown, {}) == value("acc_bytes")(shown, {}) == 0.0


def test_tokens_normalise() -> None:
    """-6 over 3 tokens beats -4 over 1, whatever the texts' lengths."""
    instance = Instance("t", 0, (), choices=("ab", "abcdef"), gold=0)
    shown = choice_view(instance, [Logprob(-6.0, 3, False), Logprob(-4.0, 1, False)])
    assert value("acc_tokens")(shown, {}) == 1.0
    assert choice.accuracy(shown, {}) == value("acc_norm")(shown, {}) == 0.0


def test_a_choice_without_tokens_is_never_predicted_after_normalising() -> None:
    instance = Instance("t", 0, (), choices=("", "b"), gold=0)
    shown = choice_view(instance, [Logprob(0.0, 0, True), Logprob(-4.0, 1, False)])
    assert value("acc_tokens")(shown, {}) == 0.0


def test_mass_is_what_all_choices_have_together() -> None:
    half, eighth = math.log(0.5), math.log(0.125)
    assert choice.mass(view([half, eighth], ["a", "b"], 0), {}) == pytest.approx(0.625)
    assert choice.mass(view([half, half, eighth], ["a", "a", "b"], 0), {}) == pytest.approx(
        0.625
    )  # one text, one event
    assert choice.mass(view([-2000.0, -3000.0], ["a", "b"], 0), {}) == 0.0


def test_margin_is_that_of_the_first_over_the_second() -> None:
    assert choice.margin(view([-5.0, -1.5, -3.0], ["a", "b", "c"], 0), {}) == 1.5
    assert choice.margin(view([-1.0, -1.0], ["a", "b"], 0), {}) == 0.0
    assert choice.margin(view([-1.0], ["a"], 0), {}) is None


def test_greedy_decoding_may_say_any_choice() -> None:
    assert choice.greedy_choice(view([-2, -1], ["a", "b"], 0, greedy=1), {}) == 1.0
    assert choice.greedy_choice(view([-2, -1], ["a", "b"], 0), {}) == 0.0


def test_confidence_is_the_share_of_the_likeliest_choice() -> None:
    """Shares of 0.3 and 0.1 among themselves: 0.75."""
    shown = view([math.log(0.3), math.log(0.1)], ["a", "b"], 0)
    assert choice.confidence(shown, {}) == (pytest.approx(0.75), 1.0)
    assert choice.confidence(view([-1.0], ["a"], -1), {}) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("gold", "expected"),
    [(0, (0, 1)), (1, (1, 1)), ((0, 1), (1, 1)), ((2, 0), (2, 1)), ((), (-1, 1)), (-100, (-1, 1))],
)
def test_places_are_right_and_predicted(gold: Any, expected: tuple[int, int]) -> None:
    assert choice.position_pair(view([-2, -1, -3], ["a", "b", "c"], gold), {}) == expected


def test_mutual_information_subtracts_what_a_choice_is_worth_alone() -> None:
    instance = Instance("t", 0, (), choices=("common", "rare"), gold=1, nulls=("",))
    logprobs = [Logprob(total, 1, False) for total in (-1.0, -3.0, -1.0, -9.0)]
    shown = choice_view(instance, logprobs)
    assert choice.accuracy(shown, {}) == 0.0
    assert value("acc_mutual_info")(shown, {}) == 1.0


@pytest.mark.parametrize(("gold", "expected"), [((0, 2), 0.0), ((1, 2), 1.0), ((), 0.0)])
def test_one_of_several_right_choices_suffices(gold: tuple[int, ...], expected: float) -> None:
    shown = view([-2, -1, -3], ["a", "b", "c"], gold)
    assert shown.is_multiple
    assert choice.accuracy(shown, {}) == value("acc_norm")(shown, {}) == expected


@pytest.mark.parametrize("gold", [-100, -1, 3])
def test_an_invalid_gold_is_never_right(gold: int) -> None:
    shown = view([-2, -1, -1], ["a", "b", "c"], gold, greedy=2)
    assert choice.accuracy(shown, {}) == value("acc_norm")(shown, {}) == 0.0
    assert choice.exact_match(shown, {}) == 0.0


def test_exact_match_of_a_choice_is_its_greedy_flag() -> None:
    assert choice.exact_match(view([-2, -1], ["a", "b"], 0, greedy=0), {}) == 1.0
    assert choice.exact_match(view([-2, -1], ["a", "b"], 1, greedy=0), {}) == 0.0
    assert choice.exact_match(view([-2, -1], ["a", "b"], (0, 1), greedy=0), {}) == 1.0


def test_labels_are_right_and_predicted() -> None:
    assert choice.label_pair(view([-2, -1], ["no", "yes"], 0), {}) == (0, 1)


def brier(seen: choice.ChoiceView) -> float:
    return brier_scores([choice.probabilities(seen, {})])[0]


def test_brier_by_hand() -> None:
    """Probabilities 0.8 and 0.2."""
    totals = [math.log(0.8) - 7, math.log(0.2) - 7]
    assert choice.probabilities(view(totals, ["a", "b"], 0), {}) == (0, pytest.approx([0.8, 0.2]))
    assert brier(view(totals, ["a", "b"], 0)) == pytest.approx(2 * 0.2**2)
    assert brier(view(totals, ["a", "b"], 1)) == pytest.approx(2 * 0.8**2)


@given(st.lists(st.floats(-1e5, 0), min_size=2, max_size=6), st.integers(0, 1))
def test_brier_lies_between_0_and_2(totals: list[float], gold: int) -> None:
    assert 0.0 <= brier(view(totals, ["x"] * len(totals), gold)) <= 2.0 + 1e-12


def said(text: Any, gold: Any) -> AnswerView:
    return answer_view(Instance("t", 0, (), gold=gold), [text])


@pytest.mark.parametrize(
    ("text", "gold", "options", "expected"),
    [
        ("4", "4", {}, 1.0),
        ("4", 4, {}, 1.0),
        ("4 ", "4", {}, 0.0),
        ("Yes", "yes", {}, 0.0),
        ("Yes", "yes", {"ignore_case": True}, 1.0),
        ("it's!", "its", {"ignore_punctuation": True}, 1.0),
        ("«its»", "its", {"ignore_punctuation": True}, 0.0),
        ("a1b2", "ab", {"ignore_numbers": True}, 1.0),
        ("$1,234", "1234", {"regexes_to_ignore": [",", r"\$"]}, 1.0),
        ("The CAT.", "cat", {"regexes_to_ignore": ["(?i)the "], "ignore_case": True, "ignore_punctuation": True}, 1.0),
        ("4", "4", {"regexes_to_ignore": []}, 1.0),
        ("4", "4", {"regexes_to_ignore": None}, 1.0),
        (None, "", {}, 1.0),
    ],
)
def test_exact_match_ignores_what_it_is_reported(
    text: Any, gold: Any, options: dict[str, Any], expected: float
) -> None:
    assert answer.exact_match(said(text, gold), options) == expected


def test_any_of_several_answers_is_right() -> None:
    assert answer.exact_match(said("b", ("a", "b")), {}) == 1.0
    assert answer.exact_match(said("c", ("a", "b")), {}) == 0.0


def test_several_draws_count_by_their_share() -> None:
    assert answer.exact_match(said(["b", "x", "b", "y"], "b"), {}) == 0.5
    assert answer.exact_match(said([], "b"), {}) == 0.0


def test_a_continuation_is_greedy_or_not() -> None:
    for greedy in (True, False):
        shown = likelihood_view(Instance("t", 0, (), target="x"), [Logprob(-2.5, 3, greedy)])
        assert likelihood.greedy(shown, {}) == float(greedy)
        assert likelihood.log_probability(shown, {}) == -2.5


@pytest.mark.parametrize(
    ("text", "words", "size"),
    [("two words", 2, 9), (" leading", 2, 8), ("a \n\t b ", 3, 7), ("", 1, 0), ("世界 ü", 2, 9), ("\ud800", 1, 3)],
)
def test_words_and_bytes_are_counted_as_lm_eval_does(text: str, words: int, size: int) -> None:
    shown = likelihood_view(Instance("t", 0, (), target=text), [Logprob(-2.5, 3, False)])
    assert likelihood.per_word(shown, {}) == (-2.5, words)
    assert likelihood.per_byte(shown, {}) == (-2.5, size)


def test_labels_of_generated_answers_have_the_type_of_the_result() -> None:
    assert answer.label_pair(said("x", "b"), {}) == ["b", "x"]
    assert answer.label_pair(said(3, "3"), {}) == [3, 3]
    assert answer.label_pair(said("b", ("a", "b")), {}) == ["b", "b"]
    assert answer.label_pair(said("c", ("a", "b")), {}) == ["a", "c"]


def test_several_right_answers_stay_several_references() -> None:
    assert answer.text_pair(said("x", "b"), {}) == ["b", "x"]
    assert answer.text_pair(said("x", ("a", "b")), {}) == [["a", "b"], "x"]


def test_likelihoods_are_those_of_all_choices() -> None:
    assert choice.likelihoods(view([-2, -1], ["a", "b"], 1), {}) == (1, (-2, -1))
    assert choice.likelihoods(view([-2, -1], ["a", "b"], (0, 1)), {}) == ([0, 1], (-2, -1))


TEXT, RIGHT = "the cats were sitting\non a mat", "a cat sat\non the mats"


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL", "rougeLsum"])
@pytest.mark.parametrize("use_stemmer", [True, False])
def test_rouge_is_that_of_its_package(kind: str, use_stemmer: bool) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    expected = RougeScorer([kind], use_stemmer=use_stemmer).score(RIGHT, TEXT)[kind].fmeasure
    assert Rouge(kind)(said(TEXT, RIGHT), {"use_stemmer": use_stemmer}) == pytest.approx(expected, abs=1e-12)


def test_rouge_takes_the_best_right_answer_and_the_mean_of_draws() -> None:
    assert Rouge("rouge1")(said("a b", ("x", "a b")), {}) == 1.0
    assert Rouge("rouge1")(said(["a b", "z"], "a b"), {}) == 0.5
    assert Rouge("rouge1")(said([], "a b"), {}) == 0.0


def test_positions_say_which_position_is_predicted() -> None:
    shown = view([-2, -1, -3], ["a", "b", "c"], 0)
    assert value("positions")(shown, {}) == {"position_0": 0.0, "position_1": 1.0, "position_2": 0.0}


def test_mc2_is_the_share_of_all_right_choices() -> None:
    """Probabilities 0.1, 0.2, 0.1; the first two are right: 0.3 of 0.4."""
    totals = [math.log(0.1), math.log(0.2), math.log(0.1)]
    assert value("mc2")(view(totals, ["a", "b", "c"], (0, 1)), {}) == pytest.approx(0.75)
    assert value("mc2")(view(totals, ["a", "b", "c"], -1), {}) == 0.0


def test_mc2_of_very_unlikely_choices() -> None:
    """exp(-2000) is 0 as a float; the ratio is not."""
    assert value("mc2")(view([-2000.0, -2000.0], ["a", "b"], (1,)), {}) == pytest.approx(0.5)


@pytest.mark.parametrize(("gold", "rank"), [(2, 1), (0, 2), (1, 3), ((0, 1), 2)])
def test_ranks_of_the_right_choice(gold: Any, rank: int) -> None:
    seen = view([-2.0, -3.0, -1.0], ["a", "b", "c"], gold)
    assert value("mrr")(seen, {}) == 1 / rank
    assert value("acc_top2")(seen, {}) == float(rank <= 2)


def test_a_tie_has_the_best_rank_and_an_unknown_answer_none() -> None:
    assert value("mrr")(view([-1.0, -1.0], ["a", "b"], 1), {}) == 1.0
    assert value("mrr")(view([-1.0, -2.0], ["a", "b"], -1), {}) == 0.0
    assert value("acc_top2")(view([-1.0, -2.0], ["a", "b"], -1), {}) == 0.0
