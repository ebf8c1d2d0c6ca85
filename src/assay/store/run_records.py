"""Run records: created first, marked finished last, with the failures and the per-document values of a run.

Document values are what comparing runs needs. One row per task, metric and pipeline, lists as JSON compressed by zlib:
ten thousand documents take a few milliseconds and kilobytes.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, StoreError, UnknownName, unknown_name
from assay.core.identity import Fingerprint
from assay.core.plural import plural
from assay.core.responses import Failure
from assay.core.scores import DocumentValues
from assay.core.secrets import redacted, redacted_text, without_known
from assay.store.database import Database
from assay.store.response_table import Responses

RUNNING, FINISHED, INCOMPLETE, INTERRUPTED, FAILED = "running", "finished", "incomplete", "interrupted", "failed"

_LAST = re.compile(r"last(?:~(\d{1,9}))?")
_RUNS_LOOKED_AT, _RUNS_MEASURED = 20, 5
_INSERT_VALUES = "INSERT OR REPLACE INTO document_values VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_VALUES = (
    'SELECT run, task, metric, filter, aggregation, documents, "values", clusters FROM document_values WHERE run = ?'
)
_FASTEST = 1


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A recorded run.

    Attributes:
        status: `running` (or killed), `finished`, `incomplete` (some requests failed), `interrupted`, `failed`.
        fingerprint: the model's fingerprint; its digest is part of the keys of the answers.
        summary: results and measured speed; None until the run ends.
    """

    id: str
    status: str
    created: float
    finished: float | None
    fingerprint: Fingerprint
    spec: Mapping[str, Any]
    manifest: Mapping[str, Any]
    summary: Mapping[str, Any] | None

    @property
    def model(self) -> str:
        """The model's name."""
        return self.fingerprint.name

    @property
    def parent(self) -> str | None:
        """The run whose answers this one rescored; None for an original run."""
        return self.manifest.get("parent")

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """Task → its entry in the manifest."""
        found: Mapping[str, Mapping[str, Any]] = self.manifest.get("tasks", {})
        return found

    def numbers(self, task: str) -> Mapping[str, Any]:
        """A task's recorded numbers; empty for a run that did not finish."""
        found: Mapping[str, Any] = (self.summary or {}).get("tasks", {}).get(task, {})
        return found


