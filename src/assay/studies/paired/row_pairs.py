"""Pairs the tasks of two runs, and the documents of two tasks.

In: names of tasks, or two tasks as built. Out: pairs, and a sentence on how unequal documents were paired. Code of a
task file, such as `process_docs`, adds columns: documents are then paired by the columns that both have, else by equal
requests. What pairs two documents must belong to no others, so that both are the same row of the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.identity import digest, document_digest
from assay.core.task_variants import LM_EVAL_PREFIX
from assay.run.build import BuiltTask
from assay.studies.paired.recorded_tasks import ReopenedTask, main_requests, paired_documents

# Columns such as a label alone identify no row: nearly all documents must differ in what pairs them.
_LEAST_DISTINCT = 0.9
_MOST_COLUMNS = 6


def paired_tasks(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """The tasks that two runs share; also ours and lm-eval's own of the same name, `lm_eval/NAME`."""
    pairs = [(name, name) for name in first if name in second]
    done = {name for names in pairs for name in names}
    left = {name.removeprefix(LM_EVAL_PREFIX): name for name in second if name not in done}
    plain = ((name, left.get(name.removeprefix(LM_EVAL_PREFIX))) for name in first if name not in done)
    return [*pairs, *((name, other) for name, other in plain if other is not None)]


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Documents of two tasks that come from the same rows.

    Attributes:
        places: positions of the pairs.
        how: what pairs them, in one sentence; empty if they are equal, or if nothing does.
    """

    places: Sequence[tuple[int, int]] = ()
    how: str = ""


def paired_rows(first: ReopenedTask, second: ReopenedTask) -> RowPairs:
    """The documents that two tasks have in common: equal ones; if there are none, those of the same rows."""
    if first.built is None or second.built is None:
        return RowPairs()
    equal = paired_documents(first, second)
    return RowPairs(equal) if equal else pair_rows(first.built, second.built)


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
    """Positions with equal keys; none if keys identify no document. Equal documents are paired one by one."""
    mine, theirs = (_by_key(task, key) for task in (first, second))
    if len(mine) < _LEAST_DISTINCT * len(first.documents) or len(theirs) < _LEAST_DISTINCT * len(second.documents):
        return ()
    pairs = [
        pair
        for value, own in mine.items()
        if value in theirs and _are_equal(first, own) and _are_equal(second, theirs[value])
        for pair in zip(own, theirs[value], strict=False)
    ]
    return tuple(sorted(pairs))


def _by_key(task: BuiltTask, key: Callable[[BuiltTask, int], Any]) -> dict[Any, list[int]]:
    places: dict[Any, list[int]] = {}
    for place in range(len(task.documents)):
        places.setdefault(key(task, place), []).append(place)
    return places


def _are_equal(task: BuiltTask, places: Sequence[int]) -> bool:
    """Whether documents of one key are copies of one row, so that any of them can be paired."""
    return len(places) == 1 or len({document_digest(task.documents[place]) for place in places}) == 1
