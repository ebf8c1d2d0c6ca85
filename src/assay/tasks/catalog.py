"""The catalog: which tasks, groups and tags exist, and which file defines each.

Takes folders of task files (the shipped library first) and plugins, gives an index by name. A file that cannot be read
is listed with its fault. The index of a large folder is cached between runs: a file is read again only if its
time or size, or those of a file it includes, have changed.
"""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from assay.core.atomic_files import atomic_write, cache_folder, private_folder
from assay.core.errors import Fault, TaskFileError, UserError
from assay.core.registry import Registry
from assay.core.version import __version__
from assay.tasks.catalog_entries import TaskEntry, entries_of
from assay.tasks.lm_eval.file.yaml_reader import TopLevelKeyReader

LIBRARY = Path(__file__).parent / "library"
PLUGINS = Registry("task", {}, "assay.tasks")
_SKIPPED_FOLDERS = ("__pycache__", ".ipynb_checkpoints")
_FORMAT = 2
# Reading a folder with fewer files takes less than 50 ms, at 1 ms a file; the cache of a thousand entries takes 5 ms.
_MIN_CACHED_FILES = 50
_MOST_REPLACEMENTS = 3


@dataclass(slots=True)
class _Index:
    entries: dict[str, TaskEntry] = field(default_factory=dict)
    broken: list[Fault] = field(default_factory=list)
    shadowed: list[str] = field(default_factory=list)


class Catalog:
    """The index over the shipped library, the user's folders and plugins.

    Args:
        include_path: the user's folders.
        cache_folder: folder of the cached indexes; None to read everything again.
        is_extension: whether the folders add to the library and the plugins; otherwise they are everything.
    """

    def __init__(
        self, include_path: Sequence[str | Path] = (), cache_folder: Path | None = None, is_extension: bool = True
    ) -> None:
        self.cache_folder = cache_folder
        self.is_extension = is_extension
        self.include_path = tuple(Path(folder).expanduser() for folder in include_path)

    @cached_property
    def _index(self) -> _Index:
        index = _Index()
        for root in (*((LIBRARY,) if self.is_extension else ()), *self.include_path):
            if not root.is_dir():
                raise UserError(Fault("--include_path", f'no folder "{root}"', "a folder with task files (*.yaml)"))
            _add_root(index, root, self.cache_folder)
        for name in PLUGINS.plugins if self.is_extension else ():
            index.entries.setdefault(name, TaskEntry(name, "plugin"))
        return index

    @property
    def entries(self) -> dict[str, TaskEntry]:
        """Name → entry."""
        return self._index.entries

    @property
    def broken(self) -> Sequence[Fault]:
        """Faults of files that cannot be read."""
        return self._index.broken

    @property
    def notices(self) -> list[str]:
        """Problems of the folders: files that cannot be read, names that are defined twice."""
        unread = [f"task file left out: {fault}" for fault in self._index.broken]
        return unread + self._index.shadowed

    def select(self, pattern: str) -> list[str]:
        """Names that match a name or a wildcard pattern; empty if none does."""
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
    for entry in map(_in_family, entries) if root == LIBRARY else entries:
        if entry.name in found:
            used, other = found[entry.name].path, entry.path
            index.shadowed.append(f'"{entry.name}" is defined twice: {used} is used, {other} is not')
            continue
        found[entry.name] = entry
        for tag in entry.tags:
            tagged.setdefault(tag, []).append(entry.name)
    index.shadowed += _replacements(sorted(found.keys() & index.entries.keys()), found, index.entries, root)
    index.entries.update(found)
    for tag, members in tagged.items():
        earlier_kind = index.entries[tag].kind if tag in index.entries else None
        if earlier_kind == "tag":  # lm-eval's rule: the later folder's tag covers its own tasks only
            index.shadowed.append(f'the tag "{tag}" of {root} replaces the earlier one')
        if earlier_kind in (None, "tag"):
            index.entries[tag] = TaskEntry(tag, "tag", members=tuple(sorted(members)))


def _replacements(
    names: Sequence[str], found: Mapping[str, TaskEntry], earlier: Mapping[str, TaskEntry], root: Path
) -> list[str]:
    """Notices of names that a later folder defines again; one for all of them if the folder is another collection."""
    if len(names) > _MOST_REPLACEMENTS:
        shown = ", ".join(names[:_MOST_REPLACEMENTS])
        return [f"{len(names)} names of {root} replace earlier ones: {shown}, …"]
    places = {name: earlier[name].path or f"the {earlier[name].kind} of that name" for name in names}
    return [f'"{name}" of {found[name].path} replaces {places[name]}' for name in names]


def _in_family(entry: TaskEntry) -> TaskEntry:
    """An entry of the library, whose family is its folder."""
    return replace(entry, family=str(entry.file)[len(str(LIBRARY)) + 1 :].partition(os.sep)[0])


