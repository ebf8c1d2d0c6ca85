"""The user's own texts as tasks: `text:PATH` is one task per domain, and a group over them where there are several.

Takes a file or folder of plain text (`.txt`) and JSON Lines (`.jsonl`), gzipped or not; gives tasks that ask how likely
each whole document is. Documents are never joined. A file is read line by line, and of a line only the text is kept.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.requests import LONGEST_WINDOWS, Instance, RollingLoglikelihood, Windows
from assay.core.specs import GroupSpec, MetricSpec, Scoring, TaskCard, TaskOptions, TextOptions

MARK = "text:"
KIND = "loglikelihood_rolling"
METRICS = (
    "token_perplexity",
    "word_perplexity",
    "byte_perplexity",
    "bits_per_byte",
    "nats_per_token",
    "document_perplexity",
    "document_perplexity_median",
)
_PLAIN, _LINES = ".txt", ".jsonl"
_EXPECTED = "a .txt or .jsonl file (also .gz), or a folder of such"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Passage:
    """One document of a corpus: where it belongs, its text, and the file and line that it came from."""

    domain: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class TextTask:
    """The documents of one domain, each a whole text. Satisfies the `Task` protocol.

    Attributes:
        empty: documents without any text, which are left out.
    """

    name: str
    domain: str
    path: Path
    passages: Sequence[Passage]
    options: TaskOptions
    alias: str
    empty: int = 0

    @property
    def card(self) -> TaskCard:
        texts = self.options.texts
        config: dict[str, Any] = {
            "task": self.name,
            "output_type": KIND,
            "dataset_path": str(self.path),
            "domain": self.domain,
            "text_column": texts.text_column,
            "domain_column": texts.domain_column,
        }
        if resolve_windows(texts) != LONGEST_WINDOWS:
            config["perplexity"] = {"window": texts.window, "stride": texts.stride}
        return TaskCard(
            name=self.name,
            version=_VERSION,
            alias=self.alias,
            kind=KIND,
            num_fewshot=0,
            config=config,
            source=str(self.path),
        )

    @property
    def scoring(self) -> Scoring:
        names = ("bypass",) if self.options.predict_only else METRICS
        return Scoring(KIND, tuple(map(MetricSpec, names)))

    def documents(self) -> Sequence[Document]:
        return [
            Document(self.name, place, {"text": passage.text, "source": passage.source})
            for place, passage in enumerate(self.passages)
        ]

    def build(self, document: Document) -> Instance:
        text = document.fields["text"]
        request = RollingLoglikelihood(text, windows=resolve_windows(self.options.texts))
        return Instance(self.name, document.id, (request,), target=text, gold=text)


@dataclass(frozen=True, slots=True)
class TextCorpus:
    """What `text:PATH` means: tasks, the group over several of them, and what was left out."""

    tasks: tuple[TextTask, ...]
    group: GroupSpec | None
    notices: tuple[str, ...] = ()


def resolve_windows(texts: TextOptions, own: Windows = LONGEST_WINDOWS) -> Windows:
    """The windows of a run; what it leaves open is as a task says."""
    length = own.length if texts.window is None else texts.window
    # A task's stride goes with its window: under a shorter one it could leave tokens out.
    own_stride = own.stride if texts.window is None else None
    return Windows(length, own_stride if texts.stride is None else texts.stride)


def open_corpus(name: str, options: TaskOptions) -> TextCorpus:
    """The tasks of a name `text:PATH`.

    Raises:
        DataError: with file and line, when there is nothing to read or something cannot be read.
    """
    path = _located(name, options.texts)
    domains: dict[str, list[Passage]] = {}
    empties: Counter[str] = Counter()
    for file in _files(path):
        shown = (Path(name.removeprefix(MARK)) / file.relative_to(path)).as_posix()
        for passage in _passages(file, shown, _domain_of(file, path), options.texts):
            if passage.text:
                domains.setdefault(passage.domain, []).append(passage)
            else:
                empties[passage.domain] += 1
    empty = sum(empties.values())
    if not domains:
        found = f"holds {empty} documents, all of them empty" if empty else "holds no document"
        raise DataError(Fault(str(path), found, "at least one text"))
    notices = (f"{name}: documents without any text were left out ({empty})",) if empty else ()
    if len(domains) == 1:
        ((domain, passages),) = domains.items()
        return TextCorpus(
            (
                TextTask(
                    name=name, domain=domain, path=path, passages=passages, options=options, alias=name, empty=empty
                ),
            ),
            None,
            notices,
        )
    tasks = tuple(
        TextTask(
            name=f"{name}:{domain}",
            domain=domain,
            path=path,
            passages=passages,
            options=options,
            alias=domain,
            empty=empties[domain],
        )
        for domain, passages in sorted(domains.items())
    )
    members = tuple(task.name for task in tasks)
    return TextCorpus(tasks, GroupSpec(name, name, members, version=_VERSION, is_pooled=True), notices)


def _located(name: str, options: TextOptions) -> Path:
    path = Path(name.removeprefix(MARK)).expanduser()
    return Path(options.folder) / path if options.folder is not None and not path.exists() else path


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((kind for kind in (_PLAIN, _LINES) if name.endswith(kind)), "")


def _files(path: Path) -> list[Path]:
    """The files to read, in order."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and _kind(file))
        if not found:
            raise DataError(Fault(str(path), "holds no text", _EXPECTED))
        return found
    if not path.exists():
        raise DataError(Fault(f"--tasks {MARK}{path}", "there is no such file or folder", _EXPECTED))
    if not _kind(path):
        raise DataError(Fault(str(path), "cannot read files of this kind as text", _EXPECTED))
    return [path]


