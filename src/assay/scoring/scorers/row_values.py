"""Columns of a document that metrics read: which group a row belongs to, which category it is counted under."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from assay.core.documents import Document, column_value
from assay.core.errors import Fault, UserError
from assay.core.specs import MetricSpec

# The option of a metric that also reports it for each category of the rows.
BY = "by"


def row_value(document: Document, column: str) -> Any:
    """The value of a column; a dot reads a key of a nested one, as in `idx.question`."""
    return column_value(document.fields, column, f"task {document.task}, document {document.id}, metric_list")


def category_rule(spec: MetricSpec, where: str) -> Callable[[Document], str | None]:
    """Reader of a row's category, as a part of a metric's name: without white space and commas. None for a row without
    one: null, an empty text or "-".

    The option `by` is a column, or `{column: …, names: […]}` if the column holds the indices of categories.
    """
    given = spec.options[BY]
    rule = given if isinstance(given, Mapping) else {"column": given}
    column, names = rule.get("column"), rule.get("names") or ()
    if not isinstance(column, str) or not isinstance(names, (list, tuple)) or set(rule) - {"column", "names"}:
        expected = "a column, or {column: …, names: [the category of each index]}"
        raise UserError(Fault(f'{where}, metric "{spec.name}"', f"by is {given!r}", expected))

    def category(document: Document) -> str | None:
        value = row_value(document, column)
        is_index = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
        text = "" if value is None else str(names[value] if is_index else value).strip()
        return re.sub(r"[\s,]+", "_", text) if text not in ("", "-") else None

    return category
