"""Readers of local data files: JSON, JSON Lines, CSV, plain text (all may be gzipped) and Parquet.

Takes a path and read options, returns rows. Column types follow what the `datasets` package would infer:
a column that some rows lack is None there, integers mixed with floats become floats, and a CSV column is
numeric if all its cells are. tests/data/test_readers.py states where they differ.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from assay.core.errors import DataError, Fault, LimitError, missing_extra
from assay.guard.time_limit import ResourceLimit

Row = dict[str, Any]
_CHARACTERS_AT_ONCE = 1_000_000
# Maximum number of files that a pattern may match.
MAX_FILES = 100_000
# A compressed file may expand to this size, or by this factor; text expands about tenfold.
MAX_BYTES = 200_000_000
MAX_EXPANSION = 100
# Kind of a JSON value → how errors call it.
_JSON_KINDS = {
    bool: "a boolean",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "text",
    type(None): "null",
}
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
        extension: format of files whose own extension is unknown, such as `.json`.
        field: key of a JSON object that holds the rows.
        separator: CSV cell separator; None means a tab for `.tsv` files, else a comma.
        columns: CSV column names; they replace the header, if there is one.
        has_header: whether a CSV has a header line; None means it has one unless `columns` is given.
    """

    extension: str | None = None
    field: str | None = None
    separator: str | None = None
    columns: tuple[str, ...] = ()
    has_header: bool | None = None


def read(path: Path, options: ReadOptions, where: str = "") -> list[Row]:
    """All rows of a file.

    Args:
        path: the file.
        options: how to read it.
        where: the task that needs it, for errors.
    """
    reader = _READERS.get(_extension(path)) or _READERS.get(options.extension or "")
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise DataError(Fault(str(path), f"cannot read files of this kind (wanted by {where})", f"one of {known}"))
    try:
        return reader(path, options)
    except OSError as error:
        raise DataError(Fault(str(path), f"cannot be read: {error.strerror or error}")) from error
    except (EOFError, zlib.error) as error:
        raise DataError(Fault(str(path), f"is a damaged gzip file: {error}", next="Fetch it again")) from error
    except UnicodeDecodeError as error:
        found = f"is not UTF-8: {error.reason} at byte {error.start}"
        advice = "If it is text, save it as UTF-8, such as: iconv -f LATIN1 -t UTF-8 FILE > NEW_FILE"
        raise DataError(Fault(str(path), found, f"a {_extension(path)} file in UTF-8", advice)) from error


def _extension(path: Path) -> str:
    suffixes = path.suffixes[:-1] if path.suffix == ".gz" else path.suffixes
    return suffixes[-1].lower() if suffixes else ""


