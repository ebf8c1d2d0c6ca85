"""Datasets read from a folder of local copies, before the Hub is asked.

Takes a dataset as a task file names it and the folder; gives a source of rows as in data/sources.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.core.errors import DataError
from assay.data.allowed_paths import check_options
from assay.data.local_copy import (
    LocalCopy,
    check_files,
    copied_files,
    copy_of_file,
    file_fault,
    find_copy,
    size_fault,
    wrong_revision,
)
from assay.data.readers import ReadOptions, read, with_all_columns
from assay.data.sources import (
    FILE_BUILDERS,
    FileSource,
    HubSource,
    Row,
    Source,
    SourceSpec,
    is_ours,
    local_folder,
    open_source,
    read_options,
    rows_of,
)


def open_with_copies(spec: SourceSpec, root: Path, for_code: bool = False) -> Source:
    """The source of a specification: its copy in a folder, else as `open_source` finds it.

    Args:
        spec: the specification.
        root: the folder of copies.
        for_code: see `open_source`.
    """
    check_options(spec.path, spec.options, spec.folder, spec.where)
    return _copied_source(spec, root, for_code) or open_source(spec, for_code)


def load_with_copies(spec: SourceSpec, root: Path) -> Any:
    """A whole dataset as a `datasets` object: split → rows."""
    source = open_with_copies(spec, root, for_code=True)
    assert isinstance(source, (HubSource, CopySource)), "task code gets what `datasets` reads"
    return source.load()


class CopySource:
    """Rows of a local copy of a dataset; the files of a split are checked against the copy's record when it is read.

    Args:
        copy: the copy.
        spec: the dataset.
        root: the folder of copies.
        for_code: whether task code will see the data; then `datasets` reads the files.
    """

    def __init__(self, copy: LocalCopy, spec: SourceSpec, root: Path, for_code: bool) -> None:
        self._copy = copy
        self._spec = spec
        self._again = get_command(spec, root)
        self._checked: set[str] = set()
        self._loaded = HubSource(as_files(copy, spec)) if for_code else None
        record = copy.record
        self.origin: Mapping[str, Any] = {
            "from": "copy",
            "dataset": spec.path,
            "config": record.config if record is not None else spec.name,
            "folder": str(copy.folder),
            "commit": record.commit if record is not None else "",
        }

    @property
    def advice(self) -> str:
        """What to do if it lacks a split."""
        folder = self._copy.folder
        if not self.is_recorded:  # `assay data get` leaves folders that it did not make alone
            return f"Put the split into {folder} as a file SPLIT.parquet or SPLIT.jsonl, or run: {self._again}-new"
        return f"To add it to {folder}, run: {self._again}"

    def splits(self) -> list[str]:
        return list(self._copy.files)

    @property
    def official_rows(self) -> dict[str, int]:
        """Official number of rows by split, as far as the record states it."""
        entries = self._copy.record.files.values() if self._copy.record is not None else ()
        return {item.split: item.official for item in entries if item.split is not None and item.official is not None}

    def rows(self, split: str) -> list[Row]:
        if self._loaded is not None:
            return rows_of(self.dataset(split))
        self._check([split])
        rows: list[Row] = []
        for path in self._copy.files[split]:
            rows.extend(read(path, ReadOptions(), self._spec.where))
        return with_all_columns(rows)

    def dataset(self, split: str) -> Any:
        return self.load()[split]

    def load(self) -> Any:
        """All splits, as `datasets` reads them."""
        if self._loaded is None:
            self._loaded = HubSource(as_files(self._copy, self._spec))
        self._check(self.splits())
        return self._loaded.load()

    @property
    def is_recorded(self) -> bool:
        """See `ChecksFiles`."""
        return self._copy.record is not None

    def check_sizes(self, split: str) -> None:
        """See `ChecksFiles`."""
        check_files(self._copy, [split], self._again, size_fault)

    def _check(self, splits: Sequence[str]) -> None:
        check_files(self._copy, [split for split in splits if split not in self._checked], self._again)
        self._checked.update(splits)


def as_files(copy: LocalCopy, spec: SourceSpec) -> SourceSpec:
    """A copy as data files that `datasets` reads, with its column types."""
    paths = {split: [str(path.resolve()) for path in own] for split, own in copy.files.items()}
    kinds = {Path(path.removesuffix(".gz")).suffix for own in paths.values() for path in own}
    builder = next((name for name, suffix in FILE_BUILDERS.items() if kinds == {suffix}), "json")
    return SourceSpec("json" if builder == "jsonl" else builder, None, {"data_files": paths}, None, spec.where)


def get_command(spec: SourceSpec, root: Path) -> str:
    """The command that fetches a dataset into the folder of copies."""
    return f"assay data get --tasks {spec.task or 'TASK'} --to {root}"


def _copied_source(spec: SourceSpec, root: Path, for_code: bool) -> Source | None:
    """The source of a dataset in the folder of copies; None if it is not there, or means a local folder."""
    if spec.path in FILE_BUILDERS:
        return _copied_files_source(spec, root, for_code)
    local = local_folder(spec)
    if local is not None and not local.resolve().is_relative_to(root.resolve()):
        return None
    copy = find_copy(root, spec.path, spec.name, spec.options)
    if copy is None:
        return None
    revision = spec.options.get("revision")
    if copy.record is not None and not copy.record.suits(revision):
        raise DataError(wrong_revision(copy.folder, copy.record, revision))
    if copy.files:
        return CopySource(copy, spec, root, for_code)
    origin = {"from": "copy", "dataset": spec.path, "config": spec.name, "folder": str(copy.folder), "commit": ""}
    options = {key: value for key, value in spec.options.items() if key != "revision"}
    return HubSource(replace(spec, path=str(copy.folder.resolve()), options=options), origin)


def _copied_files_source(spec: SourceSpec, root: Path, for_code: bool) -> Source | None:
    """The source of `hf://datasets/…` files in the folder of copies; None if some of them are not there."""
    named = spec.options.get("data_files")
    if not named or "hf://" not in str(named):
        return None
    by_split = named if isinstance(named, Mapping) else {"train": named}
    listed = {str(key): [own] if isinstance(own, str) else list(own) for key, own in by_split.items()}
    found: dict[str, list[Path]] = {}
    for split, addresses in listed.items():
        where = f"{spec.where}, dataset_kwargs.data_files.{split}"
        matches = [copied_files(root, str(address), where) for address in addresses]
        if not all(matches):
            return None
        found[split] = [path for own in matches for path in own]
    kept = [copy_of_file(root, path) for own in found.values() for path in own]
    faults = [
        fault for file in kept if (fault := file_fault(file.path, file.entry, get_command(spec, root))) is not None
    ]
    if faults:
        raise DataError(*faults)
    origin = {"from": "copy", "dataset": kept[0].dataset, "folder": str(root), "commit": kept[0].commit}
    if is_ours(spec.options) and not for_code:
        return FileSource(found, read_options(spec), spec.where, origin)
    paths = {split: [str(path.resolve()) for path in own] for split, own in found.items()}
    return HubSource(replace(spec, options={**spec.options, "data_files": paths}), origin)
