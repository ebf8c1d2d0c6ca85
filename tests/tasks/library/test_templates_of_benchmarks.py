"""Templates of library files that do more than fill in a column, on rows made up here."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.tasks.templates import render

LIBRARY = Path(__file__).parents[3] / "src/assay/tasks/library"


def rendered(file: str, key: str, row: dict[str, Any]) -> str:
    config = yaml.safe_load((LIBRARY / file).read_text(encoding="utf-8"))
    return render(config[key], row, file)


@pytest.mark.parametrize(
    ("text", "detokenised"),
    [
        (" = Title = \n \n The 1 @,@ 000 @-@ year old . \n", " = Title =\n\nThe 1,000-year old.\n"),
        ("He said \" hi \" ( and ' bye ' ) .", "He said \"hi\" (and 'bye') ."),
        (" = = Section = = ", " == Section == "),
        ("20 ° C , N times ; the dog 's { x } [ y ]", "20°C, 1 times; the dog's {x} [y]"),
    ],
)
def test_wikitext_is_detokenised(text: str, detokenised: str) -> None:
    assert rendered("language_modeling/wikitext.yaml", "doc_to_target", {"page": text}) == detokenised
    assert rendered("language_modeling/c4.yaml", "doc_to_target", {"text": text}) == detokenised


def test_answers_that_extend_another_are_left_out() -> None:
    row = {"question": "who?", "answers": ["Zeta", "Apple pie", "apple", "Apple", "Zeta Jones"]}
    assert ast.literal_eval(rendered("qa/webqs.yaml", "doc_to_choice", row)) == ["Apple", "Zeta", "apple"]
    assert ast.literal_eval(rendered("qa/webqs.yaml", "doc_to_target", row)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "choices"),
    [
        ("a ) 38 , b ) 27.675 , c ) 30 , d ) none , e ) 7", ["38", "27.675", "30", "none", "7"]),
        ("a ) 1 , 000 , b ) 2 , c ) 3 , d ) 4 , e ) 5 , 6 ,", ["1", "2", "3", "4", "5 , 6"]),
    ],
)
def test_choices_of_mathqa_are_cut_from_one_text(options: str, choices: list[str]) -> None:
    assert ast.literal_eval(rendered("math/mathqa.yaml", "doc_to_choice", {"options": options})) == choices


def test_coqa_asks_the_last_turn_and_joins_other_answers() -> None:
    row = {
        "story": "S.",
        "questions": {"input_text": ["Who?", "Why?"]},
        "answers": {"input_text": ["Ann", "Fun"]},
        "additional_answers": {"0": {"input_text": ["x", "FUN"]}, "1": {"input_text": ["y", "for fun"]}},
    }
    assert rendered("qa/coqa.yaml", "doc_to_text", row) == "S.\n\nQ: Who?\n\nA: Ann\n\nQ: Why?\n\nA:"
    assert ast.literal_eval(rendered("qa/coqa.yaml", "doc_to_target", row)) == ["Fun", "for fun"]
    assert ast.literal_eval(rendered("qa/coqa.yaml", "doc_to_target", {**row, "additional_answers": None})) == ["Fun"]


def test_drop_shows_a_number_spans_or_a_date() -> None:
    date = {"day": "5", "month": "May", "year": ""}
    shown = [
        rendered("qa/drop.yaml", "doc_to_target", {"answer": {"number": number, "spans": spans, "date": date}})
        for number, spans in (("3", []), ("", ["a", "b"]), ("", []))
    ]
    assert shown == ["3", "a, b", "5 May"]


def test_arithmetic_is_spelled_out() -> None:
    row = {"context": "\n\nQ: What is 1 plus 2? \n\nA:"}
    assert rendered("math/arithmetic.yaml", "doc_to_text", row) == "Question: What is 1 plus 2? \nAnswer:"


def test_right_answer_of_math_is_its_box() -> None:
    row = {"problem": "p", "solution": r"So $\boxed{\frac{1}{2}}$."}
    assert rendered("math/hendrycks_math.yaml", "doc_to_target", row) == r"\frac{1}{2}"
