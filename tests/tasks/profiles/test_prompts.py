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
    requests = task.build(task.documents()[0]).requests
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
def test_olmes_lists_the_choices_and_scores_their_texts(
    name: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name)
    letters, cloze = select(name, "olmes", num_fewshot=1).tasks
    assert (letters.card.name, cloze.card.name) == (f"{name}@olmes-mcf", f"{name}@olmes-cf")
    assert (asked(letters), asked(cloze)) == OLMES[name]


OPENCOMPASS: dict[str, Asked] = {
    "piqa": ("The following makes sense: \nQ: To dry\nA:", (" use water.\n", " use a towel.\n")),
    "hellaswag": ("b. She", ("\nsinks.", "\nruns.")),
    "winogrande": ("Bob saw Tim as Bob", (" left.",)),
    "boolq": ("Fire is hot.\nQuestion: is fire hot?", ("\nNo", "\nYes")),
    "social_iqa": ("Bob won.\nQuestion: How is he?\nAnswer:", ("\na", "\nglad", "\nc")),
    "openbookqa": (BURNS + LISTED, ("\nA", "\nB")),
    "quiz": (BURNS + LISTED, (" A", " B")),
}


@pytest.mark.parametrize("name", OPENCOMPASS)
def test_opencompass_prompts_without_examples(
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


FOUR = {"text": ["stone", "wood", "ash", "sand"], "label": ["A", "B", "C", "D"]}


def test_opencompass_prompts_arc_in_two_turns(write_task: Callable[..., Any], select: Callable[..., Any]) -> None:
    write_task("arc_easy", test=[{"question": "What burns?", "choices": FOUR, "answerKey": "B"}])
    (task,) = select("arc_easy", "opencompass").tasks
    assert asked(task) == ("Question: What burns?\nAnswer:", (" \nstone", " \nwood", " \nash", " \nsand"))


def test_opencompass_reads_the_whole_prompt(write_task: Callable[..., Any], select: Callable[..., Any]) -> None:
    write_task("arc_easy", test=[{"question": "What burns?", "choices": FOUR, "answerKey": "B"}])
    (task,) = select("arc_easy", "opencompass").tasks
    assert task.build(task.documents()[0]).requests[-1] == RollingLoglikelihood(
        "Question: What burns?\nAnswer:", stands_on_prefix=False
    )


def test_opencompass_examples_of_commonsense_qa_are_line_by_line(
    write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task("commonsense_qa")
    found = select("commonsense_qa", "opencompass", num_fewshot=1)
    expected = "Question: What is ice?\nAnswer: \nwater\nQuestion: What burns?\nAnswer:"
    assert asked(found.tasks[0]) == (expected, (" \nstone", " \nwood"))
    assert found.notices[-1] == (
        "opencompass: OpenCompass chooses the examples of CommonsenseQA by description length (MDLRetriever); here the "
        "first rows are shown: commonsense_qa"
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
    (request,) = task.build(task.documents()[0]).requests
    assert isinstance(request, Generation)
    assert (request.prompt, request.max_tokens, request.stop) == (JOINT[name], 1, ())
    assert request.sampling.is_greedy
    assert (task.card.name, task.build(task.documents()[0]).gold) == (f"{name}@helm", "B")
    assert (metrics(task), task.scoring.pipelines[0].name) == (["exact_match"], "strict")


def test_helm_shows_no_examples_before_a_task_without_a_rule(
    write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task("quiz")
    (task,) = select("quiz", "helm").tasks
    assert task.card.num_fewshot == 0
    general = "The following are multiple choice questions (with answers).\n\n"
    assert asked(task) == (general + BURNS + LISTED, ())


def test_helm_prompts_boolq_in_words(write_task: Callable[..., Any], select: Callable[..., Any]) -> None:
    rows = [{"passage": "McCoy ran.", "question": "did McCoy run ", "label": 1}]
    write_task("boolq", test=rows)
    plain, (task,) = select("boolq", "helm", num_fewshot=0).tasks[0], select("boolq", "helm", num_fewshot=1).tasks
    # Only the first letter is a capital, as str.capitalize leaves it.
    end = "Passage: McCoy ran.\nQuestion: Did mccoy run?\nAnswer:"
    assert asked(plain) == (end, ())
    assert asked(task) == ("Passage: Ice is cold.\nQuestion: Is ice hot?\nAnswer: No\n\n" + end, ())
    (request,) = task.build(task.documents()[0]).requests
    assert isinstance(request, Generation) and (request.max_tokens, request.stop) == (5, ("\n",))
    assert select("boolq", "helm").tasks[0].card.num_fewshot == 5


def test_helm_leaves_the_texts_of_hellaswag_as_they_are(
    write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    row = {"activity_label": "Sport", "ctx_a": "[header] A McCoy run.", "endings": ["[step] On.", "Off."], "label": "1"}
    write_task("hellaswag", test=[{**row, "ctx_b": then} for then in ("she and McCoy", "")])
    (task,) = select("hellaswag", "helm").tasks
    texts = [
        [request.prompt + request.continuation for request in task.build(document).requests]
        for document in task.documents()
    ]
    begin = "Sport: [header] A McCoy run. "
    assert texts[0] == [begin + "She and McCoy [step] On.", begin + "She and McCoy Off."]
    # Two blanks stand before an ending where ctx_b is empty.
    assert texts[1] == [begin + " [step] On.", begin + " Off."]


def test_olmes_cleans_hellaswag_its_own_way(write_task: Callable[..., Any], select: Callable[..., Any]) -> None:
    row = {"activity_label": "Home", "ctx_a": "[header] How to dust. [title] Begin. [step] Wipe.", "ctx_b": ""}
    write_task("hellaswag", test=[{**row, "endings": ["[step] Rest.", "Stop. [title] End."], "label": "0"}])
    letters, cloze = select("hellaswag", "olmes", num_fewshot=0).tasks
    # One full stop before a title, and the blank of an empty ctx_b before a line end.
    begin = "Home: How to dust. Begin. Wipe."
    listed = " \nChoose the best continuation:\n A. Rest.\n B. Stop. End.\nAnswer:"
    assert asked(letters) == (begin + listed, (" A", " B"))
    assert asked(cloze) == (begin, ("  Rest.", " Stop. End."))


INSPECT = (
    "Answer the following multiple choice question. The entire content of your response should be of the following "
    "format: 'ANSWER: $LETTER' (without quotes) where LETTER is one of A,B.\n\n"
)
SIMPLE = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.\n\n"
)
GENE, CELL = "A gene is\n\nA) a stone\nB) a code", "A cell is\n\nA) alive\nB) dead"
# Profile, task → the prompt without an example, with one, and most tokens.
WRITTEN: dict[tuple[str, str], tuple[str, str, int]] = {
    ("inspect", MMLU): (INSPECT + GENE, f"{INSPECT}{CELL}\nANSWER: A\n\n{INSPECT}{GENE}", 16),
    ("inspect", "quiz"): (
        INSPECT + "What burns?\n\nA) stone\nB) wood",
        f"{INSPECT}What is ice?\n\nA) water\nB) fire\nANSWER: A\n\n{INSPECT}What burns?\n\nA) stone\nB) wood",
        2048,
    ),
    ("simple-evals", MMLU): (SIMPLE + GENE, f"{SIMPLE}{CELL}\nAnswer: A\n\n{SIMPLE}{GENE}", 1024),
    ("lighteval", MMLU): (
        ABOUT + "high school biology.\n\n\n\nQuestion: A gene is\nA. a stone\nB. a code\nAnswer:",
        ABOUT + "high school biology.\n\n\n\nQuestion: A cell is\nA. alive\nB. dead\nAnswer: A\n\n"
        "Question: A gene is\nA. a stone\nB. a code\nAnswer:",
        5,
    ),
    ("lighteval", "hellaswag"): (
        SENSE + "\n\nQuestion: Sport: A: b. She\nA. sinks.\nB. runs.\nAnswer:",
        SENSE + "\n\nQuestion: Cooking: A man cuts. He\nA. fries it.\nB. flies.\nAnswer: A\n\n"
        "Question: Sport: A: b. She\nA. sinks.\nB. runs.\nAnswer:",
        1,
    ),
    ("lighteval", "openbookqa"): (
        SENSE + "\n" + BURNS + LISTED,
        SENSE + "\nQuestion: What is ice?\nA. water\nB. fire\nAnswer: A\n\n" + BURNS + LISTED,
        1,
    ),
    ("lighteval", "commonsense_qa"): (
        SENSE + "\n" + BURNS + "A.  stone\nB.  wood\nAnswer:",
        SENSE + "\nQuestion: What is ice?\nA.  water\nB.  fire\nAnswer: A\n\n" + BURNS + "A.  stone\nB.  wood\nAnswer:",
        1,
    ),
    ("lighteval", "piqa"): (
        SENSE + "\nQuestion: To dry\nA. use water.\nB. use a towel.\nAnswer:",
        SENSE + "\nQuestion: To cut\nA. use a knife.\nB. use a pillow.\nAnswer: A\n\n"
        "Question: To dry\nA. use water.\nB. use a towel.\nAnswer:",
        1,
    ),
}


@pytest.mark.parametrize(("profile", "name"), WRITTEN)
def test_prompts_for_generated_answers_equal_the_tools(
    profile: str, name: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name)
    plain, example, most = WRITTEN[profile, name]
    (task,) = select(name, profile).tasks
    assert task.card.num_fewshot == 0 and asked(task) == (plain, ())
    (request,) = task.build(task.documents()[0]).requests
    assert isinstance(request, Generation) and request.max_tokens == most and request.sampling.is_greedy
    assert asked(select(name, profile, num_fewshot=1).tasks[0]) == (example, ())


# Profile, task → examples that the tool shows, the prompt without one, with one, and what is scored.
SCORED: dict[tuple[str, str], tuple[int, str, str, tuple[str, ...]]] = {
    ("lighteval", "arc_easy"): (
        0,
        BURNS + "Answer:",
        "Question: What is ice?\nAnswer: water\n\n" + BURNS + "Answer:",
        (" stone", " wood"),
    ),
    ("lighteval", "winogrande"): (
        0,
        "Bob saw Tim as ",
        "Ann met Eve and Ann smiled.\n\nBob saw Tim as ",
        ("Bob left.", "Tim left."),
    ),
    ("llama-3", MMLU): (
        5,
        ABOUT + "high school biology.\n\nA gene is\nA. a stone\nB. a code\nAnswer:",
        ABOUT + "high school biology.\n\nA cell is\nA. alive\nB. dead\nAnswer: A\n\n"
        "A gene is\nA. a stone\nB. a code\nAnswer:",
        (" A", " B"),
    ),
    ("llama-3", "arc_challenge"): (
        25,
        "What burns?\n" + LISTED,
        "What is ice?\nA. water\nB. fire\nAnswer: A\n\nWhat burns?\n" + LISTED,
        (" A", " B"),
    ),
    ("llama-3", "commonsense_qa"): (
        7,
        "What burns?\n" + LISTED,
        "What is ice?\nA. water\nB. fire\nAnswer: A\n\nWhat burns?\n" + LISTED,
        (" A", " B"),
    ),
}


@pytest.mark.parametrize(("profile", "name"), SCORED)
def test_prompts_for_scored_answers_equal_the_tools(
    profile: str, name: str, write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    write_task(name)
    count, plain, example, scored = SCORED[profile, name]
    assert select(name, profile).tasks[0].card.num_fewshot == count
    without, (task,) = select(name, profile, num_fewshot=0).tasks[0], select(name, profile, num_fewshot=1).tasks
    assert (asked(without), asked(task)) == ((plain, scored), (example, scored))
    assert metrics(task) == ["acc"]


def test_inspect_prompts_boolq_and_piqa_with_their_own_templates(
    write_task: Callable[..., Any], select: Callable[..., Any]
) -> None:
    for name in ("boolq", "piqa"):
        write_task(name)
    boolq, piqa = (select(name, "inspect").tasks[0] for name in ("boolq", "piqa"))
    words = "answer the subsequent question with either Yes or No. Include nothing else in your response.\n\n"
    passage = "Passage: Fire is hot.\n\nQuestion: is fire hot\n"
    assert asked(boolq) == (f"\nGiven a passage, {words}{passage}", ())
    prompt, _ = asked(piqa)
    assert prompt.startswith(
        "The entire content of your response should be of the following format: 'ANSWER:\n$LETTER'"
    )
    assert prompt.endswith("explain how to achieve the statement.\n\nTo dry\n\nA) use water.\nB) use a towel.")


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
