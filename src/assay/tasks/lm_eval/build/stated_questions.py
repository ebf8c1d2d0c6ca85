"""Reads the question of a row by the file's key `format`: a column or a template for each part."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.formats import Answer, LabelledText, MultipleChoice, Question, RatedText, SpanQuestion, TextToText
from assay.tasks.lm_eval.build.fields import Reader, Row, choices_reader, optional_reader, target_reader, text_reader
from assay.tasks.lm_eval.build.instances import INVALID_GOLD
from assay.tasks.lm_eval.file.definition import TaskDefinition
from assay.tasks.lm_eval.file.format_key import CHOICE, CLASSES, FORMATS, NUMBER, REWRITE, SPAN, format_kind


def stated_reader(
    definition: TaskDefinition, stated: Mapping[str, Any], columns: Sequence[str]
) -> Callable[[Row], Question]:
    """The reader of a format over rows with these columns."""
    kind = format_kind(stated)
    parts = _Parts(definition, stated, columns)
    for key in FORMATS[kind].parts:
        _check_column(stated.get(key), columns, parts.where(key))
    return _READERS[kind](parts)


class _Parts:
    """The readers of a format's parts."""

    def __init__(self, definition: TaskDefinition, stated: Mapping[str, Any], columns: Sequence[str]) -> None:
        self._definition = definition
        self.stated = stated
        self._columns = columns

    def where(self, key: str) -> str:
        return self._definition.file.where("format", key)

    def flag(self, key: str) -> bool:
        return bool(self.stated.get(key, False))

    def text(self, key: str) -> Callable[[Row], str]:
        """Reads a part that must be text."""
        read, where = text_reader(self.stated[key], self._columns, False, self.where(key)), self.where(key)

        def text(row: Row) -> str:
            found = read(row)
            if not isinstance(found, str):
                raise DataError(Fault(where, f"gives {found!r} for a document", "text"))
            return found

        return text

    def optional(self, key: str) -> Callable[[Row], str]:
        """Reads a part that may be missing."""
        return optional_reader(self.stated.get(key), self.where(key))

    def listed(self, key: str) -> Reader:
        return choices_reader(self.stated[key], self._columns, self.where(key))

    def answer(self, key: str, has_choices: bool) -> Reader:
        """Reads a right answer: a text or, if there are choices, an index; or a list of either."""
        return target_reader(self.stated[key], self._columns, has_choices, self.where(key))


def _check_column(value: Any, columns: Sequence[str], where: str) -> None:
    """Raises for a single word that is not a column: it is never meant as the question of every document."""
    if isinstance(value, str) and value.isidentifier() and value not in columns:
        found = f'there is no column "{value}"{did_you_mean(value, columns)}'
        raise DataError(Fault(where, found, "one of: " + ", ".join(columns)))


# Choices


def _choices(parts: _Parts) -> Callable[[Row], MultipleChoice]:
    question, choices, answer = parts.text("question"), parts.listed("choices"), parts.answer("answer", True)
    context, completes = parts.optional("context"), parts.flag("completes")
    labels = parts.listed("labels") if parts.stated.get("labels") is not None else None

    def read(row: Row) -> MultipleChoice:
        asked = question(row)
        shown = tuple(choices(row))
        names = tuple(labels(row)) if labels is not None else ()
        right = _right(answer(row), lambda item: _place(item, shown, names))
        return MultipleChoice(asked, shown, right, context(row), completes, names)

    return read


def _right(answer: Any, place: Callable[[Any], int]) -> Answer:
    return tuple(map(place, answer)) if isinstance(answer, list) else place(answer)


def _place(answer: Any, choices: tuple[str, ...], labels: tuple[str, ...]) -> int:
    """The index of the right choice, which is given by its label, its text or its index."""
    if isinstance(answer, str):
        if answer in labels:
            return labels.index(answer)
        return choices.index(answer) if answer in choices else INVALID_GOLD
    is_place = isinstance(answer, int) and not isinstance(answer, bool) and answer < len(choices)
    return int(answer) if is_place else INVALID_GOLD


# Classes


def _classes(parts: _Parts) -> Callable[[Row], LabelledText]:
    text, answer, labels = parts.text("text"), parts.answer("answer", True), tuple(parts.stated["labels"])
    pair = parts.text("pair") if parts.stated.get("pair") is not None else None

    def read(row: Row) -> LabelledText:
        right = _right(answer(row), lambda item: _class(item, labels))
        return LabelledText(text(row), labels, right, pair(row) if pair is not None else None)

    return read


def _class(answer: Any, labels: tuple[str, ...]) -> int:
    """The index of the right class, which is given by its name or its index; yes-or-no columns hold booleans."""
    if isinstance(answer, str):
        named = _place(answer, labels, ())
        return named if named >= 0 or not answer.isdecimal() else _place(int(answer), labels, ())
    if isinstance(answer, bool):
        return labels.index(str(answer)) if str(answer) in labels else int(answer)
    return _place(answer, labels, ())


# Texts


def _spans(parts: _Parts) -> Callable[[Row], SpanQuestion]:
    question, context, may_lack = parts.text("question"), parts.text("context"), parts.flag("may_lack")
    answers, where = parts.answer("answers", False), parts.where("answers")
    starts = parts.answer("starts", True) if parts.stated.get("starts") is not None else None

    def read(row: Row) -> SpanQuestion:
        found = answers(row)
        begins = starts(row) if starts is not None else None
        if isinstance(found, Mapping):
            begins = found.get("answer_start") if begins is None else begins
            found = found.get("text")
        texts = _texts(found, where)
        places = _starts(begins, len(texts), parts.where("starts"))
        return SpanQuestion(question(row), context(row), texts, places, may_lack)

    return read


def _starts(value: Any, size: int, where: str) -> tuple[int, ...]:
    """Start positions of the answers, one for each; empty if none is given."""
    found = () if value is None else tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not size or not found:
        return ()
    if len(found) != size or not all(isinstance(place, int) for place in found):
        raise DataError(Fault(where, f"gives {value!r} for a document", f"{size} whole numbers, one for each answer"))
    return tuple(map(int, found))


def _texts(value: Any, where: str) -> tuple[str, ...]:
    """Right answers: a text, a list of texts, or nothing."""
    found = [] if value is None or value == "" else list(value) if isinstance(value, (list, tuple)) else [value]
    for item in found:
        if not isinstance(item, str):
            expected = 'text, a list of texts, or {"text": […], "answer_start": […]}'
            raise DataError(Fault(where, f"gives {value!r} for a document", expected))
    return tuple(found)


def _rewrites(parts: _Parts) -> Callable[[Row], TextToText]:
    source, target, where = parts.text("source"), parts.answer("target", False), parts.where("target")
    return lambda row: TextToText(source(row), _texts(target(row), where))


def _ratings(parts: _Parts) -> Callable[[Row], RatedText]:
    text, answer, where = parts.text("text"), parts.answer("answer", False), parts.where("answer")
    pair = parts.text("pair") if parts.stated.get("pair") is not None else None

    def read(row: Row) -> RatedText:
        found = answer(row)
        try:
            value = math.nan if found is None else float(found)
        except (TypeError, ValueError) as error:
            raise DataError(Fault(where, f"gives {found!r} for a document", "a number")) from error
        return RatedText(text(row), value, None if pair is None else pair(row))

    return read


_READERS: dict[str, Callable[[_Parts], Callable[[Row], Question]]] = {
    CHOICE: _choices,
    CLASSES: _classes,
    SPAN: _spans,
    REWRITE: _rewrites,
    NUMBER: _ratings,
}
