"""The figure of a run in several prompts: dots, histogram and mean, read from the SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from assay.core.errors import DataError, OutputError, UserError
from assay.report.figures.plots import PromptColumn, prompt_chart
from assay.report.figures.sheet import check_figure
from assay.studies.variance.variance_figures import write_prompt_figure
from assay.studies.variance.variance_values import PromptAxis

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"
PALE_BLUE = "#a6cee4"


def axis(task: str, metric: str, **scores: float | None) -> PromptAxis:
    return PromptAxis(task, metric, "none", scores, dict.fromkeys(scores, 9), dict.fromkeys(scores, 0))


def texts(path: Path) -> list[str]:
    return [(node.text or "").strip() for node in ElementTree.parse(path).iter(f"{SVG}text")]


def test_a_score_on_an_edge_is_in_the_upper_bin() -> None:
    column = PromptColumn("t", {"a": 0.15, "b": 0.1999, "c": 0.2, "d": 1.0, "e": 0.96, "f": 0.0})
    assert column.histogram() == {0: 1, 15: 2, 20: 1, 95: 2}


def test_bins_seen_from_near_are_laid_around_their_scores() -> None:
    column = PromptColumn("t", {"a": 0.2143, "b": 0.2143, "c": 0.3, "d": 0.311, "e": 0.317})
    assert column.groups(1) == pytest.approx({20.93: 2, 29.5: 1, 30.6: 1, 31.6: 1})
    assert PromptColumn("t", {"a": 1.0, "b": 1.0}).groups(0.5) == {99.75: 2}


def test_a_score_beyond_its_range_is_refused() -> None:
    with pytest.raises(DataError, match="prompt a"):
        PromptColumn("t", {"a": 12.5})


def test_every_prompt_has_a_dot_and_every_bin_a_bar(tmp_path: Path) -> None:
    path = tmp_path / "prompts.svg"
    prompt_chart([PromptColumn("cb", {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.9})], path, "Title")
    root = ElementTree.parse(path)
    dots = [use for use in root.iter(f"{SVG}use") if "fill: #0072b2" in use.get("style", "")]
    places = {(use.get("x"), use.get("y")) for use in dots}
    assert len(dots) == len(places) == 4  # equal scores stand side by side
    bars = [node.get("d", "") for node in root.iter(f"{SVG}path") if f"fill: {PALE_BLUE}" in node.get("style", "")]
    widths = []
    for bar in bars:
        across = [float(x) for x, _ in re.findall(r"[ML] (\S+) (\S+)", bar)]
        widths.append(max(across) - min(across))
    assert len(widths) == 2 and widths[0] / widths[1] == pytest.approx(3, rel=1e-4)
    assert {"Title", "cb", "score (%)"} <= set(texts(path))


def test_a_figure_shows_the_first_metric_that_is_a_share(tmp_path: Path) -> None:
    axes = [axis("t", "perplexity", a=12.0), axis("t", "acc", a=0.5, b=None), axis("t", "acc_norm", a=0.1)]
    written = write_prompt_figure(axes, tmp_path / "new" / "f.svg")
    assert "t (acc)" in texts(written) and any("n = 1 prompts" in text for text in texts(written))


def test_a_figure_of_nothing_or_of_no_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="several prompts"):
        write_prompt_figure([axis("t", "acc", a=None)], tmp_path / "f.svg")
    with pytest.raises(OutputError, match="svg or .png"):
        check_figure("f.pdf", "--prompt_figure")


def test_no_columns_give_an_empty_figure(tmp_path: Path) -> None:
    prompt_chart([], tmp_path / "f.svg", "t")
    assert "no scores" in texts(tmp_path / "f.svg")
