"""Pairs the documents of two tasks that read the same rows in different ways, so that no document is equal.

In: two built tasks. Out: positions of the pairs and a sentence on how they were found. Code of a task file, such as
`process_docs`, adds columns: documents are then paired by the columns that both have, else by equal requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.core.identity import digest
from assay.run.build import BuiltTask
from assay.studies.paired.recorded_tasks import main_requests

# Columns such as a label alone identify no row: nearly all documents must differ in what pairs them.
_LEAST_DISTINCT = 0.9
_MOST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Documents of two tasks that come from the same rows.

    Attributes:
        places: positions of the pairs.
        how: what pairs them, in one sentence; empty if nothing does.
    """

    places: tuple[tuple[int, int], ...] = ()
    how: str = ""


def pair_rows(first: BuiltTask, second: BuiltTask) -> RowPairs:
    """The documents of two tasks paired by common columns, or by equal requests."""
    if not first.documents or not second.documents:
        return RowPairs()
    own, other = dict(first.documents[0].fields), dict(second.documents[0].fields)
    shared = sorted(own.keys() & other.keys())

    def row(task: BuiltTask, place: int) -> Any:
        fields = task.documents[place].fields
        return digest([fields.get(name) for name in shared])

    found = _paired(first, second, row) if shared and own.keys() != other.keys() else ()
    if found:
        one, two = (_only(*sides) for sides in (("first", own, other), ("second", other, own)))
        texts = " and ".join(filter(None, (one, two)))
        return RowPairs(found, f"the documents come from the same rows; {texts}")
    found = _paired(first, second, lambda task, place: main_requests(task.instances[place]))
    return RowPairs(found, "the documents are paired by equal requests" if found else "")


def _only(side: str, own: dict[str, Any], other: dict[str, Any]) -> str:
    names = sorted(own.keys() - other.keys())
    more = f" and {len(names) - _MOST_COLUMNS} more" if len(names) > _MOST_COLUMNS else ""
    return f"only the {side} task has {', '.join(names[:_MOST_COLUMNS])}{more}" if names else ""


def _paired(first: BuiltTask, second: BuiltTask, key: Callable[[BuiltTask, int], Any]) -> tuple[tuple[int, int], ...]:
    """Positions with equal keys, one by one; none if keys identify no document."""
    places: dict[Any, list[int]] = {}
    for place in range(len(second.documents)):
        places.setdefault(key(second, place), []).append(place)
    own = [key(first, place) for place in range(len(first.documents))]
    if len(set(own)) < _LEAST_DISTINCT * len(own) or len(places) < _LEAST_DISTINCT * len(second.documents):
        return ()
    return tuple((place, places[value].pop(0)) for place, value in enumerate(own) if places.get(value))
