"""Responses by key: their rows with checksums, the table, and the writer that commits them as they arrive.

Failures are not stored here: a resumed run requests them again. Rows of stores without checksums (schema 3 and earlier)
are validated by types and ranges.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from types import TracebackType
from typing import Any
from zlib import crc32

from assay.core.errors import AssayError
from assay.core.identity import Fingerprint
from assay.core.interrupts import defer_signals
from assay.core.output_checks import OUTPUT_CLASSES, is_valid_output, matches_request
from assay.core.requests import Request
from assay.core.responses import FlatOutput, Logprob, Output, Response, Text, flatten, unflatten
from assay.core.secrets import without_known
from assay.store.database import Database, decode_leniently

COLUMNS = (
    "key",
    "model",
    "created",
    "total",
    "is_greedy",
    "token_count",
    "prompt_tokens",
    "truncated",
    "checksum",
    "extra",
)
SELECTED = "key, total, is_greedy, token_count, prompt_tokens, truncated, extra, checksum"

WRONG_CHECKSUM = "checksum differs: the row has changed since it was written"
WRONG_VALUES = "values of the wrong type or out of range"
WRONG_KIND = "not the kind of answer that its request needs"

_pack_likelihood = struct.Struct("<32sdqqqq").pack
_pack_other = struct.Struct("<32sqqq").pack
# Errors of packing and encoding values of another type.
_NOT_PACKED = (struct.error, TypeError, ValueError, AttributeError)
# `+ 0.0` below, because SQLite stores whole numbers as integers, which have no -0.0.
# A signed checksum takes four bytes in the file; of unsigned ones, half would take six.
_MIDDLE = 2**31

# SQLite accepts 32,766 values per statement since version 3.32, and 999 before.
_VALUES_PER_STATEMENT = 32_000 if sqlite3.sqlite_version_info >= (3, 32) else 990
_ROWS_PER_COMMIT = 20_000
# How long answers may wait to be batched, unless a caller waits for the commit. Each commit takes the GIL from a fast
# model a dozen times.
_SECONDS_TO_GATHER = 0.05
_MOST_AT_HAND = 500_000
# Rows per INSERT. Few sizes, because the connection caches a statement of every size it has seen, and one of a
# thousand rows takes half a megabyte.
_STATEMENT_SIZES = tuple(size for size in (1, 8, 64, 512, 2048) if size * len(COLUMNS) <= _VALUES_PER_STATEMENT)


def checksum(key: bytes, flat: FlatOutput) -> int:
    """CRC-32 of a response's key and values. It detects every single flipped bit, including in the key."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = flat
    if total is None:
        found = crc32(_pack_other(key, token_count, prompt_tokens, truncated))
    else:
        found = crc32(_pack_likelihood(key, total + 0.0, is_greedy, token_count, prompt_tokens, truncated))
    return (found if extra is None else crc32(extra.encode("ascii"), found)) - _MIDDLE


def plain_row(key: bytes, model: int, now: float, output: Logprob) -> tuple[Any, ...]:
    """The row of a log-probability without extras: the same as by `flatten` and `checksum`, in half the time."""
    total, greedy = output.total, 1 if output.is_greedy else 0
    counts = output.token_count, output.prompt_tokens, output.truncated
    found = crc32(_pack_likelihood(key, total + 0.0, greedy, *counts)) - _MIDDLE
    # A bytearray, because sqlite3 looks up an adapter for every other type, including bytes.
    return bytearray(key), model, now, total, greedy, *counts, found


def full_row(key: bytes, model: int, now: float, output: Output) -> tuple[Any, ...]:
    """The row of any output."""
    *numbers, extra = flat = flatten(output)
    return bytearray(key), model, now, *numbers, checksum(key, flat), extra


def row_fault(row: Sequence[Any], request: Request | None = None) -> str:
    """Why a row, as read by `SELECTED`, cannot be used for its request; empty for a valid row."""
    key, total, is_greedy, token_count, prompt_tokens, truncated, extra, stored = row
    try:
        if extra is None and stored is not None:  # nearly every row
            found = crc32(_pack_likelihood(key, total, is_greedy, token_count, prompt_tokens, truncated)) - _MIDDLE
        else:
            found = checksum(key, row[1:7])  # type: ignore[arg-type]
    except _NOT_PACKED:
        return WRONG_VALUES
    if stored != found:
        if stored is not None:
            return WRONG_CHECKSUM
        if not _is_sound(row[1:7]):  # type: ignore[arg-type]
            return WRONG_VALUES
    return "" if request is None or _row_matches_request(row, request) else WRONG_KIND


