"""Prompts: the seams between pieces, turns, and the two shapes of a conversation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.core.requests import Message
from assay.tasks.templates import Delimiters, PromptPiece, as_messages, as_text, join_if_needed, system_pieces, turn

DELIMITERS = Delimiters(" ", "\n\n")
TEXTS = st.text(alphabet="ab \n\t", max_size=4)


@given(TEXTS, TEXTS, TEXTS)
def test_joining_keeps_both_texts_whole(left: str, right: str, separator: str) -> None:
    joined = join_if_needed(left, right, separator)
    assert joined.startswith(left) and joined.endswith(right)
    assert joined in (left + right, left + separator + right)


@given(TEXTS, TEXTS)
def test_a_separator_goes_only_where_no_white_space_is(left: str, right: str) -> None:
    has_separator = join_if_needed(left, right, "|") == f"{left}|{right}"
    assert has_separator == bool(left and right and not left[-1].isspace() and not right[0].isspace())


@given(TEXTS)
def test_nothing_is_added_beside_an_empty_text(text: str) -> None:
    assert join_if_needed(text, "", "|") == join_if_needed("", text, "|") == text


def test_an_open_turn_is_the_question_alone() -> None:
    assert turn("Q", None, None, DELIMITERS) == (PromptPiece("user", "Q", ""),)


def test_an_example_has_both_delimiters() -> None:
    assert turn("Q", "A", None, DELIMITERS) == (PromptPiece("user", "Q", " "), PromptPiece("assistant", "A", "\n\n"))


def test_an_empty_example_answer_still_has_its_delimiters_when_it_is_text() -> None:
    # Whether an empty target counts as an answer is decided by the poser: a target "" arrives here as None.
    assert as_text(turn("Q", "", None, DELIMITERS)) == "Q \n\n"


def test_a_prefix_opens_the_answer() -> None:
    assert turn("Q", None, "P:", DELIMITERS) == (PromptPiece("user", "Q", " "), PromptPiece("assistant", "P:", ""))
    assert turn("Q\n", None, "P:", DELIMITERS)[0].delimiter == ""
    assert turn("Q", None, " P:", DELIMITERS)[0].delimiter == ""
    assert turn("", None, "P:", DELIMITERS)[0].delimiter == ""


def test_prefix_and_answer_are_joined_by_a_blank_whatever_the_delimiter() -> None:
    pieces = turn("Q", "A", "P:", Delimiters("::", "\n"))
    assert pieces == (PromptPiece("user", "Q", "::"), PromptPiece("assistant", "P: A", "\n"))
    assert turn("Q", "A", "P: ", Delimiters("::", "\n"))[1].text == "P: A"


def test_the_delimiter_before_a_prefix_yields_to_white_space_in_examples_too() -> None:
    assert as_text(turn("Q\n", "A", "P:", DELIMITERS)) == "Q\nP: A\n\n"


def test_system_text_and_description_share_one_message() -> None:
    assert system_pieces("S", "D", "\n\n") == (PromptPiece("system", "S\n\nD"),)
    assert system_pieces("S\n", "D", "\n\n") == (PromptPiece("system", "S\nD"),)
    assert system_pieces("", "", "\n\n") == ()


def _prompt(prefix: str | None) -> list[PromptPiece]:
    return [
        *system_pieces("S", "", "\n\n"),
        *turn("Q1", "A1", prefix, DELIMITERS),
        *turn("Q2", None, prefix, Delimiters(" ", "")),
    ]


def test_multiturn_keeps_every_message_and_drops_delimiters() -> None:
    found = [(message.role, message.text) for message in as_messages(_prompt(None), multiturn=True)]
    assert found == [("system", "S"), ("user", "Q1"), ("assistant", "A1"), ("user", "Q2")]


def test_single_turn_puts_the_examples_into_one_user_message() -> None:
    messages = as_messages(_prompt(None), multiturn=False)
    assert messages == (Message("system", "S"), Message("user", "Q1 A1\n\nQ2"))


def test_single_turn_keeps_an_opened_answer_apart() -> None:
    messages = as_messages(_prompt("P:"), multiturn=False)
    assert messages == (Message("system", "S"), Message("user", "Q1 P: A1\n\nQ2"), Message("assistant", "P:"))


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=3), TEXTS)
def test_single_turn_says_what_the_plain_text_says(examples: list[tuple[str, str]], question: str) -> None:
    pieces = [piece for q, a in examples for piece in turn(q, a, None, DELIMITERS)]
    pieces += turn(question, None, None, Delimiters(" ", ""))
    assert as_messages(pieces, multiturn=False) == (Message("user", as_text(pieces)),)
