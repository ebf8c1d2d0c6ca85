"""The file `fit.json` of a training's folder: what is trained there, and in the end what came of it.

Written before anything else, so that a folder of another training is never taken for this one's or overwritten; the
report is added last, so that a folder with one is finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.core.atomic_files import atomic_write
from assay.core.errors import Fault, ModelError
from assay.core.training import FitReport, FitSettings, TrainingExample, digest_training_examples
from assay.models.loading.checkpoint import FIT_FILE, WEIGHT_SUFFIXES

try:
    import fcntl
except ImportError:  # Windows: two trainings of one folder are not kept apart there
    fcntl = None  # type: ignore[assignment]

# 2: of checks with equal values the one with the lowest loss is kept, not the first.
VERSION = 2
REPORT = "report"


def make_record(
    parent: tuple[str, str],
    training_examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    settings: FitSettings,
    rate: float,
) -> dict[str, Any]:
    """What makes a training itself, as JSON data.

    Args:
        parent: digest and name of the model that is trained.
        rate: the learning rate that is used.
    """
    return {
        "version": VERSION,
        "parent": parent[0],
        "parent_name": parent[1],
        "lessons": digest_training_examples(training_examples),
        "checks": digest_training_examples(validation),
        "settings": {**settings.to_json(), "learning_rate": rate},
    }


def claim(folder: Path, record: Mapping[str, Any]) -> FitReport | None:
    """Makes the folder this training's own.

    Returns:
        The report of a training that is finished already; None for one that is to begin or to go on.

    Raises:
        ModelError: for a folder of another training or of a model that was not trained here.
    """
    known = _read(folder / FIT_FILE)
    if known is None:
        _refuse_models(folder)
        write_record(folder, record)
        return None
    found = differences(known, record)
    if found:
        text = "holds another training: " + "; ".join(found)
        raise ModelError(Fault(str(folder), text, "the same training, or an empty folder", "Name another folder"))
    report = known.get(REPORT)
    return None if report is None else read_report(report)


def write_record(folder: Path, record: Mapping[str, Any], report: FitReport | None = None) -> None:
    """Writes `fit.json`, whole or not at all."""
    data = dict(record) if report is None else {**record, REPORT: report.to_json()}
    with atomic_write(folder / FIT_FILE, is_private=False) as stream:  # lies among weights that others may open
        json.dump(data, stream, indent=2, ensure_ascii=False)
        stream.write("\n")


def read_report(data: Mapping[str, Any]) -> FitReport:
    """The report that `to_json` gave."""
    lists = {"history": tuple(data["history"]), "notices": tuple(data["notices"])}
    return FitReport(**{**data, **lists})


def differences(known: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """What makes two trainings two, as text; a parent's name alone makes none."""
    texts = {"parent": "another parent model", "lessons": "other lessons", "checks": "other validation lessons"}
    found = [text for name, text in texts.items() if known.get(name) != record[name]]
    if known.get("version") != record["version"]:
        found.append("written by another version of Assay")
    theirs = known.get("settings")
    settings = theirs if isinstance(theirs, Mapping) else {}
    for name, value in record["settings"].items():
        if settings.get(name) != value:
            found.append(f"{name} was {settings.get(name)}, now {value}")
    return found


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keeps other processes from training in the same folder while this lasts; a killed process lets go of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(Fault(str(folder), f"cannot be made: {error.strerror}", "a folder to write to")) from error
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        hint = "Wait for it, or name another folder"
        raise ModelError(Fault(str(folder), "another process is training in this folder", next=hint)) from None
    try:
        yield
    finally:
        os.close(handle)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelError(Fault(str(path), f"cannot be read: {error}", "the record of a training")) from error
    if not isinstance(data, dict):
        raise ModelError(Fault(str(path), f"holds a {type(data).__name__}", "the record of a training"))
    return data


def _refuse_models(folder: Path) -> None:
    taken = [
        path.name for path in sorted(folder.iterdir()) if path.suffix in WEIGHT_SUFFIXES or path.name == "config.json"
    ]
    if taken:
        found = f"holds a model already ({taken[0]}), and no {FIT_FILE} says that it was trained here"
        raise ModelError(Fault(str(folder), found, "an empty folder", "Name another folder"))
