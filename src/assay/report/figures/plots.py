"""Figures as SVG or PNG, by the path's suffix: plain numbers in, one file out. One function per figure.

spread_chart        how much a score varies between scoring methods
length_figure       whether a method errs more on long or on short correct choices
position_chart      predicted positions beside the correct ones
prompt_chart        how much a score varies between prompts
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.report.figures.figure_data import (
    SCORE_BIN,
    LengthPanel,
    Lengths,
    PositionRow,
    PromptColumn,
    SpreadBar,
    axis_limits,
    bin_edges,
    densities,
)
from assay.report.figures.sheet import (
    BLUE,
    COLOURS,
    DASHES,
    GREY,
    INK,
    MUTED,
    PALE,
    RED,
    WIDTH,
    LegendKey,
    counted,
    paler,
    say_empty,
    score_column,
    sheet,
)
from assay.report.safe_names import broken_name, printable, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "LengthPanel",
    "PositionRow",
    "PromptColumn",
    "SpreadBar",
    "length_figure",
    "position_chart",
    "prompt_chart",
    "spread_chart",
]

_MARKERS = "osD^vPX<>*"
_MARK_TONES = ("white", "#222222", "#999999")
_BARS_IN_A_ROW, _TASKS_IN_A_ROW = 14, 6


# How much a score varies between methods.

_REACH_CAPTION = (
    "Line beside a bar: what sampling alone would give; δ of equally good methods stays below it in 95 % of samples of "
    "so many documents. A δ in parentheses lies within."
)


def spread_chart(bars: Sequence[SpreadBar], path: str | Path, title: str) -> None:
    """Per task and model, a bar up to the lowest score over methods, and paler above it the spread to the highest.

    Many tasks are split into several rows, so that every name and number stays legible.
    """
    tasks, models = _unique([bar.task for bar in bars]), _unique([bar.model for bar in bars])
    methods = _unique([method for bar in bars for method in bar.known()])
    room = _BARS_IN_A_ROW if len(methods) <= 5 else _BARS_IN_A_ROW * 2 // 3
    most = max(1, min(_TASKS_IN_A_ROW, room // max(1, len(models))))
    rows = max(1, math.ceil(len(tasks) / most))
    size = max(1, math.ceil(len(tasks) / rows))
    caption = "Strong: lowest score over methods; pale: the spread δ up to the highest, in points above the bar."
    if any(bar.reach is not None for bar in bars):
        caption += f" {_REACH_CAPTION}"
    legends = _spread_legends(models, methods, bars)
    caption = f"{caption} {counted([bar.n for bar in bars])}".strip()
    with sheet(path, title, caption, 2.5 * rows + (1.0 if rows == 1 else 0.2), legends) as figure:
        panels = list(figure.subplots(rows, 1, squeeze=False, sharey=True)[:, 0])
        for row, axes in enumerate(panels):
            _spread_row(axes, _BarLayout(models, methods, size), tasks[row * size : (row + 1) * size], bars)
        highest = max((height for bar in bars for height in bar.heights()), default=1.0)
        panels[0].set_ylim(0, max(5.0, min(109.0, 112 * highest + 3)))
        panels[0].locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])
        if not methods:
            say_empty(panels[0], "no scores")


@dataclass(frozen=True, slots=True)
class _BarLayout:
    """Layout of the bars of one task: all models side by side, all methods across a bar."""

    models: list[str]
    methods: list[str]
    size: int

    @property
    def span(self) -> float:
        """Width of the axis in tasks: a few bars are not stretched to fill it."""
        return max(float(self.size), min(3.0, 6 / max(1, len(self.models))))

    @property
    def width(self) -> float:
        return min(0.84 / len(self.models), 0.4)

    def middle(self, place: int, model: str) -> float:
        return place + (self.models.index(model) - (len(self.models) - 1) / 2) * self.width

    def mark(self, method: str) -> float:
        """Offset of a method's mark from the middle of the bar."""
        count = len(self.methods)
        return 0.0 if count == 1 else (self.methods.index(method) / (count - 1) - 0.5) * 0.72 * self.width

    @property
    def mark_size(self) -> float:
        bar = (WIDTH - 0.8) * 72 / self.span * self.width
        return min(5.0, max(3.0, 0.9 * bar / max(1, len(self.methods))))


