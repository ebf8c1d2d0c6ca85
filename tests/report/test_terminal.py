"""The terminal: the table, notices and progress, as plain text."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from assay.core.results import RunResult
from assay.report.terminal import ProgressView, plain_table, show_listing, show_result


def console() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, width=160, highlight=False), stream


def test_a_result_is_shown_with_what_it_leaves_out(result: RunResult) -> None:
    screen, stream = console()
    show_result(replace(result, notices=("only a part",)), screen)
    text = stream.getvalue()
    assert f"{result.task('toy_choice').metric('acc').estimate.value:.4f}" in text
    assert "note: only a part" in text
    assert "failed: 1 × too_long, for example: 9 tokens" in text
    assert f"run {result.run_id}" in text


def test_markup_and_control_characters_of_data_do_nothing(result: RunResult) -> None:
    screen, stream = console()
    failures = {"error": (1, "[bold]x[/bold] \x1b[2J \ud800")}
    show_result(replace(result, notices=("[red]y[/red]\x07",), failures=failures), screen)
    text = stream.getvalue()
    assert "[bold]x[/bold]" in text and "[red]y[/red]" in text
    assert "\x1b" not in text and "\x07" not in text
    assert text.encode("utf-8")


def test_a_table_of_names_is_harmless() -> None:
    screen, stream = console()
    screen.print(plain_table(("Name",), [("[b]\x1b[31m",)]))
    assert "[b]�[31m" in stream.getvalue()


def test_without_a_terminal_progress_is_a_line_at_the_end() -> None:
    screen, stream = console()
    with ProgressView(screen) as view:
        for done in range(101):
            view.progress("requests", done, 100, (done * 5, 500), failed=2)
    assert stream.getvalue().count("\n") == 1
    assert "requests: 100/100 (2 failed) after" in stream.getvalue()


def test_on_a_terminal_progress_is_a_bar_that_goes_away() -> None:
    stream = io.StringIO()
    with ProgressView(Console(file=stream, force_terminal=True, width=100)) as view:
        view.progress("requests", 1, 2, (1, 2), failed=0)
        view.say("hello")
    assert "hello" in stream.getvalue()
    assert "requests" in stream.getvalue()


def test_a_long_listing_is_plain_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    show_listing(console, ("Name", "Type"), [(f"task{number}", "x\x1b[2J") for number in range(400)])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "Name     Type"
    assert lines[400] == "task399  x\ufffd[2J"
