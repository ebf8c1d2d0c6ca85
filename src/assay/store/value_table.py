"""The value of every document of a run, per task, metric and pipeline: what comparing runs needs, and nothing else.

One row each, lists as JSON in zlib's compression: ten thousand documents take a few milliseconds and kilobytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from assay.core.errors import Fault, StoreError
from assay.core.recorded_values import DocumentValues
from assay.store.database import Database

INSERT = "INSERT OR REPLACE INTO document_values VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = (
    'SELECT run, task, metric, filter, aggregation, documents, "values", clusters FROM document_values WHERE run = ?'
)
_FASTEST = 1


class DocumentTable:
    """The table of documents' values. Rows are written by `Runs.end`, in the transaction that marks a run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_run(self, run_id: str, task: str | None = None) -> list[DocumentValues]:
        """All that a run kept, or what it kept of one task; nothing for runs of before values were kept."""
        query, given = (_SELECT, (run_id,)) if task is None else (_SELECT + " AND task = ?", (run_id, task))
        return [read_values(row) for row in self._database.read(query, given)]


def make_row(run_id: str, kept: DocumentValues) -> tuple[Any, ...]:
    """What `INSERT` takes."""
    clusters = None if kept.clusters is None else _packed(list(kept.clusters))
    places = _packed(_ranges(kept.documents))
    head = (run_id, kept.task, kept.metric, kept.filter, kept.aggregation)
    return (*head, places, _packed(list(kept.values)), clusters)


def read_values(row: Sequence[Any]) -> DocumentValues:
    """Values from their row; a row that is damaged is an error that names the run."""
    run_id, task, metric, filter, aggregation, documents, values, clusters = row
    try:
        places = [index for start, stop in _unpacked(documents) for index in range(start, stop)]
        found = [tuple(value) if isinstance(value, list) else float(value) for value in _unpacked(values)]
        known = None if clusters is None else tuple(map(str, _unpacked(clusters)))
    except (zlib.error, ValueError, TypeError) as error:
        where = f"run {run_id}, task {task}, metric {metric}"
        advice = "Run: assay rescore with the run's name, and compare what that makes"
        raise StoreError(Fault(where, f"its documents' values cannot be read: {error}", next=advice)) from error
    if len(places) != len(found) or (known is not None and len(known) != len(found)):
        raise StoreError(Fault(f"run {run_id}, task {task}, metric {metric}", "documents and values differ in number"))
    return DocumentValues(task, metric, filter, aggregation, tuple(places), tuple(found), known)


def _ranges(documents: Sequence[int]) -> list[list[int]]:
    """Places as [first, behind the last]: nearly always one range, whatever the number of documents."""
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