def _spread_row(axes: Axes, group: _BarLayout, shown: list[str], bars: Sequence[SpreadBar]) -> None:
    for bar in bars:
        if bar.task in shown:
            _spread_bar(axes, group, shown.index(bar.task), bar)
    _spread_axes(axes, shown, group)


def _spread_bar(axes: Axes, group: _BarLayout, place: int, bar: SpreadBar) -> None:
    scores = bar.known()
    middle, width = group.middle(place, bar.model), 0.92 * group.width
    if bar.chance is not None:
        axes.hlines(100 * bar.chance, place - 0.46, place + 0.46, INK, DASHES, linewidth=1, zorder=4)
    if not scores:
        return
    low, high = 100 * min(scores.values()), 100 * max(scores.values())
    colour, hatch = _model_style(group.models.index(bar.model))
    axes.bar(middle, low, width, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
    axes.bar(middle, high - low, width, low, color=paler(colour), hatch=hatch, edgecolor="white", linewidth=0)
    for method, score in scores.items():
        marker, tone = _marker_style(group.methods.index(method))
        x = middle + group.mark(method)
        axes.plot(x, 100 * score, marker, ms=group.mark_size, mfc=tone, mec=INK, mew=0.7, zorder=5, clip_on=False)
    if bar.reach is not None:
        edge, ends = middle + 0.5 * group.width, [low, low + 100 * bar.reach]
        axes.plot([edge, edge], ends, "-_", color=INK, lw=1.1, ms=5, mew=1.1, zorder=6, clip_on=False)
    spread_text = f"({high - low:.1f})" if bar.is_finding is False else f"{high - low:.1f}"
    number = axes.annotate(spread_text, (middle, high), (0, 6), textcoords="offset points", ha="center")
    number.set(fontsize=8, zorder=6, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8})
    number.set(color=MUTED if bar.is_finding is False else INK, fontweight="bold" if bar.is_finding else "normal")


def _spread_axes(axes: Axes, shown: Sequence[str], group: _BarLayout) -> None:
    axes.set_xlim((group.size - 1 - group.span) / 2, (group.size - 1 + group.span) / 2)
    letters = int((WIDTH - 0.8) * 13 / group.span)
    axes.set_xticks(range(len(shown)), [broken_name(task, letters, 4) for task in shown], fontsize=8.5)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("score (%)")


def _spread_legends(models: list[str], methods: list[str], bars: Sequence[SpreadBar]) -> list[list[LegendKey]]:
    looks = [_model_style(place) for place in range(len(models))]
    patches = [
        LegendKey(model, {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}, patch=True)
        for model, (colour, hatch) in zip(models, looks, strict=True)
    ]
    marks = [
        LegendKey(method, {"ls": "", "marker": marker, "ms": 5, "mfc": tone, "mec": INK, "mew": 0.7})
        for method, (marker, tone) in zip(methods, map(_marker_style, range(len(methods))), strict=True)
    ]
    if any(bar.chance is not None for bar in bars):
        marks.append(LegendKey("chance", {"color": INK, "ls": DASHES, "lw": 1}))
    reach = [LegendKey("δ by sampling alone (95 %)", {"color": INK, "ls": "-", "marker": "|", "ms": 5, "lw": 1.1})]
    return [patches, marks, reach if any(bar.reach is not None for bar in bars) else []]


