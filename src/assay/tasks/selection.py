"""From names to ready tasks and groups: expands wildcards, tags and groups, and builds every leaf once.

Takes what the user named, gives the tasks of a run in order, its groups bottom-up, or all faults at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from assay.core.errors import Fault, TaskFileError, UnknownName, UserError, did_you_mean, unknown_name
from assay.core.protocols import Task
from assay.core.specs import GroupSpec, TaskOptions
from assay.tasks.catalog import PLUGINS, Catalog
from assay.tasks.harness.definition import define
from assay.tasks.harness.groups import GroupDefinition, Member, define_group
from assay.tasks.harness.read import TaskFile, read_task_file
from assay.tasks.harness.schema import KnownNames, group_faults, task_faults
from assay.tasks.harness.task import HarnessTask

Wanted = Union[str, Task]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a run in order, and its groups bottom-up."""

    tasks: tuple[Task, ...]
    groups: tuple[GroupSpec, ...]


def select_tasks(wanted: Sequence[Wanted], catalog: Catalog, options: TaskOptions, names: KnownNames) -> Selection:
    """Builds everything that was named; raises once, with every fault."""
    builder = _Builder(catalog, options, names)
    for item in wanted:
        builder.collect(item)
    if builder.unknown and len(builder.unknown) == len(builder.faults):
        raise UnknownName(*builder.faults)
    if builder.faults:
        raise TaskFileError(*builder.faults)
    if not builder.tasks:
        raise UserError(Fault("--tasks", "names no task", "a task, group or tag", "See: assay ls tasks"))
    return Selection(tuple(builder.tasks.values()), tuple(builder.groups.values()))


class _Builder:
    """Collects tasks, groups and faults while walking down from the names."""

    def __init__(self, catalog: Catalog, options: TaskOptions, names: KnownNames) -> None:
        self._catalog = catalog
        self._options = options
        self._names = names
        self._overrides: dict[str, Mapping[str, Any]] = {}
        self.tasks: dict[str, Task] = {}
        self.groups: dict[str, GroupSpec] = {}
        self.faults: list[Fault] = []
        self.unknown: list[str] = []

    def collect(self, item: Wanted) -> None:
        """Adds what one item of the user's list means."""
        try:
            if not isinstance(item, str):
                self._add_task(item, {})
            elif item.endswith((".yaml", ".yml")):
                self._add_path(Path(item).expanduser())
            else:
                self._add_pattern(item)
        except UserError as error:
            self.faults.extend(error.faults)
            if isinstance(error, UnknownName):
                self.unknown.append(str(item))

    def _add_pattern(self, pattern: str) -> None:
        names = self._catalog.select(pattern)
        if not names and Path(pattern).is_dir():
            for path in sorted(Path(pattern).glob("*.yaml")):
                self._add_path(path)
            return
        if not names:
            known = [name for name, entry in self._catalog.entries.items()]
            raise unknown_name("task", pattern, known, "--tasks")
        for name in names:
            self._add_name(name, {})

    def _add_path(self, path: Path) -> None:
        file = read_task_file(path)
        if "group" in file.data:
            self._add_group(self._define_group(file), {})
        elif "task" in file.data:
            self._add_file(file, {})
        else:
            raise TaskFileError(Fault(str(path), "defines neither a task nor a group", "a key task: or group:"))

    def _add_name(self, name: str, overrides: Mapping[str, Any]) -> list[str]:
        """Adds a registered name; gives the names of its direct results."""
        entry = self._catalog.entries[name]
        if entry.kind == "tag":
            return [leaf for member in entry.members for leaf in self._add_name(member, overrides)]
        if entry.kind == "plugin":
            plugin = PLUGINS.get(name)
            return self._add_task(plugin if isinstance(plugin, Task) else plugin(), overrides)
        assert entry.path is not None, "files define tasks and groups"
        file = read_task_file(entry.path)
        if entry.kind == "group":
            return self._add_group(self._define_group(file), overrides)
        return self._add_file(file, overrides)

    def _define_group(self, file: TaskFile) -> GroupDefinition:
        faults = group_faults(file)
        if faults:
            raise TaskFileError(*faults)
        return define_group(file, file.data, file.data["group"])

    def _add_group(self, group: GroupDefinition, overrides: Mapping[str, Any]) -> list[str]:
        if group.name in self.groups:
            return [group.name]
        inherited = {**group.overrides, **overrides}
        members: list[str] = []
        for member in group.members:
            members += self._add_member(group, member, inherited)
        # Bottom-up: the members' own groups were added on the way down, so this one comes after them.
        self.groups[group.name] = GroupSpec(
            group.name, group.alias, tuple(dict.fromkeys(members)), group.metrics, group.version
        )
        return [group.name]

    def _add_member(self, group: GroupDefinition, member: Member, inherited: Mapping[str, Any]) -> list[str]:
        if member.name in self._catalog.entries:
            return self._add_name(member.name, {**member.data, **inherited})
        inline_name = f"{group.name}::{member.name}"
        if member.is_group and "task" in member.data:
            inner = define_group(group.file, member.data, inline_name, member.place)
            return self._add_group(inner, inherited)
        if not member.is_group and "dataset_path" in member.data:
            data = {**member.data, **inherited, "task": inline_name}
            return self._add_file(TaskFile(group.file.path, data, group.file.places), {})
        hint = did_you_mean(member.name, self._catalog.entries)
        where = group.file.where(*member.place)
        raise UnknownName(Fault(where, f'unknown task "{member.name}"{hint}', next="See: assay ls tasks"))

    def _add_file(self, file: TaskFile, overrides: Mapping[str, Any]) -> list[str]:
        merged = TaskFile(file.path, {**file.data, **overrides}, file.places)
        faults = task_faults(merged, self._names)
        if faults:
            self.faults.extend(fault for fault in faults if fault not in self.faults)
            return []
        return self._add_task(HarnessTask(define(merged), self._options), overrides)

    def _add_task(self, task: Task, overrides: Mapping[str, Any]) -> list[str]:
        name = task.card.name
        if name in self.tasks and self._overrides[name] != overrides:
            raise TaskFileError(
                Fault(task.card.source, f'the task "{name}" is wanted twice with different settings', "one of them")
            )
        self.tasks.setdefault(name, task)
        self._overrides[name] = overrides
        return [name]
