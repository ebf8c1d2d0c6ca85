"""Responses by key, and the writer that keeps each one as soon as it is there.

Failures never come here: a resumed run asks them again.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from types import TracebackType
from typing import Any

from assay.core.fingerprints import Fingerprint
from assay.core.responses import Logprob, Output, Response, flatten, unflatten
from assay.store.database import Database

# SQLite takes 32,766 values in a statement since version 3.32, and 999 before.
_VALUES_PER_STATEMENT = 32_000 if sqlite3.sqlite_version_info >= (3, 32) else 990
_ROWS_PER_COMMIT = 20_000
# How long answers may wait for more of them, unless someone waits for the commit. Each commit takes the interpreter
# lock from a fast model a dozen times.
_SECONDS_TO_GATHER = 0.05
# Rows per INSERT. Few sizes, because the connection keeps a statement of every size it has seen, and one of a
# thousand rows takes half a megabyte.
_STATEMENT_SIZES = tuple(size for size in (1, 8, 64, 512, 2048) if size * 9 <= _VALUES_PER_STATEMENT)
_COLUMNS = ("key", "model", "created", "total", "is_greedy", "token_count", "prompt_tokens", "truncated", "extra")
_SELECTED = "key, total, is_greedy, token_count, prompt_tokens, truncated, extra"


class Responses:
    """The table of responses. Satisfies the `ResponseStore` protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._models: dict[str, int] = {}

    def known(self, keys: Iterable[bytes]) -> set[bytes]:
        """Which of these keys have a response."""
        found: set[bytes] = set()
        if not self._database.read("SELECT 1 FROM responses LIMIT 1"):
            return found
        for chunk in _chunks(list(keys)):
            marks = ",".join("?" * len(chunk))
            rows = self._database.read(f"SELECT key FROM responses WHERE key IN ({marks})", chunk)
            found.update(row[0] for row in rows)
        return found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Output]:
        """The outputs of these keys; keys without one are left out."""
        found: dict[bytes, Output] = {}
        for chunk in _chunks(keys):
            marks = ",".join("?" * len(chunk))
            rows = self._database.read(f"SELECT {_SELECTED} FROM responses WHERE key IN ({marks})", chunk)
            for key, *flat in rows:
                found[key] = unflatten(tuple(flat))
        return found

    def put(self, responses: Sequence[Response], fingerprint: Fingerprint) -> None:
        """Keeps responses of one model; the first response of a key stays."""
        model = self.model_id(fingerprint)
        now = time.time()
        plain: list[Any] = []
        full: list[Any] = []
        # In the order of their keys, which are hashes, the rows of a batch meet every page of the tree once.
        for key, output in sorted(responses, key=itemgetter(0)):
            # A bytearray, because sqlite3 asks every other type, bytes too, how it wants to be adapted.
            if (
                type(output) is Logprob and not output.notes and output.windows is None
            ):  # as `flatten` has it, in half the time
                greedy = 1 if output.is_greedy else 0
                plain += (bytearray(key), model, now, output.total, greedy)
                plain += (output.token_count, output.prompt_tokens, output.truncated)
            else:
                full += (bytearray(key), model, now, *flatten(output))
        with self._database.write(len(responses)) as connection:
            _insert(connection, _COLUMNS[:-1], plain)
            _insert(connection, _COLUMNS, full)

    def model_id(self, fingerprint: Fingerprint) -> int:
        """The number of a model in this file; it is added when new."""
        digest = fingerprint.digest
        if digest not in self._models:
            text = json.dumps(fingerprint.to_json(), sort_keys=True, default=str)
            with self._database.write() as connection:
                connection.execute("INSERT OR IGNORE INTO models (digest, fingerprint) VALUES (?, ?)", (digest, text))
            self._models[digest] = self._database.read("SELECT id FROM models WHERE digest = ?", (digest,))[0][0]
        return self._models[digest]

    def count(self) -> int:
        """Responses in the file."""
        return int(self._database.read("SELECT count(*) FROM responses")[0][0])


def _insert(connection: sqlite3.Connection, columns: tuple[str, ...], values: list[Any]) -> None:
    """Inserts rows whose values stand in one list.

    Many rows per statement: the interpreter lock changes hands once per statement, not once per row. A statement with
    room to spare repeats the last row, which the table then ignores.
    """
    width, most = len(columns), _STATEMENT_SIZES[-1]
    for start in range(0, len(values), most * width):
        part = values[start : start + most * width]
        rows = len(part) // width
        size = next(size for size in _STATEMENT_SIZES if size >= rows)
        connection.execute(_statement(columns, size), part + part[-width:] * (size - rows))


@lru_cache(maxsize=16)
def _statement(columns: tuple[str, ...], rows: int) -> str:
    marks = ",".join([f"({','.join('?' * len(columns))})"] * rows)
    return f"INSERT OR IGNORE INTO responses ({','.join(columns)}) VALUES {marks}"


def _chunks(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _VALUES_PER_STATEMENT):
        yield keys[start : start + _VALUES_PER_STATEMENT]


class ResponseWriter:
    """Commits responses from a thread of its own while the model goes on.

    Whatever has gathered during one commit, or in a twentieth of a second, goes into the next, so a slow model's
    answers are committed one by one, and a fast model's thousands at a time; `settle` does not wait for more. Use as
    a context manager; leaving it waits for the last commit. An error of the thread is raised by the next `put` or
    `settle`, or on leaving.
    """

    def __init__(self, responses: Responses, fingerprint: Fingerprint) -> None:
        self._responses = responses
        self._fingerprint = fingerprint
        self._queue: queue.SimpleQueue[Sequence[Response] | threading.Event | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._error: Exception | None = None
        self._handed = 0
        self._committed = 0
        self._thread = threading.Thread(target=self._work, name="assay-store-writer", daemon=True)

    def put(self, responses: Sequence[Response]) -> None:
        """Hands responses over."""
        if self._error is not None:
            raise self._error
        self._handed += len(responses)
        self._queue.put(responses)

    @property
    def is_idle(self) -> bool:
        """Whether everything handed over so far is committed."""
        return self._handed == self._committed

    def settle(self) -> None:
        """Waits until everything handed over so far is committed."""
        reached = threading.Event()
        self._hurry.set()
        self._queue.put(reached)
        reached.wait()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> ResponseWriter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hurry.set()
        self._queue.put(None)
        self._thread.join()
        if self._error is not None and kind is None:
            raise self._error

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch: list[Response] = []
            mark = self._gather(batch)
            is_open = mark is not None
            if batch and self._error is None:
                try:
                    self._responses.put(batch, self._fingerprint)
                except Exception as error:  # handed to the main thread, which raises it
                    self._error = error
            self._committed += len(batch)
            if isinstance(mark, threading.Event):
                self._hurry.clear()
                mark.set()

    def _gather(self, batch: list[Response]) -> threading.Event | bool | None:
        """Waits for responses and takes all that are there, up to a mark to settle, which it gives.

        True when there is more to come without a mark, None after the last one.
        """
        item = self._queue.get()
        if item is not None and not isinstance(item, threading.Event):
            self._hurry.wait(_SECONDS_TO_GATHER)
        while item is not None and not isinstance(item, threading.Event):
            batch.extend(item)
            if len(batch) >= _ROWS_PER_COMMIT or self._queue.empty():
                return True
            item = self._queue.get()
        return item
