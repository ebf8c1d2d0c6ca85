"""Sources of documents: local files, the Hugging Face Hub, or memory.

A source gives rows (plain dicts) by split. JSON, JSON Lines and CSV are read with the standard library,
Parquet with pyarrow; everything else goes through the `datasets` package, which is used only here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from assay.core.atomic_files import atomic_write
from assay.core.errors import DataError, Fault, MissingExtra, did_you_mean, missing_extra, plain_reason
from assay.core.secrets import redacted
from assay.data import readers as files
from assay.data.allowed_paths import check_data_path, check_folder, check_options, check_pattern, is_near

if TYPE_CHECKING:
    from assay.data.local_copy import LocalCopy

Row = dict[str, Any]

# Builder names of `datasets` that mean local files.
FILE_BUILDERS = {"json": ".json", "jsonl": ".jsonl", "csv": ".csv", "parquet": ".parquet", "text": ".txt"}
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Settings of these builders that our own readers support; `datasets` handles any other.
_FILE_OPTIONS = {"data_files", "data_dir", "field", "sep", "delimiter", "column_names", "names", "header", "revision"}


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A dataset as a task file names it.

    Attributes:
        path: hub id, local folder, or builder name such as `json`.
        name: configuration of the dataset.
        options: further settings, such as `data_files` or `revision`.
        folder: folder of the task file; relative paths are resolved against it first.
        where: the task file, for errors.
        task: the task, for advice.
        copies: folder of local copies, which is read first; None for none.
    """

    path: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    where: str = ""
    task: str = ""
    copies: Path | None = None


class Source(Protocol):
    """Rows by split."""

    def splits(self) -> list[str]: ...

    def rows(self, split: str) -> list[Row]: ...

    def dataset(self, split: str) -> Any:
        """A split as a `datasets` object, for task code."""
        ...


