"""Which tasks, groups and tags there are, and where each is defined.

Takes folders of task files (the shipped library first) and plugins, gives an index by name. Files that
cannot be read are kept with their fault, so that nothing disappears in silence.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.core.registry import Registry
from assay.tasks.catalog_index import TaskEntry, index_folder

LIBRARY = Path(__file__).parent / "library"
PLUGINS = Registry("task", {}, "assay.tasks")


@dataclass(slots=True)
class _Index:
    entries: dict[str, TaskEntry] = field(default_factory=dict)
    broken: list[Fault] = field(default_factory=list)
    shadowed: list[str] = field(default_factory=list)


class Catalog:
    """The index over the shipped library, the user's folders and plugins.

    Args:
        include_path: the user's folders.
        cache_folder: folder that caches what was read; None to read everything again.
    """

    def __init__(self, include_path: Sequence[str | Path] = (), cache_folder: Path | None = None) -> None:
        self.cache_folder = cache_folder
        self.include_path = tuple(Path(folder).expanduser() for folder in include_path)

    @cached_property
    def _index(self) -> _Index:
        index = _Index()
        for root in (LIBRARY, *self.include_path):
            if not root.is_dir():
                raise UserError(Fault("--include_path", f'no folder "{root}"', "a folder with task files (*.yaml)"))
            _add_root(index, root, self.cache_folder)
        for name in PLUGINS.plugins:
            index.entries.setdefault(name, TaskEntry(name, "plugin"))
        return index

    @property
    def entries(self) -> dict[str, TaskEntry]:
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


def _add_root(index: _Index, root: Path, cache_folder: Path | None) -> None:
    found: dict[str, TaskEntry] = {}
    tagged: dict[str, list[str]] = {}
    entries, broken = index_folder(root, cache_folder)
    index.broken.extend(broken)
    for entry in entries:
        if entry.name in found:
            used, other = found[entry.name].path, entry.path
            index.shadowed.append(f'"{entry.name}" is defined twice: {used} is used, {other} is not')
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
            index.entries[tag] = TaskEntry(tag, "tag", members=tuple(sorted(members)))
