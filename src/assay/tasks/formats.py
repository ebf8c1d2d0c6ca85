"""Formats: shapes of questions that know nothing of a dataset. Here multiple choice.

A task file states a question's parts itself, or they are found in the prompt that it makes: what stands before the
listed options, between "Question:" and "Answer:", and so on. What cannot be found is an error, never a guess.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from assay.core.errors import DataError, Fault

Answer = Union[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class MultipleChoice:
    """A question with choices.

    Attributes:
        question: what is asked; of a text to be continued, its beginning.
        choices: the answers to choose from.
        answer: place of the right choice, or of several; one that is not among them when none is known.
        context: what must be read first, such as a passage.
        completes: whether the choices continue the question's sentence, so that it needs no "Answer:".
        labels: the document's own names of the choices, where it has some.
    """

    question: str
    choices: tuple[str, ...]
    answer: Answer
    context: str = ""
    completes: bool = False
    labels: tuple[str, ...] = ()


# What prompts say before a question and before its answer.
_HEAD = re.compile(r"\A\s*(?:Question|Q|Problem)\s*:[ \t]*", re.IGNORECASE)
_INNER_HEAD = re.compile(r"\n[ \t]*(?:Question|Q|Problem)\s*:[ \t]*", re.IGNORECASE)
_TAIL = re.compile(r"(?:\A|\s)(?:The correct answer is|Correct answer|Answer|Ans|A)\s*:\s*\Z", re.IGNORECASE)
_LIST_HEAD = re.compile(r"\n[ \t]*(?:Answer )?(?:choices|options)\s*:\s*\Z", re.IGNORECASE)

_SEQUENCES = (string.ascii_uppercase, string.ascii_lowercase, tuple(str(n) for n in range(1, 100)))


def infer(prompt: str, choices: Sequence[str], answer: Answer, where: str) -> MultipleChoice:
    """The question in a prompt.

    Args:
        prompt: the text before the answer, without examples.
        choices: what is scored after it: the answers' texts, or the labels of answers that the prompt lists.
        answer: place of the right choice.
        where: the task, for errors.
    """
    labels = _labels(choices)
    body = _without_tail(prompt)
    listed = _listed(body, labels or _first(string.ascii_uppercase, len(choices)))
    if listed is None and "1" in labels:
        labels = ()  # answers that are the numbers 1, 2, … themselves, as ARC has some
    if labels and listed is None:
        shown = prompt if len(prompt) <= 200 else "…" + prompt[-199:]
        raise DataError(
            Fault(
                where,
                f"the choices are labels ({', '.join(choices)}), but the prompt lists no options: {shown!r}",
                "lines such as A. …",
                "Say what the question is with a key format: (question, choices, answer)",
            )
        )
    if listed is not None and (labels or _same(listed[1], choices)):
        body, texts = listed
        body = _LIST_HEAD.sub("", body)
    else:
        texts = tuple(choices)
    is_marked = _TAIL.search(prompt) is not None or _HEAD.match(body) is not None
    context, question = _parts(body)
    completes = not is_marked and listed is None
    return MultipleChoice(question if completes else question.strip(), texts, answer, context, completes)


def _first(sequence: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(sequence[:count])


def _labels(choices: Sequence[str]) -> tuple[str, ...]:
    """The choices as labels (A, B, … or 1, 2, …) when they are nothing else; empty for texts."""
    bare = tuple(choice.strip().strip("().") for choice in choices)
    for sequence in _SEQUENCES:
        if bare and bare == _first(sequence, len(bare)):
            return bare
    return ()


def _without_tail(prompt: str) -> str:
    """The prompt without a closing "Answer:"."""
    found = _TAIL.search(prompt)
    return prompt[: found.start()] if found else prompt


def _same(texts: Sequence[str], choices: Sequence[str]) -> bool:
    return [text.strip() for text in texts] == [choice.strip() for choice in choices]


def _listed(body: str, labels: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """What stands before a list of options at the end of a text, and the options; None where there is no such list."""
    for opening in (r"(?:\A|\n)[ \t]*", r"(?:\A|\s)(?=\()"):
        end, texts = len(body), []
        for label in reversed(labels):
            mark = re.compile(opening + rf"[(\[]?{re.escape(label)}[)\].:][ \t]*")
            found = _last(mark, body, end)
            if found is None:
                break
            texts.append(body[found.end() : end].strip())
            end = found.start()
        else:
            return body[:end], tuple(reversed(texts))
    return None


def _last(pattern: re.Pattern[str], text: str, end: int) -> re.Match[str] | None:
    """The last match before a place."""
    found = deque(pattern.finditer(text, 0, end), maxlen=1)
    return found[0] if found else None


def _parts(body: str) -> tuple[str, str]:
    """Context and question: what stands before and after the last "Question:"."""
    inner = _last(_INNER_HEAD, body, len(body))
    if inner is not None:
        return body[: inner.start()].strip(), body[inner.end() :]
    head = _HEAD.match(body)
    return "", body[head.end() :] if head else body
