"""Input checks of the estimators: finite values, equal lengths, 0/1 outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core.errors import DataError, Fault


def require_finite(values: Sequence[float], where: str) -> list[float]:
    """The values as floats. A value that is not finite would pass every comparison unnoticed."""
    data = [float(value) for value in values]
    for index, value in enumerate(data):
        if not math.isfinite(value):
            found = f"document {index} has the value {value}"
            raise DataError(Fault(where, found, "finite numbers", "Leave the document out of every system"))
    return data


def same_documents(a: Sequence[float], b: Sequence[float]) -> tuple[list[float], list[float]]:
    """Two systems' values as floats, one of each per document."""
    if len(a) != len(b):
        raise length_error("second system", len(b), len(a))
    return require_finite(a, "first system"), require_finite(b, "second system")


def length_error(where: str, found: int, expected: int) -> DataError:
    """The error for a list that does not hold one value per document."""
    return DataError(Fault(where, f"{found} values", f"{expected}, one for each document of the first"))


def require_within(values: Sequence[float], low: float, high: float, where: str) -> list[float]:
    """The values as floats, each between two bounds."""
    data = require_finite(values, where)
    for index, value in enumerate(data):
        if not low <= value <= high:
            raise DataError(Fault(where, f"document {index} has the value {value}", f"{low:g} to {high:g}"))
    return data


def is_binary(values: Sequence[float]) -> bool:
    """Whether every value is 0 or 1."""
    return set(values) <= {0.0, 1.0}


def require_share(value: float, name: str) -> float:
    """A probability set by the caller, strictly between 0 and 1."""
    if not 0 < value < 1:
        raise DataError(Fault(name, f"{value}", "a number between 0 and 1, both excluded"))
    return value


def row_blocks(rows: int, cells: int, at_once: int) -> list[int]:
    """Row counts that add up to `rows`, each small enough that its cells fit into `at_once`."""
    most = max(1, at_once // cells)
    full, rest = divmod(rows, most)
    return [most] * full + ([rest] if rest else [])
