"""Local copies of datasets: DIR/OWNER/NAME/CONFIG/SPLIT.parquet, with a record of hashes beside the files.

Takes a folder and a dataset as a task file names it; gives the files of its splits, checked against the record. A
folder without a record (a clone, or files put there by hand) is read as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.atomic_files import atomic_write
from assay.core.errors import DataError, Fault
from assay.core.identity import file_sha256
from assay.data.readers import is_data, matching

RECORD = "assay-data.json"
DEFAULT = "default"
_FORMAT = 1
_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
# hf://datasets/OWNER/NAME@REVISION/PATH
_ADDRESS = re.compile(r"hf://datasets/(?P<id>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?/(?P<path>.+)")
# Settings of a dataset that change its rows besides revision → part of its folder's name.
_SELECTING = ("data_files", "data_dir")
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a copy as its record states it.

    Attributes:
        size: bytes.
        sha256: hash of its content.
        split: split that it holds; None for a file of the repository that was copied as it is.
        rows: rows of the split; None if unknown.
        official: rows that the split officially has; None if unknown.
    """

    size: int
    sha256: str
    split: str | None = None
    rows: int | None = None
    official: int | None = None


@dataclass(frozen=True, slots=True)
class CopyRecord:
    """The record of a copy, `assay-data.json`.

    Attributes:
        dataset: hub id.
        config: configuration; None for files of the repository that were copied as they are.
        is_default: whether a task that names no configuration means this one.
        revision: the revision that was asked for; None for the main one.
        commit: the commit that it was; empty if the hub did not say.
        date: when it was fetched, in ISO format.
        files: file name, relative to the record → file.
    """

    dataset: str
    config: str | None
    is_default: bool = False
    revision: str | None = None
    commit: str = ""
    date: str = ""
    files: Mapping[str, CopiedFile] = field(default_factory=dict)

    def suits(self, revision: str | None) -> bool:
        """Whether the copy is of the revision that a task asks for."""
        return revision in (None, self.revision, self.commit) or (revision == "main" and self.revision is None)

    def write(self, folder: Path) -> None:
        """Writes the record, atomically."""
        files = {name: _fields(entry) for name, entry in self.files.items()}
        content = {"format": _FORMAT, **_fields(self), "files": files}
        with atomic_write(folder / RECORD, is_private=False) as stream:
            json.dump(content, stream, indent=1)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def read_record(folder: Path) -> CopyRecord | None:
    """The record of a copy; None if there is none."""
    path = folder / RECORD
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): _known(CopiedFile, entry) for name, entry in data["files"].items()}
        return CopyRecord(**{**_known_fields(CopyRecord, data), "files": files})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        is_text = isinstance(error, (OSError, ValueError))
        found = f"cannot be read: {error}" if is_text else "does not have the form of a record"
        advice = f"Delete the folder {folder} and fetch the dataset again: assay data get"
        raise DataError(Fault(str(path), found, "the record of a copy", advice)) from error


def _known(kind: Any, data: Mapping[str, Any]) -> Any:
    return kind(**_known_fields(kind, data))


