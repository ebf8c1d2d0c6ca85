"""Figures: their content, read from the SVG; edge cases; files that are whole, and the same every time."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import DataError, OutputError
from assay.report.figures.plots import (
    LengthPanel,
    PositionRow,
    PromptColumn,
    SpreadBar,
    length_figure,
    position_chart,
    prompt_chart,
    spread_chart,
)

matplotlib = pytest.importorskip("matplotlib")

SVG = "{http://www.w3.org/2000/svg}"
# As the SVG writes them: two models' strong and pale tones, the red of what is missed, the grey of right places.
BLUE, PALE_BLUE, VERMILION, GREY = "#0072b2", "#a6cee4", "#d55e00", "#aaaaaa"
BARS = [
    SpreadBar("hellaswag", "small", {"acc": 0.6, "acc_norm": 0.8, "letters": 0.7}, 0.25, 500),
    SpreadBar("hellaswag", "large", {"acc": 0.65, "acc_norm": 0.9, "letters": 0.7}, 0.25, 500),
    SpreadBar("medqa", "small", {"acc": 0.3, "acc_norm": 0.28, "letters": 0.41}, 0.25, 1273),
    SpreadBar("medqa", "large", {"acc": 0.5, "acc_norm": 0.46, "letters": 0.25}, 0.25, 1273),
]
PANEL = LengthPanel("hellaswag · acc", [10, 12, 20], [8, 12, 10], [False, False, True], "characters")
ROWS = [PositionRow("letters", [0.5, 0.3, 0.2], [0.3, 0.3, 0.4], 120)]
COLUMNS = [PromptColumn("sst2", {"a": 0.5, "b": 0.7, "c": 0.7})]


def texts(path: Path) -> list[str]:
    """Every text of an SVG, lines apart."""
    return [(node.text or "").strip() for node in ElementTree.parse(path).iter(f"{SVG}text")]


def shapes(path: Path, colour: str) -> list[list[tuple[float, float]]]:
    """The corners of every area filled with a colour, in points of the page; y grows downwards."""
    found = [
        node.get("d", "")
        for node in ElementTree.parse(path).iter(f"{SVG}path")
        if f"fill: {colour}" in node.get("style", "")
    ]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", one)] for one in found]


def heights(path: Path, colour: str) -> list[float]:
    spans = [[y for _, y in corners] for corners in shapes(path, colour)]
    return [max(ys) - min(ys) for ys in spans]


def size(path: Path) -> tuple[float, float]:
    root = ElementTree.parse(path).getroot()
    return float(root.get("width", "").removesuffix("pt")), float(root.get("height", "").removesuffix("pt"))


def test_the_spread_is_named_and_numbered(tmp_path: Path) -> None:
    path = tmp_path / "spread.svg"
    spread_chart(BARS, path, "Scores move with the method")
    found = texts(path)
    assert {"hellaswag", "medqa", "small", "large", "acc", "acc_norm", "letters", "chance", "score (%)"} <= set(found)
    assert [text for text in found if re.fullmatch(r"\d+\.\d", text)] == ["20.0", "25.0", "13.0", "25.0"]
    assert "Scores move with the method" in found
    assert any(text.endswith("n = 500 to 1,273 documents") for text in found)


def test_a_bar_reaches_the_lowest_score_and_its_paler_part_the_highest(tmp_path: Path) -> None:
    path = tmp_path / "spread.svg"
    spread_chart(BARS, path, "t")
    *strong, _ = heights(path, BLUE)  # the last is the legend's
    pale = heights(path, PALE_BLUE)
    assert len(strong) == len(pale) == 2
    assert strong[0] / pale[0] == pytest.approx(0.6 / 0.2, rel=1e-4)
    assert strong[1] / pale[1] == pytest.approx(0.28 / 0.13, rel=1e-4)
    assert strong[0] / strong[1] == pytest.approx(0.6 / 0.28, rel=1e-4)


def test_every_method_has_a_mark_on_every_bar(tmp_path: Path) -> None:
    path = tmp_path / "spread.svg"
    spread_chart(BARS, path, "t")
    marks = [use for use in ElementTree.parse(path).iter(f"{SVG}use") if "fill: #ffffff" in use.get("style", "")]
    assert len(marks) == 4 * 3 + 3  # on the bars and in the legend


def test_a_spread_within_sampling_error_is_not_a_finding(tmp_path: Path) -> None:
    """A random model's 4.2 points, where sampling explains 15.9, are in parentheses; 20 points are not."""
    path = tmp_path / "spread.svg"
    bars = [
        SpreadBar("t", "random", {"low": 0.225, "high": 0.267}, 0.25, 120, 0.159),
        SpreadBar("t", "other", {"low": 0.3, "high": 0.5}, 0.25, 120, 0.159),
    ]
    spread_chart(bars, path, "t")
    assert {"(4.2)", "20.0", "δ by sampling alone (95 %)"} <= set(texts(path))
    assert "stays below it in 95 % of samples" in " ".join(texts(path))
    spread_chart(BARS, path, "t")
    assert not any("sampling" in text for text in texts(path))


