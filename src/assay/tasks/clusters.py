"""Which documents of a task belong together: those on one passage, variants of one item.

Takes the column or template that a task's key `cluster` or the run names, gives a reader of a document's cluster.
Where nobody names one, a column of texts that several documents share tells it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.identity import digest
from assay.core.specs import TaskCard
from assay.tasks.harness.fields import text_reader

CLUSTER_KEY = "cluster"
# In the place of a column: the task's own word, else the column found in its documents.
AUTO = "auto"
_TEMPLATE_MARKS = ("{{", "{%")
# A passage has so many characters on average; names of subjects, sources and labels are shorter.
_PASSAGE = 40
# So many of the documents share theirs with another, and so many at most have the same: an instruction is no passage.
_SHARED, _LARGEST = 0.3, 0.2
_FEW_DOCUMENTS = 20


def cluster_reader(
    card: TaskCard, documents: Sequence[Document], wanted: str | None
) -> Callable[[Document], str] | None:
    """Reads the cluster of a document; None where the documents of the task stand for themselves.

    A document without a value is a cluster of its own.

    Args:
        card: the task's, whose definition may name its clusters.
        documents: its documents; the first tells the columns.
        wanted: what the run names, which comes before the task's own word; `auto` comes after it.
    """
    own = card.config.get(CLUSTER_KEY)
    is_own = wanted is None or (wanted == AUTO and own is not None)
    named = own if is_own else shared_column(documents) if wanted == AUTO else wanted
    if not isinstance(named, str) or not documents:
        return None
    where = f"{card.source}  {CLUSTER_KEY}" if is_own else f"task {card.name}, --cluster"
    columns = list(documents[0].fields)
    if named not in columns and not any(mark in named for mark in _TEMPLATE_MARKS):
        found = f'no column "{named}"{did_you_mean(named, columns)}'
        raise DataError(Fault(where, found, "one of: " + ", ".join(columns) + "; or a template; or auto"))
    read = text_reader(named, columns, False, where)
    return lambda document: _named(read(_whole(document.fields, columns)), document.id)


def shared_column(documents: Sequence[Document]) -> str | None:
    """The column of texts that many documents share with another, such as a passage; None where there is none.

    Of several it is the one with the fewest texts: questions on one passage may share the question, too.
    """
    if len(documents) < _FEW_DOCUMENTS:
        return None
    found = {}
    for column, first in documents[0].fields.items():
        if isinstance(first, str):
            texts = [document.fields.get(column) for document in documents]
            count = _passages(texts)
            if count:
                found[column] = count
    return min(found, key=found.__getitem__, default=None)


def _passages(texts: Sequence[Any]) -> int:
    """How many different passages a column has; 0 where it holds none, or few documents share theirs."""
    some = texts[:: max(1, len(texts) // 100)]  # enough to tell names from passages
    if sum(len(text) for text in some if isinstance(text, str)) < _PASSAGE * len(some):
        return 0
    known = [text for text in texts if text and isinstance(text, str)]
    if len(set(known)) > (1 - _SHARED / 2) * len(texts):  # so many different ones leave too few shared
        return 0
    counts = Counter(known)
    shared = sum(count for count in counts.values() if count > 1)
    is_shared = shared >= _SHARED * len(texts) and max(counts.values(), default=0) <= _LARGEST * len(texts)
    return len(counts) if is_shared else 0


def _whole(fields: Mapping[str, Any], columns: Sequence[str]) -> Mapping[str, Any]:
    """A document's fields; a column that only this one lacks is empty."""
    return fields if fields.keys() >= set(columns) else {**dict.fromkeys(columns), **fields}


def _named(value: Any, place: int) -> str:
    if value is None or value == "":
        return f"document {place}"
    return str(value) if isinstance(value, (str, int, float)) else digest(value)