def _known_fields(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are fields; those of a newer version are ignored."""
    return {name: data[name] for name in kind.__slots__ if name in data}


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A dataset found in a folder of copies.

    Attributes:
        folder: where its files are.
        files: split → files; empty for a folder in another layout, which the `datasets` package reads.
        record: its record; None if it has none.
    """

    folder: Path
    files: Mapping[str, Sequence[Path]]
    record: CopyRecord | None = None


def find_copy(root: Path, dataset: str, config: str | None, options: Mapping[str, Any]) -> LocalCopy | None:
    """The copy of a dataset; None if the folder does not hold it.

    Args:
        root: the folder of copies.
        dataset: hub id.
        config: configuration; None for the default one.
        options: further settings of the dataset.
    """
    base = root / dataset
    if not _ID.fullmatch(dataset) or ".." in dataset or not base.is_dir():
        return None
    selecting = {key: options[key] for key in _SELECTING if options.get(key)}
    folder = _config_folder(base, config, selecting) or _plain_folder(base, config, selecting)
    if folder is not None:
        record = read_record(folder)
        files = _recorded_files(folder, record) if record is not None else _files_by_stem(folder)
        if files:
            return LocalCopy(folder, files, record)
    has_records = any(base.glob(f"*/{RECORD}"))
    return LocalCopy(base, {}) if not has_records and not selecting and _is_clone(base, config) else None


def _is_clone(base: Path, config: str | None) -> bool:
    """Whether a folder is a clone of a dataset's repository, whose card names the configuration."""
    try:
        card = (base / "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    if config is None:
        return True
    return re.search(rf"""config_name:\s*["']?{re.escape(config)}["']?\s*$""", card, re.MULTILINE) is not None


def config_folder_name(config: str, options: Mapping[str, Any]) -> str:
    """Name of the folder of a configuration; further settings that select rows add a hash."""
    if not re.fullmatch(r"[^/\\]+", config) or config.startswith("."):
        raise DataError(Fault(f"configuration {config}", "has a name that no folder can have", "a name without /"))
    selecting = {key: options[key] for key in _SELECTING if options.get(key)}
    return f"{config}-{_short_hash(selecting)}" if selecting else config


def _short_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]


def _config_folder(base: Path, config: str | None, selecting: Mapping[str, Any]) -> Path | None:
    if config is not None:
        is_safe = re.fullmatch(r"[^/\\]+", config) and not config.startswith(".")
        folder = base / config_folder_name(config, selecting) if is_safe else base / "."
        return folder if is_safe and folder.is_dir() else None
    if (base / config_folder_name(DEFAULT, selecting)).is_dir():
        return base / config_folder_name(DEFAULT, selecting)
    folders = [path for path in sorted(base.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    records = {path: record for path in folders if (record := read_record(path)) is not None}
    defaults = [path for path, record in records.items() if record.is_default]
    if defaults or records or selecting:
        return next((path for path in defaults if not selecting or path.name.endswith(_short_hash(selecting))), None)
    holding = [path for path in folders if _files_by_stem(path)]
    return holding[0] if len(holding) == 1 else None


def _plain_folder(base: Path, config: str | None, selecting: Mapping[str, Any]) -> Path | None:
    """The folder that `data_dir` names in a copy without records: a configuration of the Hub's own conversion."""
    if config is not None or set(selecting) != {"data_dir"}:
        return None
    folder = _config_folder(base, str(selecting["data_dir"]), {})
    return None if folder is None or read_record(folder) is not None else folder


def _recorded_files(folder: Path, record: CopyRecord) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for name, entry in record.files.items():
        if entry.split is not None:
            found.setdefault(entry.split, []).append(folder / name)
    return found


def _files_by_stem(folder: Path) -> dict[str, list[Path]]:
    """The data files of a folder by their names without extension, which are the splits."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and is_data(path) and path.name != RECORD and not path.name.startswith("."):
            found.setdefault(_SHARD.sub("", path.name.split(".")[0]), []).append(path)
    return found


# Files of a repository, as they are


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """A file of a dataset's repository: `hf://datasets/OWNER/NAME@REVISION/PATH`."""

    dataset: str
    revision: str | None
    path: str


def repository_file(address: str) -> RepositoryFile | None:
    """The file that an address means; None for any other address, and for one that leads out of the repository."""
    found = _ADDRESS.fullmatch(address)
    if found is None or ".." in Path(found["path"]).parts or not _ID.fullmatch(found["id"]) or ".." in found["id"]:
        return None
    return RepositoryFile(found["id"], found["revision"], found["path"])


def copied_files(root: Path, address: str, where: str) -> list[Path]:
    """The copies of the files that an address or a pattern of addresses means; empty if there are none.

    Args:
        root: the folder of copies.
        address: such as `hf://datasets/OWNER/NAME/data/*.jsonl`.
        where: key that names it, for errors.
    """
    file = repository_file(address)
    if file is None or not (root / file.dataset).is_dir():
        return []
    base = root / file.dataset
    record = read_record(base)
    if record is not None and not record.suits(file.revision):
        raise DataError(wrong_revision(base, record, file.revision))
    if record is not None and file.path in record.files:
        return [base / file.path]
    return matching(base / file.path, where)


@dataclass(frozen=True, slots=True)
class FileOfCopy:
    """A file of a repository in a folder of copies, with its record if there is one."""

    path: Path
    dataset: str
    commit: str = ""
    entry: CopiedFile | None = None


def copy_of_file(root: Path, path: Path) -> FileOfCopy:
    """What the record of its dataset states about a file that `copied_files` found."""
    dataset = "/".join(path.relative_to(root).parts[:2])
    record = read_record(root / dataset)
    if record is None:
        return FileOfCopy(path, dataset)
    name = path.relative_to(root / dataset).as_posix()
    return FileOfCopy(path, dataset, record.commit, record.files.get(name))


def wrong_revision(folder: Path, record: CopyRecord, revision: str | None) -> Fault:
    """The fault of a copy of another revision than a task asks for."""
    own = f"revision {record.revision or 'main'} (commit {record.commit or 'unknown'})"
    advice = "Fetch the other into another folder: assay data get --to OTHER_DIR"
    return Fault(str(folder), f"holds {own} of {record.dataset}", f"revision {revision}, as the task says", advice)


# Checks


def size_fault(path: Path, entry: CopiedFile | None, again: str) -> Fault | None:
    """What is wrong with a file of a copy as far as its size and first bytes show; None if nothing.

    Args:
        path: the file.
        entry: its record.
        again: command that fetches it again.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        found = f"is recorded in {RECORD} and not there: the copy is not complete"
        return Fault(str(path), found, "all recorded files", f"Fetch the rest: {again}")
    with path.open("rb") as stream:
        if stream.read(len(_POINTER)) == _POINTER:
            advice = f"Run in its folder: git lfs pull. Or fetch the dataset: {again}"
            return Fault(str(path), "is a pointer of Git LFS, without the data", "the data file", advice)
    if entry is not None and size != entry.size:
        return Fault(str(path), f"has {size:,} bytes", f"{entry.size:,}, as {RECORD} records", _deleted(again))
    return None


def file_fault(path: Path, entry: CopiedFile | None, again: str) -> Fault | None:
    """What is wrong with a file of a copy; None if it is as recorded, or has no record and looks whole.

    Args:
        path: the file.
        entry: its record.
        again: command that fetches it again.
    """
    fault = size_fault(path, entry, again)
    if fault is not None or entry is None or file_sha256(path) == entry.sha256:
        return fault
    return Fault(str(path), "has changed since it was fetched", f"the SHA-256 in {RECORD}", _deleted(again))


def _deleted(again: str) -> str:
    return f"Delete it and fetch it again: {again}"


def check_files(
    copy: LocalCopy,
    splits: Sequence[str],
    again: str,
    check: Callable[[Path, CopiedFile | None, str], Fault | None] = file_fault,
) -> None:
    """Raises for files of these splits that are missing, changed or only pointers; names every one.

    Args:
        copy: the copy.
        splits: its splits to check.
        again: command that fetches them again.
        check: `file_fault`, or `size_fault`, which reads no file.
    """
    record = copy.record.files if copy.record is not None else {}
    paths = [path for split in splits for path in copy.files[split]]
    found = [check(path, record.get(path.relative_to(copy.folder).as_posix()), again) for path in paths]
    faults = [fault for fault in found if fault is not None]
    if faults:
        raise DataError(*faults)
