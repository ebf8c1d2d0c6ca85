"""DROP's and CoQA's scores: by hand, and as lm-eval 0.4.13's functions compute them."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.documents import Document
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.passage_answers import coqa_em, coqa_f1, drop_answers, drop_em, drop_f1, drop_normalised

NO_DATE = {"day": "", "month": "", "year": ""}


def answer(number: str = "", spans: tuple[str, ...] = (), date: dict[str, str] = NO_DATE) -> dict[str, Any]:
    return {"number": number, "spans": list(spans), "date": date}


def drop_row(*answers: dict[str, Any]) -> Document:
    first, *others = answers
    validated = {key: [other[key] for other in others] for key in ("number", "spans", "date")}
    return Document("drop", 0, {"answer": first, "validated_answers": validated})


@pytest.mark.parametrize(
    ("text", "spans", "em", "f1"),
    [
        ("12.5 yards", ("12.5",), 0.0, 0.67),
        ("the Broncos and Bears", ("Broncos", "Bears"), 0.0, 0.25),
        ("3", ("3 yards",), 0.0, 0.67),
        ("four yards", ("4 yards",), 0.0, 0.0),
        ("1,000", ("1000",), 1.0, 1.0),
        ("May 5 1999", ("5 May 1999",), 0.0, 1.0),
        ("", ("Bears",), 0.0, 0.0),
    ],
)
def test_drop_agrees_with_lm_eval(text: str, spans: tuple[str, ...], em: float, f1: float) -> None:
    document, view = drop_row(answer(spans=spans)), AnswerView((text,), ())
    assert (drop_em(view, {}, document), drop_f1(view, {}, document)) == (em, f1)


def test_best_of_validated_answers_counts_once_each() -> None:
    date = {"day": "5", "month": "May", "year": ""}
    document = drop_row(answer("3"), answer("3"), answer(spans=("three goals",)), answer(date=date))
    assert drop_answers(document) == [("3",), ("three goals",), ("5 May",)]
    assert drop_em(AnswerView(("three goals", "4"), ()), {}, document) == 0.5


def test_drop_normalisation_keeps_numbers() -> None:
    assert drop_normalised("The 1,234-yard  drive, in 5 minutes!") == "1234.0 yard drive in 5.0 minutes"


def test_coqa_leaves_one_answer_out_at_a_time() -> None:
    view = AnswerView(("a white cat\nQ: next",), ("white", "the white cat", "white cat"))
    assert coqa_em(view, {}) == 1.0  # each of the three sets of two holds an equal answer
    assert coqa_em(AnswerView(("white",), ("white", "cat")), {}) == 0.5
    assert coqa_f1(AnswerView(("white cat",), ("white", "dog")), {}) == pytest.approx((0 + 2 / 3) / 2)
    assert coqa_f1(AnswerView(("white cat",), ("white",)), {}) == pytest.approx(2 / 3)
