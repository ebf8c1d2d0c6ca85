"""The figures of one run: which kinds there are, and what draws each.

Takes a finished run, a kind and a file name; gives the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from assay.core.packages import check_packages
from assay.core.results import RunResult

FigureKind = Literal["axes", "prompts", "reliability"]


def check_figure_file(path: str | Path, where: str) -> None:
    """Reports a file that cannot be written, or a missing plotting package, before a run is read.

    Args:
        path: the figure's file.
        where: the option or call that names it, for errors.
    """
    from assay.report.figures.sheet import check_figure

    check_packages([check_figure(path, where)])


def draw_figure(result: RunResult, kind: FigureKind, path: str | Path) -> Path:
    """Draws a figure of a run; gives its path."""
    if kind == "reliability":
        from assay.studies.calibration.reliability import with_reliability
        from assay.studies.calibration.reliability_figure import write_reliability_figure

        return write_reliability_figure(with_reliability(result).tasks, path)
    if kind == "prompts":
        from assay.studies.variance.prompt_figure import write_prompt_figure

        return write_prompt_figure(result.prompts, path)
    from assay.studies.variance.variance_figure import write_axes_figure

    return write_axes_figure(result.variance, path)