def _domain_of(file: Path, root: Path) -> str:
    """Where a file's documents belong that do not say it themselves.

    JSON Lines are a domain each, by name; a plain file is a single document, so those of a folder belong together.
    """
    stem = file.name[: file.name.lower().rindex(_kind(file))]
    if file == root:
        return stem
    folder = file.parent.relative_to(root)
    if _kind(file) == _PLAIN:
        return folder.as_posix() if folder.parts else root.resolve().name
    return (folder / stem).as_posix()


def _passages(file: Path, shown: str, domain: str, options: TextOptions) -> Iterator[Passage]:
    """The documents of a file, in order; `shown` is its path as the user knows it."""
    try:
        with _opened(file) as stream:
            if _kind(file) == _PLAIN:
                yield Passage(domain, stream.read(), shown)
                return
            for number, line in enumerate(stream, 1):
                if not line.isspace():
                    yield _passage(line, f"{shown}:{number}", domain, options)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(Fault(shown, f"is a damaged gzip file: {error}", next="Fetch it again")) from error
    except OSError as error:
        raise DataError(Fault(shown, f"cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        raise DataError(Fault(shown, f"is not UTF-8: {error.reason} at byte {error.start}")) from error


def _opened(file: Path) -> IO[str]:
    # Only \n ends a line: a lone \r or U+2028 may stand in a JSON text. In plain text every byte counts as it is.
    newline = "" if _kind(file) == _PLAIN else "\n"
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline=newline)
    return file.open(encoding="utf-8-sig", newline=newline)


def _passage(line: str, where: str, domain: str, options: TextOptions) -> Passage:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(Fault(where, f"is not JSON: {getattr(error, 'msg', error)}", "one object per line")) from error
    if not isinstance(row, dict):
        raise DataError(Fault(where, f"is a {type(row).__name__}", "an object with named fields"))
    text = _field(row, options.text_column, where, "--text_column")
    if not isinstance(text, str):
        found = f'its "{options.text_column}" is a {type(text).__name__}'
        raise DataError(Fault(where, found, "a text", "Name another column with --text_column"))
    if options.domain_column is None:
        return Passage(domain, text, where)
    return Passage(str(_field(row, options.domain_column, where, "--domain_column")), text, where)


def _field(row: dict[str, Any], column: str, where: str, flag: str) -> Any:
    if column not in row:
        hint = did_you_mean(column, list(row))
        expected = "one of its columns: " + ", ".join(map(str, row)) if row else "an object with a text"
        raise DataError(Fault(where, f'has no "{column}"{hint}', expected, f"Name a column with {flag}"))
    return row[column]
