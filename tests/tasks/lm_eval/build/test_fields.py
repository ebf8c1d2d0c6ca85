"""Readers of a document's fields: column or template, and the odd rules of the dialect."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import DataError
from assay.tasks.lm_eval.build.fields import choices_reader, optional_reader, target_reader, text_reader

ROW = {"q": "why?", "n": 3, "list": ["a", "b"], "digits": "1", "none": None}


def text(value: Any, has_choices: bool = False, row: Any = ROW) -> Any:
    return text_reader(value, list(ROW), has_choices, "my.yaml:1  doc_to_text")(row)


def target(value: Any, has_choices: bool = False, row: Any = ROW) -> Any:
    return target_reader(value, list(ROW), has_choices, "my.yaml:1  doc_to_target")(row)


def choices(value: Any, row: Any = ROW) -> list[str]:
    return choices_reader(value, list(ROW), "my.yaml:1  doc_to_choice")(row)


def test_a_column_is_its_raw_value_and_a_template_always_text() -> None:
    assert text("q") == "why?"
    assert text("n") == 3
    assert text("{{n}}") == "3"
    assert text("no column") == "no column"
    assert text(2) == 2


def test_digits_point_at_a_choice_where_there_are_choices() -> None:
    assert text("{{digits}}", has_choices=True) == 1
    assert text("{{digits}}") == "1"
    assert target("{{digits}}", has_choices=True) == 1
    assert target("{{digits}}") == "1"
    assert target("digits", has_choices=True) == "1"


def test_digits_that_are_not_a_number_stay_text() -> None:
    # lm-eval's own test (str.isdigit) says yes to a superscript, and int() then fails.
    assert target("²", has_choices=True) == "²"
    assert text("²", has_choices=True) == "²"
    assert target("9" * 5000, has_choices=True) == "9" * 5000


def test_a_bracketed_target_is_a_list_where_python_can_read_it() -> None:
    assert target("{{list}}") == ["a", "b"]
    assert target("[1, 2]") == [1, 2]
    assert target("[why?]") == "[why?]"
    assert target("[" * 100_000 + "]") == "[" * 100_000 + "]"
    assert target("[") == "["


def test_targets_may_be_constants() -> None:
    assert target(0) == 0
    assert target(["x", "y"]) == ["x", "y"]


def test_choices_come_from_lists_mappings_columns_and_templates() -> None:
    assert choices(["x", "y"]) == ["x", "y"]
    assert choices({"A": "x", "B": "y"}) == ["x", "y"]
    assert choices("list") == ["a", "b"]
    assert choices("{{list}}") == ["a", "b"]
    assert choices("{{[q, digits]}}") == ["why?", "1"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("n", "gives 3 for a document; expected a list of choices"),
        ("q", "gives 'why\\?' for a document"),
        ("{{[]}}", "gives \\[\\] for a document"),
        ("{{q}}", "rendered 'why\\?'; expected a Python list such as"),
        ("{{[n]}}", "has the choice 3 \\(int\\); expected text. Write a template"),
        ([1, 2], "has the choice 1 \\(int\\); expected text. Quote it in the YAML file"),
        ([True], "has the choice True \\(bool\\)"),
    ],
)
def test_choices_that_are_not_a_list_of_texts_are_reported(value: Any, message: str) -> None:
    with pytest.raises(DataError, match="my.yaml:1  doc_to_choice: " + message):
        choices(value)


def test_a_column_that_an_example_lacks_is_reported() -> None:
    for reader in (text, target, choices):
        with pytest.raises(DataError, match='a few-shot example has no column "list"; expected one of: q'):
            reader("list", row={"q": "x"})


def test_optional_fields_are_text_and_empty_without_value() -> None:
    assert optional_reader(None, "here")(ROW) == ""
    assert optional_reader("", "here")(ROW) == ""
    assert optional_reader("Topic {{n}}.\n", "here")(ROW) == "Topic 3.\n"
    assert optional_reader("q", "here")(ROW) == "why?"
    assert optional_reader("none", "here")(ROW) == ""
