"""Downloads a dataset into a folder of copies: plain parquet by configuration and split, or files as they are.

Takes what a task needs; gives what was fetched. A dataset is downloaded and converted in a scratch folder; then its
record is written, and its files are moved to their places. A file thus appears only when it is complete, and one that a
killed download left out is missing by the record, so that the next download fetches it.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from assay.core.errors import DataError, Fault, missing_extra
from assay.core.identity import file_sha256
from assay.core.protocols import ProgressCallback, ignore_progress
from assay.data.fetched import Fetched
from assay.data.load_faults import UnreachableDataset, load_error, no_download_fault
from assay.data.local_copy import (
    DEFAULT,
    CopiedFile,
    CopyRecord,
    LocalCopy,
    RepositoryFile,
    config_folder_name,
    file_fault,
    find_copy,
    read_record,
    repository_file,
    wrong_revision,
)
from assay.data.needs import DatasetNeed
from assay.data.sources import FILE_BUILDERS, SourceSpec, quiet

_SCRATCH = ".partial"
_MB = 1_000_000
# Settings of a dataset that `datasets` needs no more or that belong to this call.
_WITHOUT = ("revision", "trust_remote_code", "split", "streaming", "cache_dir")


def is_remote(spec: SourceSpec, root: Path) -> bool:
    """Whether a dataset is fetched from elsewhere: not a local folder, local files, or rows that code makes.

    Args:
        spec: the dataset.
        root: the folder of copies; a folder in it is a copy, even if it is also below the current folder.
    """
    if not spec.path:
        return False
    if spec.path in FILE_BUILDERS:
        return "://" in str(spec.options.get("data_files"))
    bases = [spec.folder] if spec.folder is not None else []
    folders = [(base / spec.path).expanduser() for base in (*bases, Path())]
    return not any(folder.is_dir() and not folder.resolve().is_relative_to(root.resolve()) for folder in folders)


def fetch(need: DatasetNeed, root: Path, scratch: Path, report: ProgressCallback = ignore_progress) -> Fetched:
    """Downloads what a need names, unless the folder of copies already has it, complete and unchanged.

    Args:
        need: the dataset and its splits.
        root: the folder of copies.
        scratch: folder for unfinished files, on the same disk.
        report: receives the progress in MB.
    """
    if need.source.path in FILE_BUILDERS:
        return _fetch_files(need, root, scratch, report)
    return _fetch_splits(need, root, scratch, report)


# Splits of a dataset, as parquet


def _fetch_splits(need: DatasetNeed, root: Path, scratch: Path, report: ProgressCallback) -> Fetched:
    spec = need.source
    copy = find_copy(root, spec.path, spec.name, spec.options)
    revision, record = spec.options.get("revision"), copy.record if copy is not None else None
    if copy is not None and record is not None:
        if not record.suits(revision):
            raise DataError(wrong_revision(copy.folder, record, revision))
        kept = _whole_splits(copy, need.splits)
        if kept and (set(need.splits) <= set(kept) if need.splits else set(copy.files) == set(kept)):
            return _kept(copy, record, need.splits, is_new=False)
        revision = record.commit or revision
    elif copy is not None and copy.files:
        found = "holds files without a record, which assay data get did not make"
        advice = "Name another folder with --to, or move them away"
        raise DataError(Fault(str(copy.folder), found, "an empty folder or a copy with a record", advice))
    hub = _resolved(spec, revision)
    made = _converted(need, hub, scratch, report)
    own = spec.options.get("revision") if record is None else record.revision
    written = CopyRecord(
        dataset=spec.path,
        config=made.config,
        is_default=made.is_default,
        revision=own,
        commit=hub.commit,
        date=_now(),
        files=made.files,
    )
    folder = root / spec.path / config_folder_name(made.config, spec.options)
    whole = _moved(written, folder, scratch)
    return _kept(LocalCopy(folder, {}, whole), whole, need.splits, hub.moved_to)


def _whole_splits(copy: LocalCopy, wanted: Sequence[str]) -> list[str]:
    """The splits of a copy whose files are there and unchanged; of the wanted ones, if any are named."""
    entries = copy.record.files if copy.record is not None else {}
    return [
        split
        for split, paths in copy.files.items()
        if (not wanted or split in wanted)
        and all(file_fault(path, entries.get(path.name), "") is None for path in paths)
    ]


def _kept(
    copy: LocalCopy, record: CopyRecord, splits: Sequence[str], moved_to: str = "", is_new: bool = True
) -> Fetched:
    own = {str(file.split or name): file for name, file in record.files.items() if not splits or file.split in splits}
    return Fetched(record.dataset, record.config, copy.folder, own, record.commit, is_new=is_new, moved_to=moved_to)


@dataclass(frozen=True, slots=True)
class _HubRevision:
    """A revision of a dataset on the Hub: its commit, and the present id if it was renamed."""

    commit: str
    moved_to: str = ""


def _resolved(spec: SourceSpec, revision: str | None) -> _HubRevision:
    """The commit of a revision, so that everything is fetched from one commit."""
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise missing_extra("huggingface_hub", "hf", f"{spec.where}: dataset {spec.path}") from error
    fault = no_download_fault()
    if fault is not None:
        raise UnreachableDataset(fault)
    try:
        info = HfApi().dataset_info(spec.path, revision=revision)
    except Exception as error:
        raise load_error(spec.path, spec.name, spec.where, spec.task, error) from error
    present = str(info.id or spec.path)
    return _HubRevision(str(info.sha or ""), present if present.lower() != spec.path.lower() else "")


@dataclass(frozen=True, slots=True)
class _Converted:
    config: str
    is_default: bool
    files: Mapping[str, CopiedFile]


def _converted(need: DatasetNeed, hub: _HubRevision, scratch: Path, report: ProgressCallback) -> _Converted:
    """Writes the splits of a dataset as parquet into the scratch folder."""
    spec = need.source
    options = {key: value for key, value in spec.options.items() if key not in _WITHOUT}
    if hub.commit:
        options["revision"] = hub.commit
    pinned = replace(spec, path=hub.moved_to or spec.path, options=options)
    prepared = _prepared_splits(pinned, need.splits, scratch / "datasets", report)
    missing = [split for split in need.splits if split not in prepared.splits]
    if missing:
        known = ", ".join(prepared.names)
        found = f'dataset "{spec.path}" has no split {" or ".join(missing)}'
        raise DataError(Fault(spec.where, found, f"one of: {known}", "Correct the split in the task file"))
    found_files = {}
    for split, data in prepared.splits.items():
        if not len(data):
            found = f'the split "{split}" of dataset "{spec.path}" is empty on the Hub'
            raise DataError(Fault(spec.where, found, "at least one document", "Name another split, or a revision"))
        path = scratch / f"{split}.parquet"
        with quiet():
            data.to_parquet(str(path))
        official = need.rows.get(split, prepared.stated_rows.get(split))
        found_files[path.name] = CopiedFile(path.stat().st_size, file_sha256(path), split, len(data), official)
    return _Converted(prepared.config, spec.name is None or prepared.config == DEFAULT, found_files)


@dataclass(frozen=True, slots=True)
class _PreparedSplits:
    """Splits of a dataset that were downloaded for a copy.

    Attributes:
        config: the configuration that was loaded.
        names: all splits of the dataset.
        splits: split → `datasets` object.
        stated_rows: rows by split as the dataset's card on the Hub states them.
    """

    config: str
    names: tuple[str, ...]
    splits: Mapping[str, Any]
    stated_rows: Mapping[str, int]


def _prepared_splits(spec: SourceSpec, wanted: Sequence[str], cache: Path, report: ProgressCallback) -> _PreparedSplits:
    """Downloads splits of a dataset of the Hub; files of other splits are left there.

    Args:
        spec: the dataset.
        wanted: splits to download; empty for all.
        cache: folder for what `datasets` prepares.
        report: receives the progress.
    """
    try:
        import datasets
    except ImportError as error:
        raise missing_extra("datasets", "hf", f"{spec.where}: dataset {spec.path}") from error
    try:
        with quiet():
            builder = datasets.load_dataset_builder(spec.path, spec.name, cache_dir=str(cache), **spec.options)
            stated = {str(name): info.num_examples for name, info in (builder.info.splits or {}).items()}
            listed = builder.config.data_files
            names = tuple(map(str, listed or stated))
            if wanted and isinstance(listed, dict):
                kept = {split: own for split, own in listed.items() if str(split) in wanted}
                builder.config.data_files = type(listed)(kept)
                if not kept:
                    return _PreparedSplits(builder.config.name, names, {}, stated)
            _download_first(builder.config.data_files, report)
            builder.download_and_prepare(verification_mode="no_checks")
            loaded = {str(split): data for split, data in builder.as_dataset().items()}
    except Exception as error:  # the loader raises many types
        raise load_error(spec.path, spec.name, spec.where, spec.task, error) from error
    chosen = {split: data for split, data in loaded.items() if not wanted or split in wanted}
    return _PreparedSplits(builder.config.name, names or tuple(loaded), chosen, stated)


def _download_first(listed: Any, report: ProgressCallback) -> None:
    """Downloads files of the Hub into its cache, where `datasets` finds them, and reports the progress in MB."""
    addresses = [str(address) for own in (listed or {}).values() for address in own]
    files = [file for address in addresses if (file := repository_file(address)) is not None]
    if len(files) == len(addresses) and len({file.dataset for file in files}) == 1:
        for _ in _cached_files(files[0].dataset, [file.path for file in files], files[0].revision, report):
            pass


def _cached_files(
    dataset: str, names: Sequence[str], revision: str | None, report: ProgressCallback
) -> Iterator[tuple[str, Path]]:
    """Each file with its place in the Hub's cache, downloaded if it is not there."""
    from huggingface_hub import HfApi, hf_hub_download

    known = HfApi().get_paths_info(dataset, list(names), repo_type="dataset", revision=revision)
    sizes = {entry.path: getattr(entry, "size", 0) for entry in known}
    done, total = 0, sum(sizes.values())
    for name in names:
        report(dataset, round(done / _MB), round(total / _MB))
        yield name, Path(hf_hub_download(dataset, name, repo_type="dataset", revision=revision))
        done += sizes.get(name, 0)
    report(dataset, round(done / _MB), round(total / _MB))


