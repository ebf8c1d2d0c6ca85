"""Results as rows: plain dicts, a pandas frame, and tables for terminals and notebooks.

A result class defines its rows in `to_dicts`; this adds `to_pandas()` and the displays that rich and Jupyter look for.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.core.errors import Fault, MissingExtra
from assay.core.packages import is_installed

if TYPE_CHECKING:
    import pandas

Row = dict[str, Any]
# A display is for a glance; the rest is in `to_dicts()`.
_MOST_ROWS = 40


class Tabular:
    """A result that can be shown as a table."""

    __slots__ = ()

    def to_dicts(self) -> list[Row]:
        """The rows of the result, as plain values."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of `to_dicts` as a pandas frame."""
        return as_frame(self.to_dicts(), f"{type(self).__name__}.to_pandas()")

    def _display_rows(self) -> list[Row]:
        """The rows and columns of a display."""
        return self.to_dicts()

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        return html_table(self._display_rows())

    def __rich_console__(self, console: Any, options: Any) -> Iterator[str]:
        """The table that rich prints."""
        # rich reads square brackets in a text as markup.
        yield "\n".join(text_lines(self._display_rows())).replace("[", "\\[")


def as_frame(rows: Sequence[Row], where: str, package: str = "pandas") -> pandas.DataFrame:
    """Rows as a pandas frame.

    Args:
        rows: each a dict from column to value.
        where: the call, for errors.
        package: the package that must be installed.
    """
    if not is_installed(package):
        found, advice = f'the package "{package}" is not installed', f"Run: pip install {package}"
        raise MissingExtra(Fault(where, found, next=f"{advice}. Without it: to_dicts()"))
    import pandas

    return pandas.DataFrame(list(rows))


def text_lines(rows: Sequence[Row]) -> list[str]:
    """Rows as lines of aligned columns, with the column names above."""
    columns = column_names(rows)
    cells = [columns, *([format_cell(row.get(name)) for name in columns] for row in rows[:_MOST_ROWS])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return [*lines, *_more(rows)]


def html_table(rows: Sequence[Row]) -> str:
    """Rows as an HTML table. Every cell is escaped."""
    columns = column_names(rows)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(format_cell(row.get(name)))}</td>" for name in columns) + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = "".join(f"<p>{html.escape(line)}</p>" for line in _more(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def column_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every column of some rows, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def format_cell(value: Any) -> str:
    """A cell of a display: four decimals, nothing for None."""
    if isinstance(value, float):
        return f"{value:.4f}"
    return "" if value is None else str(value)


def _more(rows: Sequence[Row]) -> list[str]:
    rest = len(rows) - _MOST_ROWS
    return [f"… and {rest:,} more rows: see to_dicts()"] if rest > 0 else []
