"""The question of a row: stated by the file's key `format`, or inferred from the prompt of its templates."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.formats import LabelledText, MultipleChoice, Question, as_multiple_choice
from assay.tasks.lm_eval.build.fields import Row
from assay.tasks.lm_eval.build.instances import ROTATION, Readers, field_locations, right_answer
from assay.tasks.lm_eval.build.stated_questions import stated_reader
from assay.tasks.lm_eval.file.definition import Rendering, TaskDefinition
from assay.tasks.lm_eval.file.format_key import CLASSES, format_kind
from assay.tasks.question_detection import (
    asks_for_class,
    has_fixed_question,
    has_question_prefix,
    infer,
    infer_classes,
    infer_from_prompts,
)
from assay.tasks.styles import PartNames
from assay.tasks.templates import check_syntax, undefined_names

_CHOICE = "multiple_choice"
_ADVICE = "Give the file a key format: (question, choices, answer)"


class QuestionReader:
    """Reads the question of a row.

    Args:
        definition: the task.
        rendering: its templates, for documents or for examples.
        above: keys above them in the file.
        is_bare: whether prompt styles show the parts of a stated format alone, without the question of the task's own
            prompt.
    """

    def __init__(
        self, definition: TaskDefinition, rendering: Rendering, above: tuple[str, ...], is_bare: bool = False
    ) -> None:
        self._definition = definition
        self._rendering = rendering
        self._is_inferred = definition.format is None or (not is_bare and _asks_itself(definition, rendering))
        self._where = field_locations(definition, above)
        self._own: Readers | None = None
        self._stated: Callable[[Row], Question] | None = None
        self._last: tuple[Row | None, MultipleChoice | None] = (None, None)
        self._last_question: tuple[Row | None, Question | None] = (None, None)

    def question(self, row: Row) -> Question:
        """The question in its own format. The last one is cached: several fields are read from it."""
        last, found = self._last_question
        if last is not row or found is None:
            found = self._read(row)
            self._last_question = (row, found)
        return found

    def part_names(self, row: Row) -> PartNames:
        """Names of the question's parts: the columns that hold them, else generic names."""
        reordered = row.get(ROTATION)
        row = reordered.row if reordered is not None else row
        question = self.question(row)
        if isinstance(question, LabelledText):
            parts = [("text", question.text), ("pair", question.pair or "")]
        else:
            asked = self(row)
            parts = [("context", asked.context), ("question", asked.question)]
        named = tuple((_column(text, row) or name, text) for name, text in parts if text)
        return PartNames(self._definition.name, named, isinstance(question, LabelledText))

    def _read(self, row: Row) -> Question:
        if self._definition.format is not None:
            return self._read_stated(row)
        own, row = self._read_own(row)
        prompt, choices = own.text(row), self._choices(own, row)
        if isinstance(prompt, int):
            ending = own.delimiters.target + str(own.target(row))
            return infer_from_prompts(choices, ending, right_answer(_CHOICE, prompt, choices, False))
        fixed = fixed_choices(self._rendering.choice)
        if fixed is None or own.prefix(row):
            return self._inferred(own, row)
        template = self._rendering.text
        is_same = isinstance(template, str) and template not in row and has_fixed_question(template)
        answer = right_answer(_CHOICE, own.target(row), choices, False)
        labels = _without_space(choices, own.delimiters.target)
        return infer_classes(prompt, labels, answer, self._where["doc_to_text"], is_same)

    def __call__(self, row: Row) -> MultipleChoice:
        """The question with its choices, for prompt styles."""
        reordered = row.get(ROTATION)
        row = reordered.row if reordered is not None else row
        last, found = self._last
        if last is not row or found is None:
            found = self._with_choices(row)
            self._last = (row, found)
        return found

    def _with_choices(self, row: Row) -> MultipleChoice:
        if self._is_inferred:
            return self._inferred(*self._read_own(row))
        found, prompt = as_multiple_choice(self._read_stated(row)), self._rendering.text
        if found is not None and isinstance(prompt, str) and prompt:
            return replace(found, headed=has_question_prefix(prompt))
        if found is not None:
            return found
        where = self._definition.file.where("format", "kind")
        raise DataError(Fault(where, "has no choices, so no prompt style fits it", "multiple_choice or classification"))

    def _read_stated(self, row: Row) -> Question:
        if self._stated is None:
            assert self._definition.format is not None, "only files that state a format come here"
            self._stated = stated_reader(self._definition, self._definition.format, list(row))
        return self._stated(row)

    def _read_own(self, row: Row) -> tuple[Readers, Row]:
        """The readers of the templates, and the row for them: code gets a copy."""
        if self._own is None:
            self._own = Readers(self._rendering, list(row), self._where)
        return self._own, deepcopy(row) if self._own.has_code else row

    def _choices(self, own: Readers, row: Row) -> tuple[str, ...]:
        if own.choices is None:
            found = "the few-shot examples have no choices of their own, so no prompt style fits them"
            raise DataError(Fault(self._where["doc_to_choice"], found, "a list of choices", _ADVICE))
        return tuple(own.choices(row))

    def _inferred(self, own: Readers, row: Row) -> MultipleChoice:
        prompt = own.text(row)
        where = self._where["doc_to_text"]
        if not isinstance(prompt, str):
            found = "has one prompt per choice, in which no question can be found"
            raise DataError(Fault(where, found, "one prompt for all choices", _ADVICE))
        choices = self._choices(own, row)
        answer = right_answer(_CHOICE, own.target(row), choices, False)
        question = infer(prompt, choices, answer, where)
        question = replace(question, choices=_without_space(question.choices, own.delimiters.target))
        prefix = own.prefix(row)
        # A prefix begins the answer, and a style has its own; but it is part of a sentence to be completed.
        if prefix and question.completes:
            return replace(question, question=prompt + own.delimiters.target + prefix)
        return question


def _column(text: str, row: Row) -> str | None:
    """The column that holds a text, ignoring white space at its ends."""
    return next(
        (str(key) for key, value in row.items() if isinstance(value, str) and value.strip() == text.strip()), None
    )


def _without_space(choices: tuple[str, ...], delimiter: str) -> tuple[str, ...]:
    """Choices without the leading space that they include if the task has no delimiter; a style adds its own."""
    if delimiter or not all(choice.startswith(" ") for choice in choices):
        return choices
    return tuple(choice[1:] for choice in choices)


def _asks_itself(definition: TaskDefinition, rendering: Rendering) -> bool:
    """Whether the prompt of a task with classes asks for them in words, which are not in the parts of its format."""
    choices = fixed_choices(rendering.choice)
    if format_kind(definition.format) != CLASSES or not isinstance(choices, list):
        return False
    return isinstance(rendering.text, str) and asks_for_class(rendering.text, choices)


def fixed_choices(value: Any) -> Any:
    """The value of `doc_to_choice` if it is the same for all documents; else None."""
    if isinstance(value, (list, dict)):
        return value
    is_template = isinstance(value, str) and not value.isidentifier() and check_syntax(value) is None
    return value if is_template and not undefined_names(value, ()) else None


def question_reader(definition: TaskDefinition) -> Callable[[Row], Question] | None:
    """Reads the question of a row, independent of the prompt style; None for a task without a format."""
    if definition.questions is not None:
        return definition.questions
    if definition.format is None and definition.rendering.choice is None:
        return None
    return QuestionReader(definition, definition.rendering, ()).question