def _row_matches_request(row: Sequence[Any], request: Request) -> bool:
    wanted = OUTPUT_CLASSES[request.kind]
    if row[1] is not None:
        return wanted is Logprob
    if wanted is Text and row[6] is not None and row[6].startswith('{"text"'):
        return True
    return matches_request(read_output(row[1:7]), request)


def read_output(flat: Sequence[Any]) -> Output:
    """The output of a valid row."""
    return unflatten(flat)  # type: ignore[arg-type]


def _is_sound(flat: FlatOutput) -> bool:
    """Whether values without a checksum form an output with everything in its range."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = flat
    if total is not None and is_greedy not in (0, 1):
        return False
    if total is not None and extra is None:
        return token_count >= 0 and prompt_tokens >= 0 and truncated >= 0
    try:
        return is_valid_output(unflatten(flat))
    except (AssayError, ValueError, TypeError, KeyError, AttributeError):
        return False


class Responses:
    """The table of responses. Satisfies the `ResponseStore` protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._models: dict[str, int] = {}
        self.unreadable: dict[bytes, str] = {}
        self._mended: dict[bytes, str] = {}
        self._at_hand: dict[bytes, Output] = {}

    @property
    def notices(self) -> list[str]:
        """Problems found while reading, by count and reason."""
        faults = {**self._mended, **self.unreadable}
        if not faults:
            return []
        count, reasons = len(faults), Counter(faults.values())
        reasons_text = "; ".join(f"{reason} ({number:,})" for reason, number in reasons.items())
        noun = (
            "1 stored answer cannot be read and counts"
            if count == 1
            else f"{count:,} stored answers cannot be read and count"
        )
        where = f"assay store check --store {self._database.path}"
        return [f"{noun} as missing, to be requested again: {reasons_text}. See: {where}"]

    def known(self, keys: Iterable[bytes]) -> set[bytes]:
        """The keys that have a readable response.

        Args:
            keys: the keys; with a mapping from keys to requests, each answer's kind is checked too.
        """
        found: set[bytes] = set()
        if not self._database.read("SELECT 1 FROM responses LIMIT 1"):
            return found
        requests: Mapping[bytes, Request] = keys if isinstance(keys, Mapping) else {}
        for row in self._rows(list(keys)):
            key = row[0]
            if fault := row_fault(row, requests.get(key)):
                self.unreadable[key] = fault
            else:
                found.add(key)
                # Callers read known answers next: rows are read and checked once.
                if len(self._at_hand) < _MOST_AT_HAND:
                    self._at_hand[key] = read_output(row[1:7])
        return found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Output]:
        """The outputs of these keys; keys without a readable one are left out."""
        found: dict[bytes, Output] = {}
        if self._at_hand:
            found = {key: self._at_hand.pop(key) for key in keys if key in self._at_hand}
            keys = [key for key in keys if key not in found]
        for row in self._rows(keys):
            key = row[0]
            if fault := row_fault(row):
                self.unreadable[key] = fault
            elif self.unreadable.get(key) != WRONG_KIND:
                found[key] = read_output(row[1:7])
        return found

    def _rows(self, keys: Sequence[bytes]) -> Iterator[Any]:
        for chunk in _chunks(keys):
            marks = ",".join("?" * len(chunk))
            yield from self._database.read(f"SELECT {SELECTED} FROM responses WHERE key IN ({marks})", chunk)

    def put(self, responses: Sequence[Response], fingerprint: Fingerprint) -> None:
        """Stores responses of one model; the first response of a key stays, unless it cannot be read."""
        model = self.model_id(fingerprint)
        now = time.time()
        plain: list[Any] = []
        full: list[Any] = []
        # In the order of their keys, which are hashes, the rows of a batch touch every page of the tree once.
        for key, output in sorted(responses, key=itemgetter(0)):
            if type(output) is Logprob and not output.notes and output.windows is None:
                plain += plain_row(key, model, now, output)
            else:
                full += full_row(key, model, now, output)
        broken = list({key for key, _ in responses if key in self.unreadable}) if self.unreadable else []
        with self._database.write(len(responses)) as connection:
            if broken:
                _drop(connection, broken, self.unreadable)
            _insert(connection, COLUMNS[:-1], plain)
            _insert(connection, COLUMNS, full)
        for key in broken:
            self._mended[key] = self.unreadable.pop(key)

    def remove(self, keys: Sequence[bytes]) -> None:
        """Deletes the responses of these keys, so that they are requested again."""
        for key in keys:
            self._at_hand.pop(key, None)
        with self._database.write(len(keys)) as connection:
            connection.executemany("DELETE FROM responses WHERE key = ?", [(key,) for key in keys])

    def model_id(self, fingerprint: Fingerprint) -> int:
        """The number of a model in this file; new models are added."""
        digest = fingerprint.digest
        if digest not in self._models:
            text = without_known(json.dumps(fingerprint.to_json(), sort_keys=True, default=str))
            with self._database.write() as connection:
                connection.execute("INSERT OR IGNORE INTO models (digest, fingerprint) VALUES (?, ?)", (digest, text))
            self._models[digest] = self._database.read("SELECT id FROM models WHERE digest = ?", (digest,))[0][0]
        return self._models[digest]

    def count(self) -> int:
        """Number of responses in the file."""
        return int(self._database.read("SELECT count(*) FROM responses")[0][0])


