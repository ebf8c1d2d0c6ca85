"""The data of a comparison of the library: the shared hub, and miniature rows of our own for what it does not hold.

In: tasks of the library. Out: a folder that is served as a hub to both sides, and one that Assay reads by `--data`, for
ids and revisions that the shared hub has under another name.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import yaml
from pyarrow import parquet

from assay.core.protocols import Task
from assay.data.local_copy import DEFAULT, config_folder_name
from parity.workers import ROOT

ROWS = ROOT / "tests" / "library" / "rows"
# Rows that serve every configuration.
_ANY = "_any"
# Id in the library → the id under which the shared hub has the same rows.
HELD_AS = {
    "lighteval/hendrycks_ethics": "EleutherAI/hendrycks_ethics",
    "lighteval/mutual_harness": "EleutherAI/mutual",
    "lighteval/siqa": "allenai/social_i_qa",
    "rajpurkar/squad_v2": "lighteval/squad_v2",
}


# The same, where a split of the one is a configuration of the other.
SPLITS_HELD_AS = {"lighteval/GPT3_unscramble": "EleutherAI/unscramble"}
# Id in the library → the id in lm-eval, where the shared hub has neither.
_THEIRS = {"lucasmccabe/logiqa": "EleutherAI/logiqa"}
# Files that lm-eval's task names and the library's does not.
_FILES_OF_THEIRS = {"allenai/c4": {"train": "en/c4-train.00000-of-01024.json.gz"}}


def prepare_data(tasks: Sequence[Task], shared: Path, folder: Path) -> tuple[Path, Path]:
    """Fills both folders; returns the one of the hub and the one for `--data`."""
    held, hub, data = shared / "data" / "hub", folder / "hub", folder / "data"
    for emptied in (hub, data):
        shutil.rmtree(emptied, ignore_errors=True)
        emptied.mkdir(parents=True)
    for dataset in sorted(held.glob("*/*")):
        _link(dataset, hub / dataset.relative_to(held))
    for task in tasks:
        path, options = str(task.card.config["dataset_path"]), task.card.config.get("dataset_kwargs") or {}
        if "/" not in path:
            continue
        config = task.card.config.get("dataset_name")
        if path in SPLITS_HELD_AS and (held / SPLITS_HELD_AS[path]).is_dir():
            _link_splits(held / SPLITS_HELD_AS[path], data / path / (config or DEFAULT))
            continue
        source = held / HELD_AS.get(path, path)
        if source.is_dir() and config and not (source / config).is_dir() and _rows_of(path, config) is not None:
            _add_config(source, config, hub / path)
        elif source.is_dir():
            _link(source, hub / path)
            _link_config(source, data / path, config, options)
        elif options.get("data_files"):
            _add_files(path, config or DEFAULT, {**options["data_files"], **_FILES_OF_THEIRS.get(path, {})}, hub / path)
        elif (ROWS / path).is_dir():
            for name in (path, *filter(None, [_THEIRS.get(path)])):
                _add_rows(ROWS / path, hub / name, config)
    for made in {path.parent.parent for path in hub.glob("*/*/*/*.jsonl") if not path.parent.parent.is_symlink()}:
        _describe(made)
    return hub, data


def _link(source: Path, target: Path) -> None:
    if not target.exists() and not target.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.resolve(), target_is_directory=True)


def _link_splits(source: Path, target: Path) -> None:
    """The only file of each configuration as a split of its name."""
    target.mkdir(parents=True, exist_ok=True)
    for folder in [path for path in source.iterdir() if path.is_dir()]:
        (file,) = folder.iterdir()
        link = target / f"{folder.name}{''.join(file.suffixes)}"
        if not link.is_symlink():
            link.symlink_to(file.resolve())


def _link_config(source: Path, target: Path, config: str | None, options: Mapping[str, Any]) -> None:
    """A configuration that a task chooses by a folder, or that the hub has at another revision or under another id."""
    if options.get("data_dir"):
        _link(source / str(options["data_dir"]), target / config_folder_name(config or DEFAULT, options))
    if options.get("data_dir") is None and options.get("revision"):
        for folder in source.iterdir():
            if folder.is_dir():
                _link(folder, target / folder.name)


def _rows_of(path: str, config: str) -> Path | None:
    """The folder of a configuration's miniature rows."""
    return next((ROWS / path / name for name in (config, _ANY) if (ROWS / path / name).is_dir()), None)


