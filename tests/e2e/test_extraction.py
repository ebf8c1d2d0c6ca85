"""A YAML task with the filter `extract`, from the file to the table, the sample log and the result file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import Generation, Text, evaluate
from assay.core.requests import Request
from assay.core.results import RunResult
from assay.report.lm_eval_results import results_data
from assay.report.tables import result_rows
from assay.testing import ScriptedModel

TASK = """
task: quiz
dataset_path: json
dataset_kwargs:
  data_files:
    test: quiz.jsonl
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{right}}"
generation_kwargs:
  until: ["Question:"]
  max_gen_toks: 32
filter_list:
  - name: letter
    filter:
      - function: extract
        using: letter
      - function: take_first
metric_list:
  - metric: exact_match
"""
SAID = {
    "one": Text("The answer is A. Wait: the answer is B."),
    "two": Text("<think>B, or rather", "length"),
    "three": Text("**C**"),
    "four": Text("A cat. The answer is D", "length"),
}


def answer(request: Request) -> Text:
    assert isinstance(request, Generation)
    return SAID[str(request.prompt)]


@pytest.fixture
def result(tmp_path: Path) -> RunResult:
    rows = [{"q": name, "right": "B", "choices": [*"wxyz"]} for name in SAID]
    (tmp_path / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "quiz.yaml").write_text(TASK)
    return evaluate(
        ScriptedModel(answer),
        "quiz",
        store=":memory:",
        include_path=tmp_path,
        output_path=tmp_path / "out",
        log_samples=True,
    )


def test_the_last_statement_is_scored(result: RunResult) -> None:
    task = result.task("quiz")
    assert task.metric("exact_match", "letter").estimate.value == 0.25
    assert [sample.filtered for sample in task.samples] == [("B",), ("[invalid]",), ("C",), ("D",)]


def test_rates_are_below_the_scores(result: RunResult) -> None:
    task = result.task("quiz")
    assert (task.rate("no_answer").estimate.value, task.rate("truncated").estimate.value) == (0.25, 0.5)
    with pytest.raises(KeyError, match='no rate "refused"'):
        task.rate("refused")
    assert [(row.metric, row.filter, row.direction, row.value, row.n) for row in result_rows(result)] == [
        ("exact_match", "letter", "↑", "0.2500", "4"),
        ("no_answer", "letter", "↓", "0.2500", "4"),
        ("truncated", "", "↓", "0.5000", "4"),
    ]


def test_rates_are_in_our_block_and_not_in_lm_evals(result: RunResult) -> None:
    data = results_data(result, {})
    assert [key for key in data["results"]["quiz"] if "," in key] == ["exact_match,letter", "exact_match_stderr,letter"]
    assert [rate["metric"] for rate in data["assay"]["tasks"]["quiz"]["rates"]] == ["no_answer", "truncated"]
    assert "audit" not in data["assay"]


def test_the_sample_log_has_the_rule_and_the_place(result: RunResult, tmp_path: Path) -> None:
    (path,) = tmp_path.rglob("samples_quiz_*.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (((first,),), ((second,),), ((third,),), _) = [line["assay"]["extractions"] for line in lines]
    assert first == {"answer": "B", "extractor": "letter_statement", "start": 37, "end": 38}
    assert lines[0]["resps"][0][0][first["start"] : first["end"]] == "B"
    assert second == {"answer": None, "extractor": None, "start": None, "end": None}
    assert third == {"answer": "C", "extractor": "letter_lone", "start": 2, "end": 3}
    assert list(lines[0])[-5:] == ["doc_hash", "prompt_hash", "target_hash", "exact_match", "assay"]


def test_missing_answers_are_noticed(result: RunResult) -> None:
    assert "quiz: no answer was found in 1 of 4 (letter)" in result.notices


def test_a_wrong_setting_names_the_task(tmp_path: Path) -> None:
    (tmp_path / "quiz.jsonl").write_text('{"q": "one", "right": "B"}\n')
    (tmp_path / "quiz.yaml").write_text(TASK.replace("using: letter", "using: leter"))
    with pytest.raises(Exception, match='quiz.*filter "extract" does not take.*did you mean "letter"'):
        evaluate(ScriptedModel(answer), "quiz", store=":memory:", include_path=tmp_path)
