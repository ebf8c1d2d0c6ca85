"""A document is one row of a dataset, with its index in the evaluated split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import DataError, Fault, did_you_mean


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


def column_value(fields: Mapping[str, Any], column: str, where: str) -> Any:
    """The value of a row's column; a dot reads a key of a nested one, as in `idx.question`.

    Args:
        fields: the row.
        column: name of the column.
        where: location, for the error if there is none.
    """
    value: Any = fields
    for name in [column] if column in fields else str(column).split("."):
        if not isinstance(value, Mapping) or name not in value:
            known = list(map(str, value)) if isinstance(value, Mapping) else []
            hint = did_you_mean(name, known)
            raise DataError(Fault(where, f'no column "{column}"{hint}', "one of: " + ", ".join(known)))
        value = value[name]
    return value
