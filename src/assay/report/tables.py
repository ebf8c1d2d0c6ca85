"""Tables of reports as rows of text: the scores of a run, the counts behind its perplexities, and titled sections.

The scores: groups with their members below them, one row per metric and pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from assay.core.plural import plural
from assay.core.results import GroupResult, RunResult, TaskResult
from assay.core.scores import FailureBounds, MetricResult, TextCounts
from assay.report.safe_names import printable


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One line of the results table, as text; `bounds` is empty if no document failed."""

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
COUNT_HEADINGS = ("Texts", "Documents", "Windows", "Tokens", "Words", "Bytes")
# Metric → its heading. Metrics per document are in the table of all metrics.
_PERPLEXITY_HEADINGS = {
    "token_perplexity": "Per token",
    "word_perplexity": "Per word",
    "byte_perplexity": "Per byte",
    "bits_per_byte": "Bits/byte",
    "nats_per_token": "Nats/token",
}


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
    """`20`; `18 of 20` if two failed; `20 in 4 clusters`."""
    estimate, bounds = metric.estimate, metric.bounds
    n = str(estimate.n) if bounds is None else f"{estimate.n} of {estimate.n + bounds.failed}"
    return n if estimate.clusters is None else f"{n} in {plural(estimate.clusters, 'cluster')}"


def bounds_text(bounds: FailureBounds, shown: Callable[[float | None], str] | None = None) -> str:
    """The lowest and the highest score with failed documents counted."""
    if bounds.low is None or bounds.high is None:
        return "not known"
    number = format_number if shown is None else shown
    return f"{number(bounds.low)} … {number(bounds.high)}"


def format_number(value: float | None) -> str:
    """Four decimals, fewer for large numbers; a dash if unknown."""
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


def text_table(result: RunResult) -> tuple[list[str], list[list[str]]]:
    """Perplexities and the counts behind them, a row per task of whole texts: headings and rows.

    Pooled groups come first, each above its members. There are no rows for a run without such tasks.
    """
    lines = list(_text_tasks(result))
    reported = {metric.metric for _, _, metrics in lines for metric in metrics}
    shown = [name for name in _PERPLEXITY_HEADINGS if name in reported]
    rows = [[name, *_counts(counts), *_values(metrics, shown)] for name, counts, metrics in lines]
    return [*COUNT_HEADINGS, *(_PERPLEXITY_HEADINGS[name] for name in shown)], rows


def _text_tasks(result: RunResult) -> Iterator[tuple[str, TextCounts, Sequence[MetricResult]]]:
    groups: dict[str, list[GroupResult]] = {}
    for group in result.groups:
        if group.texts is not None:
            groups.setdefault(group.leaves[0], []).append(group)
    inner = {leaf for group in result.groups if group.texts is not None for leaf in group.leaves}
    for task in result.tasks:
        if task.texts is None:
            continue
        for group in groups.get(task.name, ()):
            assert group.texts is not None
            yield printable(f"{group.spec.alias} (all)"), group.texts, group.metrics
        yield printable(("- " if task.name in inner else "") + task.card.alias), task.texts, task.metrics


def _counts(counts: TextCounts) -> list[str]:
    numbers = (counts.documents, counts.windows, counts.tokens, counts.words, counts.bytes)
    return ["–" if number is None else f"{number:,}" for number in numbers]


def _values(metrics: Sequence[MetricResult], names: Sequence[str]) -> list[str]:
    values = {metric.metric: metric.estimate.value for metric in reversed(metrics)}
    return [format_number(values.get(name)) for name in names]


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a report: title, columns and rows, and the notes below it."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def section_markdown(section: Section) -> str:
    """A table as Markdown, its title above and its notes below."""
    lines = [f"**{section.title}**", "", *markdown_table(section.headings, section.rows)]
    return "\n".join([*lines, *(f"\n{note}" for note in section.notes)])


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    for cells in (headings, ["---"] * len(headings), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def percent(value: float | None, digits: int = 1) -> str:
    """A share in percent."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def p_value(value: float | None) -> str:
    """A probability with three digits."""
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