def test_chance_is_drawn_only_where_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "spread.svg"
    spread_chart([SpreadBar("a", "m", {"acc": 0.5}), SpreadBar("b", "m", {"acc": 0.5})], path, "t")
    assert "chance" not in texts(path) and "stroke-dasharray" not in path.read_text()


def test_chance_above_every_score_is_in_view(tmp_path: Path) -> None:
    path = tmp_path / "spread.svg"
    spread_chart([SpreadBar("a", "m", {"acc": 0.1, "acc_norm": 0.2}, 0.5)], path, "t")
    assert {"0", "50"} <= set(texts(path))


@pytest.mark.parametrize(("tasks", "models", "rows"), [(1, 1, 1), (4, 3, 1), (12, 1, 2), (12, 3, 3), (2, 20, 2)])
def test_many_bars_make_the_figure_taller_never_wider(tmp_path: Path, tasks: int, models: int, rows: int) -> None:
    path = tmp_path / "spread.svg"
    bars = [SpreadBar(f"task {t}", f"m{m}", {"x": 0.4, "y": 0.5}) for t in range(tasks) for m in range(models)]
    spread_chart(bars, path, "t")
    assert size(path)[0] == 576
    assert texts(path).count("10.0") == tasks * models
    assert {f"task {t}" for t in range(tasks)} <= set(texts(path))
    assert texts(path).count("score (%)") == rows
    assert size(path)[1] > 72 * 2.5 * rows


def test_a_score_that_is_not_known_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "spread.svg"
    spread_chart([SpreadBar("a", "m", {"x": math.nan, "y": 0.25, "z": 0.5}), SpreadBar("b", "m", {})], path, "t")
    assert "25.0" in texts(path) and "b" in texts(path) and "x" not in texts(path)


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    """No mathematics for dollars, no hiding for underscores, no markup; a letter without a glyph is not a failure."""
    path = tmp_path / "spread.svg"
    spread_chart([SpreadBar("$x^2$", "_hidden", {"<b>&": 0.5, "日本": 0.4})], path, "100 % of $5 & \x1b[31m")
    assert {"$x^2$", "_hidden", "<b>&", "日本", "100 % of $5 & \ufffd[31m"} <= set(texts(path))
    spread_chart([SpreadBar("日本", "m", {"a": 0.5})], tmp_path / "spread.png", "t")


def test_lengths_are_summed_up(tmp_path: Path) -> None:
    """Differences 2, 0, 10: mean 4, variance (4 + 16 + 36) / 2 = 28, 1.96 · √28 = 10.37."""
    path = tmp_path / "lengths.svg"
    length_figure([PANEL], path, "Misses are long")
    found = texts(path)
    assert "all: n = 3, mean +4.0, ±1.96 SD = ±10.4   missed: n = 1, mean +10.0" in found
    assert {
        "Misses are long",
        "hellaswag · acc",
        "correct − median wrong (characters)",
        "density (per character)",
    } <= set(found)
    assert any(text.endswith("n = 3 documents") for text in found)


@pytest.mark.parametrize(
    ("correct", "wrong", "missed", "note"),
    [
        ([], [], [], "no documents"),
        ([3], [4], [True], "all: n = 1, mean −1.0, ±1.96 SD –   missed: n = 1, mean −1.0"),
        ([3] * 9, [3] * 9, [False] * 9, "all: n = 9, mean +0.0, ±1.96 SD = ±0.0   missed: n = 0, mean –"),
        ([1.25, 2], [1, 1], [True] * 2, "all: n = 2, mean +0.6, ±1.96 SD = ±1.0   missed: n = 2, mean +0.6"),
    ],
)
def test_few_lengths_are_not_a_failure(
    tmp_path: Path, correct: list[float], wrong: list[float], missed: list[bool], note: str
) -> None:
    panel = LengthPanel("few", correct, wrong, missed, "tokens")
    path = tmp_path / "lengths.svg"
    length_figure([panel, PANEL, panel], path, "t")
    assert texts(path).count(note) == 2


def test_ten_thousand_documents_stay_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "lengths.svg"
    lengths = [20 + (i * 7919) % 101 for i in range(10_000)]
    length_figure(
        [LengthPanel("p", lengths, [60] * 10_000, [i % 3 == 0 for i in range(10_000)], "characters")], path, "t"
    )
    assert path.stat().st_size < 600_000
    assert "<image" in path.read_text()


def test_lengths_far_away_are_crosses_on_the_edge_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "lengths.svg"
    correct = [float(i % 20) for i in range(200)] + [5000.0, 9000.0]
    length_figure([LengthPanel("p", correct, [10.0] * 202, [False] * 201 + [True], "characters")], path, "t")
    assert any(text.endswith("2 beyond the axes (×)") for text in texts(path))
    ticks = [float(text.replace("−", "-")) for text in texts(path) if re.fullmatch(r"−?\d+(\.\d+)?", text)]
    assert max(ticks) < 100


