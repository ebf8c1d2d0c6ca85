"""What each profile makes of a model's answers: the tool's rule, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.requests import Loglikelihood, Request
from assay.testing import ScriptedModel

Write = Callable[..., Path]
MMLU = "mmlu_high_school_biology"


def score(folder: Path, name: str, like: str, answer: Any, metric: str) -> float | None:
    """The score of a model that answers every request the same way, on the one document of a task."""
    model = ScriptedModel(answer if callable(answer) else lambda request: str(answer))
    result = evaluate(model, name, store=":memory:", include_path=folder, like=like, num_fewshot=0)
    return next(found.estimate.value for found in result.tasks[-1].metrics if found.metric == metric)


@pytest.mark.parametrize(
    ("like", "text", "is_right"),
    [
        # HELM and lighteval: the letter, white space aside.
        ("helm", " B", True),
        ("helm", "B.", False),
        ("lighteval", "B\n", True),
        ("lighteval", "b", False),
        # simple-evals: the first "Answer:" with a letter; marks do not count, the letter's case does.
        ("simple-evals", "I think.\nAnswer: B", True),
        ("simple-evals", "**Answer:** $\\boxed{B}$", True),
        ("simple-evals", r"Answer: \$B\$", True),
        ("simple-evals", r"Answer\(:B\)", True),
        ("simple-evals", "Answer: A\nAnswer: B", False),
        ("simple-evals", "answer: b", False),
        ("simple-evals", "B", False),
        # Inspect: the last "ANSWER:", alone on its line if there is such a one, and nothing but the letter.
        ("inspect", "ANSWER: B", True),
        ("inspect", "ANSWER: A\nANSWER: b.", True),
        ("inspect", "ANSWER: (B)", True),
        ("inspect", "**ANSWER**: **B**", True),
        ("inspect", "So the ANSWER: B!", True),
        ("inspect", "ANSWER: B because", False),
        ("inspect", "ANSWER: A, B", False),
        ("inspect", "B", False),
    ],
)
def test_a_written_answer_is_read_as_the_tool_reads_it(like: str, text: str, is_right: bool, write_task: Write) -> None:
    assert score(write_task(MMLU), MMLU, like, text, "exact_match") == float(is_right)


@pytest.mark.parametrize(
    ("like", "text", "is_right"),
    [
        ("helm", " Yes", True),
        ("helm", "the yes.", True),
        ("helm", "Yes it is", False),
        ("inspect", "*yes*", True),
        ("inspect", "Yes it is", False),
    ],
)
def test_yes_and_no_are_read_as_the_tool_reads_them(like: str, text: str, is_right: bool, write_task: Write) -> None:
    assert score(write_task("boolq"), "boolq", like, text, "exact_match") == float(is_right)


def test_olmes_counts_the_blank_before_a_choice(write_task: Write) -> None:
    """Of " stone" and the right " wood", −7.15/6 = −1.192 and −5.9/5 = −1.180; without blanks −1.430 and −1.475."""
    close = scripted({" stone": -7.15, " wood": -5.9})
    folder = write_task("arc_easy")
    both = [score(folder, "arc_easy", "olmes", close, metric) for metric in ("acc_per_char", "acc_norm")]
    assert both == [1.0, 0.0]


def test_llama_compares_letters(write_task: Write) -> None:
    assert score(write_task(MMLU), MMLU, "llama-3", scripted({" A": -3.0, " B": -2.0}), "acc") == 1.0


def test_lighteval_sums_the_texts_of_the_choices(write_task: Write) -> None:
    answers = {"Bob left.": -3.0, "Tim left.": -2.0}
    assert score(write_task("winogrande"), "winogrande", "lighteval", scripted(answers), "acc") == 1.0


def scripted(answers: dict[str, float]) -> Callable[[Request], float]:
    """Log-likelihoods by continuation; 0 for what is not listed."""

    def answer(request: Request) -> float:
        return answers.get(request.continuation, 0.0) if isinstance(request, Loglikelihood) else 0.0

    return answer
