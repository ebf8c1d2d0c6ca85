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
