"""What a scaffold takes and gives: the user's corrections, the guess, and the table of columns that both refer to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Union

from assay.core.errors import AssayError, DataError, Fault, UserError, did_you_mean
from assay.core.plural import plural
from assay.tasks.lm_eval.build.fields import target_reader
from assay.tasks.scaffold.file_columns import Column, listed
from assay.tasks.templates import check_syntax

KINDS = ("multiple_choice", "classification", "span_qa", "text_to_text", "perplexity")
CERTAIN, LIKELY, DOUBTFUL = "certain", "likely", "doubtful"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user says about a file; None for what is guessed. A column is a name or a template."""

    kind: str | None = None
    question: str | None = None
    context: str | None = None
    choices: str | None = None
    answer: str | None = None
    text: str | None = None
    pair: str | None = None
    source: str | None = None
    target: str | None = None
    labels: tuple[str, ...] = ()

    def given(self) -> dict[str, Any]:
        """The corrections that were given."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name))}


# Kind → the corrections that apply to it.
KEYS: Mapping[str, tuple[str, ...]] = {
    "multiple_choice": ("question", "context", "choices", "answer"),
    "classification": ("text", "pair", "labels", "answer"),
    "span_qa": ("question", "context", "answer"),
    "text_to_text": ("source", "context", "target"),
    "perplexity": ("text",),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A key of a format, with its value and what it means."""

    key: str
    value: Union[str, tuple[str, ...], bool]
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Guess:
    """What a file seems to hold.

    Attributes:
        kind: kind of the format.
        parts: its keys.
        used: the columns that they refer to.
        doubts: other readings, and what speaks against this one, each with the option that decides.
        are_named: whether the columns' names say the same.
        chance: expected score of guessing; None if the metric has no such level.
        majority: score of always choosing the commonest class; None if it is not defined.
        optional: columns of `used` that a row may lack.
        is_sorted: whether the first rows have other shares of the classes than all.
    """

    kind: str
    parts: tuple[Part, ...]
    used: tuple[Column, ...]
    doubts: tuple[str, ...] = ()
    are_named: bool = True
    chance: float | None = None
    majority: float | None = None
    optional: tuple[Column, ...] = ()
    is_sorted: bool = False

    @property
    def sureness(self) -> str:
        """How sure the guess is."""
        return DOUBTFUL if self.doubts else CERTAIN if self.are_named else LIKELY


@dataclass(frozen=True)
class Table:
    """The rows and columns of a data file.

    Attributes:
        path: the file.
        rows: its rows.
        columns: its columns and the fields of nested ones.
        training: rows of the training file; empty if there is none.
    """

    path: Path
    rows: Sequence[Mapping[str, Any]]
    columns: tuple[Column, ...]
    training: Sequence[Mapping[str, Any]] = ()

    def named(self, text: str, flag: str) -> Column:
        """The column that an option names, or the values of the template that it gives."""
        found = next((column for column in self.columns if column.name == text), None)
        if found is not None:
            return found
        if "{{" in text or "{%" in text:
            return self._templated(text, flag)
        names = [column.name for column in self.columns]
        hint = did_you_mean(text, names)
        fault = Fault(flag, f'{self.path.name} has no column "{text}"{hint}', f"one of {listed(names)}, or a template")
        raise UserError(fault)

    def _templated(self, text: str, flag: str) -> Column:
        problem = check_syntax(text)
        if problem:
            raise UserError(Fault(flag, problem, "a column or a template such as {{answer - 1}}"))
        read = target_reader(text, (), True, flag)
        try:
            values = [read(row) for row in self.rows]
        except AssayError as error:
            faults = getattr(error, "faults", ())
            raise UserError(*(faults or (Fault(flag, str(error)),))) from error
        return Column(text, text, values, is_direct=False, template=text)

    def others(self, used: Collection[Column]) -> list[Column]:
        """The columns that are not used yet, nor are parts of such a column."""
        names = {column.name for column in used}
        return [column for column in self.columns if column.name not in names]


def rows_named(places: Sequence[int]) -> str:
    """`3 rows (the first is row 7)`; rows are counted from 1, as lines of a file."""
    first = f"row {places[0] + 1}"
    return first if len(places) == 1 else f"{plural(len(places), 'row')} (the first is {first})"


def no_guess(table: Table, found: str, options: str) -> DataError:
    """The error for a file whose columns fit no format: what was seen, and the options that decide."""
    seen = listed([f"{column.name} ({column.described()})" for column in table.columns])
    fault = Fault(str(table.path), f"{found}; its columns are {seen}", options, "See: docs/first-benchmark.md")
    return DataError(fault)
