"""Shows a run on the terminal: progress while it runs; the table, lines of analyses and notices at its end.

Progress goes to standard error, results to standard output. Events are plain values.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from assay.core.plural import plural
from assay.core.results import Problem, RunResult
from assay.report.safe_names import printable
from assay.report.tables import (
    BOUNDS_HEADING,
    COUNT_HEADINGS,
    HEADINGS,
    NARROW_HEADINGS,
    ResultRow,
    Section,
    format_seconds,
    result_rows,
    text_table,
)

_PLAIN_WIDTH = 140
_SECONDS_BETWEEN_LINES = 15.0
_WIDTH_BESIDE_BAR = 90
_LOADING = "loading the model"
# Until the first and the last report are this far apart, a rate reflects the clock more than the work.
_LEAST_SECONDS = 1.0
_RECENT_SECONDS = 30.0
_MOST_TABLE_ROWS = 300
_WIDEST_COLUMN = 60
_WIDEST_NAME = 40
_TEXT_HEADINGS = ("Task", COUNT_HEADINGS[0], NARROW_HEADINGS[0], "Version", "Filter", "Metric", "")

Clock = Callable[[], float]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """rich would end the program, and silence standard output whichever stream is broken."""
        raise


def make_console(stderr: bool = False) -> Console:
    """A console; wide enough for the table if the output is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH
    return _Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


class RateEstimator:
    """Smoothed speed of some work, from reports of how much was done at what time.

    It counts from the first report on: earlier time, such as loading, is excluded.
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._recent: deque[tuple[float, float]] = deque()

    def add(self, now: float, done: float) -> None:
        """Reports how much is done at a time."""
        if self._first is None:
            self._first = (now, done)
        self._recent.append((now, done))
        while len(self._recent) > 2 and self._recent[1][0] <= now - _RECENT_SECONDS:
            self._recent.popleft()

    @property
    def rate(self) -> float | None:
        """Work per second: the mean of the overall rate and that of the last half minute; None while unknown."""
        if self._first is None:
            return None
        now, done = self._recent[-1]
        seconds, work = now - self._first[0], done - self._first[1]
        if seconds < _LEAST_SECONDS or work <= 0:
            return None
        then, done_then = self._recent[0]
        return (work / seconds + max(0.0, done - done_then) / (now - then)) / 2

    def remaining_seconds(self, total: float) -> float | None:
        """Seconds from the last report until the total is done."""
        rate = self.rate
        return max(0.0, total - self._recent[-1][1]) / rate if rate else None


@dataclass(slots=True)
class _ProgressLine:
    """The state of one progress line: its start, its speed, and the position of its bar."""

    started: float
    last_printed: float
    work: RateEstimator = field(default_factory=RateEstimator)
    tokens: RateEstimator = field(default_factory=RateEstimator)
    share: float = 0.0
    bar: TaskID | None = None


class _RemainingColumn(ProgressColumn):
    """Time left. It goes down between reports too."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Column(no_wrap=True))
        self._clock = clock

    def render(self, task: Task) -> Text:
        until = task.fields.get("until")
        return Text("ETA " + ("…" if until is None else format_seconds(max(0.0, until - self._clock()))), style="cyan")


