"""Questions in all rotations of their choices: answers go back to their places, values are means."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.requests import Generation, Instance, Loglikelihood, Request
from assay.core.responses import Logprob
from assay.scoring.registry import metric_definition
from assay.scoring.scorers.choice_orders import rotated_answers, rotated_view

THREE = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
ROTATED, ANSWER = "rotated_choice", "rotated_answer"


def value(metric: str, found: Any, shape: str = ROTATED) -> Any:
    return metric_definition(metric).values[shape](found, {})


def built(orders: Any, choices: tuple[str, ...], gold: Any, shown: list[str] | None = None) -> Instance:
    """A question; `shown` are the scored texts of all orders, which are labels unless they are named."""
    texts = shown or list(choices) * len(orders)
    requests: tuple[Request, ...] = tuple(Loglikelihood("p", f" {text}") for text in texts)
    return Instance("t", 0, requests, choices=choices, gold=gold, target=gold, orders=orders)


def views(picks: list[int], gold: Any = 1) -> Any:
    """Three choices by their letters, of which the one at a position of the document is predicted in each rotation."""
    results = []
    for order, picked in zip(THREE, picks, strict=True):
        results += [Logprob(-1.0 if place == picked else -4.0, 1, place == picked) for place in order]
    return rotated_view(built(THREE, ("A", "B", "C"), gold), results)


def test_answers_go_back_to_the_documents_places() -> None:
    # Shown as (0 1 2), (1 2 0), (2 0 1): the number is 10 × rotation + place in the document.
    numbers = [0, 1, 2, 11, 12, 10, 22, 20, 21]
    found = rotated_view(built(THREE, ("A", "B", "C"), 0), [Logprob(-float(n), 1, False) for n in numbers])
    assert [list(view.totals) for view in found] == [[0, -1, -2], [-10, -11, -12], [-20, -21, -22]]


@pytest.mark.parametrize(
    ("picks", "accuracy", "agreement", "everywhere", "vote"),
    [
        ([1, 1, 1], 1.0, 1.0, 1.0, 1.0),
        ([0, 0, 0], 0.0, 1.0, 0.0, 0.0),
        ([1, 1, 2], 2 / 3, 0.0, 0.0, 1.0),
        ([1, 2, 2], 1 / 3, 0.0, 0.0, 0.0),
        ([0, 1, 2], 1 / 3, 0.0, 0.0, 0.0),
        ([2, 1, 2], 1 / 3, 0.0, 0.0, 0.0),
    ],
)
def test_values(picks: list[int], accuracy: float, agreement: float, everywhere: float, vote: float) -> None:
    found = views(picks)
    assert value("acc", found) == pytest.approx(accuracy)
    assert value("exact_match", found) == pytest.approx(accuracy)
    assert value("rotation_agreement", found) == agreement
    assert value("rotation_all", found) == everywhere
    assert value("rotation_vote", found) == vote
    assert value("greedy_choice", found) == 1.0


def test_a_model_that_always_says_the_first_label() -> None:
    """It predicts positions 0, 1, 2 of the document: a third is right, nothing agrees."""
    results = [Logprob(-1.0 if place == 0 else -4.0, 1, False) for _ in THREE for place in range(3)]
    found = rotated_view(built(THREE, ("A", "B", "C"), 2), results)
    assert value("acc", found) == pytest.approx(1 / 3)
    assert value("rotation_agreement", found) == 0.0


def test_several_right_choices() -> None:
    found = views([0, 1, 0], (0, 1))
    assert (value("acc", found), value("rotation_all", found), value("rotation_vote", found)) == (1.0, 1.0, 1.0)
    assert value("rotation_agreement", found) == 0.0


@pytest.mark.parametrize("gold", [-1, -100, 3, ()])
def test_an_unknown_right_answer(gold: Any) -> None:
    found = views([1, 1, 1], gold)
    assert [value(name, found) for name in ("acc", "acc_norm", "rotation_all", "rotation_vote")] == [0.0] * 4
    assert value("rotation_agreement", found) == 1.0


def test_a_single_choice() -> None:
    found = rotated_view(built(((0,),), ("A",), 0), [Logprob(-1.0, 1, False)])
    assert [value(name, found) for name in ("acc", "rotation_agreement", "rotation_all", "rotation_vote")] == [1.0] * 4


def test_lengths_are_those_of_what_was_scored() -> None:
    """Labels I and III: in the second rotation the first choice has the long one, -4.0/3 against -2.0/1."""
    orders = ((0, 1), (1, 0))
    results = [Logprob(-2.0, 1, False), Logprob(-9.0, 1, False), Logprob(-2.0, 1, False), Logprob(-4.0, 1, False)]
    found = rotated_view(built(orders, ("I", "III"), 0), results)
    assert [list(view.choices) for view in found] == [["I", "III"], ["III", "I"]]
    assert value("acc_norm", found) == 1.0
    assert value("acc", found) == 0.5


def test_prompts_without_question_and_whole_prompts_follow_each_rotation() -> None:
    orders = ((0, 1), (1, 0))
    requests = tuple(Loglikelihood("p", f" {text}") for text in ("a", "b", "a", "b", "p", "b", "a", "b", "a", "p"))
    instance = Instance("t", 0, requests, choices=("a", "b"), gold=0, nulls=("",), prompts=1, orders=orders)
    totals = [-1, -2, -3, -4, -5, -6, -7, -8, -9, -10]
    first, second = rotated_view(instance, [Logprob(float(total), 1, False) for total in totals])
    assert [item.total for item in first.alone[""]] == [-3, -4]
    assert [item.total for item in second.alone[""]] == [-9, -8]
    assert (list(second.totals), [item.total for item in second.prompts]) == ([-7, -6], [-10, -10])
    # -1 + 3 against -2 + 4, the first wins the tie; -7 + 9 against -6 + 8, again.
    assert value("acc_mutual_info", (first, second)) == 1.0


# Generated labels


def answers(said: list[Any], target: Any = 1) -> Any:
    requests: tuple[Request, ...] = tuple(Generation("p") for _ in THREE)
    instance = Instance("t", 0, requests, choices=("A", "B", "C"), target=target, orders=THREE)
    return rotated_answers(instance, said)


def test_labels_mean_choices() -> None:
    # The second choice is B, then A, then C.
    found = answers(["B", "A", "C"])
    assert [item.predicted for item in found] == [1, 1, 1]
    assert [value(name, found, ANSWER) for name in ("exact_match", "rotation_agreement", "rotation_all")] == [1.0] * 3
    assert value("rotation_vote", found, ANSWER) == 1.0


@pytest.mark.parametrize(
    ("said", "match", "agreement", "vote"),
    [
        (["B", "B", "B"], 1 / 3, 0.0, 0.0),
        (["B", "A", "A"], 2 / 3, 0.0, 1.0),
        (["A", "C", "B"], 0.0, 1.0, 0.0),
        (["hm", "hm", "hm"], 0.0, 0.0, 0.0),
        (["hm", "hm", "C"], 1 / 3, 0.0, 1.0),
        (["hm", "A", "A"], 1 / 3, 0.0, 1.0),
        ([None, "", "C"], 1 / 3, 0.0, 1.0),
    ],
)
def test_generated_values(said: list[Any], match: float, agreement: float, vote: float) -> None:
    found = answers(said)
    assert value("exact_match", found, ANSWER) == pytest.approx(match)
    assert value("rotation_agreement", found, ANSWER) == agreement
    assert value("rotation_all", found, ANSWER) == 0.0
    assert value("rotation_vote", found, ANSWER) == vote


@pytest.mark.parametrize("target", [-1, -100, 5])
def test_saying_nothing_is_never_right(target: int) -> None:
    found = answers(["hm", "hm", "hm"], target)
    names = ("exact_match", "rotation_agreement", "rotation_all", "rotation_vote")
    assert [value(name, found, ANSWER) for name in names] == [0.0] * 4
