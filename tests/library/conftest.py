"""The library's tasks, and a folder with the miniature rows of their datasets in the layout of `--data`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import Task
from assay.data.local_copy import DEFAULT, config_folder_name
from assay.data.sources import FILE_BUILDERS
from assay.options.specification import make_spec
from assay.run.resolve import select_for_run
from assay.tasks.catalog import LIBRARY, open_catalog

ROWS = Path(__file__).parent / "rows"
# Rows that serve every configuration of a dataset.
ANY = "_any"
# Families without rows of their own: demo tasks have their data, suites are groups.
_WITHOUT_ROWS = ("demo", "suites", "code")


def family_names() -> list[str]:
    """The folders of the library that define benchmarks."""
    return sorted(path.name for path in LIBRARY.iterdir() if path.is_dir() and path.name not in _WITHOUT_ROWS)


def tasks_of(family: str) -> list[Task]:
    """Every task that the files of a family define, except those that read the user's own copy. No data is read."""
    return [task for task in all_tasks_of(family) if not reads_own_copy(task)]


def all_tasks_of(family: str) -> list[Task]:
    """Every task that the files of a family define. No data is read."""
    entries = open_catalog(()).entries.values()
    names = [entry.name for entry in entries if entry.kind == "task" and _is_in(entry.path, family)]
    return list(select_for_run(make_spec("none", names), names).tasks) if names else []


def reads_own_copy(task: Task) -> bool:
    """Whether users fetch the files of a dataset themselves, by a form: there is no id to serve them under."""
    config: Any = task.card.config
    is_local = config["dataset_path"] in FILE_BUILDERS
    return is_local and not any(_addresses(config.get("dataset_kwargs") or {}))


def _is_in(path: Path | None, family: str) -> bool:
    return path is not None and path.is_relative_to(LIBRARY / family)


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniatureRows]:
    """The miniature rows, served as a folder of datasets."""
    yield MiniatureRows(tmp_path_factory.mktemp("rows"))


class MiniatureRows:
    """A folder of datasets that is filled with the configurations that tasks name.

    Args:
        folder: the folder, for `--data`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Puts the datasets of tasks into the folder."""
        for task in tasks:
            config: Any = task.card.config
            path, options = str(config["dataset_path"]), config.get("dataset_kwargs") or {}
            if "/" in path:
                self._add(path, config.get("dataset_name"), options)
            for address in _addresses(options):
                # Not every system allows a colon in a file's name.
                file = Path(address.removeprefix("hf://datasets/"))
                _copy_file(ROWS / str(file).replace(":", "_"), self.folder / file)

    def _add(self, dataset: str, config: str | None, options: Mapping[str, Any]) -> None:
        base, own = ROWS / dataset, self.folder / dataset
        if options.get("data_dir"):
            _copy(base / str(options["data_dir"]), own / config_folder_name(config or DEFAULT, options))
            return
        for folder in base.iterdir() if base.is_dir() else ():
            _copy(folder, own / config_folder_name((config or DEFAULT) if folder.name == ANY else folder.name, options))


def _addresses(value: Any) -> Iterator[str]:
    """Addresses of files on the Hub within a value."""
    if isinstance(value, str) and value.startswith("hf://"):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _addresses(inner)


def _copy(folder: Path, target: Path) -> None:
    if target.exists():
        return
    for path in folder.iterdir():
        _copy_file(path, target / path.name)


def _copy_file(path: Path, target: Path) -> None:
    text = path.read_text(encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    name = target.parent.name
    target.write_text(text.replace("_SUBJECT_", name).replace("_CONFIG_", name), encoding="utf-8")
