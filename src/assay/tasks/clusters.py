"""Clusters of a task's documents: questions on one passage, variants of one item.

Takes the column or template that a task's key `cluster` or the run names, gives a reader of a document's cluster.
`auto` looks for a column of texts or ids that several documents share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.identity import digest
from assay.core.specs import TaskCard
from assay.tasks.lm_eval.build.fields import text_reader

CLUSTER_KEY = "cluster"
# Instead of a column: the task's own key `cluster`, else the column found in its documents.
AUTO = "auto"
_TEMPLATE_MARKS = ("{{", "{%")
# Minimum mean length of passages in characters; names of subjects, sources and labels are shorter.
_PASSAGE = 40
# Minimum fraction of documents that share a value, and maximum fraction with the same one, as an instruction has.
_SHARED, _LARGEST = 0.3, 0.2
_FEW_DOCUMENTS = 20
# Number of values that name no group: null, the empty text, both booleans.
_NO_GROUPS = 4
# Maximum mean number of documents per id: a subject or a label has more.
_LARGEST_MEAN = 50
# Names of columns with ids of passages, articles, conversations and the like.
_ID_NAME = re.compile(
    r"(?:^|[_\-. ])(?:id|idx|uid|uuid|guid|pid|docid|group|cluster|passage|paragraph|document|doc|article|story|title"
    r"|page|chapter|section|dialogue|dialog|conversation|thread|context|video|image|table|family|template)s?$|(?-i:[a-z]I[dD]$)",
    re.IGNORECASE,
)


def cluster_reader(
    card: TaskCard, documents: Sequence[Document], wanted: str | None
) -> Callable[[Document], str] | None:
    """Reader of a document's cluster; None if the documents of the task are independent.

    A document without a value forms its own cluster.

    Args:
        card: card of the task, whose definition may name its clusters.
        documents: its documents; the columns are those of the first.
        wanted: column or template of the run, which overrides the task's own key; `auto` does not.
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
    """The column that shows which documents belong together, such as a passage or its id; None if there is none.

    Columns of texts come before columns of ids, which are recognized by name, or by numbers in blocks of rows. Among
    several, the one with the fewest values wins: documents on one passage may also share the question.
    """
    if len(documents) < _FEW_DOCUMENTS:
        return None
    texts, ids = {}, {}
    for column, first in documents[0].fields.items():
        if isinstance(first, (str, int)) and not isinstance(first, bool):
            values = [document.fields.get(column) for document in documents]
            groups = _groups(values)
            if groups and _are_passages(values):
                texts[column] = groups
            elif groups and groups * _LARGEST_MEAN >= len(values) and _are_ids(column, values, documents):
                ids[column] = groups
    found = texts or ids
    return min(found, key=found.__getitem__, default=None)


def group_value(value: Any) -> str | int | None:
    """Value of a column as a group; None if it names no group."""
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "" else None


def _are_passages(values: Sequence[Any]) -> bool:
    some = values[:: max(1, len(values) // 100)]  # enough to distinguish names from passages
    return sum(len(text) for text in some if isinstance(text, str)) >= _PASSAGE * len(some)


def _are_ids(column: str, values: Sequence[Any], documents: Sequence[Document]) -> bool:
    """Whether short values name groups of documents, not a property that documents happen to share, such as a label."""
    if _ID_NAME.search(column):
        return True
    by_place = [
        value for _, value in sorted(zip((document.id for document in documents), values, strict=True), key=_first)
    ]
    blocks = sum(one != other for one, other in pairwise(by_place)) + 1
    has_numbers = all(
        isinstance(value, int) or any(map(str.isdigit, value or "")) for value in map(group_value, values)
    )
    return has_numbers and blocks == len(set(map(group_value, values)))


def _first(item: tuple[int, Any]) -> int:
    return item[0]


def _groups(values: Sequence[Any]) -> int:
    """Number of different values in a column; 0 if few documents share one, or many share the same."""
    try:
        every: Counter[Any] = Counter(values)
    except TypeError:  # unhashable values, such as lists
        every = Counter(value for value in values if group_value(value) is not None)
    most = (1 - _SHARED / 2) * len(values)  # more distinct values than this leave too few shared
    if len(every) > most + _NO_GROUPS:
        return 0
    counts = {value: count for value, count in every.items() if group_value(value) is not None}
    if len(counts) > most:
        return 0
    shared = sum(count for count in counts.values() if count > 1)
    is_shared = shared >= _SHARED * len(values) and max(counts.values(), default=0) <= _LARGEST * len(values)
    return len(counts) if is_shared else 0


def _whole(fields: Mapping[str, Any], columns: Sequence[str]) -> Mapping[str, Any]:
    """A document's fields; a column that it lacks is None."""
    return fields if fields.keys() >= set(columns) else {**dict.fromkeys(columns), **fields}


def _named(value: Any, place: int) -> str:
    if value is None or value == "":
        return f"document {place}"
    return str(value) if isinstance(value, (str, int, float)) else digest(value)
