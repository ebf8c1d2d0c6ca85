"""What a run varies about a task: names, seeds, orders; and errors for what cannot vary, before anything runs."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import DataError, UserError
from assay.core.specs import RunSpec, TaskOptions, VariationAxes
from assay.core.task_variants import TaskVariant
from assay.core.variance_axes import base_name, is_variant
from assay.tasks.lm_eval.build.instances import listed_order


def test_the_first_order_is_the_choices_own() -> None:
    assert listed_order(5, 0, "t") == (0, 1, 2, 3, 4)


def test_the_orders_are_all_different_and_all_there_are() -> None:
    assert {listed_order(3, place, "t") for place in range(6)} == set(permutations(range(3)))


def test_the_orders_are_the_same_in_every_run() -> None:
    # Answers are kept under their prompts: other orders would be asked anew.
    assert [listed_order(4, place, "t") for place in (1, 2, 3)] == [(1, 3, 0, 2), (0, 1, 3, 2), (1, 3, 2, 0)]


def test_more_orders_than_there_are_is_an_error() -> None:
    with pytest.raises(DataError, match=r"document 3: 2 choices have 2 orders.*Say --orders 2"):
        listed_order(2, 2, "document 3")


def test_a_single_choice_has_one_order_that_represents_all() -> None:
    assert listed_order(1, 7, "t") == (0,)


def test_a_name_holds_its_levels_and_gives_them_back() -> None:
    name = str(TaskVariant("arc", style="letters", levels={"seed": 3, "order": 2}))
    assert (name, base_name(name)) == ("arc@letters#seed=3#order=2", "arc@letters")
    assert is_variant(name) and not is_variant("arc@letters")


def test_a_name_may_have_a_number_sign_of_its_own() -> None:
    assert base_name("mbpp_c#") == "mbpp_c#" and base_name("mbpp_c##seed=-3") == "mbpp_c#"


def test_axes_survive_the_record() -> None:
    spec = RunSpec("ngram", ("t",), options=TaskOptions(axes=VariationAxes((3, 4), 2, 5)))
    assert RunSpec.from_json(spec.to_json()).options.axes == VariationAxes((3, 4), 2, 5)
    old = spec.to_json()
    del old["options"]["axes"]
    assert RunSpec.from_json(old).options.axes == VariationAxes()


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("demo_questions", {"fewshot_seeds": 2}, "--seeds: .*shows no examples.*num_fewshot: 0"),
        ("demo_arithmetic_2d", {"fewshot_seeds": 2}, "the sampler first_n, which knows no seed"),
        ("demo_questions", {"orders": 2}, "--orders: .*its own prompt.*--style letters"),
        (
            "demo_scramble_cycle",
            {"orders": 2},
            '--orders: the task "demo_scramble_cycle" has no choices; .*Leave --orders',
        ),
        ("demo_questions@cloze", {"orders": 2}, "the style cloze, which lists no choices"),
        ("demo_questions@letters:rotated", {"orders": 2}, "all rotations of its choices already"),
        ("demo_questions@letters", {"orders": 25}, "4 choices have 24 orders"),
        ("demo_questions", {"draws": 2}, "--draws: .*likelihoods, which are the same every time"),
        ("demo_scramble_cycle", {"draws": 2}, "answered greedily, so all draws are equal.*temperature=0.8"),
        ("demo_questions", {"prompts": "all"}, "--prompts all: .*names no prompts"),
        ("demo_questions", {"fewshot_seeds": [1, 1]}, "names a seed twice: 1, 1"),
        ("demo_questions", {"fewshot_seeds": 1}, "--seeds: is 1; expected 2 seeds or more"),
        ("demo_questions", {"fewshot_seeds": []}, "2 seeds or more"),
        ("demo_questions", {"fewshot_seeds": 1234}, "asks for 1,234 seeds; .* Say --seed 1234 for one run"),
        ("demo_scramble_cycle", {"draws": 100_000}, "--draws: asks for 100,000 draws; expected 2 to 1,000"),
        ("demo_questions", {"orders": 1, "draws": 0}, r"(?s)--orders: is 1.*--draws: is 0"),
    ],
)
def test_what_cannot_vary_is_reported(task: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate("ngram", task, store=":memory:", limit=2, **settings)


def test_a_task_in_python_is_refused() -> None:
    from assay.testing.toys import toy_choice_task

    with pytest.raises(UserError, match='"toy_choice" is not a task file'):
        evaluate("ngram", toy_choice_task(3), store=":memory:", draws=2)


def test_a_seed_that_is_unknown_cannot_be_counted_from() -> None:
    from assay.core.specs import Seeds

    with pytest.raises(UserError, match="few-shot seed is None"):
        evaluate("ngram", "demo_questions", store=":memory:", seeds=Seeds(fewshot=None), fewshot_seeds=2)
