"""Readers of local data files: JSON, JSON Lines, CSV, plain text (all may be gzipped) and Parquet.

Takes a path and how to read it, gives rows. Column types follow what the `datasets` package would infer:
a column that some rows lack is None there, and a CSV column is a number where all its cells are.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import DataError, Fault, missing_extra

Row = dict[str, Any]
_SPLIT_NAMES = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "dev": "validation",
    "test": "test",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read.

    Attributes:
        extension: what to read files as whose own extension says nothing.
        field: key of a JSON object under which the rows stand.
        separator: CSV cell separator.
        columns: CSV column names that replace or stand in for a header.
        has_header: whether a CSV has a header line; None means it has one unless `columns` is given.
    """

    extension: str | None = None
    field: str | None = None
    separator: str = ","
    columns: tuple[str, ...] = ()
    has_header: bool | None = None


def read(path: Path, options: ReadOptions, where: str = "") -> list[Row]:
    """All rows of a file.

    Args:
        path: the file.
        options: how to read it.
        where: the task that asks for it, for errors.
    """
    reader = _READERS.get(_extension(path)) or _READERS.get(options.extension or "")
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise DataError(Fault(str(path), f"cannot read files of this kind (wanted by {where})", f"one of {known}"))
    try:
        return reader(path, options)
    except OSError as error:
        raise DataError(Fault(str(path), f"cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        raise DataError(Fault(str(path), f"is not UTF-8: {error.reason} at byte {error.start}")) from error


def _extension(path: Path) -> str:
    suffixes = path.suffixes[:-1] if path.suffix == ".gz" else path.suffixes
    return suffixes[-1].lower() if suffixes else ""


def _open_text(path: Path) -> io.TextIOBase:
    # newline="" leaves line ends to the readers: a lone \r or U+2028 inside a JSON text is not a line end.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read_json(path: Path, options: ReadOptions) -> list[Row]:
    with _open_text(path) as stream:
        text = stream.read()
    if options.field is None and not text.lstrip().startswith("["):
        return _json_lines(path, text)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(Fault(f"{path}:{error.lineno}", f"is not JSON: {error.msg}")) from error
    rows = data.get(options.field) if options.field is not None and isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        place = f" under the key {options.field!r}" if options.field else ""
        raise DataError(Fault(str(path), f"holds no list of objects{place}", "[{…}, {…}] or one object per line"))
    return rows


def _json_lines(path: Path, text: str) -> list[Row]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(Fault(f"{path}:{number}", f"is not JSON: {error.msg}", "one object per line")) from error
        if not isinstance(row, dict):
            raise DataError(Fault(f"{path}:{number}", f"is a {type(row).__name__}", "an object with named fields"))
        rows.append(row)
    return rows


def _read_csv(path: Path, options: ReadOptions) -> list[Row]:
    with _open_text(path) as stream:
        lines = list(csv.reader(stream, delimiter="\t" if _extension(path) == ".tsv" else options.separator))
    lines = [line for line in lines if line]
    has_header = options.has_header if options.has_header is not None else not options.columns
    header = list(options.columns) or (lines[0] if has_header and lines else [])
    body = lines[1:] if has_header else lines
    header = header or [str(place) for place in range(len(body[0]) if body else 0)]
    for number, line in enumerate(body, 2 if has_header else 1):
        if len(line) != len(header):
            raise DataError(Fault(f"{path}:{number}", f"has {len(line)} cells", f"{len(header)}, as the header has"))
    columns = [_typed_column([line[place] for line in body]) for place in range(len(header))]
    return [dict(zip(header, cells, strict=True)) for cells in zip(*columns, strict=True)] if body else []


def _typed_column(cells: list[str]) -> list[Any]:
    """Cells as whole numbers, else numbers, else booleans, where every non-empty one is; else as text."""
    filled = [cell for cell in cells if cell != ""]
    casts: tuple[Callable[[str], Any], ...] = (_plain_int, float, _boolean)
    for cast in casts:
        try:
            for cell in filled:
                cast(cell)
        except ValueError:
            continue
        return [None if cell == "" else cast(cell) for cell in cells] if filled else list[Any](cells)
    return [None if cell == "" else cell for cell in cells]


def _plain_int(cell: str) -> int:
    if "_" in cell:
        raise ValueError(cell)
    return int(cell)


def _boolean(cell: str) -> bool:
    if cell not in ("True", "False", "true", "false", "TRUE", "FALSE"):
        raise ValueError(cell)
    return cell.lower() == "true"


def _read_text(path: Path, options: ReadOptions) -> list[Row]:
    with _open_text(path) as stream:
        return [{"text": line.rstrip("\r\n")} for line in stream.read().splitlines()]


def _read_parquet(path: Path, options: ReadOptions) -> list[Row]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise missing_extra("pyarrow", "hf", f"{path}: Parquet file") from error
    try:
        rows: list[Row] = parquet.read_table(path).to_pylist()
    except ArrowInvalid as error:
        raise DataError(Fault(str(path), f"is not a Parquet file: {error}")) from error
    return rows


_READERS: dict[str, Callable[[Path, ReadOptions], list[Row]]] = {
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_text,
    ".parquet": _read_parquet,
}


def with_all_columns(rows: list[Row]) -> list[Row]:
    """The rows with every column of any of them; None where a row lacks one."""
    if not rows:
        return rows
    columns: dict[str, None] = dict.fromkeys(rows[0])
    uneven = False
    for row in rows:
        if row.keys() != columns.keys():
            uneven = True
            columns.update(dict.fromkeys(row))
    return [{column: row.get(column) for column in columns} for row in rows] if uneven else rows


def matching(path: Path) -> list[Path]:
    """The file of this name, or the files that a pattern matches, sorted."""
    if path.is_file():
        return [path]
    return sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())


def by_split(folder: Path, name: str | None) -> dict[str, list[Path]]:
    """Data files of a folder by the split that their names begin with; a configuration is a folder in it."""
    inner = folder / name if name and (folder / name).is_dir() else folder
    found: dict[str, list[Path]] = {}
    for path in sorted(inner.iterdir()):
        stem = path.name.split(".")[0].split("-")[0]
        if path.is_file() and _extension(path) in _READERS and stem in _SPLIT_NAMES:
            found.setdefault(_SPLIT_NAMES[stem], []).append(path)
    return found
