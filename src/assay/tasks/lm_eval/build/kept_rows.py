"""The key `keep_docs` of a task file: documents that a benchmark keeps, by their columns.

Takes rows and the accepted values of columns, gives the rows that have one of them in every column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.documents import column_value
from assay.core.errors import DataError, Fault

Row = dict[str, Any]


def accepted_values(given: Any) -> list[Any]:
    """The accepted values of a column: one, or a list of them."""
    return given if isinstance(given, list) else [given]


def kept_rows(rows: Sequence[Row], conditions: Mapping[str, Any], where: str) -> list[Row]:
    """The rows that meet every condition, in their order.

    Args:
        rows: rows of a split.
        conditions: column → accepted value, or a list of them; a dot reads a nested column, as in `meta.source`.
        where: location of the key, for errors.
    """
    accepted = {column: accepted_values(value) for column, value in conditions.items()}
    kept = [row for row in rows if all(column_value(row, name, where) in values for name, values in accepted.items())]
    if rows and not kept:
        column = next(iter(accepted))
        seen = sorted({str(column_value(row, column, where)) for row in rows})
        shown = ", ".join(seen[:20]) + (", …" if len(seen) > 20 else "")
        raise DataError(Fault(where, f"none of {len(rows):,} documents has {accepted}", f"values such as: {shown}"))
    return kept
