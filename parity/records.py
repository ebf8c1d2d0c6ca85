"""Files of records, one JSON line per task and case, that a killed worker leaves whole.

A record holds `task`, `case`, `seconds`, and either `error` or what was found. The first line of a file names the
settings it was made with; a file of other settings is begun anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Key = tuple[str, str]


def plain(value: Any) -> Any:
    """Anything as JSON data: numpy values as numbers and lists, sets sorted, the unknown as text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def pack(requests: list[list[Any]], before: list[Any]) -> list[list[Any]]:
    """Requests with None for whatever is as in the request before; the choices of a question share their prompt."""
    packed = []
    for request in requests:
        packed.append([None if request[:1] == before[:1] and a == b else a for a, b in _beside(request, before)])
        before[:] = request
    return packed


def _beside(request: list[Any], before: list[Any]) -> Iterator[tuple[Any, Any]]:
    padded = [*before, *([None] * len(request))]
    return zip(request, padded[: len(request)], strict=True)


def unpack(packed: list[list[Any]], before: list[Any]) -> list[list[Any]]:
    """What `pack` was given."""
    requests = []
    for request in packed:
        whole = [old if new is None else new for new, old in _beside(request, before)]
        before[:] = whole
        requests.append(whole)
    return requests


class RecordWriter:
    """Adds records to a file and knows which are there."""

    def __init__(self, path: Path, settings: str) -> None:
        self._path = path
        self.done: set[Key] = set()
        if _settings_of(path) == settings:
            self.done = {key for key, _ in _offsets(path)}
            self._end_broken_line()
        else:
            path.write_text(json.dumps({"settings": settings}) + "\n", encoding="utf-8")

    def _end_broken_line(self) -> None:
        with self._path.open("rb+") as file:
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")

    def write(self, record: dict[str, Any]) -> None:
        line = json.dumps(plain(record), ensure_ascii=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.done.add((record["task"], record["case"]))


def _settings_of(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file:
        first = _parsed(file.readline())
    return first.get("settings") if first else None


def _parsed(line: str | bytes) -> dict[str, Any] | None:
    """A line's record; None for one that a killed worker left unfinished."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _offsets(path: Path) -> Iterator[tuple[Key, int]]:
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = _parsed(line)
            if record is not None and "task" in record:
                yield (record["task"], record["case"]), offset
            offset += len(line)


class RecordFile:
    """Finished records, read one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places = dict(_offsets(path)) if path.is_file() else {}

    def get(self, key: Key) -> dict[str, Any] | None:
        if key not in self._places:
            return None
        with self._path.open("rb") as file:
            file.seek(self._places[key])
            return _parsed(file.readline())


class Following:
    """Reads the records of a file that another process is still writing.

    Args:
        path: the file.
        finished: a file that exists once the other process has ended.
    """

    def __init__(self, path: Path, finished: Path) -> None:
        self._path = path
        self._finished = finished
        self._offset = 0
        self._seen: dict[Key, Any] = {}

    def wait_for(self, key: Key, field: str) -> Any:
        """A field of a record as soon as it is there; None when the other process ended without it."""
        while True:
            is_last = self._finished.exists()
            self._read(field)
            if key in self._seen:
                return self._seen.pop(key)
            if is_last:
                return None
            time.sleep(0.2)

    def _read(self, field: str) -> None:
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                record = _parsed(line)
                if record is not None and "task" in record:
                    self._seen[(record["task"], record["case"])] = record.get(field)
