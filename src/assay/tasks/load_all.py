"""Builds every task and group of some folders, code and all, without their data: what would run, what would not, why.

Takes a catalog and who may run code, gives counts and the faults of each name that cannot be built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.core.specs import TaskOptions
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval.file.python_code import CodeLoader
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.selection import select_tasks


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A task or group that cannot be built, and why."""

    name: str
    kind: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How many tasks and groups there are, and those that cannot be built."""

    tasks: int
    groups: int
    failures: tuple[Unbuilt, ...]

    def failed(self, kind: str) -> int:
        """How many of a kind cannot be built."""
        return sum(failure.kind == kind for failure in self.failures)


def load_everything(paths: Sequence[Path], catalog: Catalog, names: KnownNames, code: CodeLoader) -> LoadReport:
    """Builds what the files below some paths define.

    Args:
        paths: files and folders.
        catalog: the index that holds them.
        names: metrics, filters and aggregations that there are.
        code: imports the code that they name.
    """
    roots = [path.resolve() for path in paths]
    counts: Counter[str] = Counter()
    failures = []
    for entry in catalog.entries.values():
        if entry.path is None or not any(entry.path.resolve().is_relative_to(root) for root in roots):
            continue
        counts[entry.kind] += 1
        try:
            select_tasks([entry.name], catalog, TaskOptions(), names, code)
        except UserError as error:
            failures.append(Unbuilt(entry.name, entry.kind, error.faults))
    return LoadReport(counts["task"], counts["group"], tuple(failures))
