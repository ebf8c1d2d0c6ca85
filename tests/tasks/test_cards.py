"""Facts of tasks and groups as plain data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import assay
from assay.core.errors import TaskFileError, UnknownName, UserError

Write = Callable[..., Path]

QUIZ = """\
task: quiz
dataset_path: owner/quiz
dataset_kwargs: {revision: abc}
test_split: test
output_type: multiple_choice
num_fewshot: 2
doc_to_text: q
doc_to_choice: c
doc_to_target: a
card:
  description: A quiz.
  chance: null
  majority: 0.5
  references: [{task: quiz, model: m, metric: acc, value: 0.5, source: s}]
configurations: {a: {card: {rows: {test: 3}}}, b: {card: {rows: {test: 4}}}}
aggregate_metric_list: [{metric: acc}]
"""


@pytest.fixture
def folder(write_yaml: Write) -> str:
    return str(write_yaml("tasks/quiz.yaml", QUIZ).parent)


def test_an_unknown_style_has_no_card(folder: str) -> None:
    with pytest.raises(UserError, match=r'"quiz_a@leters": unknown style or profile "leters"'):
        assay.task_card("quiz_a@leters", [folder])


def test_a_task_has_its_card_and_its_definition(folder: str) -> None:
    card = assay.task_card("quiz_a", include_path=[folder])
    assert card == {
        "name": "quiz_a",
        "kind": "task",
        "output_type": "multiple_choice",
        "metrics": ["acc", "acc_norm"],
        "shots": 2,
        "dataset": "owner/quiz a",
        "evaluated": "test",
        "file": f"{folder}/quiz.yaml",
        "description": "A quiz.",
        "chance": None,
        "majority": 0.5,
        "references": [],
        "rows": {"test": 3},
    }


def test_a_group_has_a_summary_of_its_tasks_and_the_sum_of_their_rows(folder: str) -> None:
    card = assay.task_card("quiz", include_path=[folder])
    assert (card["kind"], card["members"], card["metrics"]) == ("group", ["quiz_a", "quiz_b"], ["acc"])
    assert card["rows"] == {"test": 7}
    assert "majority" not in card
    assert [entry["model"] for entry in card["references"]] == ["m"]
    assert card["tasks"][1] == {
        "name": "quiz_b",
        "description": "A quiz.",
        "chance": None,
        "shots": 2,
        "rows": {"test": 4},
    }


def test_a_file_and_the_library_have_cards(folder: str) -> None:
    assert assay.task_card(f"{folder}/quiz.yaml")["name"] == "quiz"
    card = assay.task_card("hellaswag")
    assert (card["family"], card["primary"], card["lm_eval"]["same"]) == ("commonsense", "acc_norm", True)
    assert assay.task_card("demo")["family"] == "demo"


def test_one_name_has_one_card(folder: str, write_yaml: Write) -> None:
    with pytest.raises(UserError, match='"quiz_[*]" names 2 tasks'):
        assay.task_card("quiz_*", include_path=[folder])
    with pytest.raises(UnknownName, match='did you mean "hellaswag"'):
        assay.task_card("helaswag")
    write_yaml("tasks/wrong.yaml", "group: wrong\ntask: []\n")
    with pytest.raises(TaskFileError, match="wrong.yaml:2  task: is"):
        assay.task_card("wrong", include_path=[folder])


def test_tasks_without_a_card_and_of_plain_texts_have_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("A text.\n", encoding="utf-8")
    card = assay.task_card(f"text:{tmp_path / 't.txt'}")
    assert (card["kind"], "word_perplexity" in card["metrics"]) == ("task", True)
