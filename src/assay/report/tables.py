"""A run as rows of text: groups with their members below them, one row per metric and pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assay.core.results import GroupResult, RunResult, TaskResult
from assay.core.scores import FailureBounds, MetricResult
from assay.report.safe_names import printable


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One line of the results table, as text; `bounds` is empty where no document failed."""

    name: str
    version: str
    filter: str
    shots: str
    metric: str
    direction: str
    value: str
    stderr: str
    interval: str
    n: str
    bounds: str = ""


HEADINGS: tuple[str, ...] = (
    "Task",
    "Version",
    "Filter",
    "Shots",
    "Metric",
    "",
    "Value",
    "Stderr",
    "95 % interval",
    "n",
)
# A further column of runs with failed documents: the score if all of them were wrong, and right.
BOUNDS_HEADING = "All failed wrong … right"
# In place of a metric.
NOT_SCORED = "not scored"
NARROW_HEADINGS = ("Task and metric", "Value ± stderr", "95 % interval", "n")


def result_rows(result: RunResult) -> list[ResultRow]:
    """All rows: top-level groups and tasks in the order of the run, members indented."""
    groups = {group.spec.name: group for group in result.groups}
    tasks = {task.name: task for task in result.tasks}
    inner = {member for group in result.groups for member in group.spec.members}
    order = [name for name in (*groups, *tasks) if name not in inner]
    shown: set[str] = set()
    rows: list[ResultRow] = []
    for name in order:
        rows.extend(_below(name, 0, groups, tasks, shown))
    return rows


def _below(
    name: str, depth: int, groups: dict[str, GroupResult], tasks: dict[str, TaskResult], shown: set[str]
) -> Iterator[ResultRow]:
    if name in groups:
        group = groups[name]
        yield from _group_rows(group, depth)
        for member in group.spec.members:
            yield from _below(member, depth + 1, groups, tasks, shown)
    elif name in tasks and name not in shown:
        shown.add(name)
        yield from _task_rows(tasks[name], depth)


def _indented(alias: str, depth: int) -> str:
    return ("  " * depth + "- " if depth else "") + printable(alias)


def _group_rows(group: GroupResult, depth: int) -> Iterator[ResultRow]:
    name = _indented(group.spec.alias, depth)
    version = "" if group.spec.version is None else printable(str(group.spec.version))
    if not group.metrics:
        yield ResultRow(
            name=name,
            version=version,
            filter="",
            shots="",
            metric=NOT_SCORED if group.problem is not None else "",
            direction="",
            value="",
            stderr="",
            interval="",
            n="",
        )
    for index, metric in enumerate(group.metrics):
        head = (name, version) if index == 0 else ("", "")
        yield _row(*head, "", metric)


def _task_rows(task: TaskResult, depth: int) -> Iterator[ResultRow]:
    name, version = _indented(task.card.alias, depth), printable(str(task.card.version))
    if task.problem is not None and not task.metrics:
        yield ResultRow(
            name=name,
            version=version,
            filter="",
            shots=str(task.card.num_fewshot),
            metric=NOT_SCORED,
            direction="",
            value="–",
            stderr="–",
            interval="–",
            n="0",
        )
    for index, metric in enumerate((*task.metrics, *task.rates)):
        head = (name, version, str(task.card.num_fewshot)) if index == 0 else ("", "", "")
        yield _row(*head, metric)


def _row(name: str, version: str, shots: str, metric: MetricResult) -> ResultRow:
    estimate = metric.estimate
    direction = {True: "↑", False: "↓", None: ""}[metric.higher_is_better]
    low, high = format_number(estimate.low), format_number(estimate.high)
    interval = f"{low} … {high}" if estimate.low is not None else "–"
    pipeline = "" if metric.filter == "none" else printable(metric.filter)
    return ResultRow(
        name=name,
        version=version,
        filter=pipeline,
        shots=shots,
        metric=printable(metric.metric),
        direction=direction,
        value=format_number(estimate.value),
        stderr=format_number(estimate.stderr),
        interval=interval,
        n=_size(metric),
        bounds="" if metric.bounds is None else bounds_text(metric.bounds),
    )


def _size(metric: MetricResult) -> str:
    """`20`; `18 of 20` where two failed; `20 in 4 clusters`."""
    estimate, bounds = metric.estimate, metric.bounds
    n = str(estimate.n) if bounds is None else f"{estimate.n} of {estimate.n + bounds.failed}"
    return n if estimate.clusters is None else f"{n} in {estimate.clusters} clusters"


def bounds_text(bounds: FailureBounds, shown: Callable[[float | None], str] | None = None) -> str:
    """The lowest and the highest score with failed documents counted."""
    if bounds.low is None or bounds.high is None:
        return "not known"
    number = format_number if shown is None else shown
    return f"{number(bounds.low)} … {number(bounds.high)}"


def format_number(value: float | None) -> str:
    """Four decimals, fewer for large numbers; a dash for what is not known."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = abs(value)
    return f"{value:.4f}" if size < 1000 else f"{value:.1f}" if size < 1e7 else f"{value:.3e}"


def format_seconds(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
