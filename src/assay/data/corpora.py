"""Corpora: the user's own texts, read document by document.

Takes a file or folder of plain text (`.txt`) and JSON Lines (`.jsonl`), gzipped or not; returns the documents of each
domain. Documents are never joined. JSON Lines are read line by line, and only the text of a line stays in memory.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.plural import plural
from assay.core.specs import TextOptions

_PLAIN, _LINES = ".txt", ".jsonl"
_EXPECTED = "a .txt or .jsonl file (also .gz), or a folder of such"


@dataclass(frozen=True, slots=True)
class CorpusText:
    """One document of a corpus: its domain, its text, and the file and line it came from."""

    domain: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of a file or folder.

    Attributes:
        domains: domain → its non-empty documents, in reading order.
        empty: domain → number of empty documents, which are left out.
    """

    domains: Mapping[str, list[CorpusText]]
    empty: Counter[str]


def read_corpus(path: Path, shown: Path, options: TextOptions, where: str) -> Corpus:
    """Reads a corpus.

    Args:
        path: the file or folder.
        shown: the same path as the user wrote it, for the source of a document.
        options: the columns of JSON Lines files.
        where: key or option that names the path, for the error if it does not exist.

    Raises:
        DataError: with file and line, if there is nothing to read or something cannot be read.
    """
    domains: dict[str, list[CorpusText]] = {}
    empty: Counter[str] = Counter()
    for file in _files(path, where):
        source = (shown / file.relative_to(path)).as_posix()
        for text in _texts(file, source, _domain_of(file, path), options):
            if text.text:
                domains.setdefault(text.domain, []).append(text)
            else:
                empty[text.domain] += 1
    if not domains:
        count = sum(empty.values())
        found = f"holds {plural(count, 'document')}, all without text" if count else "holds no documents"
        raise DataError(Fault(str(path), found, "at least one text"))
    return Corpus(domains, empty)


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((kind for kind in (_PLAIN, _LINES) if name.endswith(kind)), "")


def _files(path: Path, where: str) -> list[Path]:
    """Files of a corpus in reading order."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and _kind(file))
        if not found:
            raise DataError(Fault(str(path), "holds no text", _EXPECTED))
        return found
    if not path.exists():
        raise DataError(Fault(where, "there is no such file or folder", _EXPECTED))
    if not _kind(path):
        raise DataError(Fault(str(path), "is not a text file of a known kind", _EXPECTED))
    return [path]


def _domain_of(file: Path, root: Path) -> str:
    """Domain of a file's documents if they do not name one.

    A JSON Lines file is a domain named after the file. A plain file is one document, so a folder of them is one domain.
    """
    stem = file.name[: file.name.lower().rindex(_kind(file))]
    if file == root:
        return stem
    folder = file.parent.relative_to(root)
    if _kind(file) == _PLAIN:
        return folder.as_posix() if folder.parts else root.resolve().name
    return (folder / stem).as_posix()


def _texts(file: Path, shown: str, domain: str, options: TextOptions) -> Iterator[CorpusText]:
    """Documents of a file in order; `shown` is its path as the user wrote it."""
    try:
        with _opened(file) as stream:
            if _kind(file) == _PLAIN:
                yield CorpusText(domain, stream.read(), shown)
                return
            for number, line in enumerate(stream, 1):
                if not line.isspace():
                    yield _text(line, f"{shown}:{number}", domain, options)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(Fault(shown, f"is a damaged gzip file: {error}", next="Fetch it again")) from error
    except OSError as error:
        raise DataError(Fault(shown, f"cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        raise DataError(Fault(shown, f"is not UTF-8: {error.reason} at byte {error.start}")) from error


def _opened(file: Path) -> IO[str]:
    # Only \n ends a line: a lone \r or U+2028 may occur in a JSON string. Plain text keeps its line ends.
    newline = "" if _kind(file) == _PLAIN else "\n"
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline=newline)
    return file.open(encoding="utf-8-sig", newline=newline)


def _text(line: str, where: str, domain: str, options: TextOptions) -> CorpusText:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(Fault(where, f"is not JSON: {getattr(error, 'msg', error)}", "one object per line")) from error
    if not isinstance(row, dict):
        raise DataError(Fault(where, f"has the JSON type {type(row).__name__}", "an object with named fields"))
    text = _field(row, options.text_column, where, "--text_column")
    if not isinstance(text, str):
        found = f'its "{options.text_column}" has the type {type(text).__name__}'
        raise DataError(Fault(where, found, "a text", "Name another column with --text_column"))
    if options.domain_column is None:
        return CorpusText(domain, text, where)
    return CorpusText(str(_field(row, options.domain_column, where, "--domain_column")), text, where)


def _field(row: dict[str, Any], column: str, where: str, flag: str) -> Any:
    if column not in row:
        hint = did_you_mean(column, list(row))
        expected = "one of its columns: " + ", ".join(map(str, row)) if row else "an object with a text"
        raise DataError(Fault(where, f'has no "{column}"{hint}', expected, f"Name a column with {flag}"))
    return row[column]
