"""What a download of datasets did, and what a folder of copies holds: plain values for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import DataError, Fault
from assay.core.plural import plural
from assay.data.local_copy import RECORD, CopiedFile, CopyRecord, file_fault, read_record

_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a download did.

    Attributes:
        dataset: hub id.
        config: configuration; None for files as they are.
        folder: where its files are.
        files: split or file name → file.
        size: bytes of the files of this need.
        is_new: whether anything was downloaded.
        moved_to: the present id of a dataset that was renamed; empty if it was not.
    """

    dataset: str
    config: str | None
    folder: Path
    files: Mapping[str, CopiedFile]
    commit: str = ""
    is_new: bool = True
    moved_to: str = ""

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True, slots=True)
class DatasetOutcome:
    """What became of one dataset.

    Attributes:
        title: dataset and configuration.
        tasks: the tasks that read it.
        fetched: what was fetched; None if it could not be.
        faults: why it could not be fetched.
    """

    title: str
    tasks: tuple[str, ...]
    fetched: Fetched | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class DataReport:
    """What `get_data` did.

    Attributes:
        folder: the folder of copies.
        datasets: one outcome per dataset, in the order of the tasks.
        without: tasks that read no dataset of the Hub: local files, rows made by code.
    """

    folder: Path
    datasets: tuple[DatasetOutcome, ...]
    without: tuple[str, ...] = ()

    @property
    def failed(self) -> list[DatasetOutcome]:
        """The datasets that could not be fetched."""
        return [outcome for outcome in self.datasets if outcome.fetched is None]


@dataclass(frozen=True, slots=True)
class CopyState:
    """A copy in a folder of copies.

    Attributes:
        record: its record.
        folder: where its files are.
        faults: what is wrong with its files, as far as they were checked.
    """

    record: CopyRecord
    folder: Path
    faults: tuple[Fault, ...] = ()

    @property
    def title(self) -> str:
        """Dataset and configuration."""
        return self.record.dataset + (f" ({self.record.config})" if self.record.config else "")

    @property
    def missing(self) -> list[str]:
        """Recorded files that are not there."""
        return [name for name in self.record.files if not (self.folder / name).is_file()]

    @property
    def size(self) -> int:
        """Bytes of the recorded files."""
        return sum(file.size for file in self.record.files.values())

    def shown_rows(self) -> str:
        """Rows by split: `test 2,376, train 64 of 2,251`."""
        return shown_rows(self.record.files)


def shown_rows(files: Mapping[str, CopiedFile]) -> str:
    """Rows by split, with the official number where there are fewer: `test 2,376, train 64 of 2,251`."""
    parts = []
    for name, file in files.items():
        part = f"{file.split or name}" + ("" if file.rows is None else f" {file.rows:,}")
        is_part = file.rows is not None and file.official is not None and file.rows < file.official
        parts.append(part + (f" of {file.official:,}" if is_part else ""))
    if len(parts) <= _MOST_SHOWN:
        return ", ".join(parts)
    kept = _MOST_SHOWN - 1
    return f"{', '.join(parts[:kept])} and {plural(len(parts) - kept, 'more', 'more')}"


def copies_in(root: Path, verifies: bool = False) -> list[CopyState]:
    """The recorded copies of a folder; with `verifies`, every file is compared with its hash."""
    found = []
    for path in sorted([*root.glob(f"*/{RECORD}"), *root.glob(f"*/*/{RECORD}"), *root.glob(f"*/*/*/{RECORD}")]):
        try:
            record = read_record(path.parent)
        except DataError as error:  # one damaged record hides no other
            unknown = CopyRecord(path.parent.relative_to(root).as_posix(), None)
            found.append(CopyState(unknown, path.parent, error.faults))
            continue
        if record is not None:
            again = f"assay data get --tasks TASK --to {root}"
            checks = [file_fault(path.parent / name, entry, again) for name, entry in record.files.items()]
            faults = tuple(fault for fault in checks if fault is not None) if verifies else ()
            found.append(CopyState(record, path.parent, faults))
    return found


def unrecorded(root: Path) -> list[str]:
    """Datasets of a folder without any record: files put there by hand, or clones."""
    folders = [path for path in sorted(root.glob("*/*")) if path.is_dir() and not path.parent.name.startswith(".")]
    known = {path.parent for pattern in (f"*/*/{RECORD}", f"*/*/*/{RECORD}") for path in root.glob(pattern)}
    bare = [path for path in folders if path not in known and not any(other.parent == path for other in known)]
    return [path.relative_to(root).as_posix() for path in bare]
