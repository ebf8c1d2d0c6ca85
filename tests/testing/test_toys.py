"""Toy tasks keep the contract and are the same every time."""

from __future__ import annotations

import pytest

from assay.core.requests import Generation
from assay.testing import ToyTask, check_task, toy_choice_task, toy_generation_task, toy_perplexity_task

TOYS = [toy_choice_task, toy_generation_task, toy_perplexity_task]


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.parametrize("size", [0, 1, 20])
def test_toys_keep_the_contract(toy: type[ToyTask], size: int) -> None:
    task = toy(size)  # type: ignore[call-arg, arg-type]
    check_task(task)
    assert len(task.documents()) == size


def test_the_right_choice_is_the_sum() -> None:
    task = toy_choice_task(9)
    for document in task.documents():
        instance = task.build(document)
        assert int(instance.choices[instance.gold]) == document.fields["left"] + document.fields["right"]
    assert {task.build(document).gold for document in task.documents()} == {0, 1, 2, 3}


def test_draws_of_a_question_differ_in_the_draw_alone() -> None:
    task = toy_generation_task(2, draws=3)
    instance = task.build(task.documents()[1])
    assert instance.draws == 3
    assert [request.draw for request in instance.requests if isinstance(request, Generation)] == [0, 1, 2]


def test_names_can_be_chosen() -> None:
    assert toy_perplexity_task(2, name="mine").documents()[0].task == "mine"
