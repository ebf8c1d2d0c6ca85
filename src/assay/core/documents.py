"""A document is one row of a dataset, with its place in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Document:
    """One row as it will be asked about.

    Attributes:
        task: name of the task that owns the document.
        id: place in the evaluated split, counted from 0.
        fields: the row's columns.
    """

    task: str
    id: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A row that its task's code changed in place; sample files show these, as lm-eval's do.

    Attributes:
        asked: the fields after the prompt was made.
        logged: the fields that reading choices and target for the log has added or changed.
    """

    asked: Mapping[str, Any]
    logged: Mapping[str, Any]


def is_changed(now: Any, before: Any) -> bool:
    """Whether code has changed a document or a field; what cannot be compared, such as arrays, counts as unchanged."""
    try:
        return bool(now != before)
    except Exception:  # a value's own comparison may raise anything
        return False
