"""Prompt styles: exact prompts and answers, labels, a style's file and every fault in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError, UserError
from assay.core.formats import MultipleChoice
from assay.tasks.styles import STYLES, PartNames, StyledQuestion, apply_style, find_style, is_style

Write = Callable[..., Path]

SKY = MultipleChoice("What colour is the sky?", ("red", "blue"), 1)
READ = MultipleChoice("Is it?", ("yes", "no"), 0, context="A passage.")
OPEN = MultipleChoice("The sky is", ("red", "blue"), 1, completes=True)


def shown(style: str, question: MultipleChoice = SKY, order: tuple[int, ...] = (0, 1)) -> StyledQuestion:
    return apply_style(question, find_style(style), order, "task toy")


# The built-in styles


def test_cloze() -> None:
    assert shown("cloze") == StyledQuestion("Question: What colour is the sky?\nAnswer:", ("red", "blue"), ("A", "B"))
    assert shown("cloze", READ).prompt == "A passage.\nQuestion: Is it?\nAnswer:"
    assert shown("cloze", OPEN).prompt == "The sky is"


def test_letters() -> None:
    prompt = "What colour is the sky?\nA. red\nB. blue\nAnswer:"
    assert shown("letters") == StyledQuestion(prompt, ("A", "B"), ("A", "B"))
    assert shown("letters", READ).prompt == "A passage.\nIs it?\nA. yes\nB. no\nAnswer:"
    assert shown("letters", OPEN).prompt == "The sky is\nA. red\nB. blue\nAnswer:"


def test_hybrid() -> None:
    assert shown("hybrid") == StyledQuestion(
        "What colour is the sky?\nA. red\nB. blue\nAnswer:", ("red", "blue"), ("A", "B")
    )


def test_letter_and_text() -> None:
    prompt = "What colour is the sky?\n(A) red\n(B) blue\nAnswer:"
    assert shown("letter+text") == StyledQuestion(prompt, ("(A) red", "(B) blue"), ("A", "B"))


def test_generate() -> None:
    style = find_style("generate")
    assert (style.generates, style.stop, style.max_tokens) == (True, ("\n\n",), 16)
    assert shown("generate") == shown("letters")


def test_a_question_without_words_leaves_no_empty_line() -> None:
    bare = MultipleChoice("", ("It rains.", "It rain."), 0)
    assert shown("letters", bare).prompt == "A. It rains.\nB. It rain.\nAnswer:"


def test_a_blank_that_all_choices_bring_is_not_listed() -> None:
    copa = MultipleChoice("It rained so", (" I ran.", " I sang."), 0, completes=True)
    assert shown("letters", copa).prompt == "It rained so\nA. I ran.\nB. I sang.\nAnswer:"
    assert shown("hybrid", copa).answers == shown("metaicl", copa).answers == ("I ran.", "I sang.")
    assert shown("letter+text", copa).answers[0] == "(A) I ran."
    assert shown("cloze", copa).answers == copa.choices
    assert shown("letters", MultipleChoice("Why?", (" 1", "2"), 0)).prompt == "Why?\nA.  1\nB. 2\nAnswer:"


def test_t5_has_one_blank_between_its_parts() -> None:
    part_names = PartNames("toy", (("passage", "It rained. "), ("question", "\nWhy?")))
    assert apply_style(SKY, STYLES["t5"], (0, 1), "t", part_names).prompt == (
        "toy passage: It rained. question: Why? choice1: red choice2: blue"
    )


def test_braces_in_a_question_are_text() -> None:
    odd = MultipleChoice("What is {{question}} {% if %}?", ("{{x}}", "b"), 0)
    assert shown("letters", odd).prompt == "What is {{question}} {% if %}?\nA. {{x}}\nB. b\nAnswer:"
    assert shown("letter+text", odd).answers == ("(A) {{x}}", "(B) b")


def test_another_order_moves_the_texts_and_keeps_the_labels() -> None:
    three = MultipleChoice("Which?", ("x", "y", "z"), 0)
    turned = shown("letter+text", three, (1, 2, 0))
    assert turned.prompt == "Which?\n(A) y\n(B) z\n(C) x\nAnswer:"
    assert turned.answers == ("(A) y", "(B) z", "(C) x")


# Labels


@pytest.mark.parametrize(
    ("change", "labels"),
    [("letters", ("A", "B")), ("lower", ("a", "b")), ("numbers", ("1", "2")), ("labels=I|II|III", ("I", "II"))],
)
def test_labels(change: str, labels: tuple[str, ...]) -> None:
    first, second = labels
    assert shown(f"letters:{change}").answers == labels
    assert shown(f"letters:{change}").prompt.endswith(f"\n{first}. red\n{second}. blue\nAnswer:")


def test_labels_of_the_document() -> None:
    own = MultipleChoice("Which?", ("x", "y"), 0, labels=("P", "Q"))
    assert shown("letters:own", own).answers == ("P", "Q")
    with pytest.raises(DataError, match="has 0 labels for a question of 2 choices"):
        shown("letters:own")


def test_more_choices_than_letters() -> None:
    many = MultipleChoice("Which?", tuple(f"w{n}" for n in range(27)), 0)
    with pytest.raises(DataError, match=r"26 labels for a question of 27 choices; expected labels such as numbers"):
        shown("letters", many, tuple(range(27)))
    assert shown("letters:numbers", many, tuple(range(27))).answers[-1] == "27"


# Names


def test_names_of_styles() -> None:
    style = find_style("letters:numbers:rotated")
    assert (style.name, style.labels, style.rotates) == ("letters:numbers:rotated", "numbers", True)
    assert [is_style(text) for text in ("own", "hybrid:rotated", "hybird", "none.yaml")] == [True, True, False, False]
    assert all(find_style(name) == style for name, style in STYLES.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leters", 'unknown style "leters" (did you mean "letters"?)'),
        ("", 'unknown style ""'),
        ("letters:roman", 'unknown change "roman"'),
        ("letters:", 'unknown change ""'),
        ("letters:labels=", "unknown change"),
        ("letters:labels=I|I", "unknown change"),
        ("letters:labels=I|", "unknown change"),
        ("cloze:rotated", "its prompt does not list the choices"),
    ],
)
def test_wrong_names(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        find_style(text)
    assert message in str(error.value)


# A style of the user's own

MINE = {"prompt": "{{question}} ({{choices|join(' or ')}})\n=>", "answer": "{{label}}) {{choice}}"}


def test_a_file(write_yaml: Write) -> None:
    path = write_yaml("mine.yaml", {**MINE, "delimiter": "", "labels": ["x", "y"], "description": "My own."})
    style = find_style(str(path))
    assert (style.delimiter, style.labels, style.shows_options) == ("", ("x", "y"), True)
    assert shown(str(path)).prompt == "What colour is the sky? (red or blue)\n=>"
    assert shown(str(path)).answers == ("x) red", "y) blue")


def test_a_file_that_generates(write_yaml: Write) -> None:
    path = write_yaml("mine.yml", {**MINE, "generates": True, "max_tokens": 3, "stop": [".", "\n"]})
    style = find_style(f"{path}:rotated:lower")
    assert (style.generates, style.max_tokens, style.stop) == (True, 3, (".", "\n"))
    assert (style.rotates, style.labels, style.name) == (True, "lower", f"{path}:rotated:lower")


def test_a_path_with_a_colon(write_yaml: Write) -> None:
    path = write_yaml("a:b/mine.yaml", MINE)
    assert find_style(f"{path}:numbers").labels == "numbers"
    assert is_style(f"{path}:numbers")


def test_the_word_choices_shows_none(write_yaml: Write) -> None:
    path = write_yaml("mine.yaml", {"prompt": "No choices: {{question}}", "answer": "{{choice}}"})
    with pytest.raises(UserError, match="does not list the choices"):
        find_style(f"{path}:rotated")


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"prompt": None}, ["prompt: is missing; expected a template"]),
        ({"answer": None}, ["answer: is missing; expected a template"]),
        ({"prompt": 3}, ["prompt: is 3; expected a template"]),
        ({"prompt": "{{question"}, ["template does not parse"]),
        ({"prompt": "{{quetsion}}"}, ['unknown name "quetsion" (did you mean "question"?)']),
        ({"prompt": "{{choice}}"}, ['prompt: unknown name "choice"']),
        ({"answer": "{{lable}}"}, ['unknown name "lable" (did you mean "label" or "labels"?)']),
        ({"answer": "same"}, ["answer: is the same for every choice"]),
        ({"delimiter": 1}, ["delimiter: is 1; expected text"]),
        ({"labels": "roman"}, ["labels: is 'roman'; expected letters, lower"]),
        ({"labels": ["a", "a"]}, ["labels: is ['a', 'a']"]),
        ({"labels": [1, 2]}, ["labels: is [1, 2]"]),
        ({"labels": []}, ["labels: is []"]),
        ({"generates": "yes please"}, ["generates: is 'yes please'; expected true or false"]),
        ({"max_tokens": 0}, ["max_tokens: is 0; expected a whole number, 1 or more"]),
        ({"max_tokens": True}, ["max_tokens: is True"]),
        ({"stop": "\n"}, ["stop: is '\\n'; expected a list of texts"]),
        ({"stop": [1]}, ["stop: is [1]"]),
        ({"description": []}, ["description: is []; expected text"]),
        ({"promt": "x"}, ['unknown key "promt" (did you mean "prompt"?)']),
        ({"rotates": True, "max_tokens": -1}, ['unknown key "rotates"', "max_tokens: is -1"]),
    ],
)
def test_faults_of_a_file(write_yaml: Write, change: dict[str, Any], messages: list[str]) -> None:
    path = write_yaml("mine.yaml", {key: value for key, value in {**MINE, **change}.items() if value is not None})
    with pytest.raises(UserError) as error:
        find_style(str(path))
    assert all(message in str(error.value) for message in messages), str(error.value)
    assert "mine.yaml" in str(error.value)
    assert len(error.value.faults) == len(messages)


def test_a_missing_file() -> None:
    with pytest.raises(UserError, match="none.yaml"):
        find_style("none.yaml")
