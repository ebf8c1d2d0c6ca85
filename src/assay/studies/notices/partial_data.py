"""Notices about copies of datasets that hold fewer rows than the official splits.

In: the tasks of a run, after their documents were read. Out: one line per task, or per split if many tasks have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.protocols import ReadsDataset, Task

# With more lines, tasks with the same split share one.
_MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class PartialSplit:
    """A split of which fewer rows were read than it officially has."""

    task: str
    split: str
    rows: int
    official: int

    def __str__(self) -> str:
        return f"{self.rows:,} of {self.official:,} official rows of `{self.split}`"


def partial_splits(tasks: Sequence[Task]) -> list[PartialSplit]:
    """Every split that was read and is smaller than the official one; variants of a task count once."""
    found: dict[tuple[str, str], PartialSplit] = {}
    for task in tasks:
        if isinstance(task, ReadsDataset):
            read, name = task.data_read(), task.card.family
            for split, rows in read.sizes.items():
                official = read.official.get(split, 0)
                if rows < official:
                    found.setdefault((name, split), PartialSplit(name, split, rows, official))
    return list(found.values())


def partial_notices(tasks: Sequence[Task]) -> list[str]:
    """The notices of a run."""
    splits = partial_splits(tasks)
    by_task: dict[str, list[PartialSplit]] = {}
    for split in splits:
        by_task.setdefault(split.task, []).append(split)
    if len(by_task) <= _MOST_LINES:
        return [f"{task}: {', '.join(map(str, own))}" for task, own in by_task.items()]
    by_split: dict[str, list[PartialSplit]] = {}
    for split in splits:
        by_split.setdefault(split.split, []).append(split)
    return [_line(own) if len(own) > 1 else f"{own[0].task}: {own[0]}" for own in by_split.values()]


def _line(own: Sequence[PartialSplit]) -> str:
    """One line for all tasks with a part of a split of this name."""
    whole = PartialSplit("", own[0].split, sum(one.rows for one in own), sum(one.official for one in own))
    return f"{len(own)} tasks ({own[0].task}, {own[1].task}{', …' if len(own) > 2 else ''}): {whole} together"
