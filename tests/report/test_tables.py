"""A run as rows of text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from assay.core.results import RunResult
from assay.core.scores import Estimate
from assay.report.tables import format_number, format_seconds, result_rows


def test_a_task_is_named_once_and_has_a_row_per_metric(result: RunResult) -> None:
    rows = [row for row in result_rows(result) if row.metric in ("acc", "acc_norm")]
    assert [(row.name, row.version, row.shots) for row in rows] == [("toy_choice", "1", "0"), ("", "", "")]
    estimate = result.task("toy_choice").metric("acc").estimate
    assert rows[0].value == f"{estimate.value:.4f}"
    assert rows[0].interval == f"{estimate.low:.4f} … {estimate.high:.4f}"
    assert (rows[0].n, rows[0].direction) == ("6", "↑")


def test_members_are_below_their_group(grouped: RunResult) -> None:
    names = [row.name for row in result_rows(grouped) if row.name]
    assert names == ["Outer", "  - Inner", "    - one", "    - two", "  - toy_perplexity"]


def test_a_group_shows_its_own_number_or_none(grouped: RunResult) -> None:
    rows = {row.name: row for row in result_rows(grouped)}
    assert (rows["Outer"].metric, rows["Outer"].value) == ("", "")
    inner = grouped.group("inner").metrics[0].estimate
    assert (rows["  - Inner"].value, rows["  - Inner"].n) == (f"{inner.value:.4f}", "16")
    assert rows["  - Inner"].version == "2"


def test_a_task_in_two_groups_is_shown_once(grouped: RunResult) -> None:
    second = replace(grouped.groups[0], spec=replace(grouped.groups[0].spec, name="again", alias="Again"))
    rows = result_rows(replace(grouped, groups=(*grouped.groups, second)))
    assert [row.name.strip() for row in rows].count("- one") == 1


def test_what_is_not_known_is_a_dash(result: RunResult) -> None:
    task = result.tasks[0]
    unknown = replace(task.metrics[0], estimate=Estimate(None, None, None, None, 0, "t"))
    row = result_rows(replace(result, tasks=(replace(task, metrics=(unknown,)),)))[0]
    assert (row.value, row.stderr, row.interval, row.n) == ("–", "–", "–", "0")


def test_data_cannot_steer_the_terminal(result: RunResult) -> None:
    task = result.tasks[0]
    evil = "\x1b[2J\u202e"
    card = replace(task.card, alias=evil, version=evil)
    metric = replace(task.metrics[0], metric=evil, filter=evil)
    row = result_rows(replace(result, tasks=(replace(task, card=card, metrics=(metric,)),)))[0]
    assert not any("\x1b" in cell or "\u202e" in cell for cell in (row.name, row.version, row.metric, row.filter))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.0000"),
        (0.123456, "0.1235"),
        (-12.5, "-12.5000"),
        (12345.678, "12345.7"),
        (1e9, "1.000e+09"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_fit_a_cell(value: float | None, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (4.25, "4.2 s"), (200, "3 min 20 s"), (3599.7, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_times_are_readable(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
