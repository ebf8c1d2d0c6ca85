"""An instance knows which choices are right, and the purpose of each request."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.requests import Instance, Loglikelihood


@pytest.mark.parametrize(
    ("gold", "target", "expected"),
    [
        (2, 2, (2,)),
        (-100, "none of them", (-100,)),
        ((0, 2), [0, 2], (0, 2)),
        ((), [], ()),
        ("C", 2, (2,)),
        (("A", "C"), [0, 2], (0, 2)),
        ("Paris", "Paris", ("Paris",)),
    ],
)
def test_right_places(gold: Any, target: Any, expected: tuple[Any, ...]) -> None:
    assert Instance("t", 0, (), choices=("A", "B", "C"), target=target, gold=gold).gold_indices == expected


def test_requests_are_ordered_as_choices_then_the_same_after_each_null_then_prompts() -> None:
    one = [Loglikelihood("", "")] * 7
    instance = Instance("t", 0, (*one, *one), choices=("a", "b"), nulls=("", "So:"), prompts=1, orders=((0, 1), (1, 0)))
    parts = [("choice", "")] * 2 + [("null", "")] * 2 + [("null", "So:")] * 2 + [("prompt", "")]
    assert [instance.part(place) for place in range(14)] == parts * 2


def test_draws_of_a_request_are_for_the_same() -> None:
    instance = Instance("t", 0, (), draws=2, choices=("a", "b"), nulls=("",))
    assert [instance.part(place).kind for place in range(8)] == ["choice"] * 4 + ["null"] * 4


def test_a_document_without_choices_has_one_question() -> None:
    assert Instance("t", 0, (Loglikelihood("", ""),)).part(0) == ("choice", "")
