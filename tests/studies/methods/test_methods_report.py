"""A study on paper: tables, Markdown, JSON, figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.core.errors import UserError
from assay.stats.means import mean_estimate
from assay.studies.methods import methods_analysis as found
from assay.studies.methods.methods_figures import write_figures
from assay.studies.methods.methods_report import markdown, sections, study_data, summary
from assay.studies.methods.methods_values import ChoiceQuestion, MethodsCell, MethodsStudy

RIGHT = [0, 1, 1, 0, 1, 0, 0, 1, 0, 0]


def cell(model: str, method: str, picks: list[int], style: str = "own") -> MethodsCell:
    hits = tuple(float(pick == place) for pick, place in zip(picks, RIGHT, strict=True))
    documents = tuple(f"t#{number}" for number in range(len(picks)))
    return MethodsCell(model, "t", style, method, mean_estimate(hits), documents, tuple(picks), hits)


def study(*models: str, styles: tuple[str, ...] = ("own",)) -> MethodsStudy:
    """The first model is right by `raw` and wrong by `byte`, the second the other way round."""
    turned = [1 - place for place in RIGHT]
    cells = []
    for style in styles:
        for number, model in enumerate(models):
            raw, byte = (RIGHT, turned) if number == 0 else (turned, RIGHT)
            cells += [cell(model, "raw", raw, style), cell(model, "byte", byte, style)]
    questions = {f"t#{number}": ChoiceQuestion((place,), (4, 9)) for number, place in enumerate(RIGHT)}
    compared = found.comparisons(cells, 0)
    return MethodsStudy(
        models=models,
        tasks=("t",),
        styles=styles,
        cells=tuple(cells),
        questions=questions,
        chances={"t": 0.5},
        spreads=found.spreads(cells, 1),
        changes=found.changes(cells, questions),
        comparisons=compared,
        rank_changes=found.rank_changes(compared),
        length_biases=found.length_biases(cells, questions),
        places=found.places(cells, questions),
        diagnostics={},
        requests={"raw": 20, "mutual": 2},
        runs={},
    )


def table(made: MethodsStudy, title: str) -> list[tuple[str, ...]]:
    (section,) = [section for section in sections(made) if section.title.startswith(title)]
    return list(section.rows)


def test_scores_are_per_task_model_and_method_with_a_column_per_style() -> None:
    (section, *_) = sections(study("m", styles=("own", "letters")))
    assert section.headings == ("Task", "Model", "Method", "own", "letters", "n")
    assert section.rows[0] == ("t", "m", "raw", "100.0 [72.2, 100.0]", "100.0 [72.2, 100.0]", "10")
    assert section.rows[1] == ("t", "m", "byte", "0.0 [0.0, 27.8]", "0.0 [0.0, 27.8]", "10")
    assert section.notes == ("Picking at random: t 50.0",)


def test_the_spread_is_reported_in_points() -> None:
    ((*head, by_chance, lowest, highest, p, n),) = table(study("m"), "Spread")
    assert (head, by_chance) == (["t", "m", "own", "100.0"], "0.0 (< 0.0)")
    assert (lowest, highest, p, n) == ("byte@own", "raw@own", "0.002", "10")


def test_a_screen_has_room_for_the_spread() -> None:
    (section,) = [section for section in summary(study("m")) if section.title.startswith("Spread")]
    assert section.rows == (
        ("t, m (n = 10)", "", "", "", ""),
        ("  own", "100.0", "0.0 (< 0.0)", "byte → raw", "0.002"),
    )
    assert section.notes[1].startswith("1 of 1 spreads are beyond chance")


def test_changed_documents_are_counted_and_listed_up_to_a_number() -> None:
    made = study("m")
    assert table(made, "Documents whose") == [("t", "m", "own", "10", "100.0", "raw and byte: 10", "10")]
    (listed,) = [section for section in sections(made, 3) if section.title.startswith("Choices")]
    assert listed.rows[:2] == (("t#0", "m", "own", "0", "1", "0"), ("t#1", "m", "own", "1", "0", "1"))
    assert (len(listed.rows), listed.notes) == (3, ("t, m, own: 7 more",))
    (whole,) = [section for section in sections(made, None) if section.title.startswith("Choices")]
    assert (len(whole.rows), whole.notes) == (10, ())


def test_a_ranking_that_turns_is_reported_with_its_tests() -> None:
    (compared,) = [section for section in sections(study("a", "b")) if section.title.startswith("Models")]
    assert compared.rows[0] == ("t", "raw@own", "a − b", "100.0", "[24.8, 100.0]", "97.5 %", "0.004", "10")
    assert compared.notes == (
        "t: a scores 100.0 points more than b under raw@own (p 0.004), but 100.0 less under byte@own (p 0.004). "
        "The ranking depends on the method, beyond chance.",
        "2 of 2 comparisons are beyond chance (p < 0.05 after Holm's correction).",
    )


def test_one_model_has_no_ranking() -> None:
    titles = [section.title for section in (*sections(study("m")), *summary(study("m")))]
    assert not [title for title in titles if "Models compared" in title or "ranking" in title]


def test_requests_are_reported_next_to_those_that_all_share() -> None:
    rows = table(study("m"), "Distinct requests")
    assert rows == [("raw, token, character, byte", "20", "–"), ("mutual", "2", "+ 10.0 %")]


def test_markdown_has_a_table_for_every_section() -> None:
    text = markdown(study("a", "b"))
    assert text.count("\n| --- |") == len(sections(study("a", "b")))
    assert "| t | a | raw | 100.0 [72.2, 100.0] | 10 |" in text


def test_json_has_every_prediction_and_number() -> None:
    data = json.loads(json.dumps(study_data(study("a", "b"))))
    assert data["cells"][0]["picks"] == RIGHT
    assert data["cells"][0]["estimate"]["value"] == 1.0
    assert data["spreads"][0]["delta"] == 1.0
    assert data["spreads"][0]["chance"] == {"expected": 0.0, "reach": 0.0}
    assert data["changes"][0]["pairs"] == [{"methods": ["raw", "byte"], "documents": 10}]
    assert data["rank_changes"][0]["is_proven"] is True
    assert data["documents"]["t#3"] == {"right": [0], "lengths": [4, 9]}


def test_figures_show_spread_lengths_and_places(tmp_path: Path) -> None:
    written = write_figures(study("a", "b"), tmp_path / "new", ["raw"], "svg")
    names = ["spread.svg", "lengths_t_a.svg", "places_t_a.svg", "lengths_t_b.svg", "places_t_b.svg"]
    assert [path.name for path in written] == names
    spread, lengths, places = (path.read_text(encoding="utf-8") for path in written[:3])
    assert "100.0" in spread and "byte" in spread
    # Where nothing is missed, all ten documents are still drawn.
    assert "raw@own" in lengths and "n = 10" in lengths
    assert "raw@own" in places


def test_several_styles_have_a_figure_each_and_one_over_all(tmp_path: Path) -> None:
    written = write_figures(study("a", styles=("own", "letter+text")), tmp_path, ["raw"], "svg")
    assert [path.name for path in written[:3]] == ["spread.svg", "spread_own.svg", "spread_letter+text.svg"]
    over_all, own = (path.read_text(encoding="utf-8") for path in written[:2])
    assert ">lowest<" in over_all and ">byte<" not in over_all
    assert ">byte<" in own and ">lowest<" not in own


def test_a_panel_that_the_study_lacks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the methods study has no token.*one of raw@own, byte@own"):
        write_figures(study("a"), tmp_path, ["token"], "svg")
    assert list(tmp_path.iterdir()) == []