class _Unzipped(gzip.GzipFile):
    """Gzip file that raises an error when it expands too far."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(_CHARACTERS_AT_ONCE), b""))
        found = super().read(size)
        _check_expansion(Path(str(self.name)), self.tell())
        return found

    def read1(self, size: int = -1) -> bytes:
        found = super().read1(size)
        _check_expansion(Path(str(self.name)), self.tell())
        return found


def _check_expansion(path: Path, size: int) -> None:
    """Raises if a compressed file expands to more bytes than a data file plausibly does."""
    if size > MAX_BYTES and size > MAX_EXPANSION * path.stat().st_size:
        found = f"expands to more than {MAX_EXPANSION} times its {path.stat().st_size:,} bytes"
        raise DataError(Fault(str(path), found, "a compressed data file", "If it is meant, uncompress it"))


def _open_text(path: Path, newline: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(_Unzipped(path), encoding="utf-8-sig", newline=newline)
    return path.open(encoding="utf-8-sig", newline=newline)


def _text(path: Path) -> str:
    # newline="" leaves line ends to the readers: a lone \r or U+2028 inside a JSON string is not a line end.
    with _open_text(path, "") as stream:
        return stream.read()


def _read_json(path: Path, options: ReadOptions) -> list[Row]:
    lines = _json_lines(path) if options.field is None else None
    if lines is not None:
        return lines
    text = _text(path)
    if options.field is None and not text.lstrip().startswith("["):
        return _json_line_by_line(path, text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DataError(Fault(f"{path}:{line}", f"is not JSON: {getattr(error, 'msg', error)}")) from error
    rows = data.get(options.field) if options.field is not None and isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        place = f" under the key {options.field!r}" if options.field else ""
        raise DataError(Fault(str(path), f"holds no list of objects{place}", "[{…}, {…}] or one object per line"))
    return rows


def _json_lines(path: Path) -> list[Row] | None:
    """The rows of a file with an object on every line; None for any other file, whose errors a slower reader reports.

    Parses a block of lines as one list, twice as fast as line by line, and holds only one block as text at a time.
    """
    rows: list[Row] = []
    try:
        with _open_text(path, "\n") as stream:
            while block := stream.readlines(_CHARACTERS_AT_ONCE):
                lines = [line for line in block if not line.isspace()]
                if not rows and lines and lines[0].lstrip().startswith("["):
                    return None
                together: list[Row] = json.loads("[" + ",".join(lines) + "]")
                if len(together) != len(lines) or not all(type(row) is dict for row in together):
                    return None
                rows += together
    except (ValueError, RecursionError):  # not JSON, or not UTF-8
        return None
    return rows


def _json_line_by_line(path: Path, text: str) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            single = None if rows else _single_object(text)
            if single is not None:
                return [single]
            problem = getattr(error, "msg", error)
            raise DataError(Fault(f"{path}:{number}", f"is not JSON: {problem}", "one object per line")) from error
        if not isinstance(row, dict):
            raise DataError(Fault(f"{path}:{number}", f"is {_JSON_KINDS[type(row)]}", "an object with named fields"))
        rows.append(row)
    return rows


def _single_object(text: str) -> Row | None:
    """The only object of a file, written over several lines; None for any other content."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _read_csv(path: Path, options: ReadOptions) -> list[Row]:
    separator = options.separator or ("\t" if _extension(path) == ".tsv" else ",")
    lines = _csv_lines(path, separator)
    has_header = options.has_header if options.has_header is not None else not options.columns
    header = list(options.columns) or (lines[0][1] if has_header and lines else [])
    body = lines[1:] if has_header else lines
    header = header or [str(place) for place in range(len(body[0][1]) if body else 0)]
    for number, line in body:
        if len(line) != len(header):
            raise DataError(Fault(f"{path}:{number}", f"has {len(line)} cells", f"{len(header)}, as the header has"))
    columns = [_typed_column([line[place] for _, line in body]) for place in range(len(header))]
    names = _distinct(header)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)] if body else []


def _csv_lines(path: Path, separator: str) -> list[tuple[int, list[str]]]:
    """(number of its last line, cells) of every row that is not blank."""
    csv.field_size_limit(2**31 - 1)  # the default, 131,072 characters, is less than a long article
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=separator)
    try:
        return [(reader.line_num, line) for line in reader if line]
    except csv.Error as error:
        raise DataError(Fault(f"{path}:{reader.line_num}", f"is not CSV: {error}")) from error


def _distinct(header: list[str]) -> list[str]:
    """Column names made distinct: a second `a` becomes `a.1`, as in pandas."""
    seen: Counter[str] = Counter()
    names = []
    for name in header:
        names.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


# pandas treats these as missing cells everywhere. In a text column that would discard the answers "None" and "NA",
# so they count as missing only if all other cells are numbers or booleans.
_MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)


def _typed_column(cells: list[str]) -> list[Any]:
    """Cells as integers, else floats, else booleans, if every cell that is not missing parses as one; else as text."""
    filled = [cell for cell in cells if cell not in _MISSING]
    casts: tuple[Callable[[str], Any], ...] = (_plain_int, _plain_float, _boolean) if filled else ()
    for cast in casts:
        try:
            for cell in filled:
                cast(cell)
        except ValueError:
            continue
        # An integer column with gaps becomes floats, as in pandas, whose integers have no missing value.
        final = _plain_float if cast is _plain_int and len(filled) < len(cells) else cast
        return [None if cell in _MISSING else final(cell) for cell in cells]
    return [None if cell == "" else cell for cell in cells]