class _CountColumn(ProgressColumn):
    """The progress, in words. On a narrow screen its end is cut off rather than the time left."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=False))

    def render(self, task: Task) -> Text:
        return Text(task.fields["count"], no_wrap=True, overflow="ellipsis")


class ProgressView:
    """Listens to progress and shows a bar, or an occasional line if there is no terminal.

    Args:
        console: where to show it.
        clock: returns the time in seconds.
    """

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._bars: Progress | None = None
        self._lines: dict[str, _ProgressLine] = {}

    def __enter__(self) -> ProgressView:
        if self._console.is_terminal:
            room = self._console.width - _WIDTH_BESIDE_BAR
            self._bars = Progress(
                TextColumn("{task.description}"),
                *((BarColumn(min(40, room)),) if room > 0 else ()),
                _CountColumn(),
                TimeElapsedColumn(Column(no_wrap=True)),
                _RemainingColumn(self._clock),
                console=self._console,
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            with suppress(OSError):  # the terminal may be gone
                self._bars.stop()
            self._bars = None

    def mute(self) -> None:
        """Stops all output: the terminal, or the reader of a pipe, is gone; the work continues."""
        self._console.file = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (stays open to the end)

    def restart(self) -> None:
        """Another run begins: its bars and times start from zero."""
        for line in self._lines.values():
            if self._bars is not None and line.bar is not None:
                self._bars.remove_task(line.bar)
        self._lines.clear()

    def say(self, text: str, style: str = "") -> None:
        """One line above the bars."""
        self._console.print(printable(text), style=style or None, markup=False)

    def loading(self, what: str) -> None:
        """The model is being loaded; `what` begins after that."""
        if what in self._lines:
            return
        line = self._line(what)
        if self._bars is not None:
            line.bar = self._bars.add_task(_LOADING, total=None, count="", until=None)
        else:
            self.say(_LOADING)

    def progress(
        self,
        what: str,
        done: int,
        total: int | None,
        work: tuple[float, float] = (0, 0),
        failed: int = 0,
        tokens: tuple[int, int] = (0, 0),
        detail: str = "",
    ) -> None:
        """Updates the progress of one work.

        Args:
            what: its name.
            done: number of requests, files or the like done.
            total: total number; None if unknown.
            work: work done and total work, in a unit proportional to time; None to use the counts.
            failed: number of failures among `done`.
            tokens: tokens done and in total.
            detail: further text.
        """
        now, line = self._clock(), self._line(what)
        work_done, work_total = work if work[1] else (done, total or 0)
        # A model that counts tokens is loaded when it first reports; another one when it first answers.
        if work_done or tokens[1]:
            line.work.add(now, work_done)
            line.tokens.add(now, tokens[0])
        remaining_seconds = line.work.remaining_seconds(work_total)
        count = _count(done, total, failed, tokens, line.tokens.rate) + (f", {detail}" if detail else "")
        if self._bars is not None:
            # Totals change while answers end early; a bar must not go back.
            line.share = max(line.share, min(1.0, work_done / work_total)) if work_total else 0.0
            self._show_bar(
                what, line, bool(work_total), count, None if remaining_seconds is None else now + remaining_seconds
            )
        elif now - line.last_printed >= _SECONDS_BETWEEN_LINES or done == total:
            line.last_printed = now
            ending = f", ETA {format_seconds(remaining_seconds)}" if remaining_seconds else ""
            self.say(f"{what}: {count} after {format_seconds(now - line.started)}{ending}")

    def _line(self, what: str) -> _ProgressLine:
        now = self._clock()
        return self._lines.setdefault(what, _ProgressLine(now, now))

    def _show_bar(self, what: str, line: _ProgressLine, has_end: bool, count: str, until: float | None) -> None:
        assert self._bars is not None
        total = 1.0 if has_end else None
        if line.bar is None:
            line.bar = self._bars.add_task(what, total=total, count=count, until=until)
        self._bars.update(line.bar, description=what, completed=line.share, total=total, count=count, until=until)


def _count(done: int, total: int | None, failed: int, tokens: tuple[int, int], rate: float | None) -> str:
    """`120/400 (2 failed), 12.3k of 45.6k tokens, 512/s`."""
    text = f"{done:,}/{total:,}" if total is not None else f"{done:,}"
    if failed:
        text += f" ({failed} failed)"
    if tokens[1]:
        text += f", {format_count(tokens[0])} of {format_count(tokens[1])} tokens"
        text += f", {format_count(rate)}/s" if rate else ""
    return text


def format_count(value: float) -> str:
    """`950`, `12.3k`, `4.56M`: three significant digits."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # A value that rounds up to the next unit is shown in it.
        if value >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{mark}"
    return f"{value:.0f}" if value >= 99.5 or value == int(value) else f"{value:.1f}"


def show_result(result: RunResult, console: Console) -> None:
    """The table, its notices, and the location of the record."""
    console.print(_results_table(result_rows(result), console.width))
    for contribution in result.contributions:
        for line in contribution.lines:
            console.print(hanging_indent(line, console.width), markup=False)
    _show_texts(result, console)
    show_notices(result.notices, console)
    counts = result.counts
    console.print(
        f"{plural(counts.built, 'request')} built, {counts.unique:,} distinct, {counts.known:,} already known, "
        f"{counts.asked:,} executed, {counts.failed:,} failed; {format_seconds(sum(result.timings.values()))} in all"
    )
    if "parent" in result.manifest:
        console.print(printable(_rescored_line(result)), markup=False)
    if result.model_run:
        console.print(printable(f"model: {model_run_line(result.model_run)}"), markup=False)
    for kind, (count, example) in result.failures.items():
        console.print(printable(f"failed: {count} × {kind}, for example: {example}"), style="red", markup=False)
    show_problems(result.problems, console)
    console.print(printable(f"record: run {result.run_id} in {result.store}"), markup=False)


def show_problems(problems: Iterable[Problem], console: Console) -> None:
    """The problems of a run, a line each."""
    for problem in problems:
        console.print(printable(f"problem: {problem.text}"), style="red", markup=False, soft_wrap=True)


