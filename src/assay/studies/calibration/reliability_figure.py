"""The figure of a run's confidences: which of its tasks it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.core.results import TaskResult
from assay.report.figures.reliability_plot import reliability_figure


def write_reliability_figure(tasks: Sequence[TaskResult], path: str | Path) -> Path:
    """Draws every task that weighs choices."""
    shown = {task.name: task.reliability for task in tasks if task.reliability is not None}
    if not shown:
        found = "no task of the run weighs choices, so there is no confidence to show"
        raise UserError(
            Fault("--reliability_figure", found, "a multiple-choice task, scored in one order of its choices")
        )
    target = Path(path).expanduser()
    reliability_figure(shown, target, "Is it as often right as it is sure?")
    return target
