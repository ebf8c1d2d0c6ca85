"""Prompts of every rule, character by character, from the tools' own templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.protocols import Task
from assay.core.requests import Generation, Loglikelihood, RollingLoglikelihood

Asked = tuple[str, tuple[str, ...]]


def asked(task: Task) -> Asked:
    """The prompt of a task's first document, and what is scored after it; nothing where the model writes."""
    requests = task.pose(task.documents()[0]).requests
    first = requests[0]
    assert isinstance(first, (Loglikelihood, Generation)) and isinstance(first.prompt, str)
    scored = [item for item in requests if isinstance(item, Loglikelihood) and item.prompt == first.prompt]
    return first.prompt, tuple(item.continuation for item in scored)


def metrics(task: Task) -> list[str]:
    return [spec.name for spec in task.scoring.metrics]


MMLU = "mmlu_high_school_biology"
ABOUT = "The following are multiple choice questions (with answers) about "
SENSE = ABOUT + "common sense.\n\n"
BURNS, LISTED = "Question: What burns?\n", "A. stone\nB. wood\nAnswer:"

OLMES: dict[str, tuple[Asked, Asked]] = {
    "arc_challenge": (
        (
            "Question: What is ice?\n A. water\n B. fire\nAnswer: A\n\n"
            "Question: What burns?\n A. stone\n B. wood\nAnswer:",
            (" A", " B"),
        ),
        ("Question: What is ice?\nAnswer: water\n\nQuestion: What burns?\nAnswer:", (" stone", " wood")),
    ),
    "openbookqa": (
        (
            "Question: What is ice?\n A. water\n B. fire\nAnswer: A\n\n"
            "Question: What burns?\n A. stone\n B. wood\nAnswer:",
            (" A", " B"),
        ),
        ("Question: What is ice?\nAnswer: water\n\nQuestion: What burns?\nAnswer:", (" stone", " wood")),
    ),
    "commonsense_qa": (
        (
            "Question: What is ice?\n A. water\n B. fire\nAnswer: A\n\n"
            "Question: What burns?\n A. stone\n B. wood\nAnswer:",
            (" A", " B"),
        ),
        ("Question: What is ice?\nAnswer: water\n\nQuestion: What burns?\nAnswer:", (" stone", " wood")),
    ),
    MMLU: (
        (
            ABOUT + "high school biology.\n\nQuestion: A cell is\n A. alive\n B. dead\nAnswer: A\n\n"
            "Question: A gene is\n A. a stone\n B. a code\nAnswer:",
            (" A", " B"),
        ),
        (
            ABOUT + "high school biology.\n\nQuestion: A cell is\nAnswer: alive\n\nQuestion: A gene is\nAnswer:",
            (" a stone", " a code"),
        ),
    ),
    "piqa": (
        (
            "Goal: To cut\n A. use a knife.\n B. use a pillow.\nAnswer: A\n\n"
            "Goal: To dry\n A. use water.\n B. use a towel.\nAnswer:",
            (" A", " B"),
        ),
        ("Goal: To cut\nAnswer: use a knife.\n\nGoal: To dry\nAnswer:", (" use water.", " use a towel.")),
    ),
    "hellaswag": (
        (
            "Cooking: A man cuts. He\nChoose the best continuation:\n A. fries it.\n B. flies.\nAnswer: A\n\n"
            "Sport: A: b. She\nChoose the best continuation:\n A. sinks.\n B. runs.\nAnswer:",
            (" A", " B"),
        ),
        ("Cooking: A man cuts. He fries it.\n\nSport: A: b. She", (" sinks.", " runs.")),
    ),
    "winogrande": (
        (
            "Fill in the blank: Ann met Eve and ___ smiled.\n A. Ann\n B. Eve\nAnswer: A\n\n"
            "Fill in the blank: Bob saw Tim as ___ left.\n A. Bob\n B. Tim\nAnswer:",
            (" A", " B"),
        ),
        ("Ann met Eve and Ann smiled.\n\nBob saw Tim as Bob", (" left.",)),
    ),
    "boolq": (
        (
            "Ice is cold.\nQuestion: is ice hot?\n A. yes\n B. no\nAnswer: B\n\n"
            "Fire is hot.\nQuestion: is fire hot?\n A. yes\n B. no\nAnswer:",
            (" A", " B"),
        ),
        (
            "Ice is cold.\nQuestion: is ice hot?\nAnswer: no\n\nFire is hot.\nQuestion: is fire hot?\nAnswer:",
            (" yes", " no"),
        ),
    ),
    "social_iqa": (
        (
            "Question: Ann fell. What now?\n A. cry\n B. x\n C. y\nAnswer: A\n\n"
            "Question: Bob won. How is he?\n A. a\n B. glad\n C. c\nAnswer:",
            (" A", " B", " C"),
        ),
        ("Question: Ann fell. What now?\nAnswer: cry\n\nQuestion: Bob won. How is he?\nAnswer:", (" a", " glad", " c")),
    ),
}


