"""MATH's plain LaTeX, Minerva's final answers, equality by value: values agree with lm-eval 0.4.13's functions."""

from __future__ import annotations

import pytest

from assay.core.documents import Document
from assay.scoring.mathematics.equality import is_same_value, is_verified
from assay.scoring.mathematics.final_answers import NO_ANSWER, final_answer, normalised_answer
from assay.scoring.mathematics.plain_latex import between_dollars, is_same_latex, plain_latex, stated_answer
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.worked_answers import math_match


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1/2", r"\frac{1}{2}"),
        ("0.5", r"\frac{1}{2}"),
        (".5", r"\frac{1}{2}"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"\dfrac 1 2", r"\frac{1}{2}"),
        (r"\frac1{72}", r"\frac{1}{72}"),
        (r"\frac{1}2", r"\frac{1}2"),
        (r"\sqrt3", r"\sqrt{3}"),
        (r"x=\left( 3 \right)", "(3)"),
        ("perimeter=3", "perimeter=3"),
        (r"90^\circ", "90"),
        (r"5\text{ cm}", "5"),
        (r"\$12\%", "12"),
        ("1\\!000\n", "1000"),
        ("", ""),
    ],
)
def test_plain_latex_by_hand(text: str, plain: str) -> None:
    assert plain_latex(text) == plain


@pytest.mark.parametrize(
    ("answer", "gold", "is_same"),
    [
        ("1/2", r"\frac12", True),
        ("x/2", "x/2", True),
        ("x/2", " x/2", False),  # no plain form, so the texts themselves count
        (r"\sqrt", r"\sqrt", True),
        (r"1\text{ m}\text{ s}", "1", False),
        (None, None, True),
        ("3", None, False),
    ],
)
def test_same_latex(answer: str | None, gold: str | None, is_same: bool) -> None:
    assert is_same_latex(answer, gold) is is_same


def test_answer_between_the_first_and_last_dollar() -> None:
    assert between_dollars("so $x=1$ and $y=2$.") == "x=1$ and $y=2"
    assert between_dollars("costs $5") == "costs $5"


def test_final_answer_needs_minervas_sentence() -> None:
    assert final_answer("Final Answer: The final answer is $5$. I hope it is correct.") == "$5$"
    assert final_answer("Final Answer: The final answer is 5. ") == "5"
    assert final_answer("The answer is 5.") == NO_ANSWER


@pytest.mark.parametrize(
    ("answer", "normalised", "original"),
    [
        ("x = 5", "5", "5"),
        ("$\\frac12$ dollars", r"\frac{1}{2}", r"\frac{1}{2}"),
        ("100,000", "100000", "100000"),
        ("0,1", "0,1", "01"),
        (r"2\pi cm", r"2\pi", r"2\pi"),
        (r"\left[2,5\right)", r"\left[2,5\right)", r"\le[2,5\right)"),
        (r"\text{an apple}", "apple", "apple"),
        (r"\sqrt[3]8", r"\sqrt[3]{8}", r"\sqrt{[}3]8"),
        (r"45^\circ", "45", "45"),
    ],
)
def test_normalised_answers(answer: str, normalised: str, original: str) -> None:
    assert normalised_answer(answer) == normalised
    assert normalised_answer(answer, is_original=True) == original


def test_value_decides_where_spelling_differs() -> None:
    pytest.importorskip("latex2sympy2_extended")
    assert is_same_value(r"\frac{2}{4}", r"\frac{1}{2}")
    assert is_same_value("(1,2)", "(1,2)")
    assert not is_same_value("3", "4")
    assert not is_same_value("", "")
    assert not is_same_value(r"\notatex{", "4")


def test_math_verify_finds_answers_in_solutions() -> None:
    pytest.importorskip("math_verify")
    solution = r"We add, so the sum is $\boxed{\frac{1}{2}}$."
    assert is_verified("The answer is $0.5$.", solution)
    assert is_verified(r"Thus \boxed{1/2}.", solution, is_latex=True)
    assert not is_verified("The answer is 2.", solution)
    assert not is_verified("", solution)


def test_boxed_answers_come_before_dollars() -> None:
    view = AnswerView((r"Since $3<4$ we get \boxed{7}.",), ("7",))
    document = Document("aime24", 0, {})
    assert math_match(view, {"boxed": True}, document) == 1.0
    assert math_match(view, {}, document) == 0.0


def test_right_answer_is_read_from_the_solution() -> None:
    view = AnswerView(("$[1,2]$", "$3$"), ("1", "2"))
    document = Document("hendrycks_math", 0, {"solution": r"So \boxed{[1,2]}."})
    assert math_match(view, {"solution": "solution"}, document) == 0.5


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So $x=1$, thus \boxed{y = 2}", "2"),
        ("It is $3$ or $4$.\nThus $a=\\frac12$", r"\frac12"),
        ("x = 5 and y = 7.", "7"),
        ("He pays $12 for 3 items.", "3"),
        ("About 2.50 in all", "2.50"),
        ("none of these", "none of these"),
        (r"An open \boxed{1", r"An open \boxed{1"),
    ],
)
def test_answers_as_agieval_reads_them(text: str, answer: str) -> None:
    assert stated_answer(text) == answer


def test_stated_answers_are_compared_as_latex() -> None:
    document = Document("agieval_math", 0, {})
    for text, score in ((" $1/2$.", 1.0), ("The answer is $x=0.5$.", 1.0), ("0.25", 0.0)):
        view = AnswerView((text,), (r"\frac{1}{2}",))
        assert math_match(view, {"stated": True}, document) == score