def _named(file: Path, config: str) -> str:
    """The rows of a file; those that serve every configuration hold marks in place of its name."""
    return file.read_text(encoding="utf-8").replace("_SUBJECT_", config).replace("_CONFIG_", config)


def _add_files(path: str, config: str, files: Mapping[str, str], target: Path) -> None:
    """Miniature rows in the very files that tasks name, some of which have no rows of their own."""
    rows = _rows_of(path, config)
    if rows is None:
        return
    made: dict[str, str] = {}
    for split, pattern in files.items():
        own = rows / f"{split}.jsonl"
        text = _named(own if own.is_file() else next(rows.iterdir()), config)
        file = target / pattern.replace("*", "00000-of-00001")
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            parquet.write_table(pyarrow.Table.from_pylist([json.loads(line) for line in text.splitlines()]), file)
        else:
            file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
        made[split] = str(file.relative_to(target))
    header = target / "README.md"
    described = yaml.safe_load(header.read_text(encoding="utf-8").split("---\n")[1]) if header.is_file() else {}
    others = [entry for entry in described.get("configs", []) if entry["config_name"] != config]
    entry = {"config_name": config, "data_files": [{"split": split, "path": name} for split, name in made.items()]}
    text = yaml.safe_dump({"configs": [*others, entry]}, sort_keys=False)
    header.write_text(f"---\n{text}---\nMiniature rows.\n", encoding="utf-8")


def _add_config(source: Path, config: str, target: Path) -> None:
    """Miniature rows of a configuration that a held dataset lacks, beside the others."""
    rows = _rows_of(source.relative_to(source.parents[1]).as_posix(), config)
    if rows is None or (target / config).exists():
        return
    if target.is_symlink():
        target.unlink()
        for file in [path for path in source.rglob("*") if path.is_file() and path.name != "README.md"]:
            own = target / file.relative_to(source)
            own.parent.mkdir(parents=True, exist_ok=True)
            own.symlink_to(file.resolve())
        shutil.copy(source / "README.md", target / "README.md")
    for path in rows.iterdir():  # in the format of the others, since `datasets` reads a repository by one reader
        lines = [json.loads(line) for line in _named(path, config).splitlines()]
        (target / config).mkdir(exist_ok=True)
        parquet.write_table(pyarrow.Table.from_pylist(lines), target / config / f"{path.stem}.parquet")
    _, header, text = (target / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    described = yaml.safe_load(header)
    described["configs"] = [*described["configs"], _config(target / config)]
    (target / "README.md").write_text(f"---\n{yaml.safe_dump(described)}---\n{text}", encoding="utf-8")


def _add_rows(source: Path, target: Path, config: str | None) -> None:
    for folder in source.iterdir():
        own = target / ((config or DEFAULT) if folder.name == _ANY else folder.name)
        if not own.exists():
            shutil.copytree(folder, own)


def _describe(dataset: Path) -> None:
    """The header by which the hub and `datasets` find the files of each configuration."""
    if (dataset / "README.md").is_file():
        return
    configs = [_config(folder) for folder in sorted(dataset.iterdir()) if folder.is_dir()]
    text = yaml.safe_dump({"configs": configs}, sort_keys=False)
    (dataset / "README.md").write_text(f"---\n{text}---\nMiniature rows.\n", encoding="utf-8")


def _config(folder: Path) -> dict[str, Any]:
    """A configuration's entry in the header."""
    files = [
        {"split": path.name.partition(".")[0], "path": f"{folder.name}/{path.name}"}
        for path in sorted(folder.iterdir())
    ]
    return {"config_name": folder.name, "data_files": files}