# The files of a folder

# Cached data of a file: time and size, the files it includes, and what it defines: a list per task or group with the
# values of an entry, none for a file that only serves as an include. Plain lists, as in JSON.
Row = list[Any]
_COLUMNS = tuple(field.name for field in fields(TaskEntry) if field.name != "file")
_REST = _COLUMNS[1:]


def open_catalog(include_path: Sequence[str]) -> Catalog:
    """The catalog of the user's folders; the contents of large ones are cached in the cache folder."""
    return Catalog(include_path, cache_folder() / "catalog")


def index_folder(root: Path, cache_folder: Path | None) -> tuple[list[TaskEntry], list[Fault]]:
    """The entries of a folder and the faults of its unreadable files.

    Args:
        root: the folder.
        cache_folder: folder of the cache; None for no cache.
    """
    paths = sorted(task_files(str(root)), key=lambda path: path.replace(os.sep, "/"))
    cache_file = (
        _cache_file(root, cache_folder) if cache_folder is not None and len(paths) >= _MIN_CACHED_FILES else None
    )
    known = _read_cache(cache_file) if cache_file is not None else {"rows": {}, "includes": {}}
    changed = {path for path, stamp in known["includes"].items() if _stamp(path) != stamp}
    rows, faults = _rows(paths, known["rows"], changed)
    if cache_file is not None and (changed or rows != known["rows"]):
        _write_cache(cache_file, rows)
    return list(_defined(rows)), faults


def task_files(root: str) -> Iterator[str]:
    """All task files below a folder."""
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in _SKIPPED_FOLDERS]
        yield from (f"{folder}{os.sep}{name}" for name in names if name.endswith(".yaml"))


def _stamp(path: str) -> list[int] | None:
    """A file's time and size; None if it does not exist."""
    try:
        stat = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return [stat.st_mtime_ns, stat.st_size]


def _rows(paths: Iterable[str], known: Mapping[str, Row], changed: set[str]) -> tuple[dict[str, Row], list[Fault]]:
    """A row per file: the cached one if nothing has changed, else a new one."""
    reader = TopLevelKeyReader()
    rows: dict[str, Row] = {}
    faults: list[Fault] = []
    for path in paths:
        stamp, row = _stamp(path), known.get(path)
        if row is None or row[0] != stamp or (changed and not changed.isdisjoint(row[1])):
            try:
                data, includes = reader.top_level_keys(path)
            except TaskFileError as error:
                faults.extend(error.faults)
                continue
            row = _row(stamp, includes, data)
        rows[path] = row
    return rows, faults


def _row(stamp: list[int] | None, includes: Iterable[str], data: Mapping[str, Any]) -> Row:
    """A file's row; values that most entries lack are left out, as there may be many thousand."""
    entries = [[getattr(entry, key) for key in _COLUMNS] for entry in entries_of(data)]
    return [stamp, list(includes), [_trimmed(values) for values in entries]]


def _trimmed(values: list[Any]) -> list[Any]:
    """Values as in JSON, without empty ones at the end."""
    while values and values[-1] in ("", (), None):
        values.pop()
    return [list(value) if isinstance(value, tuple) else value for value in values]


def _defined(rows: Mapping[str, Row]) -> Iterator[TaskEntry]:
    for path, (_, _, entries) in rows.items():
        for name, *values in entries:
            own = {key: _plain(value) for key, value in zip(_REST, values, strict=False)}
            yield TaskEntry(name, file=path, **own)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Cache between runs


def _cache_file(root: Path, cache_folder: Path) -> Path:
    return cache_folder / f"{sha256(str(root.resolve()).encode('utf-8', 'surrogateescape')).hexdigest()[:24]}.json"


def _read_cache(cache_file: Path) -> dict[str, Any]:
    """Cached rows; none if the cache file is absent, damaged or of another version."""
    try:
        data = json.loads(cache_file.read_text(encoding="utf-8"))
        rows = dict(data["rows"])
        if data["format"] == [_FORMAT, __version__] and all(
            type(row) is list and len(row) == 3 for row in rows.values()
        ):
            return {"rows": rows, "includes": dict(data["includes"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {"rows": {}, "includes": {}}


def _write_cache(cache_file: Path, rows: Mapping[str, Row]) -> None:
    """Writes the cache file atomically. An index that cannot be cached is read again in the next run."""
    includes = {path: _stamp(path) for row in rows.values() for path in row[1]}
    text = json.dumps({"format": [_FORMAT, __version__], "rows": rows, "includes": includes})
    with suppress(OSError):
        private_folder(cache_file.parent)
        with atomic_write(cache_file) as stream:
            stream.write(text)
