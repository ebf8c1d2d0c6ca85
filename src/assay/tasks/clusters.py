"""Which documents of a task belong together: those on one passage, variants of one item.

Takes the column or template that a task's key `cluster` or the run names, gives a reader of a document's cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.identity import digest
from assay.core.specs import TaskCard
from assay.tasks.harness.fields import text_reader

CLUSTER_KEY = "cluster"
_TEMPLATE_MARKS = ("{{", "{%")


def cluster_reader(
    card: TaskCard, documents: Sequence[Document], wanted: str | None
) -> Callable[[Document], str] | None:
    """Reads the cluster of a document; None where the documents of the task stand for themselves.

    A document without a value is a cluster of its own.

    Args:
        card: the task's, whose definition may name its clusters.
        documents: its documents; the first tells the columns.
        wanted: what the run names, which comes before the task's own word.
    """
    named = wanted if wanted is not None else card.config.get(CLUSTER_KEY)
    if not isinstance(named, str) or not documents:
        return None
    where = f"task {card.name}, --cluster" if wanted is not None else f"{card.source}  {CLUSTER_KEY}"
    columns = list(documents[0].fields)
    if named not in columns and not any(mark in named for mark in _TEMPLATE_MARKS):
        found = f'no column "{named}"{did_you_mean(named, columns)}'
        raise DataError(Fault(where, found, "one of: " + ", ".join(columns) + "; or a template"))
    read = text_reader(named, columns, False, where)
    return lambda document: _named(read(_whole(document.fields, columns)), document.id)


def _whole(fields: Mapping[str, Any], columns: Sequence[str]) -> Mapping[str, Any]:
    """A document's fields; a column that only this one lacks is empty."""
    return fields if fields.keys() >= set(columns) else {**dict.fromkeys(columns), **fields}


def _named(value: Any, place: int) -> str:
    if value is None or value == "":
        return f"document {place}"
    return str(value) if isinstance(value, (str, int, float)) else digest(value)