class Runs:
    """The table of runs."""

    def __init__(self, database: Database, responses: Responses) -> None:
        self._database = database
        self._responses = responses

    def begin(self, fingerprint: Fingerprint, spec: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
        """Adds a record and returns its id, which sorts by time."""
        model = self._responses.model_id(fingerprint)
        now = time.time()
        run_id = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + "-" + secrets.token_hex(3)
        row = (run_id, RUNNING, now, None, model, _json(redacted(spec)), _json(manifest), None)
        with self._database.write() as connection:
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return run_id

    def describe(self, run_id: str, manifest: Mapping[str, Any]) -> None:
        """Updates the manifest of a record: the documents of a run with early stopping are known only at the end."""
        with self._database.write() as connection:
            connection.execute("UPDATE runs SET manifest = ? WHERE id = ?", (_json(manifest), run_id))

    def end(
        self,
        run_id: str,
        status: str,
        summary: Mapping[str, Any],
        values: Sequence[DocumentValues] = (),
    ) -> None:
        """Marks a run as ended, and stores its document values in the same transaction."""
        rows = [_values_row(run_id, kept) for kept in values]
        with self._database.write(1 + len(rows)) as connection:
            connection.executemany(_INSERT_VALUES, rows)
            connection.execute(
                "UPDATE runs SET status = ?, finished = ?, summary = ? WHERE id = ?",
                (status, time.time(), _json(summary), run_id),
            )

    def abandon(self, run_id: str, status: str) -> None:
        """Marks a run that did not finish; a finished one keeps its results."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, finished = ? WHERE id = ? AND status = ?",
                (status, time.time(), run_id, RUNNING),
            )

    def add_failures(self, run_id: str, failures: Iterable[tuple[bytes, Failure]]) -> None:
        """Records failed requests of the run."""
        now = time.time()
        rows = [(run_id, key, f.kind, redacted_text(f.message), int(f.retryable), now) for key, f in failures]
        with self._database.write(len(rows)) as connection:
            connection.executemany("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", rows)

    def all(self) -> list[RunRecord]:
        """Every readable run, most recently recorded first."""
        found, broken = [], []
        for row in self._database.read(_SELECT + _NEWEST_FIRST):
            try:
                found.append(read_record(row))
            except StoreError:
                broken.append(str(row[0]))
        if broken:
            message = (
                "1 run cannot be read and is" if len(broken) == 1 else f"{len(broken)} runs cannot be read and are"
            )
            self._database.notices.append(f"{message} left out: {', '.join(broken)}. See: assay store check")
        return found

    def get(self, run_id: str) -> RunRecord:
        """The run with this id, or the only one whose id starts so; `last` is the newest, `last~1` the one before."""
        if found := _LAST.fullmatch(run_id):
            return self._newest(int(found.group(1) or 0))
        rows = self._database.read(_SELECT + " WHERE substr(runs.id, 1, ?) = ?", (len(run_id), run_id))
        exact = [row for row in rows if row[0] == run_id] or rows
        if not exact:
            raise unknown_name("run", run_id, [record.id for record in self.all()])
        if len(exact) > 1:
            raise UnknownName(
                Fault(f"run {run_id}", f"matches {plural(len(exact), 'run')}", "more of its id", "See: assay ls runs")
            )
        return read_record(exact[0])

    def _newest(self, back: int) -> RunRecord:
        rows = self._database.read(f"{_SELECT}{_NEWEST_FIRST} LIMIT 1 OFFSET ?", (back,))
        if not rows:
            count = self._database.read("SELECT count(*) FROM runs")[0][0]
            found = f"holds {plural(count, 'run')}" if count else "holds no runs"
            raise UnknownName(Fault(f"store {self._database.path}", found, next="See: assay ls runs"))
        return read_record(rows[0])

    def speed(self, fingerprint: Fingerprint, unit: str = "work") -> float | None:
        """The model's speed per second in its latest runs; None if none of them measured this unit.

        Args:
            fingerprint: the model.
            unit: `work`, in characters, or `operations`.
        """
        rows = self._database.read(
            "SELECT runs.summary FROM runs JOIN models ON models.id = runs.model"
            f" WHERE models.digest = ? AND runs.summary IS NOT NULL{_NEWEST_FIRST} LIMIT ?",
            (fingerprint.digest, _RUNS_LOOKED_AT),
        )
        measured = [_speed(row[0]) for row in rows]
        # Runs that found every answer in the store measured nothing.
        used = [item for item in measured if item.get(unit, 0) > 0 and item.get("seconds", 0) > 0][:_RUNS_MEASURED]
        return sum(item[unit] for item in used) / sum(item["seconds"] for item in used) if used else None


# In recording order: a machine's clock may go back.
_NEWEST_FIRST = " ORDER BY runs.rowid DESC"
_SELECT = (
    "SELECT runs.id, runs.status, runs.created, runs.finished, models.fingerprint, runs.spec, runs.manifest,"
    " runs.summary FROM runs JOIN models ON models.id = runs.model"
)


def read_record(row: Any) -> RunRecord:
    """A run from its row; a damaged row is an error that names the run."""
    run_id, status, created, finished, fingerprint, spec, manifest, summary = row
    try:
        model, *parts = [_mapping(text) for text in (fingerprint, spec, manifest)]
        return RunRecord(
            id=str(run_id),
            status=status,
            created=float(created),
            finished=finished,
            fingerprint=Fingerprint.from_json(model),
            spec=parts[0],
            manifest=parts[1],
            summary=None if summary is None else _mapping(summary),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        advice = "Run: assay store check (with --repair to drop what cannot be read)"
        raise StoreError(Fault(f"run {run_id}", f"its record cannot be read: {error}", next=advice)) from error


def _speed(summary: Any) -> dict[str, Any]:
    """The speed that a run measured; empty if its summary cannot be read."""
    with suppress(ValueError, TypeError):
        return dict(_mapping(summary).get("speed", {}))
    return {}


def _mapping(text: Any) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"a record is a {type(found).__name__}")
    return found


def _json(value: Any) -> str:
    return without_known(json.dumps(value, ensure_ascii=True, default=str))


class DocumentTable:
    """The table of document values. Rows are written by `Runs.end`, in the transaction that marks a run as ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_run(self, run_id: str, task: str | None = None) -> list[DocumentValues]:
        """All values of a run, or of one of its tasks; empty for runs recorded before values were stored."""
        query, given = (
            (_SELECT_VALUES, (run_id,)) if task is None else (_SELECT_VALUES + " AND task = ?", (run_id, task))
        )
        return [read_values(row) for row in self._database.read(query, given)]


def _values_row(run_id: str, kept: DocumentValues) -> tuple[Any, ...]:
    """The row for `_INSERT_VALUES`."""
    clusters = None if kept.clusters is None else _packed(list(kept.clusters))
    places = _packed(_ranges(kept.documents))
    head = (run_id, kept.task, kept.metric, kept.filter, kept.aggregation)
    return (*head, places, _packed(list(kept.values)), clusters)


def read_values(row: Sequence[Any]) -> DocumentValues:
    """Values from their row; a damaged row is an error that names the run."""
    run_id, task, metric, filter, aggregation, documents, values, clusters = row
    try:
        places = [index for start, stop in _unpacked(documents) for index in range(start, stop)]
        found = [tuple(value) if isinstance(value, list) else float(value) for value in _unpacked(values)]
        known = None if clusters is None else tuple(map(str, _unpacked(clusters)))
    except (zlib.error, ValueError, TypeError) as error:
        where = f"run {run_id}, task {task}, metric {metric}"
        advice = "Run: assay rescore with the run's id, and compare the new run"
        raise StoreError(Fault(where, f"its document values cannot be read: {error}", next=advice)) from error
    if len(places) != len(found) or (known is not None and len(known) != len(found)):
        raise StoreError(Fault(f"run {run_id}, task {task}, metric {metric}", "documents and values differ in number"))
    return DocumentValues(
        task=task,
        metric=metric,
        filter=filter,
        aggregation=aggregation,
        documents=tuple(places),
        values=tuple(found),
        clusters=known,
    )


def _ranges(documents: Sequence[int]) -> list[list[int]]:
    """Document indices as [first, last + 1]: nearly always one range, whatever the number of documents."""
    found: list[list[int]] = []
    size = len(documents)
    if (
        size
        and documents[-1] - documents[0] == size - 1
        and list(documents) == list(range(documents[0], documents[0] + size))
    ):
        return [[documents[0], documents[0] + size]]
    for index in documents:
        if found and found[-1][1] == index:
            found[-1][1] = index + 1
        else:
            found.append([index, index + 1])
    return found


def _packed(data: Any) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode("ascii"), _FASTEST)


def _unpacked(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))
