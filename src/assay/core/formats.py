"""Formats: shapes of questions that know nothing of a dataset. A task states them, every family of models reads them.

Three further shapes need no words of their own, as a task's requests say all: ranked classification (continuations),
generation, and perplexity (whole texts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

# A place among choices or labels, or several places; one that is not among them where none is known.
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
        headed: whether "Question:" stands before the question where it is asked alone: not where the task's own
            prompt has no such word, as MMLU's, nor where a text is to be classified.
        headed_list: whether it also stands there where the choices are listed, as in the task's own prompt.
    """

    question: str
    choices: tuple[str, ...]
    answer: Answer
    context: str = ""
    completes: bool = False
    labels: tuple[str, ...] = ()
    headed: bool = True
    headed_list: bool = False


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, or a pair of texts, that belongs to one of a few classes: the same ones for every document.

    Attributes:
        text: the text, or the first of a pair: a premise, a passage.
        labels: names of the classes.
        answer: place of the right one, or of several.
        pair: the second text: a hypothesis, a question; None for a text alone.
    """

    text: str
    labels: tuple[str, ...]
    answer: Answer
    pair: str | None = None


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """A question whose answer stands in a text.

    Attributes:
        question: what is asked.
        context: the text.
        answers: right answers, each as it stands in the text; empty where the text holds none.
        starts: where each answer begins, in characters; empty when not told.
        may_lack: whether documents of this task may have no answer.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    starts: tuple[int, ...] = ()
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class TextToText:
    """A text that is to be turned into another.

    Attributes:
        source: what is read.
        targets: right results, of which one will do.
    """

    source: str
    targets: tuple[str, ...]


Question = Union[MultipleChoice, LabelledText, SpanQuestion, TextToText]


def as_multiple_choice(question: Question) -> MultipleChoice | None:
    """A question with choices, which classes are too; None where the answer is to be written or found."""
    if isinstance(question, LabelledText):
        context, asked = ("", question.text) if question.pair is None else (question.text, question.pair)
        return MultipleChoice(asked, question.labels, question.answer, context, headed=False)
    return question if isinstance(question, MultipleChoice) else None