# Files of a repository


def _fetch_files(need: DatasetNeed, root: Path, scratch: Path, report: ProgressCallback) -> Fetched:
    spec = need.source
    files = _addressed_files(spec)
    dataset, revision = files[0].dataset, files[0].revision
    base = root / dataset
    record = read_record(base)
    if record is not None and not record.suits(revision):
        raise DataError(wrong_revision(base, record, revision))
    if record is not None and record.commit:
        revision = record.commit
    named = [file.path for file in files]
    recorded = record.files if record is not None else {}
    if not any("*" in name for name in named) and all(
        name in recorded and file_fault(base / name, recorded[name], "") is None for name in named
    ):
        return Fetched(
            dataset, None, base, {name: recorded[name] for name in named}, record.commit if record else "", False
        )
    plain = replace(spec, path=dataset)
    hub = _resolved(plain, revision)
    try:
        found = {name: entry for file in files for name, entry in _downloaded(file, hub, scratch, report)}
    except DataError:
        raise
    except Exception as error:
        raise load_error(dataset, None, spec.where, spec.task, error) from error
    own = files[0].revision if record is None else record.revision
    whole = _moved(CopyRecord(dataset, None, revision=own, commit=hub.commit, date=_now(), files=found), base, scratch)
    return Fetched(dataset, None, base, {name: whole.files[name] for name in found}, hub.commit, moved_to=hub.moved_to)


