"""The key `keep_docs` of a task file: documents that a benchmark keeps, by their columns.

Takes rows and the accepted values of columns, gives the rows that have one of them in every column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.errors import DataError, Fault, did_you_mean

Row = dict[str, Any]


def accepted_values(given: Any) -> list[Any]:
    """The accepted values of a column: one, or a list of them."""
    return given if isinstance(given, list) else [given]


def kept_rows(rows: Sequence[Row], conditions: Mapping[str, Any], where: str) -> list[Row]:
    """The rows that meet every condition, in their order.

    Args:
        rows: rows of a split.
        conditions: column → accepted value, or a list of them.
        where: location of the key, for errors.
    """
    accepted = {column: accepted_values(value) for column, value in conditions.items()}
    for row in rows[:1]:
        for column in accepted:
            if column not in row:
                hint = did_you_mean(column, list(map(str, row)))
                raise DataError(Fault(where, f'no column "{column}"{hint}', "one of: " + ", ".join(map(str, row))))
    kept = [row for row in rows if all(row[column] in values for column, values in accepted.items())]
    if rows and not kept:
        column = next(iter(accepted))
        seen = sorted({str(row[column]) for row in rows})
        shown = ", ".join(seen[:20]) + (", …" if len(seen) > 20 else "")
        raise DataError(Fault(where, f"none of {len(rows):,} documents has {accepted}", f"values such as: {shown}"))
    return kept
