"""Prompt assembly: from questions, answers and examples to one text or a conversation.

A prompt is a sequence of pieces (role, text, delimiter after it). The rules for white space between pieces
are those of the lm-eval task format, so that prompts agree character for character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.requests import Message


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """One message of a prompt, and the delimiter before the next one in plain text."""

    role: str
    text: str
    delimiter: str = ""


@dataclass(frozen=True, slots=True)
class Delimiters:
    """Delimiters between a question and its answer, and after an example."""

    target: str = " "
    example: str = "\n\n"


def _has_seam(left: str, right: str) -> bool:
    """Whether two non-empty texts meet without white space on either side."""
    return not left[-1].isspace() and not right[0].isspace()


def join_if_needed(left: str, right: str, separator: str) -> str:
    """Both texts joined, with the separator only if neither has white space at the seam."""
    if not left or not right:
        return left or right
    return left + separator + right if _has_seam(left, right) else left + right


def with_separator(opening: str, separator: str) -> str:
    """An opening followed by the separator, unless it is empty or ends with white space or a template."""
    return opening + separator if opening and not opening[-1].isspace() and opening[-1] != "}" else opening


def system_pieces(system: str, description: str, separator: str) -> tuple[PromptPiece, ...]:
    """The opening of a prompt: system instruction and the task's description."""
    text = join_if_needed(system, description, separator)
    return (PromptPiece("system", text),) if text else ()


def turn(question: str, answer: str | None, prefix: str | None, delimiters: Delimiters) -> tuple[PromptPiece, ...]:
    """A question, with its answer if it is an example.

    Args:
        question: text of the user's message.
        answer: the example's answer; None leaves the turn open.
        prefix: the beginning of the answer that the prompt itself supplies.
        delimiters: the text between question and answer, and after the answer.
    """
    if answer is not None:
        behind = delimiters.target if not prefix or (question and _has_seam(question, prefix)) else ""
        full = join_if_needed(prefix or "", answer, " ")
        return (PromptPiece("user", question, behind), PromptPiece("assistant", full, delimiters.example))
    if prefix:
        behind = delimiters.target if question and _has_seam(question, prefix) else ""
        return (PromptPiece("user", question, behind), PromptPiece("assistant", prefix))
    return (PromptPiece("user", question),)


def as_text(pieces: Sequence[PromptPiece]) -> str:
    """All pieces as one text."""
    return "".join(piece.text + piece.delimiter for piece in pieces)


def as_messages(pieces: Sequence[PromptPiece], multiturn: bool) -> tuple[Message, ...]:
    """All pieces as a conversation: turn by turn, or with the examples inside one user message."""
    if multiturn:
        return tuple(Message(piece.role, piece.text) for piece in pieces)
    rest = list(pieces)
    opening = [Message("system", rest.pop(0).text)] if rest and rest[0].role == "system" else []
    closing = [Message("assistant", rest.pop().text)] if rest and rest[-1].role == "assistant" else []
    body = as_text(rest[:-1]) + rest[-1].text if rest else ""
    return (*opening, Message("user", body), *closing)