def _plain_int(cell: str) -> int:
    if "_" in cell:
        raise ValueError(cell)
    return int(cell)


def _plain_float(cell: str) -> float:
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def _boolean(cell: str) -> bool:
    if cell not in ("True", "False", "true", "false", "TRUE", "FALSE"):
        raise ValueError(cell)
    return cell.lower() == "true"


def _read_text(path: Path, options: ReadOptions) -> list[Row]:
    lines = _text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [{"text": line} for line in (lines if lines[-1] else lines[:-1])]


def _read_parquet(path: Path, options: ReadOptions) -> list[Row]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise missing_extra("pyarrow", "hf", f"{path}: Parquet file") from error
    try:
        facts = parquet.read_metadata(path)
        _check_expansion(path, sum(facts.row_group(place).total_byte_size for place in range(facts.num_row_groups)))
        rows: list[Row] = parquet.read_table(path).to_pylist()
    except ArrowInvalid as error:
        advice = "It may be half a download: delete it, and copy or fetch it again"
        raise DataError(Fault(str(path), f"is not a Parquet file: {error}", "a whole Parquet file", advice)) from error
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


EXTENSIONS = tuple(sorted(_READERS))


def with_all_columns(rows: list[Row]) -> list[Row]:
    """Rows with the union of their columns, None where a row lacks one, and one numeric type per column."""
    if not rows:
        return rows
    columns: dict[str, None] = dict.fromkeys(rows[0])
    uneven = False
    for row in rows:
        if row.keys() != columns.keys():
            uneven = True
            columns.update(dict.fromkeys(row))
    if uneven:
        rows = [{column: row.get(column) for column in columns} for row in rows]
    mixed = [column for column in columns if _is_mixed_number(rows, column)]
    if mixed:
        rows = [{**row, **{column: _as_float(row[column]) for column in mixed}} for row in rows]
    return rows


def _is_mixed_number(rows: list[Row], column: str) -> bool:
    """Whether a column holds both integers and floats, and nothing else but None."""
    if type(rows[0][column]) not in (int, float, type(None)):  # most columns: no need to look further
        return False
    kinds = {type(row[column]) for row in rows}
    return {int, float} <= kinds <= {int, float, type(None)}


def _as_float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def matching(path: Path, where: str = "") -> list[Path]:
    """The file of this name, or the files that a pattern matches, sorted.

    Args:
        path: the name or pattern.
        where: key that names it, for errors.
    """
    if path.is_file():
        return [path]
    try:
        with ResourceLimit():
            found = list(islice(glob.iglob(str(path), recursive=True), MAX_FILES + 1))
    except LimitError as error:
        fault = Fault(where, f'searching for "{path}" {error.faults[0].found}', "a narrower pattern")
        raise DataError(fault) from error
    if len(found) > MAX_FILES:
        raise DataError(Fault(where, f'"{path}" matches more than {MAX_FILES:,} files', "a narrower pattern"))
    return sorted(Path(match) for match in found if Path(match).is_file())


def is_data(path: Path) -> bool:
    """Whether a file has an extension that is read here."""
    return _extension(path) in _READERS


def by_split(folder: Path, name: str | None) -> dict[str, list[Path]]:
    """Data files of a folder by the split that their names begin with; a configuration is a subfolder."""
    inner = folder / name if name and (folder / name).is_dir() else folder
    found: dict[str, list[Path]] = {}
    for path in sorted(inner.iterdir()):
        stem = path.name.split(".")[0].split("-")[0]
        if path.is_file() and _extension(path) in _READERS and stem in _SPLIT_NAMES:
            found.setdefault(_SPLIT_NAMES[stem], []).append(path)
    return found
