"""The filter `extract` as task files use it."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import DataError, UserError
from assay.core.specs import FilterSpec
from assay.scoring.registry import make_filter


def apply(responses: list[Any], document: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    return make_filter(FilterSpec("extract", options), "t")(responses, document or {})


def test_each_draw_becomes_its_answer_or_the_fallback() -> None:
    assert apply([["The answer is B.", "dunno"], ["(C)"]], using="letter") == [["B", "[invalid]"], ["C"]]
    assert apply([["dunno"]], using="letter", fallback="?") == [["?"]]


def test_after_take_first_the_text_itself_is_read() -> None:
    assert apply(["The answer is B."], using="letter") == ["B"]


def test_a_draw_that_is_not_a_text_holds_no_answer() -> None:
    assert apply([[None, 3]], using="number") == [["[invalid]"] * 2]


@pytest.mark.parametrize("labels", [3, "ABC", ["A", "B", "C"]])
def test_labels_bound_what_is_a_label(labels: Any) -> None:
    assert apply([["The answer is C.", "The answer is D."]], using="letter", labels=labels) == [["C", "[invalid]"]]


def test_without_labels_the_documents_choices_are_counted() -> None:
    text = ["The answer is C."]
    assert apply([text], {"choices": ["x", "y"]}, using="letter") == [["[invalid]"]]
    assert apply([text], {"choices": {"text": ["x", "y", "z"]}}, using="letter") == [["C"]]
    assert apply([text], {"choices": "none"}, using="letter") == [["C"]]


def test_choices_come_from_a_column() -> None:
    assert apply([["it is paris!"]], {"cities": ["Paris", "Rome"]}, using="choice_text", choices="cities") == [
        ["Paris"]
    ]
    with pytest.raises(DataError, match="no list of texts in the column choices.*choices: COLUMN"):
        apply([["x"]], {"cities": ["Paris"]}, using="choice_text")


def test_patterns_of_the_task_are_tried_first_and_in_order() -> None:
    patterns = [
        {"name": "verdict", "regex": r"Verdict: *(\w+)", "take": "last"},
        {"regex": r"(?P<said>\w+)!", "group": "said"},
    ]
    texts = ["Verdict: no\nVerdict:  yes", "hey!", "42"]
    step = make_filter(FilterSpec("extract", {"patterns": patterns, "using": ["number"]}), "t")
    answers, found = step.traced([texts], {})  # type: ignore[attr-defined]
    assert answers == [["yes", "hey", "42"]]
    assert [each.extractor for each in found[0]] == ["verdict", "pattern_2", "number_last"]
    assert [text[each.start : each.end] for text, each in zip(texts, found[0], strict=True)] == ["yes", "hey", "42"]


def test_a_group_that_took_no_part_is_not_an_answer() -> None:
    pattern = {"regex": r"a(b)?|(c)", "group": 1}
    assert apply([["a ab", "a c"]], patterns=[pattern]) == [["b", "[invalid]"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say what to look for"),
        ({"using": "leter"}, 'unknown extractor "leter" .did you mean "letter"'),
        ({"usign": "letter"}, "usign"),
        ({"patterns": [{"regex": "("}]}, "unterminated"),
        ({"patterns": ["x"]}, r"patterns\[0\] is 'x'"),
        ({"patterns": [{"regex": "x", "grop": 1}]}, "unknown keys grop"),
        ({"patterns": [{"regex": "x", "take": "any"}]}, 'take is "any", not first or last'),
        ({"patterns": [{"regex": "(x)", "group": 2}]}, "group is 2, but the regex has no such group"),
        ({"patterns": [{"regex": "x", "name": "a"}, {"regex": "y", "name": "a"}]}, "two extractors are named a"),
        ({"using": "letter", "labels": 0}, "labels is 0"),
        ({"using": "letter", "labels": ["A", "a"]}, "list of different texts"),
        ({"using": "letter", "fallback": 3}, "fallback and choices are texts"),
    ],
)
def test_wrong_settings_are_the_users_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f't.yaml: filter "extract" does not take .*{message}'):
        make_filter(FilterSpec("extract", options), "t.yaml")
