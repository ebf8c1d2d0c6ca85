"""The figure of variance: per task what the levels of each axis scored, and the shares of each source of variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.report.figure_data import PromptColumn
from assay.report.names import broken_name
from assay.report.plots_sheet import COLOURS, INK, MUTED, PALE, Key, paler, say_empty, score_column, sheet
from assay.report.variance import COMBINED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW = 2.3  # inches
_LEAST_LABEL = 0.07  # a narrower part of a bar has no room for its number
_LEAST_SHARE = 0.005  # a smaller source has no colour of its own
_BIN_SIZES, _MOST_BINS = (0.5, 1, 2, 5), 12  # points
_OTHER = "other"


@dataclass(frozen=True, slots=True)
class AxesRow:
    """A task: its name, level → score per axis, and for each kind of bar source → share."""

    name: str
    columns: tuple[PromptColumn, ...]
    shares: Mapping[str, Mapping[str, float]]


def axes_chart(rows: Sequence[AxesRow], path: str | Path, title: str) -> None:
    """Per task a dot for every level of an axis, their mean and histogram; beside them bars of variance shares."""
    colours = _colours(rows)
    keys = [Key(name, {"facecolor": colour}, patch=True) for name, colour in colours.items()]
    caption = (
        "Dots are levels, each the mean over the levels of all other axes; bars count those that lie together; lines "
        "are their means. On the right, shares of the variance of one score, and of the squared error of the mean over "
        "all; without draws, the largest combination also holds what is left."
    )
    with sheet(path, title, caption, _ROW * max(1, len(rows)) + 0.3, [keys]) as figure:
        panels = figure.subplots(max(1, len(rows)), 2, squeeze=False, width_ratios=(3, 2))
        for (left, right), row in zip(panels, rows, strict=False):
            _levels(left, row)
            _bars(right, row.shares, colours)
        if not rows:
            say_empty(panels[0][0], "no scores")


def _colours(rows: Sequence[AxesRow]) -> dict[str, str]:
    """Source → colour: axes before their combinations, the largest first. Beyond six colours grey is for the rest."""
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


def _levels(axes: Axes, row: AxesRow) -> None:
    scores = [100 * score for column in row.columns for score in column.scores.values()]
    low, high = min(scores, default=0.0), max(scores, default=100.0)
    size = next((step for step in _BIN_SIZES if high - low <= _MOST_BINS * step), _BIN_SIZES[-1])
    for place, column in enumerate(row.columns):
        score_column(axes, place, column, size, zoomed=True)
    axes.set_xlim(-0.6, max(len(row.columns), 1) - 0.4)
    axes.set_xticks(range(len(row.columns)), [broken_name(column.name, 16) for column in row.columns])
    # Zoomed in on the scores, since the shares beside them say how small the differences may be.
    room = max(2 * size, (high - low) / 5)
    bottom, top = max(0.0, low - room), min(100.0, high + room)
    edge = (top - bottom) / 40  # a dot at 0 or 100 is not cut
    axes.set(ylabel="score (%)", ylim=(bottom - edge, top + edge))
    axes.set_title(broken_name(row.name, 60, 2), loc="left")


def _bars(axes: Axes, shares: Mapping[str, Mapping[str, float]], colours: Mapping[str, str]) -> None:
    axes.grid(visible=False)
    if not any(share > 0 for bar in shares.values() for share in bar.values()):
        axes.set_axis_off()
        say_empty(axes, "no variance" if shares else "not taken apart")
        return
    names = list(shares)
    for place, name in enumerate(names):
        start = 0.0
        for source in (*colours, *(source for source in shares[name] if source not in colours)):
            share = shares[name].get(source, 0.0)
            axes.barh(
                place, share, 0.55, start, color=colours.get(source, paler(PALE)), edgecolor="white", linewidth=0.6
            )
            if share >= _LEAST_LABEL:
                axes.text(start + share / 2, place, f"{100 * share:.0f}", ha="center", va="center", color=INK, size=8)
            start += share
    axes.set(xlim=(0, 1), ylim=(len(names) - 0.5, -0.5), xlabel="share of variance (%)")
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"], color=MUTED)
