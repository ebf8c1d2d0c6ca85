"""Reads a task file: YAML with line numbers, includes merged, `!function` as a reference.

Takes a path, gives the merged mapping and the location of every key in it. Nothing is imported or run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from assay.core.errors import Fault, TaskFileError, closest, did_you_mean
from assay.core.secrets import remember, remember_lines
from assay.tasks.lm_eval.file.yaml_errors import syntax_fault, value_faults

KeyPath = tuple[Any, ...]

# The key of facts, the only mapping whose keys are merged with those of an included file.
CARD = "card"

# Maximum keys and items of one file. With aliases of aliases, a short file can expand to any number of them.
MAX_KEY_PATHS = 200_000
# Maximum bytes of one file. The largest in lm-eval's tree has 62,570; data belongs in separate files.
MAX_BYTES = 5_000_000
# Deeper chains of includes are a cycle, or as good as one.
_DEEPEST_INCLUDE = 50
# Maximum nesting of lists and mappings: code that traverses a file recurses once per level.
_DEEPEST_NESTING = 100
# libyaml's composer overflows the stack, which ends the process, at some ten thousand levels. A level takes at least
# one of these characters, so the depth of a text with few of them need not be checked.
_NESTING_MARKS = "[{-?:"
_FEW_MARKS = 2_000
_ALIAS = re.compile(r"[\s,\[{]\*\w")
# Errors that PyYAML's constructors raise besides its own: `2024-13-45`, `!!bool x`, `!!int ""`, `!!timestamp x`.
_VALUE_ERRORS = (ValueError, LookupError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """`!function module.name`: Python code that a task file needs to run."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return f"!function {self.text}"


