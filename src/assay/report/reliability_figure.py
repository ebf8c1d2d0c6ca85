"""The figure of a run's confidences: which of its tasks it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.errors import Fault, OutputError, UserError
from assay.core.results import TaskResult
from assay.report.plots_reliability import reliability_figure

FLAG = "--reliability_figure"


def check_reliability_figure(path: str | Path) -> None:
    """Fails before a run when its figure could not be written after it."""
    if Path(path).suffix.lower() not in (".svg", ".png"):
        raise OutputError(Fault(FLAG, f'"{path}" is no figure', "a file name that ends in .svg or .png"))


def write_reliability_figure(tasks: Sequence[TaskResult], path: str | Path) -> Path:
    """Draws every task that weighs choices."""
    shown = {task.name: task.reliability for task in tasks if task.reliability is not None}
    if not shown:
        found = "no task of the run weighs choices, so there is no confidence to show"
        raise UserError(Fault(FLAG, found, "a multiple-choice task, scored in one order of its choices"))
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    reliability_figure(shown, target, "Is it as often right as it is sure?")
    return target
