"""Choices of rows that belong together: all answers of a question, all traits of a scenario.

In: a choice view, the metric's options and the document. Out: the row's group as a number, and whether it is right, or
its right and predicted label; the aggregations `group_em` and `group_f1` read these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault
from assay.core.identity import digest
from assay.scoring.scorers.multiple_choice import ChoiceView, accuracy, label_pair
from assay.scoring.scorers.row_values import row_value

# Hexadecimal digits of a group's hash: a whole number below 2^48, which a float holds exactly.
_DIGITS = 12


def group_hit(view: ChoiceView, options: Mapping[str, Any], document: Document) -> tuple[float, float]:
    """(group, whether the row is right)."""
    return group_number(options, document), accuracy(view, options)


def group_labels(view: ChoiceView, options: Mapping[str, Any], document: Document) -> tuple[float, float, float]:
    """(group, right label, predicted label)."""
    right, predicted = label_pair(view, options)
    return group_number(options, document), float(right), float(predicted)


def group_number(options: Mapping[str, Any], document: Document) -> float:
    """The group of a row: a hash of the columns in `group`, or the row's index divided by `group_size`."""
    size, columns = options.get("group_size"), options.get("group")
    if isinstance(size, int) and not isinstance(size, bool) and size > 0 and columns is None:
        return float(document.id // size)
    listed = [columns] if isinstance(columns, str) else columns
    if size is not None or not isinstance(listed, (list, tuple)) or not listed:
        where = f"task {document.task}, metric_list"
        found = f"group is {columns!r} and group_size is {size!r}"
        raise DataError(Fault(where, found, "group: a column or a list of columns; or group_size: rows in each group"))
    return float(int(digest([row_value(document, column) for column in listed])[:_DIGITS], 16))