@pytest.mark.parametrize("name", OLMES)
def test_olmes_lists_the_choices_and_asks_for_their_texts(
    name: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name)
    letters, cloze = select(name, "olmes", num_fewshot=1).tasks
    assert (letters.card.name, cloze.card.name) == (f"{name}@olmes-mcf", f"{name}@olmes-cf")
    assert (asked(letters), asked(cloze)) == OLMES[name]


OPENCOMPASS: dict[str, Asked] = {
    "arc_easy": ("Question: What burns?\nAnswer:", (" \nstone", " \nwood")),
    "piqa": ("The following makes sense: \nQ: To dry\nA:", (" use water.\n", " use a towel.\n")),
    "hellaswag": ("b. She", ("\nsinks.", "\nruns.")),
    "winogrande": ("Bob saw Tim as Bob", (" left.",)),
    "boolq": ("Fire is hot.\nQuestion: is fire hot?", ("\nNo", "\nYes")),
    "social_iqa": ("Bob won.\nQuestion: How is he?\nAnswer:", ("\na", "\nglad", "\nc")),
    "openbookqa": (BURNS + LISTED, ("\nA", "\nB")),
    "quiz": (BURNS + LISTED, (" A", " B")),
}


@pytest.mark.parametrize("name", OPENCOMPASS)
def test_opencompass_asks_without_examples(
    name: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name, description="The file's own words. ")
    (task,) = select(name, "opencompass").tasks
    assert (task.card.name, task.card.num_fewshot) == (f"{name}@opencompass", 0)
    assert asked(task) == OPENCOMPASS[name]
    assert metrics(task)[0] == ("acc" if name == "winogrande" else "acc_opencompass")


def test_opencompass_puts_five_fixed_examples_before_mmlu(
    write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(MMLU)
    assert asked(select(MMLU, "opencompass", num_fewshot=1).tasks[0]) == (
        ABOUT + " high school biology.\n\nA cell is\nA. alive\nB. dead\nAnswer: A\n\n"
        "A gene is\nA. a stone\nB. a code\nAnswer:",
        (" A", " B"),
    )
    assert select(MMLU, "opencompass").tasks[0].card.num_fewshot == 5


def test_opencompass_reads_the_whole_prompt(write_task: Callable[..., Any], select: Callable[..., Any]) -> None:
    write_task("arc_easy")
    (task,) = select("arc_easy", "opencompass").tasks
    assert task.pose(task.documents()[0]).requests[-1] == RollingLoglikelihood(
        "Question: What burns?\nAnswer:", stands_on_prefix=False
    )


def test_opencompass_examples_of_commonsense_qa_stand_line_by_line(
    write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task("commonsense_qa")
    found = select("commonsense_qa", "opencompass", num_fewshot=1)
    expected = "Question: What is ice?\nAnswer: \nwater\nQuestion: What burns?\nAnswer:"
    assert asked(found.tasks[0]) == (expected, (" \nstone", " \nwood"))
    assert found.notices == (
        "opencompass: its examples are chosen by description length, which is not repeated; "
        "the first rows stand in for them: commonsense_qa",
    )


JOINT = {
    MMLU: ABOUT + "high school biology.\n\nQuestion: A cell is\nA. alive\nB. dead\nAnswer: A\n\n"
    "Question: A gene is\nA. a stone\nB. a code\nAnswer:",
    "piqa": SENSE + "Question: To cut\nA. use a knife.\nB. use a pillow.\nAnswer: A\n\n"
    "Question: To dry\nA. use water.\nB. use a towel.\nAnswer:",
    "medqa_4options": ABOUT + "medicine.\n\nQuestion: What is ice?\nA. water\nB. fire\nAnswer: A\n\n" + BURNS + LISTED,
    "quiz": "The following are multiple choice questions (with answers).\n\n"
    "Question: What is ice?\nA. water\nB. fire\nAnswer: A\n\n" + BURNS + LISTED,
}


@pytest.mark.parametrize("name", JOINT)
def test_helm_lets_the_model_write_one_token(
    name: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name)
    (task,) = select(name, "helm", num_fewshot=1).tasks
    (request,) = task.pose(task.documents()[0]).requests
    assert isinstance(request, Generation)
    assert (request.prompt, request.max_tokens, request.stop) == (JOINT[name], 1, ())
    assert request.sampling.is_greedy
    assert (task.card.name, task.pose(task.documents()[0]).gold) == (f"{name}@helm", "B")
    assert (metrics(task), task.scoring.pipelines[0].name) == (["exact_match"], "strict")


@pytest.mark.parametrize(
    ("name", "expected", "metric"),
    [
        ("hellaswag", ("Sport: A: b. She", (" sinks.", " runs.")), "acc_tokens"),
        ("openbookqa", ("What burns?", (" stone", " wood")), "acc_mutual_phrase"),
        ("commonsense_qa", ("What burns?", (" stone", " wood")), "acc_mutual_phrase"),
        ("blimp_x", ("", ("He runs.", "He run.")), "acc_tokens"),
    ],
)
def test_helm_scores_separate_choices(
    name: str, expected: Asked, metric: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name)
    (task,) = select(name, "helm").tasks
    assert (asked(task), metrics(task), task.card.num_fewshot) == (expected, [metric, "acc"], 0)
