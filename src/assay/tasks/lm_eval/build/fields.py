"""Readers of a document's fields: the prompt, the target and the choices, as a task file describes them.

A text value is a column's name or a template. The odd rules (digits become numbers, brackets become lists)
are those of the lm-eval task format.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from typing import Any

from assay.core.errors import AssayError, DataError, Fault, did_you_mean
from assay.tasks.templates import render, render_literal

Row = Mapping[str, Any]
Reader = Callable[[Row], Any]

# Maximum number of digits of a choice index; a longer string of digits is text.
LONGEST_NUMBER = 18


class Derived:
    """A field that a function of ours computes from a row without changing the row."""

    is_pure = True

    def __init__(self, read: Reader) -> None:
        self._read = read

    def __call__(self, row: Row) -> Any:
        return self._read(row)


def text_reader(value: Any, columns: Collection[str], has_choices: bool, where: str) -> Reader:
    """Reads `doc_to_text`: a text, or the index of a choice."""
    if isinstance(value, int):
        return lambda row: value
    if callable(value):
        return called(value, where)
    if value in columns:
        return _column_reader(value, where)

    def read(row: Row) -> Any:
        text = render(value, row, where)
        return int(text) if has_choices and _is_number(text) else text

    return read


def called(function: Callable[..., Any], where: str) -> Callable[..., Any]:
    """Wraps a function of task code so that its failures name the key that refers to it."""

    def call(*arguments: Any, **settings: Any) -> Any:
        try:
            return function(*arguments, **settings)
        except AssayError:
            raise
        except Exception as error:  # third-party code may raise anything
            raise DataError(Fault(where, f"its function failed: {type(error).__name__}: {error}")) from error

    return call


def _column_reader(name: str, where: str) -> Reader:
    """Reads a column unchanged. Only an example can lack one: evaluated rows have the columns of the first."""

    def read(row: Row) -> Any:
        try:
            return row[name]
        except KeyError:
            found = ", ".join(map(str, row))
            raise DataError(Fault(where, f'a few-shot example has no column "{name}"', f"one of: {found}")) from None

    return read


def _is_number(text: str) -> bool:
    """Whether a text is the index of a choice. lm-eval's test, `isdigit`, also accepts "²" and then fails."""
    return text.isdecimal() and len(text) <= LONGEST_NUMBER


def target_reader(value: Any, columns: Collection[str], has_choices: bool, where: str) -> Reader:
    """Reads `doc_to_target`: a text, the index of a choice, or a list of either."""
    if callable(value):
        return called(value, where)
    if not isinstance(value, str):
        return lambda row: value
    if value in columns:
        return _column_reader(value, where)

    def read(row: Row) -> Any:
        text = render(value, row, where)
        if has_choices and _is_number(text):
            return int(text)
        if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
            try:
                return ast.literal_eval(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return text
        return text

    return read


def choices_reader(value: Any, columns: Collection[str], where: str) -> Reader:
    """Reads `doc_to_choice`: always a list of texts."""
    if isinstance(value, (dict, list)):
        items = list(value.values()) if isinstance(value, dict) else value
        for item in items:
            if not isinstance(item, str):
                raise _no_text(item, where, "Quote it in the YAML file")
        return lambda row: items
    raw: Reader | None = None
    if callable(value):
        raw = called(value, where)
    elif value in columns:
        raw = _column_reader(value, where)
    elif value.isidentifier():
        raise DataError(Fault(where, f'no column "{value}"{did_you_mean(value, columns)}', ", ".join(columns)))

    def read(row: Row) -> list[str]:
        found = raw(row) if raw is not None else render_literal(value, row, where)
        if not isinstance(found, (list, tuple)) or not found:
            raise DataError(Fault(where, f"gives {found!r} for a document", "a list of choices"))
        for item in found:
            if not isinstance(item, str):
                raise _no_text(item, where, "Write a template such as {{ COLUMN | map('string') | list }}")
        return list(found)

    return read


def _no_text(item: Any, where: str, advice: str) -> DataError:
    return DataError(Fault(where, f"has the choice {item!r} ({type(item).__name__})", "text", advice))


def optional_reader(value: str | None, where: str) -> Callable[[Row], str]:
    """Reads `description` or `gen_prefix`: text, empty if the task has none."""
    if not value:
        return lambda row: ""

    def read(row: Row) -> str:
        if value in row:
            return "" if row[value] is None else str(row[value])
        return render(value, row, where)

    return read
