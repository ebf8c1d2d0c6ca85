"""The database schema as an ordered list of migrations, and the checks that a file matches it.

A released migration is never changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from assay.core.errors import Fault, StoreError

# Marks the file as an Assay store: the letters "Assy".
APPLICATION_ID = 0x41737379


def _first_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE models (
            id INTEGER PRIMARY KEY,
            digest TEXT NOT NULL UNIQUE,
            fingerprint TEXT NOT NULL
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE responses (
            key BLOB PRIMARY KEY,
            model INTEGER NOT NULL REFERENCES models (id),
            created REAL NOT NULL,
            total REAL,
            is_greedy INTEGER,
            token_count INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            truncated INTEGER NOT NULL,
            extra TEXT
        ) WITHOUT ROWID
        """
    )
    connection.execute(
        """
        CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            status TEXT NOT NULL,
            created REAL NOT NULL,
            finished REAL,
            model INTEGER NOT NULL REFERENCES models (id),
            spec TEXT NOT NULL,
            manifest TEXT NOT NULL,
            summary TEXT
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE failures (
            run TEXT NOT NULL REFERENCES runs (id),
            key BLOB NOT NULL,
            kind TEXT NOT NULL,
            message TEXT NOT NULL,
            retryable INTEGER NOT NULL,
            created REAL NOT NULL
        )
        """
    )
    connection.execute("CREATE INDEX failures_by_run ON failures (run)")


def _fitted_models(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE fitted (
            name TEXT PRIMARY KEY,
            key TEXT NOT NULL,
            created REAL NOT NULL,
            folder TEXT NOT NULL,
            record TEXT NOT NULL
        )
        """
    )
    connection.execute("CREATE INDEX fitted_by_key ON fitted (key)")


def _document_values(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE document_values (
            run TEXT NOT NULL REFERENCES runs (id),
            task TEXT NOT NULL,
            metric TEXT NOT NULL,
            filter TEXT NOT NULL,
            aggregation TEXT NOT NULL,
            documents BLOB NOT NULL,
            "values" BLOB NOT NULL,
            clusters BLOB,
            PRIMARY KEY (run, task, metric, filter)
        )
        """
    )


def _checksums(connection: sqlite3.Connection) -> None:
    # Takes constant time: existing rows keep their bytes and read as NULL.
    connection.execute("ALTER TABLE responses ADD COLUMN checksum INTEGER")


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [
    _first_tables,
    _fitted_models,
    _document_values,
    _checksums,
]

_NEXT = "Update Assay, or choose another --store"
# Probes for the tables that this program reads; a file that claims a schema must have its tables.
_PROBES = (
    "SELECT id, digest, fingerprint FROM models",
    "SELECT key, model, created, total, is_greedy, token_count, prompt_tokens, truncated, extra, checksum"
    " FROM responses",
    "SELECT id, status, created, finished, model, spec, manifest, summary FROM runs",
    "SELECT run, key, kind, message, retryable, created FROM failures",
    "SELECT name, key, created, folder, record FROM fitted",
    'SELECT run, task, metric, filter, aggregation, documents, "values", clusters FROM document_values',
)


def check_identity(connection: sqlite3.Connection, path: str) -> int:
    """The schema version of a store, 0 for an empty file; another program's file is an error."""
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if found != APPLICATION_ID and tables:
        expected, advice = "an Assay store or no file", "Choose another --store"
        raise StoreError(Fault(path, "is another program's SQLite file", expected, advice))
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    where, expected = f"store {path}", f"schema {len(MIGRATIONS)} or older"
    if version > len(MIGRATIONS):
        raise StoreError(Fault(where, f"was written by a newer Assay (schema {version})", expected, _NEXT))
    if version < 0 or bool(tables) != bool(version):
        raise StoreError(Fault(where, _version_mismatch(version), f"schema 1 to {len(MIGRATIONS)}", _restore(path)))
    return version


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Migrates the tables to the current schema and checks that they exist."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    try:
        for number in range(version, len(MIGRATIONS)):
            _migrate_once(connection, number)
        for probe in _PROBES:
            connection.execute(f"{probe} LIMIT 0")
    except sqlite3.OperationalError as error:
        if not str(error).startswith(("no such", "duplicate column", "table ")):
            raise
        found = f"{_version_mismatch(version)}: {error}"
        raise StoreError(Fault(f"store {path}", found, f"the tables of schema {version}", _restore(path))) from error


def _migrate_once(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        MIGRATIONS[number](connection)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version_mismatch(version: int) -> str:
    return f"claims schema {version}, which its tables do not match"


def _restore(path: str) -> str:
    return f"The version in the file is wrong. Restore a backup, or move the file away: mv {path} …"
