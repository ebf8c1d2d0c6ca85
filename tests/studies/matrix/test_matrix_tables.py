"""A matrix as text: what the tables hold, and that every file can be read back."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from assay.core.scores import Estimate, FailureBounds
from assay.report.sections import Section
from assay.report.terminal import show_sections
from assay.studies.matrix.matrix_analysis import make_matrix
from assay.studies.matrix.matrix_page import _DIVERGING, _SEQUENTIAL, luminance, mixed, page, style
from assay.studies.matrix.matrix_tables import (
    HeatTable,
    csv_text,
    heat_tables,
    latex,
    latex_escaped,
    markdown,
    matrix_data,
    sections,
)
from assay.studies.matrix.matrix_values import Matrix, MatrixCell, MissingCell

ODD = 'a_b & <script>"100%"</script> | x'


def cell(model: str, task: str, right: int, n: int = 10, baseline: float | None = 0.25) -> MatrixCell:
    values = (1.0,) * right + (0.0,) * (n - right)
    estimate = Estimate(right / n, 0.05, right / n - 0.1, right / n + 0.1, n, "wilson")
    names = tuple(f"{task}#{place}" for place in range(n))
    return MatrixCell(model, task, "acc", "none", estimate, True, baseline, "d", names, values)


def perplexity(model: str, value: float) -> MatrixCell:
    estimate = Estimate(value, 1.5, value - 3, value + 3, 9, "delta")
    return MatrixCell(model, "text", "word_perplexity", "none", estimate, False)


@pytest.fixture
def matrix() -> Matrix:
    """Three models, one with an odd name and a gap; two tasks with choices and one of text."""
    cells = [cell("good", "x", 10), cell("fair", "x", 5), cell(ODD, "x", 0)]
    cells += [cell("good", "y", 9, baseline=0.5), cell("fair", "y", 8, baseline=0.5), cell(ODD, "y", 7, baseline=0.5)]
    cells += [perplexity("good", 20.0), perplexity("fair", 30.0)]
    gaps = [MissingCell(ODD, "text", "cannot | read\nit")]
    return make_matrix(["good", "fair", ODD], ["x", "y", "text"], cells, gaps, (), ("take <care>",), seed=1)


def table(matrix: Matrix, start: str) -> Section:
    return next(section for section in sections(matrix) if section.title.startswith(start))


def test_scores_with_errors_and_chance(matrix: Matrix) -> None:
    found = table(matrix, "Scores")
    assert found.headings == ("Model", "x (acc)", "y (acc)", "text (word_perplexity)")
    assert found.rows[0] == ("good", "100.0 ± 5.0", "90.0 ± 5.0", "20.0000 ± 1.5000")
    assert found.rows[2] == (ODD, "0.0 ± 5.0", "70.0 ± 5.0", "–")
    assert found.rows[3] == ("picking at random", "25.0", "50.0", "–")
    assert found.notes == ("Not in percent: text (word_perplexity).",)


def test_failed_documents_are_below_scores_and_means(matrix: Matrix) -> None:
    """Ten of fifteen are scored, all of them right; the mean over both tasks is 95 %, or less."""
    cells = [replace(matrix.cells[0], bounds=FailureBounds(5, 10 / 15, 1.0)), *matrix.cells[1:]]
    found = make_matrix(matrix.models, ["x", "y", "text"], cells, matrix.gaps, (), (), seed=1)
    message = (
        "good, x: 5 of 15 documents failed and are not in the score; all wrong … all right with them: 66.7 … 100.0"
    )
    assert message in table(found, "Scores").notes
    message = "good: mean score with its 5 failed documents all wrong … right: 78.3 … 95.0"
    assert message in table(found, "Over all tasks").notes
    line = next(csv.DictReader(io.StringIO(csv_text(found))))
    assert (line["low_with_failed"], line["high_with_failed"]) == (str(10 / 15), "1.0")


def test_the_longer_side_goes_downwards(matrix: Matrix) -> None:
    cells = [cell("good", task, 5) for task in "xyz"]
    found = table(make_matrix(["good"], list("xyz"), cells, (), (), (), seed=1), "Scores")
    assert found.headings == ("Task (metric)", "good", "picking at random")
    assert found.rows[0] == ("x (acc)", "50.0 ± 5.0", "25.0")


def test_improvements_by_hand(matrix: Matrix) -> None:
    """x: (1 − 0.25)/0.25 = 3 with 0.05/0.25; bounded 0.75/0.75. y: (0.7 − 0.5)/0.5."""
    relative, bounded = table(matrix, "Improvement"), table(matrix, "The same")
    assert relative.rows[0] == ("good", "3.00 ± 0.20", "0.80 ± 0.10")
    assert relative.rows[2] == (ODD, "-1.00 ± 0.20", "0.40 ± 0.10")
    assert bounded.rows[0] == ("good", "1.00 ± 0.07", "0.80 ± 0.10")


def averages(matrix: Matrix) -> dict[str, list[tuple[str, ...]]]:
    """Model → the heading and text of each of its averages, whichever side of the table goes down."""
    found = table(matrix, "Over all")
    rows = [found.headings, *found.rows]
    headings, *models = rows if "Rank" in found.headings else list(zip(*rows, strict=True))
    return {own[0]: list(zip(headings[1:], own[1:], strict=True)) for own in models}


def test_averages_say_over_how_many_and_which_tasks(matrix: Matrix) -> None:
    found = averages(matrix)
    assert [text for _, text in found["good"]][:7] == [
        "95.0 ± 3.5",
        "2 of 3",
        "1.90",
        "0.90",
        "2 of 3",
        "1.00",
        "3 of 3",
    ]
    assert found[ODD][5:7] == [("Win rate", "0.00"), ("over tasks", "2 of 3")]
    assert table(matrix, "Over all").notes[:2] == (
        "Mean score, relative, bounded: over x, y.",
        f"Win rate: good, fair over x, y, text; {ODD} over x, y. Averages over different tasks do not rank models.",
    )


def test_the_averages_of_few_models_are_side_by_side(matrix: Matrix) -> None:
    models = [f"m{place}" for place in range(9)]
    many = make_matrix(models, ["x"], [cell(model, "x", 5) for model in models], (), (), (), seed=1)
    assert table(matrix, "Over all").headings == ("Model", "good", "fair", ODD)
    assert table(many, "Over all").headings[:3] == ("Model", "Mean score", "over tasks")


def test_the_averages_of_three_models_fit_eighty_columns() -> None:
    """Names are not folded, nor numbers from their errors."""
    cells = [cell(model, task, 5) for model in ("smollm2", "ngram") for task in "xy"] + [cell("minilm@head", "x", 5)]
    matrix = make_matrix(["smollm2", "ngram", "minilm@head"], "xy", cells, (), (), (), seed=1)
    console = Console(file=io.StringIO(), width=80)
    show_sections([table(matrix, "Over all")], console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["Model", "smollm2", "ngram", "minilm@head"] in lines
    assert ["over", "tasks", "2", "of", "2", "2", "of", "2", "1", "of", "2"] in lines


def test_models_with_different_tasks_are_compared_over_those_in_common() -> None:
    """a has 1.0 and 0.0, b has 0.5 of the first alone: equal means, and a is ahead on what both have."""
    cells = [cell("a", "x", 10), cell("b", "x", 5), cell("a", "y", 0)]
    matrix = make_matrix("ab", "xy", cells, [MissingCell("b", "y", "no")], (), (), seed=1)
    found, notes = averages(matrix), table(matrix, "Over all").notes
    assert [name for name, _ in found["a"]][:4] == ["Mean score", "over tasks", "In common", "over tasks"]
    assert [text for _, text in found["a"]][:4] == ["50.0 ± 3.5", "2 of 2", "100.0 ± 5.0", "1 of 2"]
    assert [text for _, text in found["b"]][:4] == ["50.0 ± 5.0", "1 of 2", "50.0 ± 5.0", "1 of 2"]
    assert "Mean score, relative, bounded: a over x, y; b over x. Averages over different tasks do" in notes[0]
    assert "In common: the mean over what all models have, which compares them: x." in notes
    assert "No ranks: no two models have means over the same documents of all of x, y." in notes


def test_many_tasks_are_listed_in_part() -> None:
    tasks = [f"t{place}" for place in range(20)]
    found = table(make_matrix("a", [*tasks, "u"], [cell("a", task, 5) for task in tasks], (), (), (), seed=1), "Over")
    assert found.notes[0].endswith("t10, t11 and 8 more (see the JSON).")


@pytest.fixture
def split() -> Matrix:
    """x is acc for two models and mcc for the third; y is the same for all."""
    cells = [cell("a", "x", 9), cell("b", "x", 5), replace(cell("c", "x", 1), metric="mcc", baseline=None)]
    cells += [cell(model, "y", right) for model, right in (("a", 4), ("b", 5), ("c", 6))]
    return make_matrix("abc", ["x", "y"], cells, (), (), (), seed=1)


def test_a_task_with_two_metrics_has_two_columns(split: Matrix) -> None:
    found = table(split, "Scores")
    assert found.headings == ("Model", "x (acc)", "x (mcc)", "y (acc)")
    assert [row[1:3] for row in found.rows[:3]] == [("90.0 ± 5.0", "–"), ("50.0 ± 5.0", "–"), ("–", "0.1000 ± 0.0500")]
    assert "averages count x (acc) only" in found.notes[-1]
    assert averages(split)["c"][:2] == [("Mean score", "60.0 ± 5.0"), ("over tasks", "1 of 2")]
    assert table(split, "Ranks").headings == ("Model", "x (acc)", "y")


def test_files_distinguish_the_columns_of_one_task(split: Matrix) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(split))))
    assert [(row["model"], row["metric"]) for row in rows if row["task"] == "x"] == [
        ("a", "acc"),
        ("b", "acc"),
        ("c", "mcc"),
    ]
    data = json.loads(json.dumps(matrix_data(split)))
    assert [column["label"] for column in data["columns"]] == ["x (acc)", "x (mcc)", "y"]
    assert data["standings"][2]["score_tasks"] == ["y"] and data["common_tasks"] == ["y"]
    assert data["standings"][0]["win_rate"] == {"value": 0.5, "columns": 2, "tasks": ["x (acc)", "y"]}
    for text in (markdown(split), page(split), latex(split)):
        assert "x (mcc)" in text and "1 of 2" in text


def test_a_metric_without_direction_is_in_no_win_rate() -> None:
    cells = [replace(cell(model, "x", right), higher_is_better=None) for model, right in (("a", 3), ("b", 9))]
    matrix = make_matrix(["a", "b"], ["x"], cells, (), (), (), seed=1)
    ending = [("Win rate", "–"), ("over tasks", "0 of 1"), ("Rank", "–")]
    assert [own[-3:] for own in averages(matrix).values()] == [ending] * 2
    assert "Win rates leave out metrics without a direction: x (acc)." in table(matrix, "Over").notes


def test_ranks_have_letters(matrix: Matrix) -> None:
    """x: 10 wins, and 5 wins twice without a loss, 2/32 times 2 after Holm: only the ends differ significantly."""
    found = table(matrix, "Ranks")
    assert found.headings == ("Model", "x", "y")
    assert [row[1:] for row in found.rows] == [("1–2 a", "1–3 a"), ("1–3 ab", "1–3 a"), ("2–3 b", "1–3 a")]
    assert found.notes[1].endswith("text.")


def test_ranks_without_letters_say_so(matrix: Matrix) -> None:
    bare = [replace(ranking, letters=dict.fromkeys(ranking.letters, "")) for ranking in matrix.rankings]
    found = table(replace(matrix, rankings=tuple(bare)), "Ranks")
    assert found.rows[0][1:] == ("1–2", "1–3")
    assert found.notes[1] == "Letters are left out because too many would be needed."


def test_correlations_are_tables_of_both_sides(matrix: Matrix) -> None:
    found = table(matrix, "Spearman's ρ between tasks")
    assert found.rows == (("x", "", "(1.00)", "–"), ("y", "(1.00)", "", "–"), ("text", "–", "–", ""))
    message = "n = 2 to 3. In parentheses: n < 5, too few to tell, since even a perfect order of 3 has p 0.333."
    assert found.notes[0].startswith(message)
    assert not [section for section in sections(matrix) if "between models" in section.title]


def correlated(models: int) -> HeatTable:
    cells = [cell(f"m{place}", task, place) for place in range(models) for task in "xy"]
    matrix = make_matrix([f"m{place}" for place in range(models)], "xy", cells, (), (), (), seed=1)
    return next(table for table in heat_tables(matrix) if table.section.title.startswith("Spearman's ρ between tasks"))


def test_few_models_give_no_shade_of_correlation() -> None:
    """A perfect order of four has p = 2/24, of five 2/120: only the latter has a colour."""
    four, five = correlated(4), correlated(5)
    assert (four.section.rows[0], four.shades[0]) == (("x", "", "(1.00)"), (None, None))
    assert (five.section.rows[0], five.shades[0]) == (("x", "", "1.00*"), (None, 1.0))
    assert "p 0.083" in four.section.notes[0] and "parentheses" not in five.section.notes[0]
    assert four.tips[0][1] == "n = 4, p 0.083, after correction 0.083 (permutation)"


def test_gaps_say_why(matrix: Matrix) -> None:
    assert table(matrix, "Cells").rows == ((ODD, "text", "cannot | read\nit"),)


def test_markdown_keeps_its_columns(matrix: Matrix) -> None:
    text = markdown(matrix)
    assert f"| {ODD.replace('|', chr(92) + '|')} | text | cannot \\| read it |" in text
    assert text.endswith("Note: take <care>\n")


def test_csv_reads_back(matrix: Matrix) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(matrix))))
    assert len(rows) == 9
    assert rows[0]["model"] == "good" and float(rows[0]["value"]) == 1.0 and rows[0]["letters"] == "a"
    assert [(row["rank_first"], row["rank_last"]) for row in rows if row["task"] == "x"] == [
        ("1", "2"),
        ("1", "3"),
        ("2", "3"),
    ]
    (gap,) = [row for row in rows if row["reason"]]
    assert (gap["model"], gap["task"], gap["value"], gap["reason"]) == (ODD, "text", "", "cannot | read\nit")


def test_json_reads_back(matrix: Matrix) -> None:
    data = json.loads(json.dumps(matrix_data(matrix)))
    assert data["models"] == ["good", "fair", ODD]
    assert data["cells"][0]["relative"] == 3.0
    assert list(data["cells"][0]["documents"])[:2] == ["x#0", "x#1"]
    assert data["rankings"][-1]["over_all_tasks"] is True


def test_latex_is_escaped(matrix: Matrix) -> None:
    assert latex_escaped(r"a_b&50%#{x}~^\|<±") == (
        r"a\_b\&50\%\#\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}$|$$<$$\pm$"
    )
    text = latex(matrix)
    assert r"a\_b \& $<$script$>$" in text
    for tabular in re.findall(r"\\begin\{tabular\}\{(lr*)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        lines = [line for line in tabular[1].splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(tabular[0])}


def test_the_page_is_well_formed_and_self_contained(matrix: Matrix) -> None:
    text = page(matrix)
    root = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert len(root.findall(".//table")) == len(sections(matrix))
    assert not root.findall(".//script")
    assert not re.search(r"(src|href)=|url\(|@import", text)
    names = ["".join(cell.itertext()) for cell in root.findall(".//th[@scope='row']")]
    assert ODD in names


def test_a_name_is_broken_at_its_joints_alone(split: Matrix) -> None:
    """On a narrow screen a name would otherwise be cut into letters, one per line."""
    text = page(replace(split, models=("a_long-name", "b", "c")))
    assert '<th scope="row">a_<wbr/>long-<wbr/>name</th>' in text
    (rule,) = re.findall(r"\nth \{.*?\}", text, re.DOTALL)
    assert "anywhere" not in rule
    assert "<h1>3 models on 2 tasks</h1>" in text


def test_too_few_models_are_muted_and_not_painted(split: Matrix) -> None:
    cells = re.findall(r"<td([^>]*)>\(-?\d\.\d\d\)</td>", page(make_matrix(
        "abc", "xy", [cell(model, task, right) for task in "xy" for model, right in zip("abc", (1, 2, 3), strict=True)],
        (), (), (), seed=1,
    )))  # fmt: skip
    assert cells and all('class="soft"' in own and "background" not in own for own in cells)


def test_shades_show_scores_and_not_ranks(matrix: Matrix) -> None:
    shades = heat_tables(matrix)[0].shades
    assert [row[0] for row in shades] == [1.0, 0.5, 0.0, None]
    assert [row[1] for row in shades] == [0.9, 0.8, 0.7, None], "the score itself: no model of a task is its brightest"
    assert [row[2] for row in shades] == [None, None, None, None], "a perplexity has no scale"


@pytest.mark.parametrize("scale", [_SEQUENTIAL, _DIVERGING])
def test_numbers_can_be_read_on_every_shade(scale: Sequence[tuple[int, int, int]]) -> None:
    for step in range(101):
        back = luminance(mixed(step / 100, scale))
        front = 0.0 if style(step / 100, scale).endswith("#000") else 1.0
        assert (max(back, front) + 0.05) / (min(back, front) + 0.05) >= 4.5


def test_colours_at_the_ends_and_between() -> None:
    assert mixed(0.0, _SEQUENTIAL) == (0, 32, 77)
    assert mixed(1.0, _SEQUENTIAL) == (255, 234, 70)
    assert mixed(0.125, _SEQUENTIAL) == (32, 54, 92)