def _addressed_files(spec: SourceSpec) -> list[RepositoryFile]:
    """The files that `data_files` names; an address outside of the Hub, or of a second dataset, is an error."""
    named = spec.options.get("data_files")
    listed = list(named.values()) if isinstance(named, Mapping) else [named]
    addresses = [str(item) for own in listed for item in ([own] if isinstance(own, str) else own or ())]
    files = [(address, repository_file(address)) for address in addresses]
    others = [address for address, file in files if file is None]
    if others:
        found = f'reads "{others[0]}", which is not a file of a dataset on the Hub'
        advice = "Download it yourself and name the local file in data_files"
        raise DataError(Fault(spec.where, found, "hf://datasets/OWNER/NAME/PATH", advice))
    own = [file for _, file in files if file is not None]
    if len({(file.dataset, file.revision) for file in own}) != 1:
        raise DataError(Fault(spec.where, "reads files of several datasets", "files of one dataset and revision"))
    return own


def _downloaded(
    file: RepositoryFile, hub: _HubRevision, scratch: Path, report: ProgressCallback
) -> Iterator[tuple[str, CopiedFile]]:
    """Downloads the files that a path or pattern means into the scratch folder."""
    dataset, names, revision = hub.moved_to or file.dataset, [file.path], hub.commit or None
    if "*" in file.path:
        from fnmatch import fnmatch

        from huggingface_hub import HfApi

        listed = HfApi().list_repo_files(dataset, repo_type="dataset", revision=revision)
        names = [name for name in listed if fnmatch(name, file.path)]
    for name, cached in _cached_files(dataset, names, revision, report):
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cached, path)
        yield name, CopiedFile(path.stat().st_size, file_sha256(path))


# The folder of copies


def _moved(record: CopyRecord, folder: Path, scratch: Path) -> CopyRecord:
    """Writes the record, with those files of an earlier one that are of the same commit, and moves the new files."""
    earlier = read_record(folder)
    whole = record
    if earlier is not None:
        others = earlier.files if earlier.commit == record.commit else {}
        is_default = record.is_default or earlier.is_default
        whole = replace(record, files={**others, **record.files}, is_default=is_default)
    whole.write(folder)
    for name in record.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with (scratch / name).open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(scratch / name, path)
    return whole


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A folder for unfinished files on the disk of the copies, removed at the end, with those of killed downloads."""
    base = root / _SCRATCH
    base.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname().replace("-", "_")
    for old in base.iterdir():
        name, _, rest = old.name.partition("-")
        if name == host and not _is_running(rest.partition("-")[0]):
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{host}-{os.getpid()}-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another download uses it
            base.rmdir()


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except OSError:
        return True
    return True


def space_fault(root: Path, needed: str) -> Fault:
    """The fault of a disk that is full: that of the copies, or that of the Hub's cache if it has less room."""
    cache = _cache_folder()
    if shutil.disk_usage(cache).free < shutil.disk_usage(root).free:
        root, needed = cache, f"{needed} into the Hub's cache (HF_HOME)"
    free = shutil.disk_usage(root).free
    found = f"no space left while fetching {needed} ({free / 1e6:,.0f} MB free)"
    advice = "Make room and run the same command again: complete datasets are kept"
    return Fault(str(root), found, "", advice)


def _cache_folder() -> Path:
    """The folder of the Hub's cache, or the nearest above it that exists."""
    try:
        from huggingface_hub.constants import HF_HOME
    except ImportError:
        return Path("/")
    path = Path(HF_HOME).absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
