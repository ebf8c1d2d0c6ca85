"""Reads a task file: YAML with line numbers, includes merged, `!function` kept as a reference.

Takes a path, gives the merged mapping and the place of every key in it. Nothing is imported or run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from assay.core.errors import Fault, TaskFileError

KeyPath = tuple[Any, ...]

# Keys and items of one file. Aliases that refer to aliases can make a short file stand for any number of them.
# Includes of includes of … beyond this are a cycle, or as good as one.
_DEEPEST_INCLUDE = 50
MOST_PLACES = 200_000


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """`!function module.name`: Python code that a task file asks to run."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return f"!function {self.text}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key stands."""

    file: Path
    line: int


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file with its includes merged in.

    Attributes:
        path: the file.
        data: the merged mapping.
        places: key path → file and line.
    """

    path: Path
    data: dict[str, Any]
    places: dict[KeyPath, Place]

    def where(self, *keys: Any) -> str:
        """`file:line  key.path[0]`, for the nearest key that is in the file."""
        for end in range(len(keys), 0, -1):
            place = self.places.get(keys[:end])
            if place is not None:
                return f"{place.file}:{place.line}  {show_path(keys)}"
        return f"{self.path}  {show_path(keys)}" if keys else str(self.path)

    def below(self, *keys: Any) -> dict[KeyPath, Place]:
        """The places of what stands below a key, as if it were a file of its own."""
        depth = len(keys)
        return {
            path[depth:]: place for path, place in self.places.items() if len(path) > depth and path[:depth] == keys
        }

    def changed(self, data: Mapping[str, Any], places: Mapping[KeyPath, Place]) -> TaskFile:
        """The same file with some top-level keys set from elsewhere."""
        kept = {keys: place for keys, place in self.places.items() if keys[0] not in data}
        return TaskFile(self.path, {**self.data, **data}, {**kept, **places})


def show_path(keys: KeyPath) -> str:
    """`filter_list[1].filter[0].function`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


# libyaml where PyYAML was built with it: an order of magnitude faster.
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """PyYAML's safe loader plus the one tag of the dialect."""

    folder = Path()


def _construct_function(loader: _Loader, node: yaml.Node) -> FunctionReference:
    return FunctionReference(str(loader.construct_scalar(node)), loader.folder)


_Loader.add_constructor("!function", _construct_function)


@lru_cache(maxsize=1024)
def _parse(path: Path, stamp: tuple[int, int]) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """One file without its includes. The stamp (mtime, size) keeps the memo honest."""
    loader = _Loader(_read_text(path))
    loader.folder = path.parent
    try:
        node = loader.get_single_node()
        data = loader.construct_document(node) if node is not None else None
    except yaml.YAMLError as error:
        raise TaskFileError(_yaml_fault(path, error)) from error
    except (ValueError, RecursionError) as error:  # a date such as 2024-13-45, a number such as 0x_, endless nesting
        raise TaskFileError(
            Fault(str(path), f"holds a value that YAML cannot read: {error}", next="Quote it")
        ) from error
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise TaskFileError(Fault(str(path), f"holds {_kind(data)}", "a mapping of keys such as task: my_task"))
    return data, _places(path, node)