def _model_style(place: int) -> tuple[str, str]:
    """Colour and hatching of a model; hatched once the colours repeat."""
    return COLOURS[place % len(COLOURS)], ("", "//", "..", "xx")[place // len(COLOURS) % 4]


def _marker_style(place: int) -> tuple[str, str]:
    """Shape and filling of a method's mark."""
    return _MARKERS[place % len(_MARKERS)], _MARK_TONES[place // len(_MARKERS) % len(_MARK_TONES)]


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


# Lengths of the choices when a method errs.


def length_figure(panels: Sequence[LengthPanel], path: str | Path, title: str) -> None:
    """One row per panel: a Bland-Altman plot of choice lengths, and beside it the histogram of the differences.

    Grey: all documents. Red: documents that the method got wrong.
    """
    data = [Lengths.of(panel) for panel in panels]
    caption = (
        "Each point is a document: the length of its correct choice less the median length of its wrong ones, over "
        "the mean of the two. Histograms are densities: each has the area 1."
    )
    caption = f"{caption} {counted([len(one.all) for one in data])}".strip()
    rows = max(1, len(panels))
    with sheet(path, title, caption, 3.2 * rows, [_LENGTH_KEYS]) as figure:
        grid = figure.subplots(rows, 2, squeeze=False, sharey="row", width_ratios=(3, 1))
        if not panels:
            say_empty(grid[0, 0], "no panels")
        for panel, lengths, (left, right) in zip(panels, data, grid, strict=False):
            _length_panel(panel, lengths, left, right)


_LENGTH_KEYS = (
    LegendKey("all documents", {"ls": "", "marker": "o", "ms": 4.5, "color": GREY}),
    LegendKey("missed", {"ls": "", "marker": "o", "ms": 4.5, "color": RED}),
    LegendKey("mean of all", {"color": INK, "lw": 1.3}),
    LegendKey("±1.96 SD of all", {"color": INK, "lw": 1, "ls": DASHES}),
    LegendKey("mean of missed", {"color": RED, "lw": 1.6}),
)


def _length_panel(panel: LengthPanel, lengths: Lengths, left: Axes, right: Axes) -> None:
    left.set_title(shortened(panel.label, 80), loc="left", fontweight="bold", pad=20)
    unit = printable(panel.unit)
    left.set_xlabel(f"mean of correct and median wrong length ({unit})")
    left.set_ylabel(f"correct − median wrong ({unit})")
    right.set_xlabel(f"density (per {unit.removesuffix('s')})")
    right.tick_params(axis="y", length=0, labelleft=False)
    if not lengths.all:
        say_empty(left, "no documents")
        left.set(xticks=[], yticks=[])
        right.set(xticks=[])
        return
    across, up = axis_limits(lengths.means), axis_limits(lengths.all)
    beyond = _length_points(left, lengths, across, up)
    for axes in (left, right):
        _length_lines(axes, lengths, up)
    _length_histogram(right, lengths, up)
    left.set_xlim(across)
    left.set_ylim(up)
    note = left.annotate(_length_note(lengths, beyond), (0, 1), (0, 7), "axes fraction", textcoords="offset points")
    note.set(fontsize=8, color=MUTED, in_layout=False)


def _length_note(lengths: Lengths, beyond: int) -> str:
    def signed(value: float | None) -> str:
        return "–" if value is None else f"{value:+.1f}".replace("-", "−")

    reach = "–" if lengths.deviation is None else f"= ±{1.96 * lengths.deviation:.1f}"
    note = f"all: n = {len(lengths.all):,}, mean {signed(lengths.mean)}, ±1.96 SD {reach}"
    note += f"   missed: n = {len(lengths.missed):,}, mean {signed(lengths.missed_mean)}"
    return note + (f"   {beyond:,} beyond the axes (×)" if beyond else "")


def _length_points(axes: Axes, lengths: Lengths, across: tuple[float, float], up: tuple[float, float]) -> int:
    """Draws every document, those beyond the axes as crosses on the edge. Returns the number of the latter."""
    inside = [
        across[0] <= x <= across[1] and up[0] <= y <= up[1] for x, y in zip(lengths.means, lengths.all, strict=True)
    ]
    every = range(len(lengths.all))
    for places, colour, faintest in ((every, GREY, 0.15), (lengths.missed, RED, 0.22)):
        shown, out = [p for p in places if inside[p]], [p for p in places if not inside[p]]
        alpha = min(0.7, max(faintest, 8 / math.sqrt(len(places) + 1)))
        axes.scatter(
            [lengths.means[p] for p in shown], [lengths.all[p] for p in shown], 9 if len(every) > 500 else 16, colour,
            alpha=alpha, linewidths=0, rasterized=True, zorder=2,
        )  # fmt: skip
        xs = [min(max(lengths.means[p], across[0]), across[1]) for p in out]
        ys = [min(max(lengths.all[p], up[0]), up[1]) for p in out]
        if out:  # without any, matplotlib would lay out a mark at the corner of the figure
            axes.plot(xs, ys, "x", color=colour, ms=5, clip_on=False, zorder=3)
    return inside.count(False)


def _length_lines(axes: Axes, lengths: Lengths, up: tuple[float, float]) -> None:
    mean, deviation, missed = lengths.mean, lengths.deviation, lengths.missed_mean
    lines: list[tuple[float, dict[str, object]]] = []
    if mean is not None:
        lines.append((mean, {"color": INK, "lw": 1.3, "zorder": 4}))
    if mean is not None and deviation is not None:
        dashed = {"color": INK, "lw": 1, "ls": DASHES, "zorder": 4}
        lines += [(mean + sign * 1.96 * deviation, dashed) for sign in (-1, 1)]
    if missed is not None:
        lines.append((missed, {"color": RED, "lw": 1.6, "zorder": 5}))
    for height, look in lines:
        if up[0] <= height <= up[1]:  # one far outside would upset the layout
            axes.axhline(height, **look)


def _length_histogram(axes: Axes, lengths: Lengths, up: tuple[float, float]) -> None:
    bounds = bin_edges(lengths.all, up)
    everything, missed = densities(lengths.all, bounds), densities(lengths.missed_values, bounds)
    axes.stairs(everything, bounds, orientation="horizontal", color="#CCCCCC", fill=True, zorder=1)
    axes.stairs(everything, bounds, orientation="horizontal", color=GREY, lw=1.3, zorder=3)
    if lengths.missed:
        axes.stairs(missed, bounds, orientation="horizontal", color=RED, lw=1.3, zorder=3)


# Positions of the choices.


def position_chart(rows: Sequence[PositionRow], path: str | Path, title: str) -> None:
    """Per label, the share of predictions at each position beside the share of right answers there."""
    for row in rows:
        if len(row.picked) != len(row.right):
            found = f"{len(row.picked)} shares of picks, {len(row.right)} of right answers"
            raise DataError(Fault(f'row "{row.label}"', found, "one of each per place"))
    columns = 1 if len(rows) <= 1 else 2 if len(rows) <= 4 else 3
    lines = max(1, math.ceil(len(rows) / columns))
    caption = "A method without a bias for places picks each as often as it is right."
    caption = f"{caption} {counted([row.n for row in rows])}".strip()
    keys = [LegendKey("picked", {"color": BLUE}, patch=True), LegendKey("right", {"color": PALE}, patch=True)]
    with sheet(path, title, caption, (3.0 if lines == 1 else 2.1) * lines, [keys]) as figure:
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
        for place, axes in enumerate(grid):
            if place < len(rows):
                _position_panel(axes, rows[place], 92 // columns)
            elif rows:
                axes.set_axis_off()
            if place % columns == 0:
                axes.set_ylabel("share (%)")
        if not rows:
            say_empty(grid[0], "no rows")


def _position_panel(axes: Axes, row: PositionRow, letters: int) -> None:
    places = range(1, len(row.picked) + 1)
    axes.set_title(broken_name(row.label, letters), loc="left", fontsize=9.5)
    axes.bar([place - 0.2 for place in places], [100 * share for share in row.picked], 0.38, color=BLUE)
    axes.bar([place + 0.2 for place in places], [100 * share for share in row.right], 0.38, color=PALE)
    axes.set_xticks(places)
    edge = max(0.0, (4 - len(places)) / 2)
    axes.set_xlim(0.4 - edge, len(places) + 0.6 + edge)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("place of the choice")
    if not places:
        say_empty(axes, "no places")


# How much a score varies between prompts.


def prompt_chart(columns: Sequence[PromptColumn], path: str | Path, title: str) -> None:
    """Per task, a dot for every prompt, a line at their mean, and beside them the histogram of the scores."""
    rows = max(1, math.ceil(len(columns) / _TASKS_IN_A_ROW))
    size = max(1, math.ceil(len(columns) / rows))
    caption = f"Dots are prompts; bars count them in steps of {SCORE_BIN} points; the line is the mean over prompts."
    caption = f"{caption} {counted([len(column.scores) for column in columns], 'prompts')}".strip()
    with sheet(path, title, caption, 2.7 * rows + 0.3, []) as figure:
        panels = list(figure.subplots(rows, 1, squeeze=False, sharey=True)[:, 0])
        for row, axes in enumerate(panels):
            shown = columns[row * size : (row + 1) * size]
            for place, column in enumerate(shown):
                score_column(axes, place, column)
            axes.set_xlim(-0.6, max(size, 3) - 0.4)
            letters = int((WIDTH - 0.8) * 13 / max(size, 3))
            axes.set_xticks(range(len(shown)), [broken_name(column.name, letters, 4) for column in shown], fontsize=8.5)
            axes.set(ylabel="score (%)", ylim=(0, 102))
        if not any(column.scores for column in columns):
            say_empty(panels[0], "no scores")
