"""The terminal: the table, notices and progress, as plain text."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from assay.core.results import RunResult
from assay.report.terminal import (
    ProgressView,
    format_count,
    hanging_indent,
    model_run_line,
    plain_table,
    show_listing,
    show_result,
)


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


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def lines_of_steady_work(loading: float, seconds: int) -> list[tuple[float, str]]:
    """(Seconds that are left, line) for a model that loads and then does a hundredth of 1,000 tokens per second."""
    (screen, stream), clock, found = console(), Clock(), []
    with ProgressView(screen, clock) as view:
        view.loading("requests")
        clock.now += loading
        for second in range(seconds + 1):
            size = stream.tell()
            view.progress("requests", second // 2, 50, (second * 1e9, 1e11), 0, (second * 10, 1000))
            if stream.tell() > size:
                found.append((100.0 - second, stream.getvalue()[size:]))
            clock.now += 1.0
    assert stream.getvalue().startswith("loading the model\n")
    return found


def test_the_time_left_is_right_from_the_first_line_whatever_loading_took() -> None:
    shown = lines_of_steady_work(loading=14.0, seconds=75)
    assert len(shown) >= 5
    for left, line in shown:
        minutes, seconds = re.findall(r"ETA (?:(\d+) min )?([\d.]+) s", line)[0]
        assert int(minutes or 0) * 60 + float(seconds) == pytest.approx(left, rel=0.01)


def test_without_tokens_the_time_left_counts_from_the_first_answer() -> None:
    (screen, stream), clock = console(), Clock()
    with ProgressView(screen, clock) as view:
        view.progress("requests", 0, 100, (0, 500))
        clock.now += 60.0
        for done in range(1, 21):
            view.progress("requests", done, 100, (done * 5, 500))
            clock.now += 1.0
    assert "requests: 16/100 after 1 min 15 s, ETA 1 min 24 s\n" in stream.getvalue()


def test_the_next_run_counts_its_own_time() -> None:
    (screen, stream), clock = console(), Clock()
    with ProgressView(screen, clock) as view:
        for _ in range(2):
            view.restart()
            view.progress("requests", 0, 10)
            clock.now += 60.0
            view.progress("requests", 10, 10)
    assert stream.getvalue().count("requests: 10/10 after 1 min 00 s\n") == 2


def test_the_bar_of_the_next_run_begins_at_nothing() -> None:
    with ProgressView(Console(file=io.StringIO(), force_terminal=True, width=100)) as view:
        view.progress("requests", 10, 10)
        view.restart()
        view.progress("requests", 1, 10)
        assert bar_of(view)[1] == 0.1


def test_a_line_reports_requests_tokens_and_their_rate() -> None:
    line = lines_of_steady_work(loading=3.0, seconds=30)[-1][1]
    assert re.match(r"requests: \d+/50, \d+ of 1.00k tokens, 10/s after \d+\.0 s, ETA ", line)


def bar_of(view: ProgressView) -> tuple[str, float, float | None]:
    assert view._bars is not None
    (task,) = view._bars.tasks
    return task.description, task.completed, task.total


def test_a_bar_says_that_the_model_loads_and_never_goes_back() -> None:
    with ProgressView(Console(file=io.StringIO(), force_terminal=True, width=100)) as view:
        view.loading("requests")
        assert bar_of(view) == ("loading the model", 0, None)
        for work, expected in (((0.0, 80.0), 0.0), ((40.0, 80.0), 0.5), ((41.0, 100.0), 0.5), ((60.0, 100.0), 0.6)):
            view.progress("requests", 1, 2, work, 0, (1, 2))
            assert bar_of(view) == ("requests", expected, 1.0)


def test_on_a_narrow_screen_the_time_left_stays() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressView(Console(file=stream, force_terminal=True, width=60), clock) as view:
        for second in range(10):
            clock.now += 1.0
            view.progress("requests", 3480 + second, 40_000, (second, 99), 9, (358_000, 4_110_000))
    assert "… 0:00:00 ETA 1 min 30 s" in re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())


@pytest.mark.parametrize("width", range(70, 110, 3))
def test_names_and_numbers_are_never_broken_in_two(result: RunResult, width: int) -> None:
    task = result.task("toy_choice")
    long = replace(task, card=replace(task.card, alias="a_task_whose_name_is_longer_than_all_else"))
    stream = io.StringIO()
    show_result(replace(result, tasks=(long,), groups=()), Console(file=stream, width=width))
    assert "a_task_whose_name_is_longer_than_all_else" in stream.getvalue()
    estimate = task.metric("acc").estimate
    assert f"{estimate.low:.4f} … {estimate.high:.4f}" in stream.getvalue()


def test_how_a_model_ran_is_one_line(result: RunResult) -> None:
    run = {
        "engine": "tree",
        "why": "agrees with the padded one",
        "tokens": 12345,
        "seconds": 10.0,
        "packs": 3,
        "peak_memory_bytes": 1_626_000_000,
    }
    line = "tree engine (agrees with the padded one), 12,345 tokens in 10.0 s, 1.23k tokens/s, peak memory 1.63 GB"
    assert model_run_line(run) == line
    assert model_run_line({"tokens": 0, "device": "cpu"}) == "tokens 0, device cpu"
    screen, stream = console()
    show_result(replace(result, model_run=run), screen)
    assert f"model: {line}\n" in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (7.25, "7.2"),
        (999.4, "999"),
        (999.6, "1.00k"),
        (12_345, "12.3k"),
        (99_960, "100k"),
        (999_600, "1.00M"),
        (4_564_000, "4.56M"),
        (7.2e9, "7.20G"),
    ],
)
def test_counts_have_three_digits(value: float, text: str) -> None:
    assert format_count(value) == text


def test_a_long_listing_is_plain_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    show_listing(console, ("Name", "Type"), [(f"task{number}", "x\x1b[2J") for number in range(400)])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "Name     Type"
    assert lines[400] == "task399  x\ufffd[2J"


def test_lines_below_the_table_are_indented_where_they_break() -> None:
    assert hanging_indent("  order: min 0.1 (1), max 0.2 (2)", 22).split("\n") == [
        "  order: min 0.1 (1),",
        "    max 0.2 (2)",
    ]
    assert hanging_indent("a short line", 80) == "a short line"
