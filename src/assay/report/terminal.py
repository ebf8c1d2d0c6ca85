"""Shows a run on the terminal: progress while it goes on, the table and what to know at its end.

Progress goes to standard error, results to standard output. Events come in as plain values.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from assay.core.results import RunResult
from assay.report.names import printable
from assay.report.tables import HEADINGS, NARROW_HEADINGS, Row, format_seconds, result_rows

_PLAIN_WIDTH = 140
_SECONDS_BETWEEN_LINES = 15.0
_MOST_TABLE_ROWS = 300
_WIDEST_COLUMN = 60
_TEXT_HEADINGS = ("Task", NARROW_HEADINGS[0], "Version", "Filter", "Metric", "")


def make_console(stderr: bool = False) -> Console:
    """A console; wide enough for the table where the output is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


class _RemainingColumn(ProgressColumn):
    """Time left, from work done so far; models start with the longest requests, so counts would mislead."""

    def render(self, task: Task) -> Text:
        left = task.fields.get("left")
        return Text("ETA " + (format_seconds(left) if left is not None else "…"), style="cyan")


class ProgressView:
    """Listens to progress and shows a bar, or a line now and then where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._ids: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._first: dict[str, tuple[float, int]] = {}
        self._last_line: dict[str, float] = {}

    def __enter__(self) -> ProgressView:
        if self._console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(),
                _RemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def say(self, text: str, style: str = "") -> None:
        """One line above the bars."""
        self._console.print(printable(text), style=style or None, markup=False)

    def progress(self, what: str, done: int, total: int | None, work: tuple[int, int], failed: int) -> None:
        """Some of the work is done."""
        now = time.monotonic()
        started = self._started.setdefault(what, now)
        work_done, work_total = work if work[1] else (done, total or 0)
        elapsed = now - started
        left = self._left(what, now, work_done, work_total)
        count = f"{done:,}/{total:,}" if total is not None else f"{done:,}"
        if failed:
            count += f" ({failed} failed)"
        if self._bars is not None:
            self._show_bar(what, work_done, work_total, count, left)
        elif now - self._last_line.get(what, started) >= _SECONDS_BETWEEN_LINES or done == total:
            self._last_line[what] = now
            ending = f", ETA {format_seconds(left)}" if left else ""
            self.say(f"{what}: {count} after {format_seconds(elapsed)}{ending}")

    def _left(self, what: str, now: float, done: int, total: int) -> float | None:
        """Seconds left, from the speed since the first answer: loading a model is no measure of its speed."""
        if not done:
            return None
        first, done_then = self._first.setdefault(what, (now, done))
        return (now - first) * (total - done) / (done - done_then) if now - first > 1 and done > done_then else None

    def _show_bar(self, what: str, done: int, total: int, count: str, left: float | None) -> None:
        assert self._bars is not None
        if what not in self._ids:
            self._ids[what] = self._bars.add_task(what, total=total or None, count=count, left=left)
        self._bars.update(self._ids[what], completed=done, total=total or None, count=count, left=left)


def show_result(result: RunResult, console: Console, files: Sequence[Path] = ()) -> None:
    """The table, what it leaves out, and where the record is."""
    console.print(_results_table(result_rows(result), console.width))
    show_notices(result.notices, console)
    counts = result.counts
    console.print(
        f"{counts.posed:,} requests posed, {counts.unique:,} distinct, {counts.known:,} already known, "
        f"{counts.asked:,} asked, {counts.failed:,} failed; {format_seconds(sum(result.timings.values()))} in all"
    )
    for kind, (count, example) in result.failures.items():
        console.print(printable(f"failed: {count} × {kind}, for example: {example}"), style="red", markup=False)
    console.print(printable(f"record: run {result.run_id} in {result.store}"), markup=False)
    for path in files:
        console.print(printable(f"written: {path}"), markup=False, soft_wrap=True)


def show_notices(notices: Sequence[str], console: Console) -> None:
    """Each notice on a line of its own."""
    for notice in notices:
        console.print("note: " + printable(notice), style="yellow", markup=False)


def _results_table(rows: Sequence[Row], width: int) -> Table:
    """The whole table, or one with fewer and joined columns where the screen is too narrow for it."""
    wide = [
        (r.name, r.version, r.filter, r.shots, r.metric, r.direction, r.value, r.stderr, r.interval, r.n) for r in rows
    ]
    columns = list(zip(HEADINGS, *wide, strict=True))
    if sum(max(map(cell_len, column)) + 2 for column in columns) <= width + 2:
        return _filled_table(HEADINGS, wide)
    return _filled_table(NARROW_HEADINGS, [cells for row in rows for cells in _narrow_cells(row)])


def _narrow_cells(row: Row) -> Iterator[tuple[str, str, str, str]]:
    """A task's name on a line of its own, its metrics below it."""
    if row.name:
        yield row.name, "", "", ""
    if row.metric:
        pipeline = f" ({row.filter})" if row.filter else ""
        metric = f"      {row.metric}{pipeline} {row.direction}"
        yield metric, f"{row.value} ± {row.stderr}", row.interval, row.n


def _filled_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        is_text = heading in _TEXT_HEADINGS
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def show_listing(console: Console, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A listing: a table, or plain columns where a table of so many rows would take long to lay out."""
    if len(rows) <= _MOST_TABLE_ROWS:
        console.print(plain_table(headings, rows))
        return
    lines = [[printable(str(cell)) for cell in row] for row in (headings, *rows)]
    widths = [min(max(map(len, column)), _WIDEST_COLUMN) for column in zip(*lines, strict=True)]
    for line in lines:
        console.file.write("  ".join(map(str.ljust, line, widths)).rstrip() + "\n")


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A simple table for listings."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    return table
