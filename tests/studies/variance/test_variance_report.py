"""Where scores vary, as lines and as a figure."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from assay.api import evaluate
from assay.core.errors import UserError
from assay.core.scores import DrawCounts, Estimate
from assay.report.figures.figure_data import PromptColumn
from assay.report.figures.variance_plot import AxesRow, axes_chart
from assay.stats.variance import Decomposition, StderrForecast, VarianceComponent
from assay.studies.variance.values import PromptAxis, TaskVariance, VarianceAxis
from assay.studies.variance.variance_figure import write_axes_figure
from assay.studies.variance.variance_report import draw_lines, prompt_lines, variance_lines
from assay.testing import toy_choice_task

SVG = "{http://www.w3.org/2000/svg}"


def estimate(value: float | None) -> Estimate:
    return Estimate(value, None, None, None, 9, "bootstrap")


def parts(left_out: int = 0) -> Decomposition:
    components = (
        VarianceComponent(("document", "seed"), 0.61, 0.61, 0.22, 3, False),
        VarianceComponent(("document",), 0.386, 0.386, 0.33, 3, False),
        VarianceComponent(("seed",), 0.004, 0.004, 0.45, 1, False),
    )
    forecasts = (StderrForecast("seed", 2, 0.25, 0.4), StderrForecast("document", 40, 0.28, 0.35))
    return Decomposition(0.5, 0.3, components, forecasts, {"document": 40, "seed": 2}, (), left_out, 0.1, 0.9)


def item(decomposition: Decomposition | None = None, reason: str = "", **scores: float | None) -> TaskVariance:
    axis = VarianceAxis("seed", scores or {"1": 0.75, "2": 0.25}, estimate(0.5), estimate(0.125))
    return TaskVariance("things", "acc", "none", (axis,), decomposition, 0.2, reason)


def test_lines_report_levels_sources_and_what_more_would_bring() -> None:
    assert list(variance_lines([item(parts())])) == [
        "things, acc: 2 seeds on 40 documents: mean 0.5000, 95 % interval 0.1000 … 0.9000",
        "  standard error 0.3000 for other documents and seeds than these, 0.2000 for other documents alone",
        "  seed: min 0.2500 (2), max 0.7500 (1), spread 0.5000, standard deviation 0.3536; "
        "the same pick in 50 % of pairs (α 0.12)",
        "  variance of one score: document × seed 61 %, document 39 %, others below 1 %",
        "  squared error of the mean: seed 45 %, document 33 %, document × seed 22 %",
        "  more budget helps most on seeds: standard error 0.2500 with 4 seeds, 0.2800 with 80 documents",
    ]


def test_what_cannot_be_had_is_not_advised() -> None:
    found = replace(item(parts()), available={"document": 50, "order": 24})
    *_, advice = variance_lines([found])
    assert advice.endswith("0.2500 with 4 seeds, 0.2800 with 80 documents (there are 50)")
    *_, advice = variance_lines([replace(found, available={"seed": 3})])
    assert advice == "  more budget helps most on documents: standard error " + (
        "0.2800 with 80 documents, 0.2500 with 4 seeds (there are 3)"
    )
    *_, advice = variance_lines([replace(found, available={"seed": 3, "document": 40})])
    assert advice.startswith("  more budget helps little: standard error 0.2500 with 4 seeds (there are 3)")


def test_draws_are_a_source_of_their_own_name() -> None:
    drawn = replace(parts(), components=(VarianceComponent(("document", "seed", "draw"), 0.6, 1.0, 1.0, 3, False),))
    assert "  variance of one score: draw 100 %" in list(variance_lines([item(drawn)]))


def test_levels_of_one_score_are_reported_once() -> None:
    assert "  seed: 0.5000 at each of 2 levels; the same pick" in "\n".join(
        variance_lines([item(parts(), a=0.5, b=0.5)])
    )


def test_documents_that_are_left_out_are_reported() -> None:
    assert "on 40 documents, 3 left out, which lack a score somewhere:" in next(variance_lines([item(parts(3))]))


def test_scores_that_are_not_taken_apart_still_have_levels() -> None:
    head, axis = variance_lines([item(reason="the metric is not a mean over documents")])
    assert head == "things, acc: 2 seeds: not taken apart: the metric is not a mean over documents"
    assert axis.startswith("  seed: min 0.2500 (2), max 0.7500 (1), spread 0.5000, standard deviation 0.3536")


def test_equal_scores_have_no_variance() -> None:
    equal = Decomposition(1.0, None, (VarianceComponent(("seed",), 0.0, None, None, 1, False),), (), {"seed": 2}, (), 0)
    head, *lines = variance_lines([item(equal)])
    assert head == "things, acc: 2 seeds on 1 document: mean 1.0000"
    assert lines[-1] == "  variance: none, all scores are equal" and "error" not in "".join(lines)


def test_an_error_is_not_said_to_speak_of_levels_that_there_are_none_of() -> None:
    whole = replace(parts(), exhausted=("seed",))
    assert "  standard error 0.3000 for other documents alone; all 2 seeds were asked" in variance_lines([item(whole)])
    both = replace(whole, levels={"document": 40, "seed": 2, "order": 3})
    assert list(variance_lines([item(both)]))[1] == (
        "  standard error 0.3000 for other documents and orders than these, 0.2000 for other documents alone; "
        "all 2 seeds were asked"
    )


def test_shares_without_an_error_of_the_mean_are_reported_alone() -> None:
    lines = list(variance_lines([item(replace(parts(), stderr=None, low=None, high=None, forecasts=()))]))
    assert lines[-1].startswith("  variance of one score:") and "error" not in "".join(lines)


def test_what_prompts_scored_is_not_reported_twice() -> None:
    axis = VarianceAxis("prompt", {"a": 0.5, "b": 1.0}, estimate(0.9), estimate(None))
    lines = list(variance_lines([TaskVariance("t", "acc", "none", (axis,), parts(), 0.1)]))
    assert lines[2] == "  prompt: the same pick in 90 % of pairs"
    assert list(variance_lines([TaskVariance("t", "acc", "none", (axis,), reason="no mean")])) == []


def texts(path: Path) -> list[str]:
    return [(node.text or "").strip() for node in ElementTree.parse(path).iter(f"{SVG}text")]


def test_a_figure_has_a_dot_for_every_level_and_a_bar_for_every_share(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = write_axes_figure([item(parts())], tmp_path / "new" / "f.svg")
    root = ElementTree.parse(path)
    dots = [use for use in root.iter(f"{SVG}use") if "fill: #0072b2" in use.get("style", "")]
    assert len(dots) == 2
    assert {"things (acc)", "seed (2)", "document × seed", "document", "seed"} <= set(texts(path))
    # Shares of one score and of the mean.
    assert {"61", "39", "45", "33", "22"} <= set(texts(path))


def test_the_axes_of_all_tasks_have_one_numbered_scale(tmp_path: Path) -> None:
    """Ten points apart in one task and one point in the other: both rows show 14 points, and the caption says so."""
    pytest.importorskip("matplotlib")
    far, near = (PromptColumn("seed (2)", {"1": 0.5, "2": other}) for other in (0.6, 0.51))
    rows = [AxesRow("far", (far,), {}, (0.55, 0.5, 0.6)), AxesRow("near", (near,), {})]
    axes_chart(rows, tmp_path / "f.svg", "t")
    found = texts(tmp_path / "f.svg")
    assert "shows 14 points in every row, not 0 to 100 %" in " ".join(found)
    assert found.count("50") == 2 and found.count("55") == 2 and found.count("score (%)") == 2
    assert {"mean, 95 %", "55.0"} <= set(found)
    # Both levels lie in bins of their own, and each bar has its count.
    assert found.count("1") == 4 or (found.count("1") == 3 and found.count("2") == 1)


def test_axes_have_colours_before_their_combinations(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shares = {" × ".join(("document", *"abcdefg"[:place])): 0.1 for place in range(1, 8)}
    axes_chart([AxesRow("t", (), {"bar": {**shares, "seed": 0.02, "prompt": 0.28}})], tmp_path / "f.svg", "t")
    assert {"seed", "prompt", "other"} <= set(texts(tmp_path / "f.svg"))


def test_a_single_source_beyond_the_colours_keeps_its_name(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shares = dict.fromkeys(("prompt", "seed", "document", "a × b", "c × d", "e × f", "prompt × seed"), 0.1)
    axes_chart([AxesRow("t", (), {"bar": shares})], tmp_path / "f.svg", "t")
    assert shares.keys() <= set(texts(tmp_path / "f.svg")) and "other" not in texts(tmp_path / "f.svg")


def test_a_figure_names_the_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = write_axes_figure([replace(item(parts()), filter="strict")], tmp_path / "f.svg")
    assert "things (acc, strict)" in texts(path)


def test_a_figure_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--axes_figure"):
        write_axes_figure([item(a=12.0, b=13.0)], tmp_path / "f.svg")


def test_no_rows_and_no_parts_are_said(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    axes_chart([], tmp_path / "f.svg", "t")
    assert "no scores" in texts(tmp_path / "f.svg")
    write_axes_figure([item(reason="no mean")], tmp_path / "g.svg")
    assert "not taken apart" in texts(tmp_path / "g.svg")


def test_prompts_are_summed_up_in_a_line() -> None:
    scores: dict[str, float | None] = {"a": 0.25, "b": 0.75, "c": None}
    axis = PromptAxis("t", "acc", "strict", scores, {"a": 4, "b": 8, "c": 0}, {"a": 4, "b": 0, "c": 8})
    empty = PromptAxis("u", "acc", "none", {"a": None}, {"a": 0}, {"a": 3})
    assert list(prompt_lines([axis, empty])) == [
        "t, acc (strict): 2 prompts, 1 without a score: mean 0.5000 ± 0.3536 (standard deviation), "
        "min 0.2500 (a), max 0.7500 (b), spread 0.5000, on 4 to 8 documents",
        "u, acc: no score in any of 1 prompts",
    ]


def test_draws_of_tasks_with_the_same_counts_are_reported_together() -> None:
    task = evaluate("dummy", toy_choice_task(2), store=":memory:", bootstrap_iters=0).tasks[0]
    drawn = replace(task.denominators, total=40, draws=DrawCounts(3, 120, 0, {}))
    cards = [replace(task.card, name=f"t#seed={seed}") for seed in (1, 2, 3)]
    tasks = [replace(task, card=card, denominators=drawn) for card in cards]
    assert list(draw_lines(tasks)) == ["t#seed=1 and 2 more, each: 40 documents × 3 draws, 120 answers"]
    assert list(draw_lines(tasks[:1])) == ["t#seed=1: 40 documents × 3 draws, 120 answers"]


def test_prompts_with_one_score_are_reported_by_it() -> None:
    axis = PromptAxis("t", "acc", "none", {"a": 0.5, "b": 0.5}, {"a": 4, "b": 4}, {"a": 0, "b": 0})
    assert list(prompt_lines([axis])) == ["t, acc: 2 prompts: 0.5000 each"]
