"""A task of the lm-eval dialect in another prompt style: the same documents and examples, put another way.

Takes a definition and a style, gives the definition that asks in this style. The question comes from the file's key
`format`, or is found in the prompt that its own templates make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from assay.core.errors import DataError, Fault, TaskFileError, did_you_mean
from assay.core.formats import Answer, MultipleChoice
from assay.core.specs import PLAIN_PIPELINES, FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.tasks.formats import infer
from assay.tasks.harness.definition import DEFAULT_METRICS, Rendering, TaskDefinition
from assay.tasks.harness.fields import Row, choices_reader, optional_reader, target_reader, text_reader
from assay.tasks.harness.pose import INVALID_GOLD, ROTATION, Readers, reader_places, right_answer, rotations
from assay.tasks.harness.schema import FORMAT_PARTS
from assay.tasks.prompts import Delimiters
from assay.tasks.styles import STYLES, Put, Style, put

_CHOICE, _GENERATED = "multiple_choice", "generate_until"
_ROTATION_METRICS = ("rotation_agreement", "rotation_all", "rotation_vote")


def in_style(definition: TaskDefinition, style: Style | None) -> TaskDefinition:
    """A definition in a style, or as its file has it; a file that only states the question's parts is a cloze."""
    if style is not None:
        return restyle(definition, style)
    if definition.format is None or definition.rendering.text != "":
        return definition
    plain = restyle(definition, STYLES["cloze"])
    return replace(plain, name=definition.name, alias=definition.alias, style=None)


def restyle(definition: TaskDefinition, style: Style) -> TaskDefinition:
    """The same task in a style."""
    if definition.format is None and definition.rendering.choice is None:
        raise TaskFileError(
            Fault(
                str(definition.file.path),
                f'the task "{definition.name}" has no choices (doc_to_choice), so no prompt style fits it',
                "a multiple-choice task",
                "Leave the task out, or give its file a key format: (question, choices, answer)",
            )
        )
    examples = definition.fewshot
    return replace(
        definition,
        name=f"{definition.name}@{style.name}",
        alias=f"{definition.alias}@{style.name}",
        output_type=_GENERATED if style.generates else _CHOICE,
        rendering=_rendering(definition, definition.rendering, style, ()),
        fewshot=replace(examples, rendering=_rendering(definition, examples.rendering, style, ("fewshot_config",))),
        generation={"until": list(style.stop), "max_gen_toks": style.max_tokens, "do_sample": False},
        repeats=1,
        scoring=_scoring(definition.scoring, definition.output_type, style),
        style=style.name,
        rotates=style.rotates,
        example_limit=style.limit,
        questions=QuestionReader(definition, definition.rendering, ()),
    )


def question_reader(definition: TaskDefinition) -> Callable[[Row], MultipleChoice] | None:
    """Reads the question of a row, whatever the style that it is put in; None for a task without choices."""
    if definition.questions is not None or definition.rendering.choice is None:
        return definition.questions
    return QuestionReader(definition, definition.rendering, ())


def _rendering(definition: TaskDefinition, own: Rendering, style: Style, above: tuple[str, ...]) -> Rendering:
    styled = _Styled(QuestionReader(definition, own, above), style, f"task {definition.name}")
    # An example shows one right answer, where a document may have several.
    target = _Field(styled.first_answer if above else styled.answer)
    is_own = style.example_delimiter is None
    delimiters = Delimiters(style.delimiter, own.delimiters.example if is_own else str(style.example_delimiter))
    return Rendering(_Field(styled.prompt), target, _Field(styled.answers), None, delimiters)


def _scoring(own: Scoring, output_type: str, style: Style) -> Scoring:
    """A letter that is written is read strictly, as HELM does, and with all that is known of how models answer."""
    if style.generates:
        shape = "rotated_answer" if style.rotates else _GENERATED
        names = ("exact_match", *(_ROTATION_METRICS if style.rotates else ()))
        return Scoring(shape, tuple(map(MetricSpec, names)), _reading(style))
    is_plain = own.process is None and output_type == _CHOICE
    listed = [spec for spec in own.metrics if spec.function is None] if is_plain else []
    if style.rotates:
        return Scoring("rotated_choice", tuple(map(MetricSpec, ("acc", "acc_norm", *_ROTATION_METRICS))))
    names = style.metrics or (() if listed else DEFAULT_METRICS[_CHOICE])
    further = [spec for spec in listed if spec.name not in names]
    return Scoring(_CHOICE, (*map(MetricSpec, names), *further), PLAIN_PIPELINES)


def _reading(style: Style) -> tuple[PipelineSpec, ...]:
    """A label and nothing else, and whatever names one."""
    labels = list(style.possible_labels)
    pattern = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    alone = {"name": "label_alone", "regex": rf"\A\s*({pattern})\s*\Z", "group": 1}
    return (
        PipelineSpec("strict", (FilterSpec("extract", {"patterns": [alone]}), FilterSpec("take_first"))),
        PipelineSpec(
            "extract", (FilterSpec("extract", {"using": "letter", "labels": labels}), FilterSpec("take_first"))
        ),
    )


class _Field:
    """A function of a row that leaves the row as it is."""

    is_pure = True

    def __init__(self, read: Any) -> None:
        self._read = read

    def __call__(self, row: Row) -> Any:
        return self._read(row)


