"""Questions found in prompts: every kind of prompt that task files make, and what must not be guessed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.core.formats import Answer, MultipleChoice
from assay.tasks.question_detection import infer
from assay.tasks.styles import STYLES, apply_style

ABCD = ("A", "B", "C", "D")
COLOURS = ("red", "green", "blue", "grey")


def found(prompt: str, choices: Sequence[str] = ABCD, answer: Answer = 2) -> MultipleChoice:
    return infer(prompt, choices, answer, "toy.yaml:3  doc_to_text")


def refused(prompt: str, choices: Sequence[str] = ABCD, answer: Answer = 2) -> str:
    with pytest.raises(DataError) as error:
        found(prompt, choices, answer)
    assert "toy.yaml:3" in str(error.value)
    assert "format:" in str(error.value)
    return str(error.value)


# Lists of options


def test_mmlu() -> None:
    prompt = "What colour is the sky?\nA. red\nB. green\nC. blue\nD. grey\nAnswer:"
    assert found(prompt) == MultipleChoice("What colour is the sky?", COLOURS, 2, headed=False)


@pytest.mark.parametrize(
    "listed",
    [
        "A. red\nB. green\nC. blue\nD. grey",
        "A) red\nB) green\nC) blue\nD) grey",
        "A: red\nB: green\nC: blue\nD: grey",
        "(A) red\n(B) green\n(C) blue\n(D) grey",
        "[A] red\n[B] green\n[C] blue\n[D] grey",
        "  A. red\n  B. green\n  C. blue\n  D. grey",
        "A.red\nB.green\nC.blue\nD.grey",
        "A、red\nB、green\nC、blue\nD、grey",
        "Options:\nA. red\nB. green\nC. blue\nD. grey",
        "Answer choices:\n(A) red\n(B) green\n(C) blue\n(D) grey",
        "(A) red (B) green (C) blue (D) grey",
        "Options: (A) red (B) green (C) blue (D) grey",
        "A. red B. green C. blue D. grey",
        "A) red B) green C) blue D) grey",
    ],
)
@pytest.mark.parametrize("end", ["\nAnswer:", "\nAnswer: ", "\nA:", "\nThe correct answer is:", "\n答案：", "\n", ""])
def test_lists_of_labels(listed: str, end: str) -> None:
    question = found(f"Question: Which?\n{listed}{end}")
    assert (question.question, question.choices, question.completes) == ("Which?", COLOURS, False)


@pytest.mark.parametrize("labels", [("a", "b", "c", "d"), ("1", "2", "3", "4"), (" A", " B", " C", " D")])
def test_other_labels(labels: tuple[str, ...]) -> None:
    listed = "".join(f"{label.strip()}. {text}\n" for label, text in zip(labels, COLOURS, strict=True))
    assert found(f"Which?\n{listed}Answer:", labels) == MultipleChoice("Which?", COLOURS, 2, headed=False)


def test_labels_in_brackets() -> None:
    question = found("Q: Which?\nOptions:\n(A) red\n(B) green\nA:", ("(A)", "(B)"), 1)
    assert question == MultipleChoice("Which?", ("red", "green"), 1, headed_list=True)


def test_white_space_of_options_is_kept() -> None:
    assert found("Which?\nA. x\nB.  y \nC. \tz\nAnswer:", ("A", "B", "C")).choices == ("x", " y ", "\tz")


def test_options_of_several_lines() -> None:
    question = found("Which?\nA. one\ntwo\nB. three\nfour\nAnswer:", ("A", "B"), 1)
    assert question.choices == ("one\ntwo", "three\nfour")


def test_the_last_list_is_the_options() -> None:
    prompt = "Statements:\nA. It rains.\nB. It snows.\nWhich are true?\nA. A only\nB. B only\nAnswer:"
    question = found(prompt, ("A", "B"), 0)
    assert question.question == "Statements:\nA. It rains.\nB. It snows.\nWhich are true?"
    assert question.choices == ("A only", "B only")


def test_lines_of_the_question_that_begin_with_a_letter_are_not_options() -> None:
    prompt = "A: Ann comes.\nB: Bob comes.\nC: Cy comes.\nD: Di comes.\nE: Ed comes.\n(A) a (B) b (C) c (D) d\nAnswer:"
    question = found(prompt)
    assert question.choices == ("a", "b", "c", "d")
    assert question.question.endswith("E: Ed comes.")


def test_labels_within_an_option_of_a_line() -> None:
    assert found("Which?\n(A) x (B) y (C) z (D) both (B) and (D)\nA:").choices == ("x", "y", "z", "both (B) and (D)")


def test_an_answer_and_a_question_mark_within_the_question_stay() -> None:
    prompt = "Question: Bob said:\nAnswer: no.\nQ: Why?\nWhat did he mean?\nA. this\nB. that\nAnswer:"
    question = found(prompt, ("A", "B"), 0)
    assert question.question == "Bob said:\nAnswer: no.\nQ: Why?\nWhat did he mean?"
    assert question.context == ""


def test_fewer_options_than_labels_are_the_options() -> None:
    question = found("Q: Which?\nOptions:\n(A) red\n(B) green\nA:", ("(A)", "(B)", "(C)"), 1)
    assert question == MultipleChoice("Which?", ("red", "green"), 1, headed_list=True)


def test_more_options_than_labels_are_all_options() -> None:
    question = found("Q: Which?\nOptions:\n(A) red\n(B) green\n(C) blue\n(D) grey\nA:", ("(A)", "(B)"), 1)
    assert question == MultipleChoice("Which?", COLOURS, 1, headed_list=True)


def test_a_single_option_under_its_heading() -> None:
    assert found("Q: Which?\nOptions:\n(A) red\nA:", ("(A)", "(B)"), 0) == MultipleChoice(
        "Which?", ("red",), 0, headed_list=True
    )


def test_a_right_answer_that_is_not_listed_is_refused() -> None:
    assert "lists 2 options" in refused("Q: Which?\nOptions:\n(A) red\n(B) green\nA:", ("(A)", "(B)", "(C)"), 2)


def test_windows_newlines() -> None:
    prompt = "Passage\r\nQuestion: Which?\r\nA. red\r\nB. green\r\nAnswer:"
    assert found(prompt, ("A", "B"), 0) == MultipleChoice("Which?", ("red", "green"), 0, "Passage", headed_list=True)


def test_unicode() -> None:
    question = found("Pregunta: ¿Qué color?\nA. añil\nB. 藍\nRespuesta:", ("A", "B"), 1)
    assert question == MultipleChoice("¿Qué color?", ("añil", "藍"), 1, headed_list=True)


def test_no_question_but_options() -> None:
    assert found("A. It rains.\nB. It rain.\nAnswer:", ("A", "B"), 0).question == ""


# Lists of the choices' own texts


@pytest.mark.parametrize(
    "listed",
    [
        "A. yes\nB. no",
        "1) yes\n2) no",
        "- yes \n- no",
        "* yes\n* no",
        "yes\nno",
        "Options:\n- Yes\n- No",
        "(A) yes (B) no",
        "(a) yes\n\n(b) no",
    ],
)
def test_listed_texts_are_no_part_of_the_question(listed: str) -> None:
    assert found(f"Is it?\n{listed}\nAnswer:", ("yes", "no"), 1) == MultipleChoice(
        "Is it?", ("yes", "no"), 1, headed=False
    )


def test_choices_with_their_labels_are_texts_without_them() -> None:
    choices = ("(A) red", "(B) green")
    assert found("Which?\n(A) red\n(B) green\nAnswer:", choices, 0).choices == ("red", "green")
    assert found("Which?\nA. red\nB. green\nAnswer:", choices, 0).choices == ("red", "green")


def test_choices_with_labels_that_are_not_listed_stay() -> None:
    assert found("Question: Which?\nAnswer:", ("(A) red", "(B) green"), 0).choices == ("(A) red", "(B) green")


def test_a_text_that_ends_with_the_last_choice_is_not_a_list() -> None:
    question = found("Question: Is the answer yes or no\nAnswer:", ("yes", "no"), 0)
    assert question.question == "Is the answer yes or no"


def test_twenty_seven_choices() -> None:
    choices = tuple(f"word{n}" for n in range(27))
    listed = "\n".join(f"{n}. {text}" for n, text in enumerate(choices, 1))
    assert found(f"Which?\n{listed}\nAnswer:", choices, 26) == MultipleChoice("Which?", choices, 26, headed=False)


# Prompts that list nothing


def test_arc() -> None:
    question = found("Question: What colour is it?\nAnswer:", COLOURS, 1)
    assert question == MultipleChoice("What colour is it?", COLOURS, 1)


@pytest.mark.parametrize("prompt", ["Q: Why?\nA:", "Q: Question: Why?\nA:", "Why?\nAnswer:", "Question: Why? Answer:"])
def test_marks_of_question_and_answer(prompt: str) -> None:
    assert found(prompt, ("yes", "no"), 0) == MultipleChoice("Why?", ("yes", "no"), 0, headed=prompt[:3] != "Why")


def test_hellaswag_keeps_white_space() -> None:
    prompt = " Roof: A man sits.  he "
    question = found(prompt, (" sings", "falls "), 0)
    assert question == MultipleChoice(prompt, (" sings", "falls "), 0, completes=True)


def test_boolq() -> None:
    question = found("A passage. \nWith lines.\nQuestion: is it?\nAnswer:", ("no", "yes"), 1)
    assert question == MultipleChoice("is it?", ("no", "yes"), 1, "A passage. \nWith lines.")


def test_race_takes_the_last_question() -> None:
    prompt = "Article: Text.\n\nQuestion: First?\nAnswer: One.\nQuestion: Second?\nAnswer:"
    question = found(prompt, ("a1", "a2"), 0)
    assert question.question == "Second?"
    assert question.context == "Article: Text.\n\nQuestion: First?\nAnswer: One."


def test_race_sentence_to_be_completed() -> None:
    prompt = "Article: Text.\n\nQuestion: First?\nAnswer: One.\nThe writer is"
    assert found(prompt, ("sad", "glad"), 0) == MultipleChoice(prompt, ("sad", "glad"), 0, completes=True)


def test_another_closing_belongs_to_the_prompt() -> None:
    prompt = "It rains.\nQuestion: How long?\nAnswer: a year\nPlausible:"
    assert found(prompt, ("no", "yes"), 0) == MultipleChoice(prompt, ("no", "yes"), 0, completes=True)


@pytest.mark.parametrize("prompt", ["Give your answer:", "Choose a:", "It is called A"])
def test_words_of_a_sentence_are_no_closing(prompt: str) -> None:
    assert found(prompt, ("x", "y"), 0).question == prompt


def test_numbers_without_a_list_are_answers() -> None:
    question = found("Question: How many legs?\nAnswer:", ("1", "2", "3", "4"), 3)
    assert question == MultipleChoice("How many legs?", ("1", "2", "3", "4"), 3)


def test_numbers_after_numbers_that_are_not_marks() -> None:
    question = found("Prices:\n1. tea 2.5\nWhich is it?\nAnswer:", ("1", "2"), 0)
    assert question.choices == ("1", "2")


def test_equal_empty_and_single_choices() -> None:
    assert found("Question: Q?\nAnswer:", ("x", "x"), 1).choices == ("x", "x")
    assert found("Question: Q?\nAnswer:", ("", "x"), 1).choices == ("", "x")
    assert found("Question: Q?\nAnswer:", ("x", ""), 1).choices == ("x", "")
    assert found("Question: Q?\nAnswer:", ("x",), 0).choices == ("x",)
    assert found("", ("x", "y"), 0).question == ""


def test_several_right_answers() -> None:
    assert found("Question: Q?\nAnswer:", ("x", "y", "z"), (0, 2)).answer == (0, 2)


def test_an_unknown_right_answer_stays_unknown() -> None:
    assert found("Question: Q?\nAnswer:", ("x", "y"), -1).answer == -1
    assert found("Q?\nA. x\nB. y\nAnswer:", ("A", "B"), -100).answer == -100


# What must not be guessed


def test_labels_without_a_list() -> None:
    assert "lists no such options" in refused("Question: Which vitamin?\nAnswer:")
    assert "lists no such options" in refused("Which?\n1. red\n2. green\nAnswer:", ("A", "B"), 0)
    assert "lists no such options" in refused("Which?\nA. red\nAnswer:", ("A", "B"), 0)


def test_an_instruction_after_the_list() -> None:
    prompt = "Which?\nA. red\nB. green\nC. blue\nD. grey\nThink before you answer.\nAnswer:"
    assert "holds what follows" in refused(prompt).replace("seems to hold", "holds")


def test_an_unknown_closing_after_a_list() -> None:
    assert "what follows" in refused("Which?\nA. red\nB. green\nC. blue\nD. grey\nVastaus:")
    assert "words before the answer" in refused("Which?\n(A) red (B) green (C) blue (D) grey Vastaus:")


def test_options_that_cannot_be_distinguished() -> None:
    assert "not distinct" in refused("Which?\n(A) (B) (C) (D)\nAnswer:")


def test_listed_options_that_are_not_the_choices() -> None:
    assert "the choices are others" in refused("Which?\nA. red\nB. green\nAnswer:", ("crimson", "lime"), 0)


def test_counts_after_a_numbered_list() -> None:
    prompt = "How many of these are true?\n1. x\n2. y\n3. z\nAnswer:"
    assert "counts or the labels" in refused(prompt, ("1", "2", "3"), 0)


def test_a_long_prompt_is_cut_in_the_error() -> None:
    assert len(refused("word " * 1000)) < 600


# Laws

WORDS = st.text("abc XY12é世.?", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
QUESTIONS = st.builds(
    lambda question, choices, context: MultipleChoice(question, tuple(choices), 0, context),
    WORDS,
    st.lists(WORDS, min_size=2, max_size=6),
    st.just("") | WORDS,
)


@given(QUESTIONS)
def test_a_cloze_gives_back_its_question(question: MultipleChoice) -> None:
    shown = apply_style(question, STYLES["cloze"], range(len(question.choices)), "t")
    assert infer(shown.prompt, shown.answers, 0, "t") == question


@given(QUESTIONS)
def test_letters_give_back_their_question(question: MultipleChoice) -> None:
    shown = apply_style(question, STYLES["letters"], range(len(question.choices)), "t")
    found = infer(shown.prompt, shown.answers, 0, "t")
    lines = [question.context, question.question] if question.context else [question.question]
    assert found == MultipleChoice("\n".join(lines), question.choices, 0, headed=False)


@given(QUESTIONS)
def test_a_hybrid_gives_back_its_question(question: MultipleChoice) -> None:
    shown = apply_style(question, STYLES["hybrid"], range(len(question.choices)), "t")
    assert infer(shown.prompt, shown.answers, 0, "t").choices == question.choices
    assert infer(shown.prompt, shown.answers, 0, "t").question.endswith(question.question)


@given(st.text("AB(). :\n\r-1Q", max_size=60), st.lists(st.text("AB(). 1", max_size=6), min_size=1, max_size=4))
def test_any_prompt_is_read_or_refused(prompt: str, choices: list[str]) -> None:
    try:
        question = infer(prompt, choices, 0, "t")
    except DataError as error:
        assert "format:" in str(error)
    else:
        assert question.choices
