"""Figures as SVG or PNG, by the path's suffix: plain numbers in, one file out. With plots_* the user of matplotlib.

spread_chart        how far a score moves with the method that makes it
length_figure       whether a method misses where the correct choice is long or short
position_chart      which places are picked, beside those that are right
reliability_chart   whether confidence keeps its promise
prompt_chart        how far a score moves with the prompt
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from assay.core.errors import DataError, Fault, OutputError, missing_extra
from assay.core.writing import whole_file
from assay.report.figure_data import (
    BINS,
    SCORE_BIN,
    Bin,
    LengthPanel,
    Lengths,
    PositionRow,
    PromptColumn,
    SpreadBar,
    axis_limits,
    bin_edges,
    densities,
    reliability_bins,
)
from assay.report.names import broken_name, printable, shortened
from assay.stats.means import wilson_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "LengthPanel",
    "PositionRow",
    "PromptColumn",
    "SpreadBar",
    "length_figure",
    "position_chart",
    "prompt_chart",
    "reliability_chart",
    "spread_chart",
]

WIDTH = 8.0  # inches; 800 pixels on a page
# Okabe and Ito's palette, told apart by every kind of eyesight; without its yellow, which white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
INK, MUTED, GREY, PALE, RED, BLUE = "#222222", "#666666", "#777777", "#AAAAAA", COLOURS[1], COLOURS[0]
_MARKERS = "osD^vPX<>*"
_MARK_TONES = ("white", "#222222", "#999999")
_TITLE_LETTERS, _CAPTION_LETTERS, _LEGEND_LETTERS = 82, 130, 112
_TITLE_LINE, _CAPTION_LINE, _LEGEND_LINE = 0.22, 0.15, 0.195  # inches
_BARS_IN_A_ROW, _TASKS_IN_A_ROW = 14, 6
_DASHES = (0, (4, 3))
_LOOK = {
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.fonttype": "none",  # letters stay letters: to be searched, copied and read aloud
    "svg.hashsalt": "assay",  # the same data gives the same bytes
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}


# The sheet: one figure, its title and caption, and the file.


@dataclass(frozen=True, slots=True)
class _Key:
    """One entry of a legend: a patch of colour, or a line or mark, in matplotlib's words."""

    name: str
    look: Mapping[str, object]
    patch: bool = False


@contextmanager
def _sheet(
    path: str | Path, title: str, caption: str, height: float, legends: Sequence[Sequence[_Key]]
) -> Iterator[Figure]:
    """A figure to draw on, in the house look. It is written when the drawing is done.

    Args:
        path: the file; its suffix says the format.
        title: stands above all.
        caption: stands below all.
        height: of what is drawn between them, in inches.
        legends: stand below the title, one beneath the other.
    """
    target = Path(path).expanduser()
    kind = target.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise OutputError(Fault(str(target), f'unknown kind of figure "{target.suffix}"', ".svg or .png"))
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing_extra("matplotlib", "report", "figures") from error

    with matplotlib.style.context(["default", _LOOK]), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box in PNG; in SVG the viewer finds one that has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        heading, below = _lines(title, _TITLE_LETTERS), _lines(caption, _CAPTION_LETTERS)
        top = 0.12 + _TITLE_LINE * len(heading) + _LEGEND_LINE * sum(len(_rows(keys)) for keys in legends)
        bottom = 0.1 + _CAPTION_LINE * len(below)
        whole = top + height + bottom
        figure = Figure(figsize=(WIDTH, whole), layout="constrained", facecolor="white")
        figure.get_layout_engine().set(rect=(0, bottom / whole, 1, height / whole), h_pad=0.05, w_pad=0.06)
        figure.text(0.01, 1 - 0.08 / whole, "\n".join(heading), va="top", fontsize=11.5, fontweight="bold")
        figure.text(0.01, 0.06 / whole, "\n".join(below), va="bottom", fontsize=8, color=MUTED)
        reached = 0.1 + _TITLE_LINE * len(heading)
        for keys in legends:
            _legend(figure, keys, 1 - reached / whole)
            reached += _LEGEND_LINE * len(_rows(keys))
        yield figure
        _write(figure, target, kind)