class _Styled:
    """The fields of a rendering in a style. The last row's question is kept: three fields are read from it."""

    def __init__(self, questions: QuestionReader, style: Style, where: str) -> None:
        self._questions = questions
        self._style = style
        self._where = where
        self._last: tuple[Row | None, Put | None] = (None, None)

    def prompt(self, row: Row) -> str:
        return self._put(row).prompt

    def answers(self, row: Row) -> list[str]:
        return list(self._put(row).answers)

    def answer(self, row: Row) -> Answer:
        """Places of right choices. A negative one is a missing label, never a place from the end."""
        answer = self._questions(row).answer
        if isinstance(answer, tuple):
            return tuple(place if place >= 0 else INVALID_GOLD for place in answer)
        return answer if answer >= 0 else INVALID_GOLD

    def first_answer(self, row: Row) -> int:
        """The place of the answer that an example shows."""
        answer = self._questions(row).answer
        first = next(iter(answer), INVALID_GOLD) if isinstance(answer, tuple) else answer
        if first < 0:
            found = f"a few-shot example has no right answer among its {len(self._put(row).answers)} choices"
            raise DataError(Fault(self._where, found, "labelled examples", "Take them from another split"))
        return first

    def _put(self, row: Row) -> Put:
        last, found = self._last
        if last is not row or found is None:
            question = self._questions(row)
            turn = row.get(ROTATION)
            order = rotations(len(question.choices))[turn.place if turn is not None else 0]
            found = put(question, self._style, order, self._where)
            self._last = (row, found)
        return found


class QuestionReader:
    """Reads the question of a row.

    Args:
        definition: the task.
        rendering: its templates, for documents or for examples.
        above: where they stand in the file.
    """

    def __init__(self, definition: TaskDefinition, rendering: Rendering, above: tuple[str, ...]) -> None:
        self._definition = definition
        self._rendering = rendering
        self._where = reader_places(definition, above)
        self._own: Readers | None = None
        self._stated: _Stated | None = None
        self._last: tuple[Row | None, MultipleChoice | None] = (None, None)

    def __call__(self, row: Row) -> MultipleChoice:
        turn = row.get(ROTATION)
        row = turn.row if turn is not None else row
        last, found = self._last
        if last is not row or found is None:
            found = self._read(row)
            self._last = (row, found)
        return found

    def _read(self, row: Row) -> MultipleChoice:
        if self._definition.format is not None:
            if self._stated is None:
                self._stated = _Stated(self._definition, self._definition.format, list(row))
            return self._stated(row)
        return self._inferred(row)

    def _inferred(self, row: Row) -> MultipleChoice:
        if self._own is None:
            self._own = Readers(self._rendering, list(row), self._where)
        own = self._own
        row = deepcopy(row) if own.has_code else row
        prompt = own.text(row)
        where = self._where["doc_to_text"]
        advice = "Give the file a key format: (question, choices, answer)"
        if not isinstance(prompt, str):
            found = "has one prompt per choice, in which no question can be found"
            raise DataError(Fault(where, found, "one prompt for all choices", advice))
        if own.choices is None:
            found = "the few-shot examples have no choices of their own, so no prompt style fits them"
            raise DataError(Fault(self._where["doc_to_choice"], found, "a list of choices", advice))
        choices = tuple(own.choices(row))
        answer = right_answer(_CHOICE, own.target(row), choices, False)
        question = _without_delimiter(infer(prompt, choices, answer, where), own.delimiters.target)
        prefix = own.prefix(row)
        # A prefix begins the answer, which a style begins its own way; of a sentence to be completed it is a part.
        if prefix and question.completes:
            return replace(question, question=prompt + own.delimiters.target + prefix)
        return question


def _without_delimiter(question: MultipleChoice, delimiter: str) -> MultipleChoice:
    """Where a task's choices bring the space before them, a style's delimiter stands in its place."""
    if delimiter or not all(choice.startswith(" ") for choice in question.choices):
        return question
    return replace(question, choices=tuple(choice[1:] for choice in question.choices))


class _Stated:
    """The question as the file's key `format` states it: a column or a template for each part."""

    def __init__(self, definition: TaskDefinition, stated: Mapping[str, Any], columns: list[str]) -> None:
        def where(key: str) -> str:
            return definition.file.where("format", key)

        for key in FORMAT_PARTS:
            _check_column(stated.get(key), columns, where(key))
        self._where = where("question")
        self._question = text_reader(stated["question"], columns, False, where("question"))
        self._choices = choices_reader(stated["choices"], columns, where("choices"))
        self._answer = target_reader(stated["answer"], columns, True, where("answer"))
        self._context = optional_reader(stated.get("context"), where("context"))
        labels = stated.get("labels")
        self._labels = choices_reader(labels, columns, where("labels")) if labels is not None else None
        self._completes = bool(stated.get("completes", False))

    def __call__(self, row: Row) -> MultipleChoice:
        question = self._question(row)
        if not isinstance(question, str):
            raise DataError(Fault(self._where, f"gives {question!r} for a document", "text"))
        choices = tuple(self._choices(row))
        labels = tuple(self._labels(row)) if self._labels is not None else ()
        answer = self._answer(row)
        places = tuple(_place(item, choices, labels) for item in (answer if isinstance(answer, list) else [answer]))
        right: Answer = places if isinstance(answer, list) else places[0]
        return MultipleChoice(question, choices, right, self._context(row), self._completes, labels)


def _check_column(value: Any, columns: list[str], where: str) -> None:
    """A single word is meant as a column, never as the question of every document."""
    if isinstance(value, str) and value.isidentifier() and value not in columns:
        found = f'there is no column "{value}"{did_you_mean(value, columns)}'
        raise DataError(Fault(where, found, "one of: " + ", ".join(columns)))


def _place(answer: Any, choices: tuple[str, ...], labels: tuple[str, ...]) -> int:
    """The place of the right choice, which is named by its label, its text or its place."""
    if isinstance(answer, str):
        if answer in labels:
            return labels.index(answer)
        return choices.index(answer) if answer in choices else INVALID_GOLD
    is_place = isinstance(answer, int) and not isinstance(answer, bool) and answer < len(choices)
    return int(answer) if is_place else INVALID_GOLD
