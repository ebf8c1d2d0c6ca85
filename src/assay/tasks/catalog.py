"""Which tasks, groups and tags there are, and where each is defined.

Takes folders of task files (the shipped library first) and plugins, gives an index by name. Files that
cannot be read are kept with their fault, so that nothing disappears in silence.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, TaskFileError, UserError
from assay.core.registry import Registry
from assay.tasks.harness.read import HeadReader

LIBRARY = Path(__file__).parent / "library"
PLUGINS = Registry("task", {}, "assay.tasks")
_SKIPPED_FOLDERS = ("__pycache__", ".ipynb_checkpoints")


@dataclass(frozen=True, slots=True)
class Entry:
    """A name that can be run.

    Attributes:
        name: the name.
        kind: `task`, `group`, `tag` or `plugin`.
        path: the defining file; None for tags and plugins.
        output_type: the request shape of a task.
        tags: the tags of a task.
        members: task names of a tag; member names of a group.
    """

    name: str
    kind: str
    path: Path | None = None
    output_type: str = ""
    tags: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(slots=True)
class _Index:
    entries: dict[str, Entry] = field(default_factory=dict)
    broken: list[Fault] = field(default_factory=list)
    shadowed: list[str] = field(default_factory=list)


class Catalog:
    """The index over the shipped library, the user's folders and plugins."""

    def __init__(self, include_path: Sequence[str | Path] = ()) -> None:
        self.include_path = tuple(Path(folder).expanduser() for folder in include_path)

    @cached_property
    def _index(self) -> _Index:
        index = _Index()
        for root in (LIBRARY, *self.include_path):
            if not root.is_dir():
                raise UserError(Fault("--include_path", f'no folder "{root}"', "a folder with task files (*.yaml)"))
            _add_root(index, root)
        for name in PLUGINS.plugins:
            index.entries.setdefault(name, Entry(name, "plugin"))
        return index

    @property
    def entries(self) -> dict[str, Entry]:
        """Name → entry."""
        return self._index.entries

    @property
    def notices(self) -> list[str]:
        """What is odd about the folders: files that cannot be read, names that are defined twice."""
        unread = [f"task file left out: {fault}" for fault in self._index.broken]
        return unread + self._index.shadowed

    def select(self, pattern: str) -> list[str]:
        """Names that a name or a wildcard pattern means; empty when there are none."""
        if pattern in self.entries:
            return [pattern]
        if not any(mark in pattern for mark in "*?["):
            return []
        return sorted(name for name in self.entries if fnmatch.fnmatchcase(name, pattern))


def _add_root(index: _Index, root: Path) -> None:
    found: dict[str, Entry] = {}
    tagged: dict[str, list[str]] = {}
    reader = HeadReader()
    for path in _task_files(root):
        try:
            entry = _entry(path, reader.head(path))
        except TaskFileError as error:
            index.broken.extend(error.faults)
            continue
        if entry is None:
            continue
        if entry.name in found:
            index.shadowed.append(f'"{entry.name}" is defined twice: {found[entry.name].path} is used, {path} is not')
            continue
        found[entry.name] = entry
        for tag in entry.tags:
            tagged.setdefault(tag, []).append(entry.name)
    for name in sorted(found.keys() & index.entries.keys()):
        earlier = index.entries[name].path or f"the {index.entries[name].kind} of that name"
        index.shadowed.append(f'"{name}" of {found[name].path} replaces {earlier}')
    index.entries.update(found)
    for tag, members in tagged.items():
        earlier_kind = index.entries[tag].kind if tag in index.entries else None
        if earlier_kind == "tag":  # lm-eval's rule: the later folder's tag stands for its own tasks alone
            index.shadowed.append(f'the tag "{tag}" of {root} replaces the earlier one')
        if earlier_kind in (None, "tag"):
            index.entries[tag] = Entry(tag, "tag", members=tuple(sorted(members)))


def _task_files(root: Path) -> list[Path]:
    """All task files below a folder, in lm-eval's order: by path."""
    found = []
    for folder, inner, names in os.walk(root, followlinks=False):
        inner[:] = [name for name in inner if name not in _SKIPPED_FOLDERS]
        found += [f"{folder}{os.sep}{name}" for name in names if name.endswith(".yaml")]
    return [Path(path) for path in sorted(found, key=lambda path: path.replace(os.sep, "/"))]


def _entry(path: Path, data: Mapping[str, Any]) -> Entry | None:
    """What a file defines; None for a file that only serves as an include."""
    if "group" in data and "class" not in data:
        members = data.get("task")
        listed = members if isinstance(members, list) else []
        return Entry(str(data["group"]), "group", path, members=tuple(map(_member_name, listed)))
    if "task" not in data or not isinstance(data["task"], str):
        return None
    tags = data.get("tag") or []
    tags = [tags] if isinstance(tags, str) else tags
    kind = str(data.get("output_type", "generate_until"))
    return Entry(data["task"], "task", path, kind, tuple(tag for tag in tags if isinstance(tag, str)))


def _member_name(member: Any) -> str:
    if isinstance(member, dict):
        return str(member.get("group") or member.get("task"))
    return str(member)
