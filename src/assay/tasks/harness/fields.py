"""Readers of a document's fields: the prompt, the target and the choices, as a task file describes them.

A text value is a column's name or a template. The odd rules (digits become numbers, brackets become lists)
are those of the lm-eval task format.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from typing import Any

from assay.core.errors import DataError, Fault
from assay.tasks.templates import literal, render

Row = Mapping[str, Any]
Reader = Callable[[Row], Any]


def text_reader(value: Any, columns: Collection[str], has_choices: bool, where: str) -> Reader:
    """Reads `doc_to_text`: a text, or a number that points at a choice."""
    if isinstance(value, int):
        return lambda row: value
    if value in columns:
        return lambda row: row[value]

    def read(row: Row) -> Any:
        text = render(value, row, where)
        return int(text) if has_choices and text.isdigit() else text

    return read


def target_reader(value: Any, columns: Collection[str], has_choices: bool, where: str) -> Reader:
    """Reads `doc_to_target`: a text, a number that points at a choice, or a list of either."""
    if not isinstance(value, str):
        return lambda row: value
    if value in columns:
        return lambda row: row[value]

    def read(row: Row) -> Any:
        text = render(value, row, where)
        if has_choices and text.isdigit():
            return int(text)
        if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
            try:
                return ast.literal_eval(text)
            except (ValueError, SyntaxError):
                return text
        return text

    return read


def choices_reader(value: Any, columns: Collection[str], where: str) -> Reader:
    """Reads `doc_to_choice`: always a list of texts."""
    if isinstance(value, dict):
        fixed = [_choice(item, where) for item in value.values()]
        return lambda row: fixed
    if isinstance(value, list):
        listed = [_choice(item, where) for item in value]
        return lambda row: listed

    def read(row: Row) -> list[str]:
        found = row[value] if value in columns else literal(render(value, row, where), where)
        if not isinstance(found, (list, tuple)) or not found:
            raise DataError(Fault(where, f"gives {found!r} for a document", "a list of choices"))
        return [_choice(item, where) for item in found]

    return read


def _choice(item: Any, where: str) -> str:
    if isinstance(item, str):
        return item
    raise DataError(
        Fault(where, f"has the choice {item!r} ({type(item).__name__})", "text", "Quote it in the YAML file")
    )


def optional_reader(value: str | None, where: str) -> Callable[[Row], str]:
    """Reads `description` or `gen_prefix`: text, empty when the task has none."""
    if not value:
        return lambda row: ""

    def read(row: Row) -> str:
        return str(row[value]) if value in row else render(value, row, where)

    return read
