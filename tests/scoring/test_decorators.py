"""Metrics and filters that a decorator makes of a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import assay
from assay.core.errors import ArgumentError
from assay.scoring.registry import FILTERS, METRICS, make_filter, metric_definition
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task


@pytest.fixture(autouse=True)
def forgets() -> Iterator[None]:
    """Names that a test adds are forgotten after it."""
    yield
    for registry in (METRICS, FILTERS):
        for name in registry.own_names():
            registry.remove(name)


def answers(text: str) -> ScriptedModel:
    return ScriptedModel(lambda request: text if isinstance(request, assay.Generation) else -1.0)


def add_brief(most: int = 3) -> Any:
    @assay.metric("brief", bounds=(0.0, 1.0))
    def brief(prediction: str, references: Sequence[str], *, longest: int = most) -> bool:
        """Share of short answers."""
        return len(prediction) <= longest

    return brief


def scored(text: str, **settings: Any) -> Any:
    return assay.evaluate(answers(text), toy_generation_task(2), store=":memory:", **settings).tasks[0]


def test_a_metric_works_by_name_and_stays_a_function() -> None:
    brief = add_brief()
    assert brief("ab", ["x"]) is True
    assert scored("12", metrics="+brief").metric("brief").estimate.value == 1.0
    assert scored("1234", metrics="brief").metric("brief").estimate.value == 0.0
    assert metric_definition("brief").description == "Share of short answers."


def test_settings_are_keyword_only_parameters() -> None:
    add_brief()
    entry = {"metric_list": [{"metric": "brief", "longest": 9}]}
    assert scored("1234", scoring=entry).metric("brief").estimate.value == 1.0
    wrong = scored("1234", scoring={"metric_list": [{"metric": "brief", "longest": "nine"}]})
    assert "longest is 'nine', a str; expected a whole number" in wrong.problem.text


def test_a_metric_of_choices_sees_their_likelihoods() -> None:
    @assay.metric("count", output_type="multiple_choice")
    def count(view: assay.ChoiceView) -> float:
        return len(view.totals)

    result = assay.evaluate(answers(""), toy_choice_task(2), metrics="count", store=":memory:")
    assert result.tasks[0].metric("count").estimate.value == 4.0


def test_the_record_has_a_hash_of_the_code() -> None:
    add_brief()
    result = assay.evaluate(answers("1"), toy_generation_task(2), metrics="brief", store=":memory:")
    code = result.manifest["tasks"]["toy_generation"]["scoring"]["metrics"]["brief"]["code"]

    @assay.metric("brief2")
    def brief(prediction: str, references: Sequence[str]) -> bool:
        return len(prediction) <= 7

    assert len(code) == 16 and code != metric_definition("brief2").code


def test_a_definition_may_be_repeated_and_its_name_not_taken() -> None:
    add_brief(3)
    add_brief(9)
    assert scored("1234", metrics="brief").metric("brief").estimate.value == 1.0
    with pytest.raises(ArgumentError, match='the name "brief" is taken by the metric of .*add_brief.*; expected a new'):
        assay.metric("brief")(lambda prediction, references: 1.0)
    with pytest.raises(ArgumentError, match='the name "acc" is taken by a built-in'):
        assay.metric("acc")(lambda prediction, references: 1.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: 1.0, r"<lambda>\(text\) cannot be called as a metric; expected <lambda>\(prediction, references"),
        (lambda prediction, references, **more: 1.0, "Settings are keyword-only parameters with defaults"),
        (7, "is written above 7, an int; expected a function"),
    ],
)
def test_a_wrong_signature_is_reported_at_once(function: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        assay.metric("mine")(function)


def test_wrong_names_and_aggregations_are_reported_at_once() -> None:
    with pytest.raises(ArgumentError, match=r"the name is 'a,b'; expected letters"):
        assay.metric("a,b")
    with pytest.raises(ArgumentError, match='unknown aggregation "men".*did you mean "mean"'):
        assay.metric("mine", aggregation="men")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda prediction, references: "yes", "returned 'yes', a str; expected a number, True or False"),
        (lambda prediction, references: 1 / 0, "raised ZeroDivisionError: division by zero; it was given '12', a str"),
    ],
)
def test_what_a_metric_does_wrong_is_its_tasks_problem(function: Any, message: str) -> None:
    assay.metric("mine")(function)
    problem = scored("12", metrics="mine").problem
    assert problem.text.startswith('task toy_generation, metric "mine" (') and message in problem.text
    assert not problem.is_bug


def test_a_filter_maps_every_draw_and_leaves_other_values() -> None:
    @assay.filter("shout")
    def shout(text: str, *, mark: str = "!") -> str:
        """Upper case."""
        return text.upper() + mark

    made = make_filter(assay.FilterSpec("shout", {"mark": "?"}), "here")
    assert made([["a", "b"], "c", 3], {}) == [["A?", "B?"], "C?", 3]
    with pytest.raises(assay.UserError, match='unknown setting "marks" .did you mean "mark"'):
        make_filter(assay.FilterSpec("shout", {"marks": "?"}), "here")


def test_a_filter_with_a_fallback_counts_texts_without_an_answer() -> None:
    @assay.filter("digit", fallback="[none]")
    def digit(text: str) -> str | None:
        return next((letter for letter in text if letter.isdigit()), None)

    scoring = {"filter_list": [{"name": "d", "filter": [{"function": "digit"}, {"function": "take_first"}]}]}
    assert scored("so 7", scoring=scoring).metric("exact_match").estimate.value == 0.5
    assert scored("none", scoring=scoring).denominators.unparsed == {"d": 2}


def test_a_filter_that_returns_no_text_is_reported() -> None:
    assay.filter("nothing")(lambda text: None)
    made = make_filter(assay.FilterSpec("nothing"), "here")
    with pytest.raises(assay.UserError, match="returned None; expected a string. .*fallback="):
        made([["a"]], {})
