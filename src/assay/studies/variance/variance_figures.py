"""Figures of a run with several prompts, seeds, orders or draws: the numbers that they show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.report.figures.figure_data import PromptColumn
from assay.report.figures.plots import prompt_chart
from assay.report.figures.variance_plot import AxesRow, axes_chart
from assay.studies.variance.variance_report import effect_name
from assay.studies.variance.variance_values import PromptAxis, TaskVariance


def write_prompt_figure(axes: Sequence[PromptAxis], path: str | Path) -> Path:
    """Draws a task's first metric from 0 to 1, for every task with several prompts."""
    shown: dict[str, PromptAxis] = {}
    for axis in axes:
        if axis.known and all(0 <= score <= 1 for score in axis.known.values()):
            shown.setdefault(axis.task, axis)
    if not shown:
        found = "no task of the run was evaluated in several prompts with a score from 0 to 1"
        raise UserError(Fault("--prompt_figure", found, "--prompts, or a task file with prompts"))
    columns = [PromptColumn(f"{axis.task} ({axis.metric})", axis.known) for axis in shown.values()]
    target = Path(path).expanduser()
    prompt_chart(columns, target, "How far the score moves with the prompt")
    return target


def write_axes_figure(found: Sequence[TaskVariance], path: str | Path) -> Path:
    """Draws a task's first metric from 0 to 1, for every task that was evaluated in several variants."""
    shown: dict[str, TaskVariance] = {}
    for item in found:
        scores = [score for axis in item.axes for score in axis.known.values()]
        if scores and all(0 <= score <= 1 for score in scores):
            shown.setdefault(item.task, item)
    if not shown:
        reason = "no task of the run was evaluated in several variants with a score from 0 to 1"
        raise UserError(Fault("--axes_figure", reason, "--seeds, --orders, --draws or --prompts"))
    target = Path(path).expanduser()
    axes_chart(list(map(_row, shown.values())), target, "Where the scores vary")
    return target


def _row(item: TaskVariance) -> AxesRow:
    columns = tuple(PromptColumn(f"{axis.name} ({len(axis.known)})", axis.known) for axis in item.axes)
    parts = item.parts.components if item.parts is not None else ()
    one = {effect_name(part.effect): part.share or 0.0 for part in parts}
    of_mean = {effect_name(part.effect): part.share_of_mean or 0.0 for part in parts}
    return AxesRow(
        f"{item.task} ({item.metric}{'' if item.filter == 'none' else f', {item.filter}'})",
        columns,
        {"variance of\none score": one, "squared error\nof the mean": of_mean} if parts else {},
        _interval(item),
    )


def _interval(item: TaskVariance) -> tuple[float, float, float] | None:
    parts = item.parts
    if parts is None or parts.low is None or parts.high is None:
        return None
    return parts.mean, parts.low, parts.high
