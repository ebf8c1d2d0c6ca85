"""Checks a whole store: SQLite's own integrity check, then every row and its checksum.

In: the store's file. Out: the contents of each table, and the rows that cannot be read; nothing is changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, StoreError
from assay.store.database import Database
from assay.store.migrations import check_identity
from assay.store.response_table import SELECTED, row_fault
from assay.store.run_records import read_record, read_values
from assay.store.salvage import scan_keys, scan_table
from assay.store.trained_models import read_fitted

_MOST_DAMAGE_LINES = 20
# Per table the columns to read, the row's name first.
TABLES = {
    "models": "digest, id, fingerprint",
    "runs": "id, status, created, finished, model, spec, manifest, summary",
    "document_values": 'run, task, metric, filter, aggregation, documents, "values", clusters',
    "failures": "run, key, kind, message, retryable, created",
    "fitted": "name, key, created, folder, record",
}


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that cannot be read.

    Attributes:
        row_key: its key in `responses`, its rowid in another table.
        name: its display name.
        fault: what is wrong with it.
    """

    row_key: bytes | int
    name: str
    fault: str


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """Check result of a table.

    Attributes:
        rows: rows that SQLite could read.
        unchecked: valid rows without a checksum, written before checksums existed.
        broken: rows that cannot be used.
    """

    name: str
    rows: int
    unchecked: int = 0
    broken: tuple[BrokenRow, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """Check result of a store.

    Attributes:
        damage: messages of SQLite's own check; empty for an intact file.
        orphaned_answers: valid answers of a model that the store does not list.
    """

    path: str
    damage: tuple[str, ...]
    tables: tuple[CheckedTable, ...]
    orphaned_answers: int = 0

    @property
    def is_sound(self) -> bool:
        return not self.damage and not any(table.broken for table in self.tables)


def check_store(path: str | Path) -> StoreCheck:
    """Checks a store. A file that is not a store is an error, a damaged one is not."""
    found = str(Path(path).expanduser())
    if not Path(found).exists():
        raise StoreError(Fault(f"store {found}", "the file does not exist", next="Name a store with --store"))
    with Database(found).open_for_inspection() as connection:
        damage = _damage(connection, found)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        selected = SELECTED if version > 3 else SELECTED.replace("checksum", "NULL")  # the column came with schema 4
        models = _check_models(connection)
        known = {row[2] for row in scan_table(connection, "models", TABLES["models"])}
        responses, orphaned_answers = _check_responses(connection, selected, known)
        tables = [
            models,
            *(_check_table(connection, name) for name in ("runs", "document_values", "failures", "fitted")),
        ]
        return StoreCheck(found, damage, (responses, *tables), orphaned_answers)


def _damage(connection: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """Faults that SQLite finds in the file itself. Raises if it is not a store at all."""
    try:
        check_identity(connection, path)
        rows = connection.execute(f"PRAGMA integrity_check({_MOST_DAMAGE_LINES})").fetchall()
        return tuple(line for row in rows for line in str(row[0]).splitlines() if line != "ok")
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise
        return (str(error),)


def _check_responses(connection: sqlite3.Connection, selected: str, models: set[int]) -> tuple[CheckedTable, int]:
    count = unchecked = orphaned_answers = 0
    broken: list[BrokenRow] = []
    for *row, model in scan_keys(connection, f"{selected}, model"):
        count += 1
        if fault := row_fault(row):
            broken.append(BrokenRow(row[0], f"key {bytes(row[0]).hex()[:16]}…", fault))
        else:
            unchecked += row[-1] is None
            orphaned_answers += model not in models
    return CheckedTable("responses", count, unchecked, tuple(broken)), orphaned_answers


def _check_models(connection: sqlite3.Connection) -> CheckedTable:
    return _checked(connection, "models", lambda row: json.loads(row[2])["digest"] == row[0] or "its digest differs")


def _check_table(connection: sqlite3.Connection, name: str) -> CheckedTable:
    prints = {row[2]: row[3] for row in scan_table(connection, "models", TABLES["models"])}
    runs = {row[1] for row in scan_table(connection, "runs", "id")}

    def check_run(row: Sequence[Any]) -> object:
        if row[4] not in prints:
            return "its model is missing"
        return read_record((*row[:4], prints[row[4]], *row[5:]))

    def check_failure(row: Sequence[Any]) -> object:
        is_typed = isinstance(row[1], bytes) and isinstance(row[2], str) and isinstance(row[3], str)
        return is_typed or "values of the wrong type"

    readers: dict[str, Callable[[Sequence[Any]], object]] = {
        "runs": check_run,
        "document_values": read_values,
        "failures": check_failure,
        "fitted": read_fitted,
    }
    read, belongs = readers[name], name in ("document_values", "failures")
    return _checked(connection, name, lambda row: "its run is missing" if belongs and row[0] not in runs else read(row))


def _checked(connection: sqlite3.Connection, name: str, read: Callable[[Sequence[Any]], object]) -> CheckedTable:
    """Reads every row of a table; `read` reports a problem by a text or an exception."""
    count = 0
    broken: list[BrokenRow] = []
    for row_key, *row in scan_table(connection, name, TABLES[name]):
        count += 1
        try:
            outcome = read(row)
            fault = outcome if isinstance(outcome, str) else ""
        except Exception as error:  # a damaged value may raise anything
            fault = str(error)
        if fault:
            broken.append(BrokenRow(row_key, str(row[0]), fault))
    return CheckedTable(name, count, 0, tuple(broken))
