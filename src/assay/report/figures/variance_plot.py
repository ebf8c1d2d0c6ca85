"""Variance figure: per task, the score at each level of each axis, and the share of each source of variance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.task_variants import COMBINED
from assay.report.figures.figure_data import PromptColumn
from assay.report.figures.sheet import COLOURS, INK, MUTED, PALE, LegendKey, paler, say_empty, score_column, sheet
from assay.report.safe_names import broken_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW = 2.3  # inches
_LEAST_LABEL = 0.07  # a narrower part of a bar has no room for its number
_LEAST_SHARE = 0.005  # smaller sources have no colour of their own
_BIN_SIZES, _MOST_BINS = (0.5, 1, 2, 5), 12  # points
_OTHER = "other"
_INTERVAL = "The diamond is the mean over all, with its 95 % interval for other documents and levels. "


@dataclass(frozen=True, slots=True)
class AxesRow:
    """A task.

    Attributes:
        name: its name.
        columns: level → score, per axis.
        shares: source → share, for each kind of bar.
        mean: mean over all levels with both ends of its interval, if known.
    """

    name: str
    columns: tuple[PromptColumn, ...]
    shares: Mapping[str, Mapping[str, float]]
    mean: tuple[float, float, float] | None = None

    def points(self) -> list[float]:
        """All values that the axis must include, in points."""
        scores = [score for column in self.columns for score in column.scores.values()]
        return [100 * score for score in (*scores, *(self.mean or ()))]


def axes_chart(rows: Sequence[AxesRow], path: str | Path, title: str) -> None:
    """Per task, a dot for every level of an axis, their mean and histogram; beside them bars of variance shares."""
    colours = _colours(rows)
    keys = [LegendKey(name, {"facecolor": colour}, patch=True) for name, colour in colours.items()]
    size, span = _scale(rows)
    caption = (
        f"Dots are levels, each the mean over the levels of all other axes; bars count those within {_points(size)}; "
        f"lines are their means. {_INTERVAL if any(row.mean for row in rows) else ''}"
        f"The axis of scores shows {_points(span)} in every row, not 0 to 100 %. On the right, shares of the variance "
        "of one score, and of the squared error of the mean over all; without draws, the largest combination also "
        "holds what is left."
    )
    with sheet(path, title, caption, _ROW * max(1, len(rows)) + 0.3, [keys]) as figure:
        panels = figure.subplots(max(1, len(rows)), 2, squeeze=False, width_ratios=(3, 2))
        for (left, right), row in zip(panels, rows, strict=False):
            _levels(left, row, size, span)
            _bars(right, row.shares, colours)
        if not rows:
            say_empty(panels[0][0], "no scores")


def _colours(rows: Sequence[AxesRow]) -> dict[str, str]:
    """Source → colour: axes before their combinations, the largest first. Beyond six colours, the rest is grey."""
    sums: dict[str, float] = {}
    largest: dict[str, float] = {}
    for row in rows:
        for bar in row.shares.values():
            for name, share in bar.items():
                sums[name] = sums.get(name, 0.0) + share
                largest[name] = max(largest.get(name, 0.0), share)
    shown = [name for name in sums if largest[name] >= _LEAST_SHARE]
    ranked = sorted(shown, key=lambda name: (COMBINED in name, -sums[name]))
    own = dict(zip(ranked, (paler(colour, 0.6) for colour in COLOURS[:-1]), strict=False))
    rest = ranked[len(own) :]
    return {**own, rest[0] if len(rest) == 1 else _OTHER: paler(PALE)} if rest else own


def _points(number: float) -> str:
    return f"{number:g} point{'' if number == 1 else 's'}"


def _scale(rows: Sequence[AxesRow]) -> tuple[float, float]:
    """Points per bin and points of the axis, the same in all rows, so that distances are comparable.

    Zoomed in on the scores, since the shares beside them show how small the differences may be.
    """
    widest = max((max(own) - min(own) for row in rows if (own := row.points())), default=100.0)
    size = next((step for step in _BIN_SIZES if widest <= _MOST_BINS * step), _BIN_SIZES[-1])
    room = max(2 * size, widest / 5)
    return size, min(100.0, math.ceil(widest + 2 * room))


def _levels(axes: Axes, row: AxesRow, size: float, span: float) -> None:
    for index, column in enumerate(row.columns):
        score_column(axes, index, column, size, zoomed=True)
    names, places = [broken_name(column.name, 16) for column in row.columns], [*map(float, range(len(row.columns)))]
    if row.mean is not None:
        names, places = [*names, "mean, 95 %"], [*places, len(row.columns) - 0.1]
        _mean(axes, places[-1], row.mean)
    axes.set_xlim(-0.6, max(len(names), 1) - 0.4)
    axes.set_xticks(places, names)
    known = row.points() or [0.0, 100.0]
    bottom = min(max(0.0, (min(known) + max(known) - span) / 2), 100.0 - span)
    edge = span / 40  # a dot at 0 or 100 is not cut
    axes.set(ylabel="score (%)", ylim=(bottom - edge, bottom + span + edge))
    axes.locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])
    axes.set_title(broken_name(row.name, 60, 2), loc="left")


def _mean(axes: Axes, index: float, found: tuple[float, float, float]) -> None:
    """A diamond at the overall mean, with its interval and its number."""
    mean, low, high = (100 * value for value in found)
    reach = [[mean - low], [high - mean]]
    axes.errorbar(index, mean, reach, fmt="D", ms=4.5, color=INK, capsize=4, lw=1.2, zorder=5)
    axes.text(index + 0.08, mean, f"{mean:.1f}", va="center", color=INK, size=8)


def _bars(axes: Axes, shares: Mapping[str, Mapping[str, float]], colours: Mapping[str, str]) -> None:
    axes.grid(visible=False)
    if not any(share > 0 for bar in shares.values() for share in bar.values()):
        axes.set_axis_off()
        say_empty(axes, "no variance" if shares else "not taken apart")
        return
    names = list(shares)
    for index, name in enumerate(names):
        start = 0.0
        for source in (*colours, *(source for source in shares[name] if source not in colours)):
            share = shares[name].get(source, 0.0)
            axes.barh(
                index, share, 0.55, start, color=colours.get(source, paler(PALE)), edgecolor="white", linewidth=0.6
            )
            if share >= _LEAST_LABEL:
                axes.text(start + share / 2, index, f"{100 * share:.0f}", ha="center", va="center", color=INK, size=8)
            start += share
    axes.set(xlim=(0, 1), ylim=(len(names) - 0.5, -0.5), xlabel="share of variance (%)")
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"], color=MUTED)
