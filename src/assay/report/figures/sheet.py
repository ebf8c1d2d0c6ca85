"""The sheet of a figure: title, caption, legends, the house style, and the file; the only writer of figures.

In: texts and a height. Out: a figure to draw on; also marks that several charts share.
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
from typing import TYPE_CHECKING, Any, cast

from assay.core.atomic_files import atomic_write
from assay.core.errors import Fault, OutputError
from assay.core.packages import RequiredPackage, check_packages
from assay.report.figures.figure_data import SCORE_BIN, PromptColumn
from assay.report.result_files import check_file
from assay.report.safe_names import printable, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0  # inches; 800 pixels on a page
# Okabe and Ito's palette, colour-blind safe; without its yellow, which is hardly visible on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
INK, MUTED, GREY, PALE, RED, BLUE = "#222222", "#666666", "#777777", "#AAAAAA", COLOURS[1], COLOURS[0]
_KINDS = ("svg", "png")
_TITLE_LETTERS, _CAPTION_LETTERS, _LEGEND_LETTERS = 82, 130, 112
_TITLE_LINE, _CAPTION_LINE, _LEGEND_LINE = 0.22, 0.15, 0.195  # inches
DASHES = (0, (4, 3))
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


@dataclass(frozen=True, slots=True)
class LegendKey:
    """One entry of a legend: a patch of colour, or a line or mark, in matplotlib's words."""

    name: str
    look: Mapping[str, object]
    patch: bool = False


def check_figure(path: str | Path, flag: str) -> RequiredPackage:
    """Raises before a run if its figure could not be written afterwards; returns the package that draws it.

    Args:
        path: the figure's file.
        flag: the option that names it, for errors.
    """
    if Path(path).suffix.lower().removeprefix(".") not in _KINDS:
        raise OutputError(Fault(flag, f'"{path}" is not a figure file', "a file name that ends in .svg or .png"))
    check_file(path, flag)
    return figure_need(flag)


def figure_need(flag: str) -> RequiredPackage:
    """The package that draws all figures.

    Args:
        flag: the option that requests one.
    """
    return RequiredPackage("matplotlib", flag, "report")


@contextmanager
def sheet(
    path: str | Path, title: str, caption: str, height: float, legends: Sequence[Sequence[LegendKey]]
) -> Iterator[Figure]:
    """A figure to draw on, in the house style. It is written when the drawing is done.

    Args:
        path: the file; its suffix determines the format.
        title: text above the figure.
        caption: text below the figure.
        height: height of the drawing between them, in inches.
        legends: legends below the title, one beneath the other.
    """
    target = Path(path).expanduser()
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _KINDS:
        raise OutputError(Fault(str(target), f'unknown kind of figure "{target.suffix}"', ".svg or .png"))
    check_packages([figure_need("figures")])
    import matplotlib.style
    from matplotlib.figure import Figure

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
        with atomic_write(target) as stream:
            if kind == "svg":
                stream.write(drawn.getvalue().decode("utf-8"))
            else:
                cast(io.TextIOWrapper, stream).buffer.write(drawn.getvalue())
    except OSError as error:
        raise OutputError(
            Fault(str(target), f"could not be written: {error.strerror or error}", next="Choose another path")
        ) from error


def _lines(text: str, letters: int) -> list[str]:
    return textwrap.wrap(printable(text), letters)


def _rows(keys: Sequence[LegendKey]) -> list[list[LegendKey]]:
    """A legend's entries line by line, in as many columns as the longest name leaves room for."""
    longest = max((len(shortened(key.name, 40)) for key in keys), default=0)
    columns = max(1, min(len(keys), _LEGEND_LETTERS // (longest + 6)))
    return [list(keys[start : start + columns]) for start in range(0, len(keys), columns)]


def _legend(figure: Figure, keys: Sequence[LegendKey], top: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    rows = _rows(keys)
    if not rows:
        return
    # matplotlib fills column by column; read line by line, the entries keep their order.
    ordered = [row[column] for column in range(len(rows[0])) for row in rows if column < len(row)]
    legend = figure.legend(
        [Patch(**key.look) if key.patch else Line2D([], [], **key.look) for key in ordered],
        [f"entry {index}" for index in range(len(ordered))],
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


def counted(sizes: Sequence[int | None], noun: str = "documents") -> str:
    """`n = 500 documents`, the range if they differ, or an empty string if none is known."""
    known = [size for size in sizes if size is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"n = {low:,} {noun}" if low == high else f"n = {low:,} to {high:,} {noun}"


def say_empty(axes: Axes, text: str) -> None:
    """A line of text in the middle of empty axes."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def paler(colour: str, share: float = 0.35) -> str:
    """A colour mixed with white."""
    parts = [int(colour[index : index + 2], 16) for index in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * share):02X}" for part in parts)


def score_column(
    axes: Axes, index: int, column: PromptColumn, bin_size: float = SCORE_BIN, zoomed: bool = False
) -> None:
    """A dot for every score at an axis position, a line at their mean, and beside them their histogram with counts.

    Args:
        axes: where to draw.
        index: position of the column.
        column: the scores.
        bin_size: bin width of the histogram, in points.
        zoomed: whether the bins are placed around the scores, for a zoomed axis.
    """
    scores = sorted(column.scores.values())
    if not scores:
        return
    histogram = column.groups(bin_size) if zoomed else column.histogram(bin_size)
    widths = [0.42 * count / max(histogram.values()) for count in histogram.values()]
    look: Mapping[str, Any] = {"color": paler(BLUE), "edgecolor": "white", "linewidth": 0.6}
    axes.barh(list(histogram), widths, bin_size, index, align="edge", **look)
    for edge, count, width in zip(histogram, histogram.values(), widths, strict=True):
        axes.text(index + width + 0.02, edge + bin_size / 2, str(count), va="center", color=MUTED, size=7, clip_on=True)
    # The dots of one bin are side by side, so that equal ones are all visible.
    ranks = [rank for count in histogram.values() for rank in range(count)]
    step = min(0.08, 0.36 / max(1, max(histogram.values()) - 1))
    across = [index - 0.06 - step * rank for rank in ranks]
    axes.plot(across, [100 * score for score in scores], "o", ms=5, mfc=BLUE, mec="white", mew=0.5, zorder=4)
    axes.hlines(100 * math.fsum(scores) / len(scores), index - 0.44, index + 0.42, INK, linewidth=1.2, zorder=3)
