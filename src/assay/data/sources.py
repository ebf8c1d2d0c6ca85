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
from typing import Any, Protocol, runtime_checkable

from assay.core.atomic_files import atomic_write
from assay.core.errors import DataError, Fault, MissingExtra, did_you_mean, missing_extra, plain_reason
from assay.core.secrets import redacted
from assay.data import readers as files
from assay.data.allowed_paths import check_data_path, check_folder, check_options, check_pattern, is_near

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
    """

    path: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    where: str = ""
    task: str = ""


class Source(Protocol):
    """Rows by split."""

    def splits(self) -> list[str]: ...

    def rows(self, split: str) -> list[Row]: ...

    def dataset(self, split: str) -> Any:
        """A split as a `datasets` object, for task code."""
        ...


class IncompleteCopy(DataError):
    """A copy of a dataset that lacks a split or a file; `assay data get` completes it."""


@runtime_checkable
class ChecksFiles(Protocol):
    """A source that knows the sizes of its files.

    Attributes:
        is_recorded: whether `assay data get` made the files, and can complete them.
    """

    @property
    def is_recorded(self) -> bool: ...

    def check_sizes(self, split: str) -> None:
        """Raises for files of a split that are missing or cut off, without reading them."""
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

    @property
    def is_fetched(self) -> bool:
        """Whether its rows are fetched from the Hub or another address, unless the Hub's cache has them."""
        return self._origin is None and bool(_hub_origin(self._spec, None))

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


def is_on_hub(spec: SourceSpec) -> bool:
    """Whether a dataset is fetched from the Hub, not from another address or a folder."""
    is_named = spec.path not in FILE_BUILDERS and not Path(spec.path).is_absolute()
    return is_named or "hf://" in str(spec.options.get("data_files"))


def _hub_origin(spec: SourceSpec, loaded: Any) -> dict[str, Any]:
    """Where the rows of a loaded dataset came from; its commit is in the name of the cache's folder."""
    named, is_files = str(spec.options.get("data_files") or ""), spec.path in FILE_BUILDERS
    if (is_files and "://" not in named) or Path(spec.path).is_absolute():
        return {}
    found = {"from": "hub", "dataset": spec.path, "config": spec.name, "revision": spec.options.get("revision")}
    if is_files:
        found = {"from": "hub", "dataset": spec.path, "data_files": spec.options["data_files"]}
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
    return dict(getattr(source, "official_rows", None) or {})


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
    with quiet(), nullcontext() if may_cache else _without_datasets_cache():
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
def quiet() -> Iterator[None]:
    """Hides the progress bars of `datasets`: the run shows its own."""
    import datasets

    shown_bars = datasets.utils.logging.is_progress_bar_enabled()
    datasets.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown_bars:
            datasets.utils.logging.enable_progress_bar()


@contextmanager
def hub_client_offline() -> Iterator[None]:
    """Makes the Hub's client look into its cache only, as HF_HUB_OFFLINE does, which it reads once, when imported."""
    import datasets
    from huggingface_hub import constants

    places = [
        (constants, "HF_HUB_OFFLINE"),
        (datasets.config, "HF_HUB_OFFLINE"),
        (datasets.config, "HF_DATASETS_OFFLINE"),
    ]
    earlier = [(place, name, getattr(place, name)) for place, name in places if hasattr(place, name)]
    try:
        for place, name, _ in earlier:
            setattr(place, name, True)
        yield
    finally:
        for place, name, value in earlier:
            setattr(place, name, value)


def _has_media(data: Any) -> bool:
    kinds = {type(feature).__name__ for feature in (data.features or {}).values()}
    return bool(kinds & {"Image", "Audio", "Video"})


def _load_dataset(spec: SourceSpec) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise missing_extra("datasets", "hf", f"{spec.where}: dataset {spec.path}") from error
    from assay.data.load_faults import load_error, why_offline

    options = {key: value for key, value in spec.options.items() if key != "trust_remote_code"}
    offline = why_offline() if is_on_hub(spec) else ""
    try:
        with quiet(), hub_client_offline() if offline else nullcontext():
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
        raise load_error(spec.path, spec.name, spec.where, spec.task, error, offline) from error
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
    assert isinstance(source, HubSource), "task code gets what `datasets` reads"
    return source.load()


def open_source(spec: SourceSpec, for_code: bool = False) -> Source:
    """The source of a specification. Local files are located immediately, data is read later.

    Args:
        spec: the specification.
        for_code: whether task code will see the data; then `datasets` reads local files too, with its column types.
    """
    check_options(spec.path, spec.options, spec.folder, spec.where)
    if spec.path in FILE_BUILDERS and spec.options.get("data_files") is not None:
        named = _data_files(spec)
        if named is None:
            return HubSource(spec)
        if is_ours(spec.options) and not for_code:
            return FileSource(named, read_options(spec), spec.where)
        # `datasets` does not know the task file's folder, so it gets the paths that were found.
        found = {split: [str(path.resolve()) for path in paths] for split, paths in named.items()}
        options = {key: value for key, value in spec.options.items() if key != "data_dir"}
        return HubSource(replace(spec, options={**options, "data_files": found}))
    folder = local_folder(spec)
    return HubSource(spec) if folder is None else _folder_source(spec, folder, for_code)


def is_ours(options: Mapping[str, Any]) -> bool:
    """Whether our own readers support every setting."""
    separator = options.get("sep") or options.get("delimiter") or ","
    return set(options) <= _FILE_OPTIONS and len(str(separator)) == 1 and options.get("header") in (None, 0, "infer")


def _folder_source(spec: SourceSpec, folder: Path, for_code: bool) -> Source:
    is_builder = spec.path in FILE_BUILDERS
    inner = folder if is_builder else folder / (spec.options.get("data_dir") or "")
    if is_ours(spec.options) and not spec.options.get("data_files"):
        found = files.by_split(inner, spec.name) if inner.is_dir() else {}
        if found and not for_code:
            return FileSource(found, read_options(spec), spec.where)
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


def read_options(spec: SourceSpec) -> files.ReadOptions:
    """How our own readers read the files of a dataset."""
    options = spec.options
    return files.ReadOptions(
        extension=FILE_BUILDERS.get(spec.path),
        field=options.get("field"),
        separator=options.get("sep") or options.get("delimiter"),
        columns=tuple(options.get("column_names") or options.get("names") or ()),
        has_header=options.get("header", 0) is not None if "header" in options else None,
    )


def local_folder(spec: SourceSpec) -> Path | None:
    """The local folder that a dataset's path means; None if it means none."""
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
        raise DataError(Fault(where, found, "one of: " + ", ".join(known), getattr(source, "advice", "")))


def check_splits(source: Source, wanted: Mapping[str, str]) -> None:
    """Raises one error for all splits that do not exist or whose files are not there, without reading rows.

    Args:
        source: the dataset.
        wanted: split → the place that names it, for errors.
    """
    faults: list[Fault] = []
    source.splits()  # raises what concerns the dataset as a whole
    for split, where in wanted.items():
        try:
            check_split(source, split, where)
            if isinstance(source, ChecksFiles):
                source.check_sizes(split)
        except DataError as error:
            faults.extend(error.faults)
    if faults:
        is_copy = isinstance(source, ChecksFiles) and source.is_recorded
        raise (IncompleteCopy if is_copy else DataError)(*faults)


def _checked(rows: list[Row], split: str, where: str) -> list[Row]:
    if not rows:
        raise DataError(Fault(where, f'the split "{split}" is empty', "at least one document"))
    return rows
