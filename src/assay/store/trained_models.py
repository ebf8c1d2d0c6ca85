"""Trained models by name: their folder, their parent, and how they were trained."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from assay.core.errors import Fault, StoreError
from assay.core.secrets import without_known
from assay.store.database import Database


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A trained model.

    Attributes:
        name: its name; `--model NAME` opens it.
        key: digest of everything that determines the weights: parent, training examples, settings. Equal keys are
            equal models.
        folder: the folder with its files.
        model_args: settings inherited from its parent.
        parent: the parent's fingerprint, as JSON data.
        fingerprint: its own fingerprint.
        tasks: names of the tasks that it was trained on.
        data: digest and number of the training examples and of the validation examples.
        settings: the training settings.
        report: the training report: steps, best step, validation metric, history.
        created: time, in seconds since 1970.
    """

    name: str
    key: str
    folder: str
    model_args: Mapping[str, Any]
    parent: Mapping[str, Any]
    fingerprint: Mapping[str, Any]
    tasks: tuple[str, ...]
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    report: Mapping[str, Any]
    created: float = field(default_factory=time.time)


_OWN_COLUMNS = ("name", "key", "created", "folder")


class FittedModels:
    """The table of trained models."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, model: FittedModel) -> None:
        """Adds a model. A name taken by another model is an error; the same model stays as it is."""
        if self.check(model):
            return
        data = {name: value for name, value in asdict(model).items() if name not in _OWN_COLUMNS}
        row = (model.name, model.key, model.created, model.folder, without_known(json.dumps(data, default=str)))
        with self._database.write() as connection:
            connection.execute("INSERT INTO fitted VALUES (?, ?, ?, ?, ?)", row)

    def check(self, model: FittedModel) -> bool:
        """Whether this model is already stored; a name taken by another model is an error."""
        known = self.get(model.name)
        if known is None or (known.key, known.folder) == (model.key, model.folder):
            return known is not None
        tasks = ", ".join(known.tasks)
        found = f'another model is called "{model.name}": it was trained on {tasks} and is in {known.folder}'
        raise StoreError(Fault("--name", found, next="Choose another name"))

    def get(self, name: str) -> FittedModel | None:
        """The model of this name; None if there is none."""
        return next(iter(self._read("WHERE name = ?", name)), None)

    def of_key(self, key: str) -> list[FittedModel]:
        """Models with the same weights."""
        return self._read("WHERE key = ? ORDER BY rowid", key)

    def all(self) -> list[FittedModel]:
        """Every model, newest first."""
        return self._read("ORDER BY rowid DESC")

    def _read(self, condition: str, *values: str) -> list[FittedModel]:
        rows = self._database.read(f"SELECT name, key, created, folder, record FROM fitted {condition}", values)
        return [read_fitted(row) for row in rows]


def read_fitted(row: Sequence[Any]) -> FittedModel:
    """A model from its row; a damaged row is an error that names the model."""
    known = {entry.name for entry in fields(FittedModel)}
    try:
        return FittedModel(**{**_known(json.loads(row[4]), known), **dict(zip(_OWN_COLUMNS, row, strict=False))})
    except (ValueError, TypeError, AttributeError) as error:
        advice = "Run: assay store check (with --repair to drop it; its files stay), then train it again"
        raise StoreError(Fault(f"model {row[0]}", f"its record cannot be read: {error}", next=advice)) from error


def _known(data: dict[str, Any], names: set[str]) -> dict[str, Any]:
    kept = {name: value for name, value in data.items() if name in names}
    return {**kept, "tasks": tuple(kept.get("tasks", ()))}
