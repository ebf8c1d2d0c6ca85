"""The argument `tasks` of the public functions: names, paths, task objects, or a list of these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Union

from assay.core.errors import ArgumentError, Fault
from assay.core.protocols import Task

Tasks = Union[str, Path, Task, Sequence[Union[str, Path, Task]]]


def split_tasks(tasks: Tasks) -> list[str | Task]:
    """The tasks as a list: names, paths as names, and objects."""
    if isinstance(tasks, str):
        return [name.strip() for name in tasks.split(",") if name.strip()]
    given = tasks if isinstance(tasks, Sequence) else [tasks]
    return [str(item) if isinstance(item, Path) else item for item in given]


def names_and_objects(tasks: Tasks) -> tuple[list[str], list[Task]]:
    """Names and task objects, apart."""
    wanted = split_tasks(tasks)
    return [item for item in wanted if isinstance(item, str)], [item for item in wanted if not isinstance(item, str)]


def task_objects(tasks: Tasks, function: str) -> list[Task]:
    """The task objects of a recorded run; its other tasks are found by their names."""
    names, objects = names_and_objects(tasks)
    if names:
        advice = "Leave the names out: all tasks of the run are found by name"
        raise ArgumentError(Fault(f"{function}()", f"tasks names {', '.join(names)}", "task objects only", advice))
    return objects