def hanging_indent(line: str, width: int) -> str:
    """A line that is too wide, wrapped with the following lines indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _show_texts(result: RunResult, console: Console) -> None:
    """The counts behind perplexities: a table, or sentences if the screen is too narrow for it."""
    if all(task.texts is None for task in result.tasks):
        return
    headings, rows = text_table(result)
    columns = list(zip(headings, *rows, strict=True))
    if rows and sum(max(map(cell_len, column)) + 3 for column in columns) <= console.width:
        console.print(_filled_table(headings, rows))
        return
    for name, *cells in rows:
        detail = ", ".join(f"{heading.lower()} {cell}" for heading, cell in zip(headings[1:], cells, strict=True))
        console.print(f"{name}: {detail}", markup=False)


def _rescored_line(result: RunResult) -> str:
    """The source of the answers of a rescored run."""
    asked = result.counts.asked
    model = f"{plural(asked, 'request')} executed besides" if asked else "no model was loaded"
    return f"rescored from run {result.manifest['parent']}: {model}, {result.counts.known:,} answers read"


def model_run_line(run: Mapping[str, Any]) -> str:
    """Execution summary in one line: engine and reason, tokens and their rate, the peak memory of the run."""
    parts = []
    if "engine" in run:
        parts.append(f"{run['engine']} engine" + (f" ({run['why']})" if run.get("why") else ""))
    tokens, seconds = run.get("tokens"), run.get("seconds")
    if tokens:
        parts.append(f"{tokens:,} tokens" + (f" in {format_seconds(seconds)}" if seconds else ""))
        if seconds:
            parts.append(f"{format_count(tokens / seconds)} tokens/s")
    if run.get("spent"):
        parts.append(run["spent"])
    if run.get("peak_memory_bytes"):
        parts.append(f"peak memory {run['peak_memory_bytes'] / 1e9:.2f} GB")
    return ", ".join(parts) or ", ".join(f"{name} {value}" for name, value in run.items())


def show_written(paths: Iterable[Path], console: Console) -> None:
    """The files that were written: a line per path, however long."""
    for path in paths:
        console.print(printable(f"written: {path}"), markup=False, soft_wrap=True)


def show_notices(notices: Sequence[str], console: Console) -> None:
    """Each notice on a line of its own."""
    for notice in notices:
        console.print("note: " + printable(notice), style="yellow", markup=False)


def show_sections(sections: Sequence[Section], console: Console) -> None:
    """The tables of a report, each with its title and notes."""
    for section in sections:
        console.print(printable(section.title), style="bold", markup=False)
        if section.rows:
            console.print(plain_table([printable(heading) for heading in section.headings], section.rows))
        for note in section.notes:
            console.print(printable(note), markup=False)
        console.print()


def _results_table(rows: Sequence[ResultRow], width: int) -> Table | Text:
    """The whole table, or one with fewer and joined columns if the screen is too narrow."""
    headings, wide = HEADINGS, [astuple(row)[: len(HEADINGS)] for row in rows]
    if any(row.bounds for row in rows):
        headings, wide = (*HEADINGS, BOUNDS_HEADING), [astuple(row) for row in rows]
    columns = list(zip(headings, *wide, strict=True))
    # Three cells between columns, one at either end.
    if sum(max(map(cell_len, column)) + 3 for column in columns) <= width + 1:
        return _filled_table(headings, wide)
    return _narrow_table([cells for row in rows for cells in _narrow_cells(row)], width)


def _narrow_table(rows: Sequence[Sequence[str]], width: int) -> Table | Text:
    """A table whose names span all columns, which rich's tables cannot do; a rich table if even this is too wide."""
    filled = [NARROW_HEADINGS, *(row for row in rows if any(row[1:]))]
    widths = [max(map(cell_len, column)) for column in zip(*filled, strict=True)]
    total = sum(widths) + 2 * (len(widths) - 1)
    if total + 1 > width:
        return _filled_table(NARROW_HEADINGS, rows)
    lines = [_aligned(NARROW_HEADINGS, widths), "─" * total]
    lines += [_aligned(row, widths) if any(row[1:]) else row[0] for row in rows]
    return Text("\n".join(["", *(f" {line}" for line in lines), ""]))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, the others to the right."""
    gaps = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join([cells[0] + gaps[0], *(gap + cell for cell, gap in zip(cells[1:], gaps[1:], strict=True))])


def _narrow_cells(row: ResultRow) -> Iterator[tuple[str, str, str, str]]:
    """A task's name on a line of its own, its metrics below it."""
    if row.name:
        yield row.name, "", "", ""
    if row.metric:
        pipeline = f" ({row.filter})" if row.filter else ""
        metric = f"      {row.metric}{pipeline} {row.direction}"
        yield metric, f"{row.value} ± {row.stderr}", row.interval, row.n
    if row.bounds:
        yield "      with failed", "", row.bounds, ""


def _filled_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        is_text = heading in _TEXT_HEADINGS
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def show_listing(console: Console, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A listing: a table, or plain columns if a table with that many rows would be slow to lay out."""
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
    for place, heading in enumerate(headings):
        is_name = place == 0 and all(cell_len(str(row[0])) <= _WIDEST_NAME for row in rows)
        table.add_column(heading, overflow="fold", no_wrap=is_name)  # names are copied, so they stay in one piece
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    return table
