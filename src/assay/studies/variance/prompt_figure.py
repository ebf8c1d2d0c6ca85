"""The figure of a run in several prompts: which of its numbers it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.report.figures.plots import PromptColumn, prompt_chart
from assay.studies.variance.values import PromptAxis


def write_prompt_figure(axes: Sequence[PromptAxis], path: str | Path) -> Path:
    """Draws a task's first metric from 0 to 1, for every task in several prompts."""
    shown: dict[str, PromptAxis] = {}
    for axis in axes:
        if axis.known and all(0 <= score <= 1 for score in axis.known.values()):
            shown.setdefault(axis.task, axis)
    if not shown:
        found = "no task of the run was asked in several prompts with a score from 0 to 1"
        raise UserError(Fault("--prompt_figure", found, "--prompts, or a task file with prompts"))
    columns = [PromptColumn(f"{axis.task} ({axis.metric})", axis.known) for axis in shown.values()]
    target = Path(path).expanduser()
    prompt_chart(columns, target, "How far the score moves with the prompt")
    return target
