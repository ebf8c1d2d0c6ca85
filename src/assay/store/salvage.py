"""Reads every readable row around damaged pages: SQLite itself stops at the first damaged one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

_BYTES = [bytes([number]) for number in range(256)]
_DEEPEST = 3
_MAX_ROWIDS = 1_000_000


def scan_keys(connection: sqlite3.Connection, columns: str) -> Iterator[Sequence[Any]]:
    """The rows of `responses`, by key ranges; a range that cannot be read is split until its rows are found."""
    yield from _scan_prefix(connection, f"SELECT {columns} FROM responses WHERE key >= ? AND key < ?", b"")


def _scan_prefix(connection: sqlite3.Connection, query: str, prefix: bytes) -> Iterator[Sequence[Any]]:
    failed: list[bytes] = []
    for byte in _BYTES:
        low, high = prefix + byte, prefix + byte + b"\xff" * 40
        rows = _fetched(connection, query, (low if low != b"\x00" else b"", high))
        if rows is None:
            failed.append(low)
        else:
            yield from rows
    # If nothing at all is found, the damage is higher up in the tree: splitting further would not help.
    if len(prefix) + 1 < _DEEPEST and len(failed) < len(_BYTES):
        for low in failed:
            yield from _scan_prefix(connection, query, low)


def scan_table(connection: sqlite3.Connection, table: str, columns: str) -> Iterator[Sequence[Any]]:
    """The rows of another table, each with its `rowid` first; one by one if they cannot be read together."""
    query = f"SELECT rowid, {columns} FROM {table}"
    rows = _fetched(connection, query, ())
    if rows is not None:
        yield from rows
        return
    last = _fetched(connection, f"SELECT max(rowid) FROM {table}", ())
    for rowid in range(1, min(last[0][0] or 0, _MAX_ROWIDS) + 1 if last else 0):
        yield from _fetched(connection, f"{query} WHERE rowid = ?", (rowid,)) or ()


def _fetched(connection: sqlite3.Connection, query: str, values: Sequence[Any]) -> list[Any] | None:
    """The rows of a query; None if SQLite cannot read them."""
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.DatabaseError:
        return None
