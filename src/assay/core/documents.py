"""A document is one row of a dataset, with its index in the evaluated split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Document:
    """One dataset row.

    Attributes:
        task: name of the task that owns the document.
        id: index in the evaluated split, counted from 0.
        fields: the row's columns.
    """

    task: str
    id: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A row that the task's code changed in place; sample files show the changed fields, as lm-eval's do.

    Attributes:
        after_prompt: the fields after the prompt was built.
        logged: the fields that were added or changed while choices and target were read for the log.
    """

    after_prompt: Mapping[str, Any]
    logged: Mapping[str, Any]


def is_changed(now: Any, before: Any) -> bool:
    """Whether code has changed a document or a field; incomparable values, such as arrays, count as unchanged."""
    try:
        return bool(now != before)
    except Exception:  # a value's own comparison may raise anything
        return False
