"""Per-document values of a run, per task, metric and pipeline: exactly what comparing runs needs.

One row each, lists as JSON compressed by zlib: ten thousand documents take a few milliseconds and kilobytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from assay.core.errors import Fault, StoreError
from assay.core.scores import DocumentValues
from assay.store.database import Database

INSERT = "INSERT OR REPLACE INTO document_values VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = (
    'SELECT run, task, metric, filter, aggregation, documents, "values", clusters FROM document_values WHERE run = ?'
)
_FASTEST = 1


class DocumentTable:
    """The table of document values. Rows are written by `Runs.end`, in the transaction that marks a run as ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_run(self, run_id: str, task: str | None = None) -> list[DocumentValues]:
        """All values of a run, or of one of its tasks; empty for runs recorded before values were stored."""
        query, given = (_SELECT, (run_id,)) if task is None else (_SELECT + " AND task = ?", (run_id, task))
        return [read_values(row) for row in self._database.read(query, given)]


def make_row(run_id: str, kept: DocumentValues) -> tuple[Any, ...]:
    """The row for `INSERT`."""
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
