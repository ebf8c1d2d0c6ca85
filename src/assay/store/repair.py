"""Repairs a store: drops unreadable rows, or copies the readable rows of a damaged file into a new one.

The original file is preserved beside the repaired one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import Fault, StoreError
from assay.store.database import Database
from assay.store.integrity import TABLES, CheckedTable, StoreCheck, check_store
from assay.store.response_table import COLUMNS, SELECTED, row_fault
from assay.store.salvage import scan_keys, scan_table

_RUN_TABLES = ("document_values", "failures")
_FILE_SUFFIXES = ("", "-wal", "-shm", ".lock")


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Result of a repair.

    Attributes:
        backup: the copy of the original file.
        dropped: table → number of dropped rows.
        is_rebuilt: whether the file was damaged and its readable rows were copied into a new one.
    """

    backup: str
    dropped: dict[str, int]
    is_rebuilt: bool


def repair_store(found: StoreCheck) -> RepairReport:
    """Repairs what a check found; the next run requests dropped answers again."""
    backup = _free_name(f"{found.path}.{'damaged' if found.damage else 'backup'}-{time.strftime('%Y%m%d-%H%M%S')}")
    if found.damage and not any(table.rows for table in found.tables):
        advice = f"Restore a backup, or move the file away: mv {found.path} {backup}"
        raise StoreError(Fault(f"store {found.path}", "no row of it can be read", next=advice))
    (_rebuild if found.damage else _drop_broken)(found, backup)
    left = {table.name: table.rows for table in check_store(found.path).tables}
    dropped = {table.name: table.rows - left[table.name] for table in found.tables}
    return RepairReport(backup, {name: count for name, count in dropped.items() if count}, bool(found.damage))


def _free_name(name: str) -> str:
    """The name, with a number appended if a repair in the same second has taken it."""
    numbered = (f"{name}-{number}" for number in range(2, 1000))
    return next(free for free in (name, *numbered) if not Path(free).exists())


def _drop_broken(found: StoreCheck, backup: str) -> None:
    """Drops rows in one transaction, after a copy of the whole file."""
    database = Database(found.path).open()
    try:
        database.copy_to(backup)
        database.read("PRAGMA foreign_keys = OFF")  # answers of a model whose record is lost are preserved
        with database.write() as connection:
            for table in found.tables:
                column = "key" if table.name == "responses" else "rowid"
                row_keys = [(row.row_key,) for row in table.broken]
                connection.executemany(f"DELETE FROM {table.name} WHERE {column} = ?", row_keys)
            _drop_orphans(connection)
    finally:
        database.close()


def _rebuild(found: StoreCheck, backup: str) -> None:
    """Copies every valid row into a new file, which then replaces the damaged one."""
    made = f"{found.path}.repaired"
    for ending in _FILE_SUFFIXES:
        Path(made + ending).unlink(missing_ok=True)
    database = Database(made).open()
    try:
        database.read("PRAGMA foreign_keys = OFF")
        with Database(found.path).open_for_inspection() as source, database.write() as target:
            _copy_responses(source, target)
            for table in found.tables:
                if table.name != "responses":
                    _copy_table(source, target, table)
            _drop_orphans(target)
    finally:
        database.close()
    # The damaged file stays in place until the new one replaces it atomically.
    os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # private before it holds a byte
    shutil.copy2(found.path, backup)
    shutil.copymode(found.path, made)
    for ending in ("-wal", "-shm"):
        if Path(found.path + ending).exists():
            Path(found.path + ending).replace(backup + ending)
    Path(made).replace(found.path)
    Path(f"{made}.lock").unlink()


def _drop_orphans(connection: sqlite3.Connection) -> None:
    """Drops runs without a model, and rows that belong to a missing run."""
    connection.execute("DELETE FROM runs WHERE model NOT IN (SELECT id FROM models)")
    for name in _RUN_TABLES:
        connection.execute(f"DELETE FROM {name} WHERE run NOT IN (SELECT id FROM runs)")


def _copy_responses(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    has_checksums = source.execute("PRAGMA user_version").fetchone()[0] > 3
    columns, marks = ",".join(COLUMNS), ",".join("?" * len(COLUMNS))
    selected = f"{SELECTED},{columns}"
    selected = selected if has_checksums else selected.replace("checksum", "NULL")
    width = len(SELECTED.split(","))
    sound = (row[width:] for row in scan_keys(source, selected) if not row_fault(row[:width]))
    target.executemany(f"INSERT OR IGNORE INTO responses ({columns}) VALUES ({marks})", sound)


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: CheckedTable) -> None:
    columns, broken = TABLES[table.name], {row.row_key for row in table.broken}
    marks = ",".join("?" * (1 + len(columns.split(","))))
    sound = (row for row in scan_table(source, table.name, columns) if row[0] not in broken)
    # With their rowids: the newest run is the one recorded last.
    target.executemany(f"INSERT OR IGNORE INTO {table.name} (rowid, {columns}) VALUES ({marks})", sound)
