"""The training record `fit.json` in the folder of a training run: its inputs, and finally its report.

Written before anything else, so that the folder of another training run is never reused or overwritten; the report is
added last, so a record with a report marks a finished run.
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
except ImportError:  # Windows: concurrent training in one folder is not prevented there
    fcntl = None  # type: ignore[assignment]

# 2: among evaluations with equal values, the one with the lowest loss wins, not the first.
VERSION = 2
REPORT = "report"


def make_record(
    parent: tuple[str, str],
    training_examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    settings: FitSettings,
    rate: float,
) -> dict[str, Any]:
    """The identity of a training run, as JSON data.

    Args:
        parent: digest and name of the parent model.
        rate: the learning rate in use.
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
    """Claims the folder for this training run.

    Returns:
        The report if the run is already finished; None if it is to start or resume.

    Raises:
        ModelError: if the folder belongs to another training run, or contains a model that was not trained here.
    """
    known = _read(folder / FIT_FILE)
    if known is None:
        _refuse_models(folder)
        write_record(folder, record)
        return None
    found = differences(known, record)
    if found:
        text = "belongs to another training run: " + "; ".join(found)
        raise ModelError(Fault(str(folder), text, "the same training run, or an empty folder", "Choose another folder"))
    report = known.get(REPORT)
    return None if report is None else read_report(report)


def write_record(folder: Path, record: Mapping[str, Any], report: FitReport | None = None) -> None:
    """Writes `fit.json` atomically."""
    data = dict(record) if report is None else {**record, REPORT: report.to_json()}
    with atomic_write(folder / FIT_FILE, is_private=False) as stream:  # other users may open the model
        json.dump(data, stream, indent=2, ensure_ascii=False)
        stream.write("\n")


def read_report(data: Mapping[str, Any]) -> FitReport:
    """Parses a report written by `to_json`."""
    lists = {"history": tuple(data["history"]), "notices": tuple(data["notices"])}
    return FitReport(**{**data, **lists})


def differences(known: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """The differences between two training runs, as text; the parent's name does not count."""
    texts = {
        "parent": "another parent model",
        "lessons": "other training examples",
        "checks": "other validation examples",
    }
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
    """Prevents other processes from training in the same folder; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(Fault(str(folder), f"cannot be created: {error.strerror}", "a writable folder")) from error
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        hint = "Wait for it to finish, or choose another folder"
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
        raise ModelError(Fault(str(path), f"cannot be read: {error}", "a training record")) from error
    if not isinstance(data, dict):
        raise ModelError(Fault(str(path), f"holds a {type(data).__name__}", "a training record"))
    return data


def _refuse_models(folder: Path) -> None:
    taken = [
        path.name for path in sorted(folder.iterdir()) if path.suffix in WEIGHT_SUFFIXES or path.name == "config.json"
    ]
    if taken:
        found = f"already contains a model ({taken[0]}) but no {FIT_FILE}, so it was not trained here"
        raise ModelError(Fault(str(folder), found, "an empty folder", "Choose another folder"))