def references(value: Any, above: KeyPath = ()) -> Iterator[tuple[KeyPath, FunctionReference]]:
    """Every reference to code in a task file's mapping, with its key path."""
    if isinstance(value, FunctionReference):
        yield above, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from references(item, (*above, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from references(item, (*above, number))


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """File and line of a key."""

    file: Path
    line: int


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file with its includes merged in.

    Attributes:
        path: the file.
        data: the merged mapping.
        places: key path → file and line.
        repeated: keys that a mapping has twice. The last one counts, as in lm-eval, so this is not an error in a run
            (lm-eval's own tree has such files), but `assay check` reports it.
    """

    path: Path
    data: dict[str, Any]
    places: dict[KeyPath, SourceLocation]
    repeated: tuple[Fault, ...] = ()

    def where(self, *keys: Any) -> str:
        """`file:line  key.path[0]`, for the nearest key that is in the file."""
        for end in range(len(keys), 0, -1):
            place = self.places.get(keys[:end])
            if place is not None:
                return f"{place.file}:{place.line}  {show_path(keys)}"
        return f"{self.path}  {show_path(keys)}" if keys else str(self.path)

    def below(self, *keys: Any) -> dict[KeyPath, SourceLocation]:
        """Locations of everything below a key, with paths relative to it."""
        depth = len(keys)
        return {
            path[depth:]: place for path, place in self.places.items() if len(path) > depth and path[:depth] == keys
        }

    def changed(self, data: Mapping[str, Any], places: Mapping[KeyPath, SourceLocation]) -> TaskFile:
        """The same file with some top-level keys overridden."""
        kept = {keys: place for keys, place in self.places.items() if keys[0] not in data}
        return TaskFile(self.path, {**self.data, **data}, {**kept, **places}, self.repeated)


def show_path(keys: KeyPath) -> str:
    """`filter_list[1].filter[0].function`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) and not isinstance(key, bool) else f".{key}" if text else str(key)
    return text


# libyaml if PyYAML was built with it: an order of magnitude faster.
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """PyYAML's safe loader plus the one tag of the dialect, and PromptSource's two, which are mappings here."""

    file = Path()


def _construct_function(loader: _Loader, node: yaml.Node) -> FunctionReference:
    return FunctionReference(str(loader.construct_scalar(node)), loader.file.parent)


def _construct_int(loader: _Loader, node: yaml.Node) -> int:
    value: int = loader.construct_yaml_int(node)
    str(value)  # Python formats no integer of more than 4,300 digits: a ValueError here, not in some later message
    return value


def _construct_tagged(loader: _Loader, node: yaml.Node) -> dict[Any, Any]:
    mapping: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return mapping


_Loader.add_constructor("!function", _construct_function)
_Loader.add_constructor("!Template", _construct_tagged)
_Loader.add_constructor("!TemplateMetadata", _construct_tagged)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Parsed(NamedTuple):
    """One file without its includes."""

    data: dict[str, Any]
    lines: dict[KeyPath, int]
    repeated: tuple[Fault, ...]


@lru_cache(maxsize=1024)
def _parse(path: Path, stamp: tuple[int, int]) -> _Parsed:
    """One file without its includes. The stamp (mtime, size) invalidates the cache."""
    text = _read_text(path)
    node = None
    loader = None
    try:
        _check_depth(text, path)
        loader = _Loader(text)
        loader.file = path
        node = loader.get_single_node()
        if "<<" in text:
            _check_merges(path, node)
        repeated = tuple(_repeated(path, node))  # before `<<` is merged, which may repeat overridden keys
        data = loader.construct_document(node) if node is not None else None
        if not isinstance(data, dict):
            raise TaskFileError(_root_fault(path, data))
        parsed = _Parsed(data, _places(path, node, loader), repeated)
        remember(data)  # keeps a dataset's token out of records; last, because only now the size is known to be bounded
        return parsed
    except yaml.YAMLError as error:
        remember_lines(text)
        raise TaskFileError(syntax_fault(path, text, error)) from error
    except _VALUE_ERRORS as error:
        faults = list(value_faults(path, _Loader(""), node)) if node is not None else []
        raise TaskFileError(*(faults or [Fault(str(path), f"holds a value that YAML cannot read: {error}")])) from error
    finally:
        if loader is not None:
            loader.dispose()


def _root_fault(path: Path, data: Any) -> Fault:
    if data is None:
        return Fault(str(path), "holds nothing", "a mapping of keys such as task: my_task")
    advice = 'Remove the dash before "task:"' if isinstance(data, list) else ""
    if isinstance(data, str) and ":" in data:
        advice = "Write a space after each colon"
    return Fault(f"{path}:1", f"holds a {type(data).__name__}", "a mapping of keys such as task: my_task", advice)


def _is_risky(text: str) -> bool:
    has_marks = sum(map(text.count, _NESTING_MARKS)) > _FEW_MARKS or text.count(",") > MAX_KEY_PATHS // 2
    return has_marks or ("&" in text and _ALIAS.search(text) is not None)


def _check_depth(text: str, path: Path) -> None:
    """Rejects files that would overflow the parser's stack or take too long, by its events, which cause neither."""
    if not _is_risky(text):
        return
    depth = 0
    for count, event in enumerate(yaml.parse(text, _Loader)):
        if count > 2 * MAX_KEY_PATHS:  # a key and its value are two
            raise TaskFileError(_too_many(path, "Put data into a file of its own (dataset_kwargs.data_files)"))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_NESTING:
            raise TaskFileError(_too_deep(path, event.start_mark.line + 1))


def _check_merges(path: Path, root: yaml.Node | None) -> None:
    """Rejects merges (`<<`) of merges that multiply; they are expanded before anything can count them."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if not isinstance(node, yaml.MappingNode):
            return 1 + sum(map(size, node.value)) if isinstance(node, yaml.SequenceNode) else 1
        if id(node) not in sizes:
            sizes[id(node)] = 0  # for a mapping that merges itself
            sizes[id(node)] = sum(size(value) if key.value == "<<" else 1 for key, value in node.value)
        return sizes[id(node)]

    waiting, known = [root], set()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.MappingNode) and size(node) > MAX_KEY_PATHS:
            found = f"merges (<<) more than {MAX_KEY_PATHS:,} keys into a mapping"
            raise TaskFileError(Fault(f"{path}:{node.start_mark.line + 1}", found, next="Write the keys out"))
        waiting += [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]


def _too_deep(path: Path, line: int) -> Fault:
    return Fault(f"{path}:{line}", "lists and mappings are nested too deeply", f"at most {_DEEPEST_NESTING} levels")


def _too_many(path: Path, advice: str) -> Fault:
    return Fault(str(path), f"holds more than {MAX_KEY_PATHS:,} keys and items", next=advice)


def _repeated(path: Path, node: yaml.Node | None) -> Iterator[Fault]:
    """Keys given twice in one mapping. Every node is visited once, however many aliases refer to it."""
    waiting: list[tuple[yaml.Node, KeyPath]] = [(node, ())] if node is not None else []
    known: set[int] = set()
    while waiting:
        inner, above = waiting.pop()
        if id(inner) in known or isinstance(inner, yaml.ScalarNode):
            continue
        known.add(id(inner))
        if isinstance(inner, yaml.SequenceNode):
            waiting += [(item, (*above, number)) for number, item in enumerate(inner.value)]
            continue
        first: dict[tuple[str, str], int] = {}
        for key, value in inner.value:
            waiting.append((value, (*above, str(key.value))))
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and first.setdefault((key.tag, key.value), line) != line:
                where = f"{path}:{line}  {show_path((*above, key.value))}"
                found = f"the key is given twice: line {first[key.tag, key.value]} has it too and is overridden here"
                yield Fault(where, found, "each key once", "Remove one of the two lines")


def _places(path: Path, node: yaml.Node | None, loader: _Loader) -> dict[KeyPath, int]:
    places: dict[KeyPath, int] = {}
    for keys, line in _lines(node, (), (), loader):
        places[keys] = line
        if len(places) > MAX_KEY_PATHS:
            raise TaskFileError(_too_many(path, "Write aliases (*name) out: aliases of aliases multiply"))
        if len(keys) > _DEEPEST_NESTING:
            raise TaskFileError(_too_deep(path, line))
    return places


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise TaskFileError(Fault(str(path), f"cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        where = f"{path}:{content.count(10, 0, error.start) + 1}"
        found = f"is not UTF-8: {error.reason} at byte {error.start}"
        raise TaskFileError(Fault(where, found, "text", "Save the file as UTF-8")) from error


def _lines(
    node: yaml.Node | None, above: KeyPath, around: tuple[yaml.Node, ...], loader: _Loader
) -> Iterator[tuple[KeyPath, int]]:
    """Key paths and their lines, for a node below `above` that is inside the nodes `around`."""
    if isinstance(node, yaml.ScalarNode) or node is None:
        return
    if any(node is outer for outer in around):
        where = f"{loader.file}:{node.start_mark.line + 1}"
        raise TaskFileError(Fault(where, "holds an alias that refers to itself", "plain data"))
    around = (*around, node)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*above, _key(key, loader))
            yield path, key.start_mark.line + 1
            yield from _lines(value, path, around, loader)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            path = (*above, number)
            yield path, value.start_mark.line + 1
            yield from _lines(value, path, around, loader)


def _key(node: yaml.Node, loader: _Loader) -> Any:
    """A key as in the loaded data, where `yes:` is True."""
    return node.value if node.tag == "tag:yaml.org,2002:str" else loader.construct_object(node, deep=True)


def read_task_file(path: Path) -> TaskFile:
    """A task file with its includes. Merging is shallow: the file's own keys win, then later includes.

    Only the keys of a card are merged one by one.
    """
    return _read(path, (), str(path), {})


def _read(path: Path, above: tuple[Path, ...], where: str, known: dict[Path, TaskFile]) -> TaskFile:
    """One file and its includes.

    Args:
        path: the file.
        above: the files that include it, resolved, outermost first.
        where: the line that includes it, for errors.
        known: files read so far, so that shared includes are merged once.
    """
    resolved, stamp = _regular_file(path, where)
    if len(above) > _DEEPEST_INCLUDE:
        raise TaskFileError(Fault(where, f"includes go more than {_DEEPEST_INCLUDE} files deep", "fewer"))
    if resolved in above:
        chain = " → ".join(step.name for step in (*above, resolved))
        raise TaskFileError(Fault(where, f"include cycle: {chain}", next="Remove one include of the cycle"))
    if path in known:
        return known[path]
    own, lines, repeated = _parse(path, stamp)
    data: dict[str, Any] = {}
    places: dict[KeyPath, SourceLocation] = {}
    faults: list[Fault] = []
    for keys, included in _includes(path, own, lines):
        asked = f"{path}:{lines.get(keys, lines.get(('include',), 1))}  {show_path(keys)}"
        try:
            base = _read(included, (*above, resolved), asked, known)
        except TaskFileError as error:
            faults += error.faults
            continue
        base_data = {key: value for key, value in base.data.items() if key != "task_list"}
        _merge(data, places, base_data, base.places)
        repeated += base.repeated
    if faults:
        raise TaskFileError(*faults)
    own_data = {key: value for key, value in own.items() if key != "include"}
    _merge(data, places, own_data, {keys: SourceLocation(path, line) for keys, line in lines.items()})
    known[path] = TaskFile(path, data, places, repeated)
    return known[path]


def _regular_file(path: Path, where: str) -> tuple[Path, tuple[int, int]]:
    """A file's real path, and its time and size. A device or a pipe might never end."""
    try:
        resolved, found = path.resolve(), path.stat()
    except (OSError, ValueError, RuntimeError) as error:  # missing file; a null character in the name; a loop of links
        reason = getattr(error, "strerror", None) or error
        hint = did_you_mean(path.name, closest(path.name, _neighbours(path), most=1))
        raise TaskFileError(Fault(where, f'no file "{path}": {reason}{hint}', "an existing task file")) from error
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise TaskFileError(Fault(where, f'"{path}" is {kind}', "a task file"))
    if found.st_size > MAX_BYTES:
        size = f"{found.st_size / 1e6:,.1f} MB"
        advice = "Put data into a file of its own, and name it in dataset_kwargs.data_files"
        raise TaskFileError(
            Fault(where, f'"{path}" has {size}', f"a task file of at most {MAX_BYTES / 1e6:g} MB", advice)
        )
    return resolved, (found.st_mtime_ns, found.st_size)


def _neighbours(path: Path) -> list[str]:
    try:
        return [item.name for item in path.parent.iterdir() if item.name != path.name]
    except (OSError, ValueError):
        return []


def _includes(path: Path, data: dict[str, Any], lines: dict[KeyPath, int]) -> list[tuple[KeyPath, Path]]:
    """The files that a file includes, each with the key path of the include."""
    named = data.get("include")
    if isinstance(named, str):
        return [(("include",), path.parent / named)]
    if named is None and "include" not in data:
        return []
    if not isinstance(named, list) or not all(isinstance(item, str) for item in named):
        where = f"{path}:{lines.get(('include',), 1)}  include"
        raise TaskFileError(Fault(where, f"is {named!r}", "a path or a list of paths"))
    return [(("include", number), path.parent / item) for number, item in enumerate(named)]


def _merge(
    data: dict[str, Any],
    places: dict[KeyPath, SourceLocation],
    new: dict[str, Any],
    new_places: dict[KeyPath, SourceLocation],
) -> None:
    """Adds top-level keys; the locations of a replaced key are removed. The keys of a card are added one by one."""
    card = merged_card(data.get(CARD), new.get(CARD))
    kept = card.keys() - new[CARD].keys() if card else set()
    data.update(new if card is None else {**new, CARD: card})
    for keys in [keys for keys in places if keys[0] in new and not (keys[0] == CARD and keys[1:2] and keys[1] in kept)]:
        del places[keys]
    places.update({keys: place for keys, place in new_places.items() if keys[0] in new})


def merged_card(base: Any, own: Any) -> dict[str, Any] | None:
    """The facts of two cards, where the second takes precedence; None if there are not two."""
    return {**base, **own} if isinstance(base, dict) and isinstance(own, dict) else None


def _with_card(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    card = merged_card(base.get(CARD), own.get(CARD))
    return {**base, **own} if card is None else {**base, **own, CARD: card}


class TopLevelKeyReader:
    """Top-level keys of many task files, for an index: includes are merged and read once, locations are left out."""

    def __init__(self) -> None:
        self._included: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {}

    def top_level_keys(self, path: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The merged mapping of a file, and the files it includes, directly or not.

        Any unusual file goes through the full reader, which reports what is wrong.
        """
        try:
            return self._merged(path, 0)
        except (yaml.YAMLError, OSError, TypeError, *_VALUE_ERRORS):
            file = read_task_file(Path(path))
            return file.data, tuple(sorted({str(place.file) for place in file.places.values()} - {path}))

    def _merged(self, path: str, depth: int) -> tuple[dict[str, Any], tuple[str, ...]]:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:  # noqa: PTH113, PTH202
            raise OSError(path)
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        if _is_risky(text) or depth > _DEEPEST_INCLUDE:
            raise ValueError(path)
        data = yaml.load(text, _Loader)
        if not isinstance(data, dict):
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
            merged = _with_card(merged, inner)
            files += [base, *deeper]
        return _with_card(merged, data), tuple(files)
