"""Checks task files without their data: every fault of every file at once.

Takes files or folders, gives how many files were looked at and all their faults, each with file, line and key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import Fault, TaskFileError, UserError
from assay.tasks.catalog import Catalog
from assay.tasks.harness.groups import GroupDefinition, Member, define_group, unknown_member
from assay.tasks.harness.read import TaskFile, read_task_file
from assay.tasks.harness.schema import KnownNames, base_faults, column_faults, group_faults, task_faults
from assay.tasks.indexing import task_files


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found."""

    files: int
    tasks: int
    groups: int
    faults: tuple[Fault, ...]


def check_paths(paths: Sequence[Path], names: KnownNames, columns: Collection[str] | None = None) -> CheckReport:
    """Checks files and folders.

    Args:
        paths: task files, or folders of them.
        names: metrics, filters and aggregations that there are.
        columns: columns of a sample document, to find names in templates that it lacks; None for no such check.
    """
    files = [file for path in paths for file in _expanded(path)]
    catalog = Catalog(tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in paths)))
    faults: dict[Fault, None] = {}
    kinds: Counter[str] = Counter()
    for path in files:
        try:
            file = read_task_file(path)
        except TaskFileError as error:
            faults.update(dict.fromkeys(error.faults))
            continue
        kinds[_kind(file)] += 1
        faults.update(dict.fromkeys(_file_faults(file, names, columns, catalog)))
    return CheckReport(len(files), kinds["task"], kinds["group"], tuple(faults))


def _file_faults(file: TaskFile, names: KnownNames, columns: Collection[str] | None, catalog: Catalog) -> list[Fault]:
    kind = _kind(file)
    if kind == "group":
        return _group_faults(file, catalog)
    found = task_faults(file, names) if kind == "task" else base_faults(file, names)
    return found if columns is None else [*found, *column_faults(file, columns)]


def _expanded(path: Path) -> list[Path]:
    if path.is_dir():
        found = [Path(file) for file in sorted(task_files(str(path)))]
        if not found:
            raise UserError(Fault(str(path), "holds no task files", "files that end in .yaml"))
        return found
    if not path.exists():
        raise UserError(Fault(str(path), "no such file or folder", "a task file or a folder of them"))
    return [path]


def _kind(file: TaskFile) -> str:
    if "group" in file.data and "class" not in file.data:
        return "group"
    return "task" if "task" in file.data else "base"


def _group_faults(file: TaskFile, catalog: Catalog) -> list[Fault]:
    faults = group_faults(file)
    if faults:
        return faults
    try:
        group = define_group(file, file.data, str(file.data["group"]))
    except TaskFileError as error:
        return list(error.faults)
    return [
        unknown_member(file, member, catalog.entries)
        for member in group.members
        if member.name not in catalog.entries and not _is_inline(group, member)
    ]


def _is_inline(group: GroupDefinition, member: Member) -> bool:
    """Whether a member is defined in place; what the group says to all its members counts too."""
    if member.is_group:
        return "task" in member.changes.data
    return "dataset_path" in member.changes.data or "dataset_path" in group.changes.data