def _write(figure: Figure, target: Path, kind: str) -> None:
    drawn = io.BytesIO()
    metadata = {"Date": None, "Creator": "Assay"} if kind == "svg" else {"Software": "Assay"}
    figure.savefig(drawn, format=kind, metadata=metadata)
    try:
        with whole_file(target) as stream:
            cast(io.TextIOWrapper, stream).buffer.write(drawn.getvalue())
    except OSError as error:
        raise OutputError(
            Fault(str(target), f"could not be written: {error.strerror or error}", next="Choose another path")
        ) from error


def _lines(text: str, letters: int) -> list[str]:
    return textwrap.wrap(printable(text), letters)


def _rows(keys: Sequence[_Key]) -> list[list[_Key]]:
    """A legend's entries line by line, in as many columns as the longest name leaves room for."""
    longest = max((len(shortened(key.name, 40)) for key in keys), default=0)
    columns = max(1, min(len(keys), _LEGEND_LETTERS // (longest + 6)))
    return [list(keys[start : start + columns]) for start in range(0, len(keys), columns)]


def _legend(figure: Figure, keys: Sequence[_Key], top: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    rows = _rows(keys)
    if not rows:
        return
    # matplotlib fills column by column; read line by line, the entries keep their order.
    ordered = [row[column] for column in range(len(rows[0])) for row in rows if column < len(row)]
    legend = figure.legend(
        [Patch(**key.look) if key.patch else Line2D([], [], **key.look) for key in ordered],
        [f"entry {place}" for place in range(len(ordered))],
        loc="upper left",
        bbox_to_anchor=(0.008, top),
        ncols=len(rows[0]),
        columnspacing=1.4,
        handlelength=1.4,
        handletextpad=0.5,
        borderpad=0.1,
        borderaxespad=0,
    )
    legend.set_in_layout(False)
    # Set afterwards: matplotlib leaves out names that begin with an underscore.
    for text, key in zip(legend.get_texts(), ordered, strict=True):
        text.set_text(shortened(key.name, 40))


def _counted(sizes: Sequence[int | None], noun: str = "documents") -> str:
    """`n = 500 documents`, or the range where they differ, or nothing where none is known."""
    known = [size for size in sizes if size is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"n = {low:,} {noun}" if low == high else f"n = {low:,} to {high:,} {noun}"


def _nothing(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def _paler(colour: str, share: float = 0.35) -> str:
    """A colour mixed with white."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * share):02X}" for part in parts)


# How far a score moves with the method.


def spread_chart(bars: Sequence[SpreadBar], path: str | Path, title: str) -> None:
    """Per task and model a bar up to the lowest score over methods, and paler above it the spread to the highest.

    Tasks are broken into rows where they are many, so that every name and number stays legible.
    """
    tasks, models = _unique([bar.task for bar in bars]), _unique([bar.model for bar in bars])
    methods = _unique([method for bar in bars for method in bar.known()])
    room = _BARS_IN_A_ROW if len(methods) <= 5 else _BARS_IN_A_ROW * 2 // 3
    most = max(1, min(_TASKS_IN_A_ROW, room // max(1, len(models))))
    rows = max(1, math.ceil(len(tasks) / most))
    size = max(1, math.ceil(len(tasks) / rows))
    caption = "Strong: lowest score over methods; pale: the spread δ up to the highest, in points above the bar."
    legends = _spread_legends(models, methods, any(bar.chance is not None for bar in bars))
    caption = f"{caption} {_counted([bar.n for bar in bars])}".strip()
    with _sheet(path, title, caption, 2.5 * rows + (1.0 if rows == 1 else 0.2), legends) as figure:
        panels = list(figure.subplots(rows, 1, squeeze=False, sharey=True)[:, 0])
        for row, axes in enumerate(panels):
            _spread_row(axes, _Group(models, methods, size), tasks[row * size : (row + 1) * size], bars)
        highest = max((height for bar in bars for height in bar.heights()), default=1.0)
        panels[0].set_ylim(0, max(5.0, min(109.0, 112 * highest + 3)))
        panels[0].locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])
        if not methods:
            _nothing(panels[0], "no scores")


@dataclass(frozen=True, slots=True)
class _Group:
    """How the bars of one task stand: all models side by side, all methods across a bar."""

    models: list[str]
    methods: list[str]
    size: int

    @property
    def span(self) -> float:
        """Width of the axis in tasks: a few bars are not blown up to fill it."""
        return max(float(self.size), min(3.0, 6 / max(1, len(self.models))))

    @property
    def width(self) -> float:
        return min(0.84 / len(self.models), 0.4)

    def middle(self, place: int, model: str) -> float:
        return place + (self.models.index(model) - (len(self.models) - 1) / 2) * self.width

    def mark(self, method: str) -> float:
        """Where in the bar, from its middle, a method's mark stands."""
        count = len(self.methods)
        return 0.0 if count == 1 else (self.methods.index(method) / (count - 1) - 0.5) * 0.72 * self.width

    @property
    def mark_size(self) -> float:
        bar = (WIDTH - 0.8) * 72 / self.span * self.width
        return min(5.0, max(3.0, 0.9 * bar / max(1, len(self.methods))))


def _spread_row(axes: Axes, group: _Group, shown: list[str], bars: Sequence[SpreadBar]) -> None:
    for bar in bars:
        if bar.task in shown:
            _spread_bar(axes, group, shown.index(bar.task), bar)
    _spread_axes(axes, shown, group)


def _spread_bar(axes: Axes, group: _Group, place: int, bar: SpreadBar) -> None:
    scores = bar.known()
    middle, width = group.middle(place, bar.model), 0.92 * group.width
    if bar.chance is not None:
        axes.hlines(100 * bar.chance, place - 0.46, place + 0.46, INK, _DASHES, linewidth=1, zorder=4)
    if not scores:
        return
    low, high = 100 * min(scores.values()), 100 * max(scores.values())
    colour, hatch = _model_look(group.models.index(bar.model))
    axes.bar(middle, low, width, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
    axes.bar(middle, high - low, width, low, color=_paler(colour), hatch=hatch, edgecolor="white", linewidth=0)
    for method, score in scores.items():
        marker, tone = _method_look(group.methods.index(method))
        x = middle + group.mark(method)
        axes.plot(x, 100 * score, marker, ms=group.mark_size, mfc=tone, mec=INK, mew=0.7, zorder=5, clip_on=False)
    number = axes.annotate(f"{high - low:.1f}", (middle, high), (0, 6), textcoords="offset points", ha="center")
    number.set(fontsize=8, zorder=6, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8})


def _spread_axes(axes: Axes, shown: Sequence[str], group: _Group) -> None:
    axes.set_xlim((group.size - 1 - group.span) / 2, (group.size - 1 + group.span) / 2)
    letters = int((WIDTH - 0.8) * 13 / group.span)
    axes.set_xticks(range(len(shown)), [broken_name(task, letters, 4) for task in shown], fontsize=8.5)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("score (%)")


def _spread_legends(models: list[str], methods: list[str], chance: bool) -> list[list[_Key]]:
    looks = [_model_look(place) for place in range(len(models))]
    patches = [
        _Key(model, {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}, patch=True)
        for model, (colour, hatch) in zip(models, looks, strict=True)
    ]
    marks = [
        _Key(method, {"ls": "", "marker": marker, "ms": 5, "mfc": tone, "mec": INK, "mew": 0.7})
        for method, (marker, tone) in zip(methods, map(_method_look, range(len(methods))), strict=True)
    ]
    return [patches, [*marks, _Key("chance", {"color": INK, "ls": _DASHES, "lw": 1})] if chance else marks]


def _model_look(place: int) -> tuple[str, str]:
    """Colour and hatching of a model; hatched where the colours begin anew."""
    return COLOURS[place % len(COLOURS)], ("", "//", "..", "xx")[place // len(COLOURS) % 4]


def _method_look(place: int) -> tuple[str, str]:
    """Shape and filling of a method's mark."""
    return _MARKERS[place % len(_MARKERS)], _MARK_TONES[place // len(_MARKERS) % len(_MARK_TONES)]


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


# Lengths of the choices where a method errs.


def length_figure(panels: Sequence[LengthPanel], path: str | Path, title: str) -> None:
    """One row per panel: a Bland-Altman plot of choice lengths, and beside it the histogram of the differences.

    Grey stands for all documents, red for those that the method got wrong.
    """
    data = [Lengths.of(panel) for panel in panels]
    caption = (
        "Each point is a document: the length of its correct choice less the median length of its wrong ones, over "
        "the mean of the two. Histograms are densities: each has the area 1."
    )
    caption = f"{caption} {_counted([len(one.all) for one in data])}".strip()
    rows = max(1, len(panels))
    with _sheet(path, title, caption, 3.2 * rows, [_LENGTH_KEYS]) as figure:
        grid = figure.subplots(rows, 2, squeeze=False, sharey="row", width_ratios=(3, 1))
        if not panels:
            _nothing(grid[0, 0], "no panels")
        for panel, lengths, (left, right) in zip(panels, data, grid, strict=False):
            _length_panel(panel, lengths, left, right)


_LENGTH_KEYS = (
    _Key("all documents", {"ls": "", "marker": "o", "ms": 4.5, "color": GREY}),
    _Key("missed", {"ls": "", "marker": "o", "ms": 4.5, "color": RED}),
    _Key("mean of all", {"color": INK, "lw": 1.3}),
    _Key("±1.96 SD of all", {"color": INK, "lw": 1, "ls": _DASHES}),
    _Key("mean of missed", {"color": RED, "lw": 1.6}),
)


def _length_panel(panel: LengthPanel, lengths: Lengths, left: Axes, right: Axes) -> None:
    left.set_title(shortened(panel.label, 80), loc="left", fontweight="bold", pad=20)
    unit = printable(panel.unit)
    left.set_xlabel(f"mean of correct and median wrong length ({unit})")
    left.set_ylabel(f"correct − median wrong ({unit})")
    right.set_xlabel(f"density (per {unit.removesuffix('s')})")
    right.tick_params(axis="y", length=0, labelleft=False)
    if not lengths.all:
        _nothing(left, "no documents")
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
    """Draws every document, those beyond the axes as crosses on the edge. Gives the number of the latter."""
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
        dashed = {"color": INK, "lw": 1, "ls": _DASHES, "zorder": 4}
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


# Places of the choices.


def position_chart(rows: Sequence[PositionRow], path: str | Path, title: str) -> None:
    """Per label, the share of picks of each place beside the share of right answers there."""
    for row in rows:
        if len(row.picked) != len(row.right):
            found = f"{len(row.picked)} shares of picks, {len(row.right)} of right answers"
            raise DataError(Fault(f'row "{row.label}"', found, "one of each per place"))
    columns = 1 if len(rows) <= 1 else 2 if len(rows) <= 4 else 3
    lines = max(1, math.ceil(len(rows) / columns))
    caption = "A method without a bias for places picks each as often as it is right."
    caption = f"{caption} {_counted([row.n for row in rows])}".strip()
    keys = [_Key("picked", {"color": BLUE}, patch=True), _Key("right", {"color": PALE}, patch=True)]
    with _sheet(path, title, caption, (3.0 if lines == 1 else 2.1) * lines, [keys]) as figure:
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
        for place, axes in enumerate(grid):
            if place < len(rows):
                _position_panel(axes, rows[place], 92 // columns)
            elif rows:
                axes.set_axis_off()
            if place % columns == 0:
                axes.set_ylabel("share (%)")
        if not rows:
            _nothing(grid[0], "no rows")


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
        _nothing(axes, "no places")


# Confidence against accuracy.


def reliability_chart(points: Sequence[tuple[float, float]], path: str | Path, title: str) -> None:
    """Accuracy over confidence in ten bins of equal width, with the number of documents in each.

    Args:
        points: per document the confidence in its answer (0 to 1) and whether that was right (0 or 1).
        path: where to write.
        title: what is seen.
    """
    bins = reliability_bins(points)
    gap = math.fsum(one.count * abs(one.confidence - one.accuracy) for one in bins.values()) / max(1, len(points))
    caption = f"n = {len(points):,} documents in {BINS} bins of equal width; bars are 95 % intervals (Wilson)."
    if bins:
        caption += f" Expected calibration error: {100 * gap:.1f} points."
    keys = [
        _Key("accuracy in the bin", {"color": BLUE, "marker": "o", "ms": 5}),
        _Key("as sure as right", {"color": MUTED, "lw": 1, "ls": _DASHES}),
    ]
    with _sheet(path, title, caption, 5.6, [keys]) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        upper.plot([0, 100], [0, 100], color=MUTED, lw=1, ls=_DASHES, zorder=1)
        _reliability_points(upper, list(bins.values()))
        upper.set(xlim=(0, 100), ylim=(0, 103), ylabel="accuracy (%)")
        width = 100 / BINS
        counts = lower.bar(
            [(place + 0.5) * width for place in bins],
            [one.count for one in bins.values()],
            0.92 * width,
            color="#AAAAAA",
        )
        lower.bar_label(counts, [f"{one.count:,}" for one in bins.values()], padding=2, fontsize=8)
        lower.set(xlabel="confidence (%)", ylabel="documents", xticks=[place * width for place in range(BINS + 1)])
        lower.margins(y=0.22)
        if not bins:
            _nothing(upper, "no documents")


def _reliability_points(axes: Axes, bins: Sequence[Bin]) -> None:
    xs, ys = [100 * one.confidence for one in bins], [100 * one.accuracy for one in bins]
    for x, one in zip(xs, bins, strict=True):
        low, high = wilson_interval(one.hits, one.count)
        axes.vlines(x, 100 * low, 100 * high, color=BLUE, lw=1.4)
    axes.plot(xs, ys, color=BLUE, marker="o", ms=5.5, lw=1.2, zorder=3, clip_on=False)


# How far a score moves with the prompt.


def prompt_chart(columns: Sequence[PromptColumn], path: str | Path, title: str) -> None:
    """Per task a dot for every prompt, a line at their mean, and beside them the histogram of the scores."""
    rows = max(1, math.ceil(len(columns) / _TASKS_IN_A_ROW))
    size = max(1, math.ceil(len(columns) / rows))
    caption = f"Dots are prompts; bars count them in steps of {SCORE_BIN} points; the line is the mean over prompts."
    caption = f"{caption} {_counted([len(column.scores) for column in columns], 'prompts')}".strip()
    with _sheet(path, title, caption, 2.7 * rows + 0.3, []) as figure:
        panels = list(figure.subplots(rows, 1, squeeze=False, sharey=True)[:, 0])
        for row, axes in enumerate(panels):
            shown = columns[row * size : (row + 1) * size]
            for place, column in enumerate(shown):
                _prompt_column(axes, place, column)
            axes.set_xlim(-0.6, max(size, 3) - 0.4)
            letters = int((WIDTH - 0.8) * 13 / max(size, 3))
            axes.set_xticks(range(len(shown)), [broken_name(column.name, letters, 4) for column in shown], fontsize=8.5)
            axes.set(ylabel="score (%)", ylim=(0, 102))
        if not any(column.scores for column in columns):
            _nothing(panels[0], "no scores")


def _prompt_column(axes: Axes, place: int, column: PromptColumn, bin_size: float = SCORE_BIN) -> None:
    histogram, scores = column.histogram(bin_size), sorted(column.scores.values())
    if not scores:
        return
    widths = [0.42 * count / max(histogram.values()) for count in histogram.values()]
    axes.barh(list(histogram), widths, bin_size * 0.9, place, align="edge", color=_paler(BLUE), linewidth=0)
    # The dots of one bin stand side by side, so that equal ones are all seen.
    ranks = [rank for count in histogram.values() for rank in range(count)]
    step = min(0.08, 0.36 / max(1, max(histogram.values()) - 1))
    across = [place - 0.06 - step * rank for rank in ranks]
    axes.plot(across, [100 * score for score in scores], "o", ms=5, mfc=BLUE, mec="white", mew=0.5, zorder=4)
    axes.hlines(100 * math.fsum(scores) / len(scores), place - 0.44, place + 0.42, INK, linewidth=1.2, zorder=3)
