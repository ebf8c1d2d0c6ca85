"""Results as rows, frames and displays."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from assay.core import tabular
from assay.core.errors import MissingExtra
from assay.core.tabular import Row, Tabular, as_frame, html_table, text_lines


class Scores(Tabular):
    def to_dicts(self) -> list[Row]:
        return [{"task": "<b>[red]a", "value": 0.5}, {"task": "c", "n": 3, "value": None}]


def test_a_notebook_gets_an_escaped_table() -> None:
    found = Scores()._repr_html_()
    assert "<td>&lt;b&gt;[red]a</td><td>0.5000</td><td></td>" in found
    assert "<th>task</th><th>value</th><th>n</th>" in found


def test_rich_prints_the_text_without_reading_markup() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(Scores())
    assert console.file.getvalue().splitlines()[1] == "<b>[red]a  0.5000"  # type: ignore[attr-defined]


def test_a_frame_has_a_column_per_key() -> None:
    frame = Scores().to_pandas()
    assert list(frame.columns) == ["task", "value", "n"] and len(frame) == 2


def test_without_pandas_the_error_says_what_to_install() -> None:
    with pytest.raises(MissingExtra, match=r'to_pandas\(\): the package "absent_frames" .*pip install absent_frames'):
        as_frame([], "to_pandas()", "absent_frames")


def test_long_tables_are_cut() -> None:
    rows = [{"n": number} for number in range(50)]
    assert text_lines(rows)[-1] == "… and 10 more rows: see to_dicts()"
    assert html_table(rows).count("<tr>") == 41
    assert tabular.column_names([]) == []