def _places(path: Path, node: yaml.Node | None) -> dict[KeyPath, int]:
    places: dict[KeyPath, int] = {}
    try:
        for keys, line in _lines(node, ()):
            places[keys] = line
            if len(places) > MOST_PLACES:
                raise TaskFileError(Fault(str(path), f"holds more than {MOST_PLACES:,} keys and items", "a small file"))
    except RecursionError as error:
        raise TaskFileError(Fault(str(path), "holds an alias that refers to itself", "plain data")) from error
    return places


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TaskFileError(Fault(str(path), f"cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        raise TaskFileError(Fault(str(path), f"is not UTF-8: {error.reason} at byte {error.start}")) from error


def _kind(data: Any) -> str:
    return "nothing" if data is None else f"a {type(data).__name__}"


def _yaml_fault(path: Path, error: yaml.YAMLError) -> Fault:
    mark = getattr(error, "problem_mark", None)
    where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    return Fault(where, f"is not YAML: {problem}" + (f" ({context})" if context else ""))


def _lines(node: yaml.Node | None, above: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*above, key.value)
            yield path, key.start_mark.line + 1
            yield from _lines(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            path = (*above, number)
            yield path, value.start_mark.line + 1
            yield from _lines(value, path)


def read_task_file(path: Path) -> TaskFile:
    """A task file and all it includes. Merging is shallow: the file's own keys win, then later includes."""
    return _read(path, (), str(path))


def _read(path: Path, above: tuple[Path, ...], where: str) -> TaskFile:
    """One file and its includes.

    Args:
        path: the file.
        above: the files that include it, resolved, outermost first.
        where: the line that asks for it, for errors.
    """
    resolved = path.resolve()
    if resolved in above:
        chain = " → ".join(str(step) for step in (*above, resolved))
        raise TaskFileError(Fault(where, f"include cycle: {chain}", next="Break the cycle"))
    try:
        stat = path.stat()
    except OSError as error:
        raise TaskFileError(Fault(where, f'no file "{path}": {error.strerror}', "an existing task file")) from error
    own, lines = _parse(path, (stat.st_mtime_ns, stat.st_size))
    data: dict[str, Any] = {}
    places: dict[KeyPath, Place] = {}
    for included in _includes(path, own, lines):
        base = _read(included, (*above, resolved), f"{path}:{lines.get(('include',), 1)}  include")
        base_data = {key: value for key, value in base.data.items() if key != "task_list"}
        _merge(data, places, base_data, base.places)
    own_data = {key: value for key, value in own.items() if key != "include"}
    _merge(data, places, own_data, {keys: Place(path, line) for keys, line in lines.items()})
    return TaskFile(path, data, places)


def _includes(path: Path, data: dict[str, Any], lines: dict[KeyPath, int]) -> list[Path]:
    named = data.get("include", [])
    named = [named] if isinstance(named, str) else named
    if not isinstance(named, list) or not all(isinstance(item, str) for item in named):
        where = f"{path}:{lines.get(('include',), 1)}  include"
        raise TaskFileError(Fault(where, f"is {named!r}", "a path or a list of paths"))
    return [path.parent / item for item in named]


def _merge(
    data: dict[str, Any], places: dict[KeyPath, Place], new: dict[str, Any], new_places: dict[KeyPath, Place]
) -> None:
    """Adds top-level keys; a replaced key takes its places with it."""
    data.update(new)
    for keys in [keys for keys in places if keys[0] in new]:
        del places[keys]
    places.update({keys: place for keys, place in new_places.items() if keys[0] in new})


class HeadReader:
    """Top-level keys of many task files, for an index: includes are merged and read once, places are left out."""

    def __init__(self) -> None:
        self._included: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {}

    def head(self, path: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The merged mapping of a file, and the files it includes, directly or not.

        Whatever is odd about a file goes through the careful reader, which says what.
        """
        try:
            return self._merged(path, 0)
        except (yaml.YAMLError, OSError, ValueError, TypeError, RecursionError):
            file = read_task_file(Path(path))
            return file.data, tuple(sorted({str(place.file) for place in file.places.values()} - {path}))

    def _merged(self, path: str, depth: int) -> tuple[dict[str, Any], tuple[str, ...]]:
        with open(path, encoding="utf-8") as stream:
            data = yaml.load(stream.read(), _Loader)
        if not isinstance(data, dict) or depth > _DEEPEST_INCLUDE:
            raise ValueError(path)
        named = data.get("include")
        if named is None:
            return data, ()
        merged: dict[str, Any] = {}
        files: list[str] = []
        for item in [named] if isinstance(named, str) else named:
            base = os.path.normpath(os.path.join(os.path.dirname(path), item))  # noqa: PTH118, PTH120
            if base not in self._included:
                self._included[base] = self._merged(base, depth + 1)
            inner, deeper = self._included[base]
            merged.update(inner)
            files += [base, *deeper]
        return {**merged, **data}, tuple(files)
