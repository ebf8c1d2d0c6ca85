"""The tables, as an ordered list of migrations. A migration is never changed once it has been released."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

# Marks the file as ours: the letters "Assy".
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


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_first_tables, _fitted_models, _document_values]
