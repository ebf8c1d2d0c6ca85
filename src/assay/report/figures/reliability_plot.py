"""Reliability diagram: per task, accuracy over confidence in bins of equal mass, and the risk–coverage curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from assay.report.figures.sheet import BLUE, DASHES, GREY, MUTED, PALE, RED, LegendKey, counted, paler, sheet
from assay.report.safe_names import shortened
from assay.stats.calibration import CoveragePoint, ReliabilityBin
from assay.stats.means import wilson_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_HEIGHT = 3.3  # inches
_NAME_LETTERS = 38


class DrawnReliability(Protocol):
    """The data of a row of panels: `n` documents, bins of equal mass, and accuracy by coverage."""

    @property
    def n(self) -> int: ...
    @property
    def bins(self) -> Sequence[ReliabilityBin]: ...
    @property
    def curve(self) -> Sequence[CoveragePoint]: ...


def reliability_figure(tasks: Mapping[str, DrawnReliability], path: str | Path, title: str) -> None:
    """A row of panels per task.

    Args:
        tasks: name → its reliability.
        path: the output file; .svg or .png.
        title: title of the figure.
    """
    caption = "Bins of equal mass. Bars and band: 95 % intervals (Wilson; the band point by point). "
    caption += counted([task.n for task in tasks.values()]) + "."
    keys = [
        LegendKey("accuracy in a bin", {"color": BLUE, "marker": "o", "ms": 5}),
        LegendKey("as sure as right", {"color": MUTED, "lw": 1, "ls": DASHES}),
        LegendKey("wrong among the surest", {"color": RED, "lw": 1.4}),
    ]
    with sheet(path, title, caption, _ROW_HEIGHT * max(1, len(tasks)), [keys]) as figure:
        # One grid per task; the counts are below their bins.
        for place, (name, task) in enumerate(tasks.items()):
            grid = figure.add_gridspec(len(tasks), 1)[place].subgridspec(2, 2, height_ratios=(3.4, 1))
            upper = figure.add_subplot(grid[0, 0])
            lower = figure.add_subplot(grid[1, 0], sharex=upper)
            right = figure.add_subplot(grid[:, 1])
            _bins(upper, task)
            _counts(lower, task)
            _risk(right, task)
            upper.set_title(shortened(name, _NAME_LETTERS), loc="left")
            right.set_title(f"n = {task.n:,}", loc="left", color=MUTED)


def _bins(axes: Axes, task: DrawnReliability) -> None:
    axes.plot([0, 100], [0, 100], color=MUTED, lw=1, ls=DASHES, zorder=1)
    across = [100 * one.confidence for one in task.bins]
    for x, one in zip(across, task.bins, strict=True):
        axes.vlines(x, 100 * one.low, 100 * one.high, color=BLUE, lw=1.4)
        axes.hlines(100 * one.accuracy, 100 * one.least, 100 * one.most, color=paler(BLUE, 0.6), lw=1.4)
    axes.plot(across, [100 * one.accuracy for one in task.bins], color=BLUE, marker="o", ms=5, lw=1, clip_on=False)
    axes.set(xlim=(0, 100), ylim=(0, 103), ylabel="accuracy (%)")
    axes.tick_params(labelbottom=False)


def _counts(axes: Axes, task: DrawnReliability) -> None:
    """A bar for each bin, from its lowest to its highest confidence; its height is the number of documents."""
    for one in task.bins:
        # A bin of equal confidences would be a bar without width.
        width = max(100 * (one.most - one.least), 1.0)
        left = min(100 * (one.least + one.most) / 2 - width / 2, 100 - width)
        axes.bar(left, one.n, width, align="edge", color=PALE, edgecolor="white", linewidth=0.5)
    axes.set(xlabel="confidence (%)", ylabel="documents")
    top = max(one.n for one in task.bins)
    axes.set_ylim(0, 1.45 * top)
    few = {one.n for one in task.bins}
    label = f"{min(few):,} in each bin" if len(few) == 1 else f"{min(few):,} to {top:,} in a bin"
    axes.text(0.01, 0.96, label, transform=axes.transAxes, va="top", fontsize=8, color=GREY)


def _risk(axes: Axes, task: DrawnReliability) -> None:
    xs = [100 * point.coverage for point in task.curve]
    ends = []
    for point in task.curve:
        answered = round(point.coverage * task.n)
        ends.append(wilson_interval(point.accuracy * answered, answered))
    axes.fill_between(
        xs, [100 * (1 - high) for _, high in ends], [100 * (1 - low) for low, _ in ends], color=paler(RED), lw=0
    )
    axes.plot(
        xs, [100 * (1 - point.accuracy) for point in task.curve], color=RED, lw=1.4, marker="o", ms=2, clip_on=False
    )
    axes.set(xlim=(0, 100), ylim=(0, 103), xlabel="coverage: surest documents answered (%)", ylabel="risk: wrong (%)")
