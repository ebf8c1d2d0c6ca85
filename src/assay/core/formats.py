"""Question formats that do not depend on a dataset: a task builds them, every model family reads them.

Three further formats need no class, since a task's requests already say everything: ranked classification
(continuations), generation, and perplexity (whole texts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

# An index into choices or labels, or several; out of range if the right answer is unknown.
Answer = Union[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class MultipleChoice:
    """A multiple-choice question.

    Attributes:
        question: the question, or the beginning of a text to be continued.
        choices: the possible answers.
        answer: index of the right choice, or of several; out of range if it is unknown.
        context: text to read first, such as a passage.
        completes: whether the choices continue the question's sentence, so that no "Answer:" is needed.
        labels: the document's own names of the choices, if any.
        headed: whether "Question:" precedes the question when it is shown without its choices: not if the task's
            own prompt has no such word, as in MMLU, nor if a text is to be classified.
        headed_list: whether "Question:" also precedes it when the choices are listed, as in the task's own prompt.
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
    """A text, or a pair of texts, that belongs to one of a fixed set of classes, the same for every document.

    Attributes:
        text: the text, or the first of a pair, such as a premise or a passage.
        labels: names of the classes.
        answer: index of the right label, or of several.
        pair: the second text, such as a hypothesis or a question; None for a single text.
    """

    text: str
    labels: tuple[str, ...]
    answer: Answer
    pair: str | None = None


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """A question whose answer is a span of a text.

    Attributes:
        question: the question.
        context: the text.
        answers: right answers, each as it occurs in the text; empty if the text holds none.
        starts: character offset of each answer; empty if unknown.
        may_lack: whether documents of this task may have no answer.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    starts: tuple[int, ...] = ()
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class TextToText:
    """A text to be transformed into another, such as a translation.

    Attributes:
        source: the input text.
        targets: right results; any one of them counts.
    """

    source: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RatedText:
    """A text, or a pair of texts, with a number, such as how similar two sentences are.

    Attributes:
        text: the text, or the first of a pair.
        value: the right number; NaN if it is unknown.
        pair: the second text; None for a single text.
    """

    text: str
    value: float
    pair: str | None = None


Question = Union[MultipleChoice, LabelledText, SpanQuestion, TextToText, RatedText]


def as_multiple_choice(question: Question) -> MultipleChoice | None:
    """The question as multiple choice, which covers classification; None for generated answers and spans."""
    if isinstance(question, LabelledText):
        context, asked = ("", question.text) if question.pair is None else (question.text, question.pair)
        return MultipleChoice(asked, question.labels, question.answer, context, headed=False)
    return question if isinstance(question, MultipleChoice) else None