class MemorySource:
    """Rows that are already in memory."""

    def __init__(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._rows = rows

    def splits(self) -> list[str]:
        return list(self._rows)

    def rows(self, split: str) -> list[Row]:
        return [dict(row) for row in self._rows[split]]

    def dataset(self, split: str) -> Any:
        return _as_dataset(self.rows(split))


class FileSource:
    """Rows from local files, one list of files per split.

    Args:
        paths: split → files.
        options: how they are read.
        where: the task file, for errors.
        origin: see `origin_of`.
    """

    def __init__(
        self,
        paths: Mapping[str, Sequence[Path]],
        options: files.ReadOptions,
        where: str,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        self._paths = paths
        self._options = options
        self._where = where
        self.origin: Mapping[str, Any] = origin or {}

    def splits(self) -> list[str]:
        return list(self._paths)

    def rows(self, split: str) -> list[Row]:
        rows: list[Row] = []
        for path in self._paths[split]:
            rows.extend(files.read(path, self._options, self._where))
        return files.with_all_columns(rows)

    def dataset(self, split: str) -> Any:
        return _as_dataset(self.rows(split))


class CustomDatasetSource:
    """Rows of a dataset that task code created: split → `datasets` object, or list of rows."""

    def __init__(self, made: Mapping[str, Any]) -> None:
        self._made = made

    def splits(self) -> list[str]:
        return list(self._made)

    def rows(self, split: str) -> list[Row]:
        return rows_of(self._made[split])

    def dataset(self, split: str) -> Any:
        return self._made[split]


class HubSource:
    """Rows through `datasets.load_dataset`: the Hub, its local cache, or any of its builders.

    Args:
        spec: the dataset.
        origin: see `origin_of`, for data that does not come from the Hub; None for data that does.
    """

    def __init__(self, spec: SourceSpec, origin: Mapping[str, Any] | None = None) -> None:
        self._spec = spec
        self._origin = origin
        self._loaded: Any = None

    @property
    def origin(self) -> Mapping[str, Any]:
        """See `origin_of`."""
        return _hub_origin(self._spec, self._loaded) if self._origin is None else self._origin

    def splits(self) -> list[str]:
        return list(self.load())

    def rows(self, split: str) -> list[Row]:
        return rows_of(self.load()[split])

    def dataset(self, split: str) -> Any:
        return self.load()[split]

    def load(self) -> Any:
        """All splits."""
        if self._loaded is None:
            self._loaded = _load_dataset(self._spec)
        return self._loaded


class CopySource:
    """Rows of a local copy of a dataset; the files of a split are checked against the copy's record when it is read.

    Args:
        copy: the copy.
        spec: the dataset.
        for_code: whether task code will see the data; then `datasets` reads the files.
    """

    def __init__(self, copy: LocalCopy, spec: SourceSpec, for_code: bool) -> None:
        self._copy = copy
        self._spec = spec
        self._loaded = HubSource(_as_files(copy, spec)) if for_code else None
        record = copy.record
        self.origin: Mapping[str, Any] = {
            "from": "copy",
            "dataset": spec.path,
            "config": record.config if record is not None else spec.name,
            "folder": str(copy.folder),
            "commit": record.commit if record is not None else "",
        }

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._copy.folder

    @property
    def again(self) -> str:
        """The command that fetches it."""
        return _again(self._spec)

    def splits(self) -> list[str]:
        return list(self._copy.files)

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
            rows.extend(files.read(path, files.ReadOptions(), self._spec.where))
        return files.with_all_columns(rows)

    def dataset(self, split: str) -> Any:
        return self.load()[split]

    def load(self) -> Any:
        """All splits, as `datasets` reads them."""
        if self._loaded is None:
            self._loaded = HubSource(_as_files(self._copy, self._spec))
        self._check(self.splits())
        return self._loaded.load()

    def _check(self, splits: Sequence[str]) -> None:
        from assay.data.local_copy import check_files

        check_files(self._copy, splits, _again(self._spec))


def _as_files(copy: LocalCopy, spec: SourceSpec) -> SourceSpec:
    """A copy as data files that `datasets` reads, with its column types."""
    paths = {split: [str(path.resolve()) for path in own] for split, own in copy.files.items()}
    kinds = {Path(path.removesuffix(".gz")).suffix for own in paths.values() for path in own}
    builder = next((name for name, suffix in FILE_BUILDERS.items() if kinds == {suffix}), "json")
    return SourceSpec("json" if builder == "jsonl" else builder, None, {"data_files": paths}, None, spec.where)


def _again(spec: SourceSpec) -> str:
    """The command that fetches a dataset into the folder of copies."""
    return f"assay data get --tasks {spec.task or 'TASK'} --to {spec.copies}"


def _hub_origin(spec: SourceSpec, loaded: Any) -> dict[str, Any]:
    """Where the rows of a loaded dataset came from; its commit is in the name of the cache's folder."""
    if spec.path in FILE_BUILDERS and "hf://" not in str(spec.options.get("data_files")):
        return {}
    found = {"from": "hub", "dataset": spec.path, "config": spec.name, "revision": spec.options.get("revision")}
    splits = list(loaded.values()) if isinstance(loaded, Mapping) else []
    cached = [Path(file["filename"]).parent.name for split in splits for file in getattr(split, "cache_files", ())]
    return {**found, "commit": next((name for name in cached if _COMMIT.fullmatch(name)), "")}


def origin_of(source: Source) -> dict[str, Any]:
    """Where the rows of a source come from, for the record of a run; empty for local files and memory.

    `from` is `copy` or `hub`; `dataset`, `config` and `commit` name the version, and `folder` or `revision` the place.
    """
    return dict(getattr(source, "origin", None) or {})


def official_rows(source: Source) -> dict[str, int]:
    """Official number of rows by split, where the record of a local copy states it."""
    return source.official_rows() if isinstance(source, CopySource) else {}


def rows_of(data: Any) -> list[Row]:
    """The rows of a `datasets` object, or of any iterable of mappings."""
    is_plain = hasattr(data, "to_list") and (getattr(data, "format", None) or {}).get("type") is None
    if is_plain and not _has_media(data):
        rows: list[Row] = data.to_list()
        return rows
    return [dict(row) for row in data]


def _as_dataset(rows: list[Row]) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise missing_extra("datasets", "hf", "task code that makes documents") from error
    return datasets.Dataset.from_list(rows)


def processed_rows(
    source: Source, split: str, process: Callable[[Any], Any], where: str, may_cache: bool = False
) -> list[Row]:
    """The rows that task code produces from a split.

    Args:
        source: the data.
        split: the split.
        process: function of the task code.
        where: its location, for errors.
        may_cache: whether `datasets` may return cached results of earlier calls. Code that samples at random would
            then return the sample of some earlier run.
    """
    check_split(source, split, where)
    data = source.dataset(split)
    with _quiet(), nullcontext() if may_cache else _without_datasets_cache():
        return _checked(rows_of(process(data)), split, where)


@contextmanager
def _without_datasets_cache() -> Iterator[None]:
    import datasets

    was_on = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        yield
    finally:
        if was_on:
            datasets.enable_caching()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the progress bars of `datasets`: the run shows its own."""
    import datasets

    shown_bars = datasets.utils.logging.is_progress_bar_enabled()
    datasets.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown_bars:
            datasets.utils.logging.enable_progress_bar()


def _has_media(data: Any) -> bool:
    kinds = {type(feature).__name__ for feature in (data.features or {}).values()}
    return bool(kinds & {"Image", "Audio", "Video"})


def _load_dataset(spec: SourceSpec) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise missing_extra("datasets", "hf", f"{spec.where}: dataset {spec.path}") from error
    options = {key: value for key, value in spec.options.items() if key != "trust_remote_code"}
    try:
        with _quiet():
            loaded = datasets.load_dataset(spec.path, spec.name, **options)
    except ImportError as error:  # a package that only some sources need: HTTP, images, audio, archives
        raise MissingExtra(
            Fault(
                spec.where,
                f'dataset "{spec.path}" needs a package that is not installed: {plain_reason(error)}',
                next="Run: pip install 'assay-eval[hf]' for files behind http(s), or pip install the package it names",
            )
        ) from error
    except Exception as error:  # the loader raises many types; all of them mean that the data is unavailable
        from assay.data.load_faults import load_error

        raise load_error(spec.path, spec.name, spec.where, spec.task, error) from error
    finally:
        _hide_in_downloads(spec)
    if not isinstance(loaded, Mapping):
        raise DataError(
            Fault(
                spec.where, "dataset_kwargs.split leaves one split alone", "all splits", "Remove dataset_kwargs.split"
            )
        )
    return loaded


def _hide_in_downloads(spec: SourceSpec) -> None:
    """Redacts the credentials in the addresses that `datasets` writes beside its downloads and never reads again."""
    import datasets

    if redacted(spec.options) == spec.options:
        return
    for path in Path(datasets.config.DOWNLOADED_DATASETS_PATH).glob("*.json"):
        with suppress(OSError, ValueError):
            noted = json.loads(path.read_text(encoding="utf-8"))
            if redacted(noted) != noted:
                with atomic_write(path) as stream:
                    json.dump(redacted(noted), stream)


def load_all(spec: SourceSpec) -> Any:
    """A whole dataset as a `datasets` object: split → rows."""
    source = open_source(spec, for_code=True)
    assert isinstance(source, (HubSource, CopySource)), "task code gets what `datasets` reads"
    return source.load()


def open_source(spec: SourceSpec, for_code: bool = False) -> Source:
    """The source of a specification. Local files are located immediately, data is read later.

    Args:
        spec: the specification.
        for_code: whether task code will see the data; then `datasets` reads local files too, with its column types.
    """
    check_options(spec.path, spec.options, spec.folder, spec.where)
    if spec.copies is not None:
        copied = _copied_source(spec, spec.copies, for_code)
        if copied is not None:
            return copied
    if spec.path in FILE_BUILDERS and spec.options.get("data_files") is not None:
        named = _data_files(spec)
        if named is None:
            return HubSource(spec)
        if _is_ours(spec.options) and not for_code:
            return FileSource(named, _read_options(spec), spec.where)
        # `datasets` does not know the task file's folder, so it gets the paths that were found.
        found = {split: [str(path.resolve()) for path in paths] for split, paths in named.items()}
        options = {key: value for key, value in spec.options.items() if key != "data_dir"}
        return HubSource(replace(spec, options={**options, "data_files": found}))
    folder = _local_folder(spec)
    return HubSource(spec) if folder is None else _folder_source(spec, folder, for_code)


def _copied_source(spec: SourceSpec, root: Path, for_code: bool) -> Source | None:
    """The source of a dataset in the folder of copies; None if it is not there, or means a local folder."""
    from assay.data.local_copy import find_copy, wrong_revision

    if spec.path in FILE_BUILDERS:
        return _copied_files_source(spec, root, for_code)
    local = _local_folder(spec)
    if local is not None and not local.resolve().is_relative_to(root.resolve()):
        return None
    copy = find_copy(root, spec.path, spec.name, spec.options)
    if copy is None:
        return None
    revision = spec.options.get("revision")
    if copy.record is not None and not copy.record.suits(revision):
        raise DataError(wrong_revision(copy.folder, copy.record, revision))
    if copy.files:
        return CopySource(copy, spec, for_code)
    origin = {"from": "copy", "dataset": spec.path, "config": spec.name, "folder": str(copy.folder), "commit": ""}
    options = {key: value for key, value in spec.options.items() if key != "revision"}
    return HubSource(replace(spec, path=str(copy.folder.resolve()), options=options), origin)


def _copied_files_source(spec: SourceSpec, root: Path, for_code: bool) -> Source | None:
    """The source of `hf://datasets/…` files in the folder of copies; None if some of them are not there."""
    from assay.data.local_copy import copied_files, copy_of_file, file_fault

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
    faults = [fault for file in kept if (fault := file_fault(file.path, file.entry, _again(spec))) is not None]
    if faults:
        raise DataError(*faults)
    origin = {"from": "copy", "dataset": kept[0].dataset, "folder": str(root), "commit": kept[0].commit}
    if _is_ours(spec.options) and not for_code:
        return FileSource(found, _read_options(spec), spec.where, origin)
    paths = {split: [str(path.resolve()) for path in own] for split, own in found.items()}
    return HubSource(replace(spec, options={**spec.options, "data_files": paths}), origin)


def _is_ours(options: Mapping[str, Any]) -> bool:
    """Whether our own readers support every setting."""
    separator = options.get("sep") or options.get("delimiter") or ","
    return set(options) <= _FILE_OPTIONS and len(str(separator)) == 1 and options.get("header") in (None, 0, "infer")


def _folder_source(spec: SourceSpec, folder: Path, for_code: bool) -> Source:
    is_builder = spec.path in FILE_BUILDERS
    inner = folder if is_builder else folder / (spec.options.get("data_dir") or "")
    if _is_ours(spec.options) and not spec.options.get("data_files"):
        found = files.by_split(inner, spec.name) if inner.is_dir() else {}
        if found and not for_code:
            return FileSource(found, _read_options(spec), spec.where)
        if not any(path.is_file() for path in inner.rglob("*")):
            raise DataError(
                Fault(
                    spec.where,
                    f"{inner} holds no data files",
                    "files such as test.jsonl or test.parquet, one per split",
                )
            )
    if is_builder:
        return HubSource(replace(spec, options={**spec.options, "data_dir": str(folder.resolve())}))
    return HubSource(replace(spec, path=str(folder.resolve())))


def _read_options(spec: SourceSpec) -> files.ReadOptions:
    options = spec.options
    return files.ReadOptions(
        extension=FILE_BUILDERS.get(spec.path),
        field=options.get("field"),
        separator=options.get("sep") or options.get("delimiter"),
        columns=tuple(options.get("column_names") or options.get("names") or ()),
        has_header=options.get("header", 0) is not None if "header" in options else None,
    )


def _local_folder(spec: SourceSpec) -> Path | None:
    bases = ([spec.folder] if spec.folder is not None else []) + [Path()]
    name = spec.options.get("data_dir") if spec.path in FILE_BUILDERS else spec.path
    for base in bases if name else ():
        folder = base / Path(str(name)).expanduser()
        if folder.is_dir():
            check_folder(folder, spec.where)
            check_data_path(folder, spec.folder, spec.where)
            return folder
    return None


def _data_files(spec: SourceSpec) -> dict[str, list[Path]] | None:
    """Split → files; None when some of them are not local, so that `datasets` must fetch them."""
    named = spec.options["data_files"]
    by_split = named if isinstance(named, Mapping) else {"train": named}
    data_dir = spec.options.get("data_dir")
    found: dict[str, list[Path]] = {}
    for split, patterns in by_split.items():
        patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        if any("://" in str(pattern) for pattern in patterns):
            return None
        found[str(split)] = [path for pattern in patterns for path in _expand(str(pattern), data_dir, spec, str(split))]
    return found


def _expand(pattern: str, data_dir: str | None, spec: SourceSpec, split: str) -> list[Path]:
    bases = ([spec.folder] if spec.folder is not None else []) + [Path()]
    for base in bases:
        full = (base / data_dir if data_dir else base) / Path(pattern).expanduser()
        where = f"{spec.where}, dataset_kwargs.data_files.{split}"
        check_pattern(full, spec.folder, where)
        matches = files.matching(full, where)
        for path in matches:
            check_data_path(path, spec.folder, where)
            _check_kind(path, spec, where)
        if matches:
            return matches
    looked = " or ".join(dict.fromkeys(str(base.resolve()) for base in bases))
    raise DataError(
        Fault(
            spec.where,
            f'dataset_kwargs.data_files.{split}: no file "{pattern}"',
            f"a file below {looked}",
            "Give an absolute path, or one relative to the task file",
        )
    )


def _check_kind(path: Path, spec: SourceSpec, where: str) -> None:
    """Raises for a file that is not data by its name, unless it is near the task file: `text` would read any file."""
    if not files.is_data(path) and not is_near(path, spec.folder):
        kinds = ", ".join(files.EXTENSIONS)
        advice = "Rename it, or copy it to the task file's folder"
        raise DataError(Fault(where, f'"{path}" has no extension of data files', f"one of {kinds}", advice))


def split_rows(source: Source, split: str, where: str) -> list[Row]:
    """The rows of a split; an unknown split is an error that lists the existing ones."""
    check_split(source, split, where)
    return _checked(source.rows(split), split, where)


def split_size(source: Source, split: str) -> int:
    """Rows of a split before task code processes them."""
    return len(source.dataset(split))


def check_split(source: Source, split: str, where: str) -> None:
    """Raises an error that lists the existing splits if this is not one of them."""
    known = source.splits()
    if split not in known:
        found = f'no split "{split}"{did_you_mean(split, known)}'
        raise DataError(Fault(where, found, "one of: " + ", ".join(known), _advice_on_split(source)))


def _advice_on_split(source: Source) -> str:
    """What to do about a missing or empty split of a local copy; nothing for other data."""
    return f"To add it to {source.folder}, run: {source.again}" if isinstance(source, CopySource) else ""


def _checked(rows: list[Row], split: str, where: str) -> list[Row]:
    if not rows:
        raise DataError(Fault(where, f'the split "{split}" is empty', "at least one document"))
    return rows