def test_lengths_of_unequal_number_or_without_value_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='panel "p": 2 correct, 1 wrong, 2 missed; expected one of each'):
        length_figure([LengthPanel("p", [1, 2], [1], [True, False], "t")], tmp_path / "a.svg", "t")
    with pytest.raises(DataError, match="not a finite number"):
        length_figure([LengthPanel("p", [math.nan], [1], [True], "t")], tmp_path / "a.svg", "t")


def test_places_are_drawn_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "places.svg"
    position_chart(ROWS, path, "The first place is picked too often")
    assert {"letters", "1", "2", "3", "picked", "right", "share (%)", "place of the choice"} <= set(texts(path))
    (*picked, _), (*right, _) = heights(path, BLUE), heights(path, GREY)  # the last are the legend's
    assert [one / picked[0] for one in picked] == pytest.approx([1, 0.6, 0.4], rel=1e-4)
    assert [one / picked[0] for one in right] == pytest.approx([0.6, 0.6, 0.8], rel=1e-4)


def test_places_of_many_labels_share_the_page(tmp_path: Path) -> None:
    path = tmp_path / "places.svg"
    position_chart([PositionRow(f"label {i}", [0.5, 0.5], [0.4, 0.6]) for i in range(7)], path, "t")
    assert {f"label {i}" for i in range(7)} <= set(texts(path))
    assert len(heights(path, BLUE)) == 14 + 1 and size(path)[0] == 576


def test_places_of_unequal_number_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='row "x": 2 shares of picks, 1 of right answers; expected one of each'):
        position_chart([PositionRow("x", [0.5, 0.5], [1.0])], tmp_path / "a.svg", "t")


def spread(path: Path) -> None:
    spread_chart(BARS, path, "Scores move with the method")


def lengths(path: Path) -> None:
    length_figure([PANEL, PANEL], path, "Misses are long")


def places(path: Path) -> None:
    position_chart(ROWS, path, "Places")


def prompts(path: Path) -> None:
    prompt_chart(COLUMNS, path, "Prompts")


FIGURES = [spread, lengths, places, prompts]


@pytest.mark.parametrize("draw", FIGURES)
def test_the_same_data_gives_the_same_bytes(tmp_path: Path, draw: Callable[[Path], None]) -> None:
    draw(tmp_path / "a.svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.hashsalt": None}):
        before = dict(matplotlib.rcParams)
        draw(tmp_path / "b.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("draw", FIGURES)
def test_a_png_is_twice_800_pixels_wide(tmp_path: Path, draw: Callable[[Path], None]) -> None:
    draw(tmp_path / "new" / "a.PNG")
    head = (tmp_path / "new" / "a.PNG").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20], "big") == 1600


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (spread_chart, "no scores"),
        (length_figure, "no panels"),
        (position_chart, "no rows"),
        (prompt_chart, "no scores"),
    ],
)
def test_no_data_is_said_in_the_figure(tmp_path: Path, draw: Callable[..., None], text: str) -> None:
    draw([], tmp_path / "a.svg", "Nothing yet")
    assert {text, "Nothing yet"} <= set(texts(tmp_path / "a.svg"))


def test_another_suffix_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r'unknown kind of figure "\.jpg"; expected \.svg or \.png'):
        spread(tmp_path / "a.jpg")


def test_a_figure_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """A folder is in place of the file: the rename at the end fails."""
    (tmp_path / "a.svg").mkdir()
    with pytest.raises(OutputError, match=r"a\.svg: could not be written: .*Choose another path"):
        spread(tmp_path / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


def test_an_earlier_figure_outlives_a_failure(tmp_path: Path) -> None:
    places(tmp_path / "a.svg")
    before = (tmp_path / "a.svg").read_bytes()
    with pytest.raises(DataError):
        position_chart([PositionRow("x", [0.5, 0.5], [1.0])], tmp_path / "a.svg", "t")
    assert (tmp_path / "a.svg").read_bytes() == before


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def test_without_matplotlib_the_line_to_run_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    said = fresh(f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from assay.core.errors import MissingExtra
from assay.report.figures.plots import position_chart
try:
    position_chart([], {str(path)!r}, "t")
except MissingExtra as error:
    print(error)
""")
    assert said == "figures: the package \"matplotlib\" is not installed. Run: pip install 'assay-eval[report]'"
    assert not path.exists()


def test_no_window_is_ever_opened(tmp_path: Path) -> None:
    """pyplot is what looks for a display; it is not even loaded."""
    code = "from assay.report.figures.plots import position_chart as draw\nimport sys\n"
    code += f"draw([], {str(tmp_path / 'a.png')!r}, 't')\nprint('matplotlib.pyplot' in sys.modules)"
    assert fresh(code) == "False"
