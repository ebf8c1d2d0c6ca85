"""Right answers that are not among the choices: an error before the first request if no document can be right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import DataError
from assay.core.responses import Logprob
from assay.core.results import RunResult
from assay.testing import ScriptedModel

Row = dict[str, Any]
CAPITALS = [{"q": f"{n}?", "A": "Paris", "B": "Rome", "answer": "Rome", "place": 1} for n in range(4)]
NUMBERS = [{"q": f"{n}?", "options": ["2", "3", "4", "5"], "answer": str(2 + n)} for n in range(4)]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunResult]:
    asked: list[Any] = []

    def answer(request: Any) -> Logprob:
        asked.append(request)
        return Logprob(-float(len(asked)), 1, is_greedy=False)

    def go(rows: list[Row], settings: dict[str, Any] | None = None, **keys: Any) -> RunResult:
        (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        base = {"task": "t", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "x.jsonl"}}}
        shape = {"test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}"}
        (tmp_path / "t.yaml").write_text(json.dumps({**base, **shape, **keys}, indent=1), encoding="utf-8")
        try:
            return evaluate(ScriptedModel(answer), str(tmp_path / "t.yaml"), store=":memory:", **settings or {})
        except DataError:
            assert asked == []
            raise

    return go


LISTED = {"doc_to_choice": ["{{A}}", "{{B}}"], "doc_to_target": "answer"}


@pytest.mark.parametrize("target", ["answer", "place"])
def test_a_list_of_templates_is_refused_with_its_line(run: Callable[..., RunResult], target: str) -> None:
    expected = r"t.yaml:12  doc_to_choice: lists the choice '{{A}}', a template that is not filled in.*\{\{\[A, B\]\}\}"
    with pytest.raises(DataError, match=expected):
        run(CAPITALS, **{**LISTED, "doc_to_target": target})


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({"doc_to_choice": ["Oslo", "Bern"], "doc_to_target": "answer"}, "target 'Rome' and the choices \\['Oslo'"),
        ({"doc_to_choice": ["Oslo"], "doc_to_target": "place"}, "document 0 has the target 1 .*counted from 0"),
        ({"doc_to_choice": ["Oslo", "Bern"], "doc_to_target": "{{place - 2}}"}, "target '-1'"),
    ],
)
def test_labels_that_match_no_choice_are_refused_with_the_first(
    run: Callable[..., RunResult], keys: Row, found: str
) -> None:
    with pytest.raises(DataError, match=f"no document has a right answer among its choices.*{found}"):
        run(CAPITALS, **keys)


def test_an_unlabelled_split_is_called_so(run: Callable[..., RunResult]) -> None:
    rows = [{**row, "place": -1} for row in CAPITALS]
    for target in ("place", "{{place}}"):
        with pytest.raises(
            DataError, match=r"Is the split unlabelled\? Name another one. assay run --predict_only records"
        ):
            run(rows, doc_to_choice=["a", "b"], doc_to_target=target)


def test_digits_that_are_read_as_places_are_explained(run: Callable[..., RunResult]) -> None:
    rows = [{**row, "options": ["20", "30"], "answer": "30"} for row in NUMBERS]
    with pytest.raises(DataError, match="digits are read as a place. For the text of a choice name the column alone"):
        run(rows, doc_to_choice="options", doc_to_target="{{answer}}")
    assert run(rows, doc_to_choice="options", doc_to_target="answer").tasks[0].denominators.notes == {}


def test_digits_that_name_another_choice_are_noticed(run: Callable[..., RunResult]) -> None:
    result = run(NUMBERS[:2], doc_to_choice="options", doc_to_target="{{answer}}")
    expected = "digits are read as a place (2 of 2; document 0: 2 means '4'); for the text, name the column alone"
    assert any(expected in line for line in result.notices)
    places = [{**row, "answer": n} for n, row in enumerate(NUMBERS)]
    assert not any(
        "digits" in line for line in run(places, doc_to_choice="options", doc_to_target="{{answer}}").notices
    )


@pytest.mark.parametrize("settings", [{"like": "lm-eval"}, {"predict_only": True}])
def test_it_can_be_run_all_the_same(run: Callable[..., RunResult], settings: dict[str, Any]) -> None:
    assert run(CAPITALS, settings, **LISTED).tasks[0].denominators.total == 4


def test_answers_that_are_only_recorded_do_not_count_as_wrong(run: Callable[..., RunResult]) -> None:
    result = run(CAPITALS, {"predict_only": True}, doc_to_choice=["a", "b"], doc_to_target="answer")
    assert result.tasks[0].denominators.notes == {"invalid_gold": 4}
    assert not any("count as wrong" in line for line in result.notices)


def test_a_list_with_templates_is_reported_as_one_template_with_all_its_choices(run: Callable[..., RunResult]) -> None:
    with pytest.raises(
        DataError, match=re.escape("""Write doc_to_choice: "{{[A, 'none of these']}}". --like lm-eval""")
    ):
        run(CAPITALS, doc_to_choice=["{{A}}", "none of these"], doc_to_target="place")


def test_some_impossible_answers_are_counted(run: Callable[..., RunResult]) -> None:
    rows = [{**row, "place": -1 if n < 3 else 1} for n, row in enumerate(CAPITALS)]
    keys = {"doc_to_choice": ["a", "b"], "doc_to_target": "place"}
    for limit, count in ((None, 3), (2, 2)):  # a limit does not make it an error
        result = run(rows, {"limit": limit}, **keys)
        assert result.tasks[0].denominators.notes == {"invalid_gold": count}


def test_one_right_answer_of_several_is_enough(run: Callable[..., RunResult]) -> None:
    rows = [{**row, "places": [1, 7]} for row in CAPITALS]
    result = run(rows, doc_to_choice=["a", "b"], doc_to_target="places")
    assert result.tasks[0].denominators.notes == {}


def test_a_run_that_may_stop_is_refused_too(run: Callable[..., RunResult]) -> None:
    with pytest.raises(DataError, match="no document has a right answer"):
        run(CAPITALS, {"until_se": 0.1}, doc_to_choice=["Oslo"], doc_to_target="answer")


@pytest.mark.parametrize("style", ["letters", "letters:rotated", "cloze", "generate"])
def test_a_style_is_refused_too_with_the_documents_own_label(run: Callable[..., RunResult], style: str) -> None:
    rows = [{**row, "options": [row["A"], row["B"]], "place": "purple"} for row in CAPITALS]
    keys = {"format": {"question": "q", "choices": "options", "answer": "place"}}
    with pytest.raises(DataError, match="format, .*no document has a right answer.*'place': 'purple'.*other words"):
        run(rows, {"style": style}, doc_to_choice="options", doc_to_target="place", **keys)


def test_a_list_of_templates_is_refused_in_a_style_too(run: Callable[..., RunResult]) -> None:
    with pytest.raises(DataError, match="lists the choice '{{A}}', a template that is not filled in"):
        run(CAPITALS, {"style": "letters"}, **{**LISTED, "doc_to_target": "place"})
