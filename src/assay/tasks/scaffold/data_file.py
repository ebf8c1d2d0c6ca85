"""Reads the data file of a new task: rows, how they were read, and what its rows have that needs a remark.

In: paths. Out: a table. A file that is missing, empty or unreadable, and rows that lack a needed column, are errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.errors import DataError, Fault, closest
from assay.core.plural import plural
from assay.data.readers import EXTENSIONS, ReadOptions, Row, is_data, read
from assay.tasks.scaffold.file_columns import columns_of, listed
from assay.tasks.scaffold.values import Guess, Table, rows_named

_SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_READER = "assay task new"
_SEPARATORS = (";", "\t", "|")
_BUILDERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".txt": "text"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file as it was read.

    Attributes:
        path: the file.
        rows: its rows.
        builder: the kind of file in a task file's `dataset_path`.
        options: further settings for `dataset_kwargs`, such as `sep`.
        remarks: what was found out about the file.
    """

    path: Path
    rows: Sequence[Row]
    builder: str
    options: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def data_suffix(path: Path) -> str:
    """The suffix that says what a file holds; that of a compressed file is before `.gz`."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def read_data_file(path: Path, flag: str = "") -> DataFile:
    """The rows of a file.

    Args:
        path: the file.
        flag: the option that names it, for errors.
    """
    _check_file(path, flag)
    builder = _BUILDERS.get(data_suffix(path), "json")
    rows = _read(path, ReadOptions())
    options: dict[str, str] = {}
    if builder == "json" and len(rows) == 1:
        key = _key_of_rows(rows[0])
        rows = rows if key is None else _read(path, ReadOptions(field=key))
        options = {} if key is None else {"field": key}
    if builder == "csv" and rows and len(rows[0]) == 1:
        separator = next((mark for mark in _SEPARATORS if mark in next(iter(rows[0]))), None)
        rows = rows if separator is None else _read(path, ReadOptions(separator=separator))
        options = {} if separator is None else {"sep": separator}
    if not rows or not any(rows):
        raise DataError(Fault(str(path), "holds no rows", "a row for each document", "Add rows, with their columns"))
    remarks = tuple(f"{path.name} is read with {key} {value!r}" for key, value in options.items())
    return DataFile(path, rows, builder, options, remarks)


def _read(path: Path, options: ReadOptions) -> list[Row]:
    try:
        return read(path, options, _READER)
    except DataError as error:
        expected = f"a {data_suffix(path)} file in UTF-8"
        advice = "Correct the file, or rename it if it is of another kind"
        faults = [Fault(f.where, f.found, f.expected or expected, f.next or advice) for f in error.faults]
        raise DataError(*faults) from error


def _check_file(path: Path, flag: str) -> None:
    where = f"{flag} {path}".strip()
    if path.is_dir():
        inside = sorted(item.name for item in path.iterdir() if item.is_file() and is_data(item))
        advice = f"Name one of its files: {', '.join(inside[:3])}" if inside else "Name a file"
        raise DataError(Fault(where, "is a folder", "a data file", advice))
    if not path.exists():
        folder = path.parent if path.parent.is_dir() else None
        near = {item.stem: item.name for item in folder.iterdir() if is_data(item)} if folder else {}
        close = next((f' (did you mean "{near[stem]}"?)' for stem in closest(path.stem, near, 1)), "")
        expected = "a data file: " + ", ".join(EXTENSIONS)
        raise DataError(Fault(where, f"does not exist{close}", expected, "Check its path"))
    if not is_data(path):
        is_sheet = path.suffix.lower() in _SHEETS
        advice = "Save the sheet as CSV" if is_sheet else "Rename it so that its name says what it holds"
        raise DataError(Fault(where, "has no extension of data files", f"one of {', '.join(EXTENSIONS)}", advice))


def _key_of_rows(row: Row) -> str | None:
    """The key of a JSON object that holds the rows; None for an ordinary row."""
    found = [key for key, value in row.items() if _are_rows(value)]
    return (
        found[0] if len(found) == 1 and len(row[found[0]]) > 1 and not any(_is_text(v) for v in row.values()) else None
    )


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 40


def table_of(data: DataFile, training: DataFile | None) -> Table:
    """The rows and columns of a file, and the rows of the training file."""
    return Table(data.path, data.rows, columns_of(data.rows), training.rows if training is not None else ())


def check_rows(table: Table, guess: Guess, training: DataFile | None) -> None:
    """Raises if rows lack a column that the guess needs."""
    faults = [*_lacking(table.path, table.rows, guess)]
    if training is not None:
        faults += _lacking(training.path, training.rows, guess)
    if faults:
        raise DataError(*faults)


def _lacking(path: Path, rows: Sequence[Mapping[str, Any]], guess: Guess) -> Iterator[Fault]:
    optional = {column.name.partition(".")[0] for column in guess.optional}
    for column in guess.used:
        name = column.name if column.is_direct else column.name.partition(".")[0]
        lacking = [place for place, row in enumerate(rows) if name not in row]
        if not lacking or name in optional or column.template:
            continue
        first = lacking[0]
        found = f'{plural(len(lacking), "row lacks", "rows lack")} the column "{name}", of {len(rows):,}'
        has = f"the same columns in every row; this one has {listed(list(map(str, rows[first])))}"
        yield Fault(f"{path}, row {first + 1}", found, has, "Complete these rows or move them to a file of their own")


def remarks_on(table: Table, guess: Guess, training: DataFile | None) -> Iterator[str]:
    """What a user should know about the rows, though the task runs."""
    for column in guess.used:
        empty = column.empty_rows
        if empty and column not in guess.optional and len(empty) < len(column.values):
            yield f"{column.name}: empty in {rows_named(empty)}"
    used = {column.name for column in guess.used}
    for column in table.columns:
        if column.absent and column.is_direct and column.name not in used:
            yield f"{column.name}: {rows_named(column.absent)} without this column, which is not used"
    if guess.kind == "multiple_choice" and guess.majority == 1 and len(table.rows) > 1:
        yield "the right choice is at the same position in all rows, which a model may prefer: see --rotations"
    if guess.is_sorted:
        yield "the rows are sorted by class, so --limit N evaluates few of the classes: say --sample N"
    own = set(map(_written, table.rows))
    if len(own) < len(table.rows):
        yield f"{plural(len(table.rows) - len(own), 'row repeats', 'rows repeat')} an earlier one"
    shared = 0 if training is None else len(own & set(map(_written, training.rows)))
    if shared:
        yield f"{plural(shared, 'row is', 'rows are')} in both files: few-shot examples and training would show answers"


def _written(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)
