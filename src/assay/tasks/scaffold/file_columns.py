"""The columns of a data file: values, what they are, and how a task file refers to them.

In: rows. Out: columns, with one for each field of a nested value: `choices.text` of {text: […], label: […]}.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.core.plural import plural
from assay.tasks.templates import check_syntax

TEXT, INTEGER, NUMBER, BOOLEAN, TEXTS, NUMBERS = "text", "whole number", "number", "boolean", "texts", "numbers"
SPANS, NOTHING, OTHER = "spans", "nothing", "other"
# Names that mean something else in a template's expression.
_CONSTANTS = ("true", "false", "none", "True", "False", "None")
_RESERVED = frozenset(
    ("and", "or", "not", "in", "is", "if", "else", "elif", "for", "recursive", "import", "loop", *_CONSTANTS)
)
_DEPTH = 2
_QUOTED = 44


@dataclass(frozen=True, eq=False)
class Column:
    """A column, or a field of a nested column.

    Attributes:
        name: its name as people write it: `question`, `choices.text`.
        expression: the expression in a template that gives its value.
        values: its value in every row; None where a row has none.
        is_direct: whether it is a column of the rows, whose name alone refers to it.
        absent: indices of rows that lack the column.
        template: what a user wrote in place of a column; empty otherwise.
    """

    name: str
    expression: str
    values: Sequence[Any]
    is_direct: bool = True
    absent: tuple[int, ...] = ()
    template: str = ""

    @cached_property
    def filled(self) -> list[Any]:
        """The values that are neither missing nor empty."""
        return [value for value in self.values if not is_empty(value)]

    @cached_property
    def kind(self) -> str:
        """What the values are."""
        kinds = {_kind(value) for value in self.filled}
        if not kinds:
            return NOTHING
        if kinds <= {INTEGER, NUMBER}:
            return NUMBER if NUMBER in kinds else INTEGER
        if len(kinds) > 1:
            return TEXT if kinds <= {TEXT, INTEGER, NUMBER} else OTHER
        return kinds.pop()

    @cached_property
    def distinct(self) -> int:
        """Number of different values."""
        return len({repr(value) for value in self.filled})

    @cached_property
    def mean_length(self) -> float:
        """Mean number of characters of the values as text."""
        return sum(len(str(value)) for value in self.filled) / max(len(self.filled), 1)

    @property
    def empty_rows(self) -> list[int]:
        """Indices of the rows without a value."""
        return [place for place, value in enumerate(self.values) if is_empty(value)]

    @cached_property
    def are_all_text(self) -> bool:
        """Whether every value is text, so that the column's name alone gives it."""
        return all(isinstance(value, str) for value in self.values)

    @property
    def as_value(self) -> str:
        """The column as it is: its name, or a template for a nested one."""
        return self.template or (self.name if self.is_direct and _is_plain(self.name) else self.as_template)

    @property
    def as_template(self) -> str:
        """A template of the value."""
        return self.template or "{{" + self.expression + "}}"

    @property
    def as_text(self) -> str:
        """A reference that gives text whatever the values are."""
        return self.as_value if self.are_all_text else self.as_template

    def described(self) -> str:
        """What it holds, in a few words."""
        filled = self.filled
        if self.kind == INTEGER:
            return f"whole numbers {min(filled):g} to {max(filled):g}"
        if self.kind in (TEXTS, NUMBERS):
            sizes = sorted({len(value) for value in filled})
            span = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
            return f"lists of {span} {self.kind}"
        words = {TEXT: "text", NUMBER: "numbers", BOOLEAN: "true or false", SPANS: "answers with positions"}
        return words.get(self.kind, "no values" if self.kind == NOTHING else "other values")

    def example(self) -> str:
        """The first value on one line."""
        return on_one_line(self.filled[0], _QUOTED) if self.filled else ""


def is_empty(value: Any) -> bool:
    """Whether a value is missing, blank or without elements."""
    return value is None or (isinstance(value, str) and not value.strip()) or (value in ([], {}))


def on_one_line(value: Any, letters: int) -> str:
    """A value in a few printable characters."""
    text = value if isinstance(value, str) else repr(value)
    line = " ".join(text[: 8 * letters].split())
    clean = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return clean if len(clean) <= letters else clean[: letters - 1] + "…"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, str):
        return TEXT
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return INTEGER
    if isinstance(value, float):
        return NUMBER
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return TEXTS
        return NUMBERS if all(_kind(item) in (INTEGER, NUMBER, TEXT) for item in value) else OTHER
    return SPANS if isinstance(value, Mapping) and {"text", "answer_start"} <= value.keys() else OTHER


def _is_plain(name: str) -> bool:
    """Whether a column's name may stand alone in a task file."""
    return not {"{", "}", "#"} & set(name) and name == name.strip() != "" and check_syntax(name) is None


def columns_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Every column of the rows, followed by the fields that it has."""
    names = dict.fromkeys(name for row in rows for name in row)
    found: list[Column] = []
    for name in names:
        absent = tuple(place for place, row in enumerate(rows) if name not in row)
        column = Column(name, _reference(name), [row.get(name) for row in rows], absent=absent)
        found += [_parsed(column), *_nested(column, _DEPTH)]
    return tuple(found)


def _reference(name: str) -> str:
    is_name = name.isidentifier() and name.isascii() and name not in _RESERVED
    return name if is_name else f"column({name!r})"


def _parsed(column: Column) -> Column:
    """The lists that a column holds as text, `['yes', 'no']`; the column itself if it holds none."""
    if column.kind != TEXT or not all(str(value).strip().startswith("[") for value in column.filled):
        return column
    try:
        lists = [None if is_empty(value) else ast.literal_eval(value.strip()) for value in column.values]
    except (ValueError, SyntaxError, MemoryError, RecursionError, AttributeError):
        return column
    parsed = Column(column.name, f"{column.expression} | literal", lists, is_direct=False, absent=column.absent)
    return parsed if parsed.kind in (TEXTS, NUMBERS) else column


def _nested(column: Column, depth: int) -> Iterator[Column]:
    """The fields of a column of mappings, or of lists of mappings."""
    filled = column.filled
    if not filled or not depth:
        return
    if all(isinstance(value, Mapping) for value in filled):
        for key in dict.fromkeys(key for value in filled for key in value):
            inner = _field(column, key)
            yield inner
            yield from _nested(inner, depth - 1)
    elif all(isinstance(value, (list, tuple)) and _are_mappings(value) for value in filled):
        shared = [key for key in filled[0][0] if all(key in item for value in filled for item in value)]
        for key in shared:
            if isinstance(key, str) and key.isidentifier():
                expression = f"{column.expression} | map(attribute={key!r}) | list"
                values = [None if is_empty(value) else [item[key] for item in value] for value in column.values]
                yield Column(f"{column.name}.{key}", expression, values, is_direct=False, absent=column.absent)


def _field(column: Column, key: Any) -> Column:
    values = [value.get(key) if isinstance(value, Mapping) else None for value in column.values]
    is_name = isinstance(key, str) and _reference(key) == key and not hasattr(dict, key)
    has_all = all(key in value for value in column.filled)
    step = f".get({key!r})" if not has_all else f".{key}" if is_name else f"[{key!r}]"
    return Column(f"{column.name}.{key}", column.expression + step, values, is_direct=False, absent=column.absent)


def _are_mappings(items: Sequence[Any]) -> bool:
    return bool(items) and all(isinstance(item, Mapping) for item in items)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names with commas, the rest counted."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {plural(more, 'more column', 'more columns')}" if more > 0 else "")