def _drop(connection: sqlite3.Connection, keys: Sequence[bytes], faults: Mapping[bytes, str]) -> None:
    """Deletes unreadable rows, so that new ones replace them; not those that another process has replaced already."""
    connection.text_factory = decode_leniently
    for key in keys:
        row = connection.execute(f"SELECT {SELECTED} FROM responses WHERE key = ?", (key,)).fetchone()
        if row is not None and (row_fault(row) or faults[key] == WRONG_KIND):
            connection.execute("DELETE FROM responses WHERE key = ?", (key,))
    connection.text_factory = str


def _insert(connection: sqlite3.Connection, columns: tuple[str, ...], values: list[Any]) -> None:
    """Inserts rows whose values are in one flat list.

    Many rows per statement: the GIL changes hands once per statement, not once per row. A statement that is not full
    repeats the last row, which the table then ignores.
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
    """Commits responses from its own thread while the model continues.

    Responses that arrive within a twentieth of a second after a commit go into the next, so a slow model's answers are
    committed at once, one by one, and a fast model's thousands at a time; `flush` does not wait for more. Use as
    a context manager; leaving it waits for the last commit. An error of the thread is raised by the next `put` or
    `flush`, or on leaving.
    """

    def __init__(self, responses: Responses, fingerprint: Fingerprint) -> None:
        self._responses = responses
        self._fingerprint = fingerprint
        self._queue: queue.SimpleQueue[Sequence[Response] | threading.Event | None] = queue.SimpleQueue()
        self._flush_requested = threading.Event()
        self._error: Exception | None = None
        self._submitted = 0
        self._committed = 0
        self._earliest = 0.0  # when the next commit may begin
        self._thread = threading.Thread(target=self._work, name="assay-store-writer", daemon=True)

    def put(self, responses: Sequence[Response]) -> None:
        """Queues responses."""
        if self._error is not None:
            raise self._error
        self._submitted += len(responses)
        self._queue.put(responses)

    @property
    def is_idle(self) -> bool:
        """Whether everything queued so far is committed."""
        return self._submitted == self._committed

    def flush(self) -> None:
        """Waits until everything queued so far is committed."""
        reached = threading.Event()
        self._flush_requested.set()
        self._queue.put(reached)
        reached.wait()
        if self._error is not None:
            raise self._error

    def discard(self, keys: Sequence[bytes]) -> None:
        """Removes queued responses from the store again."""
        self.flush()
        self._responses.remove(keys)

    def __enter__(self) -> ResponseWriter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with defer_signals():  # answers are committed, however often Ctrl-C is pressed
            self._flush_requested.set()
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
                except Exception as error:  # passed to the main thread, which raises it
                    self._error = error
            self._committed += len(batch)
            self._earliest = time.monotonic() + _SECONDS_TO_GATHER
            if isinstance(mark, threading.Event):
                self._flush_requested.clear()
                mark.set()

    def _gather(self, batch: list[Response]) -> threading.Event | bool | None:
        """Waits for responses and takes all that are queued, up to a flush marker, which it returns.

        True if there is more to come without a marker, None after the last one.
        """
        item = self._queue.get()
        if item is not None and not isinstance(item, threading.Event):
            self._flush_requested.wait(max(0.0, self._earliest - time.monotonic()))
        while item is not None and not isinstance(item, threading.Event):
            batch.extend(item)
            if len(batch) >= _ROWS_PER_COMMIT or self._queue.empty():
                return True
            item = self._queue.get()
        return item
