"""Metrics over draws through a whole run: task file, model, store, report."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay import evaluate, rescore
from assay.cli.main import main
from assay.core.errors import UserError
from assay.core.requests import Generation, Request
from assay.core.responses import Failure
from assay.core.results import RunResult
from assay.core.specs import MetricSpec, Scoring
from assay.report.terminal import show_result
from assay.testing import ScriptedModel, toy_generation_task

FILE = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{a}} + 1 ="
doc_to_target: "{{a + 1}}"
repeats: 4
generation_kwargs: {until: ["\\n"], do_sample: true, temperature: 1.0}
filter_list:
  - name: number
    filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]
metric_list:
  - metric: exact_match
  - {metric: pass@k, k: [1, 2, 9]}
  - {metric: maj@k, k: 3, aggregation: mean, higher_is_better: true}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sums.yaml").write_text(FILE)
    Path("sums.jsonl").write_text("".join(json.dumps({"a": a}) + "\n" for a in range(4)))


def say(request: Request) -> str:
    """The first `a` draws are right; the last draw says nothing."""
    assert isinstance(request, Generation)
    a = int(str(request.prompt).split(" ")[0])
    return "dunno" if request.draw == 3 else str(a + 1) if request.draw < a else "99"


def run(handler: Any = say, **settings: Any) -> RunResult:
    return evaluate(ScriptedModel(handler), "sums.yaml", store="s.db", **settings)


def printed(result: RunResult) -> str:
    console = Console(file=io.StringIO(), width=200)
    show_result(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_metrics_of_a_task_file() -> None:
    task = run().task("sums")
    found = {metric.metric: metric.estimate for metric in task.metrics}
    # Of four draws 0, 1, 2 and 3 are right.
    assert found["exact_match"].value == 0.75  # the first draw alone, as in lm-eval
    assert found["pass@1"].value == pytest.approx((0 + 1 + 2 + 3) / 16)
    assert found["pass@2"].value == pytest.approx((0 + 1 / 2 + 5 / 6 + 1) / 4)
    # One right, two wrong alike, one silent: only the two sets with the silent draw and one wrong one tie.
    assert found["maj@3"].value == pytest.approx((0 + 2 / 8 + 3 / 4 + 1) / 4)
    assert (found["pass@9"].value, found["pass@9"].stderr, found["pass@9"].low) == (None, None, None)
    assert found["pass@2"].n == 4 and found["pass@2"].stderr is not None


def test_the_report_has_documents_draws_and_what_is_unknown() -> None:
    result = run()
    counts = result.task("sums").denominators.draws
    assert counts is not None
    assert (counts.per_question, counts.total, counts.failed, counts.unparsed) == (4, 16, 0, {"number": 4})
    text = printed(result)
    assert "sums: 4 documents × 4 draws, 16 answers, 4 without an answer (number)" in text
    assert "pass@9 cannot be computed from 4 draws per question" in text and "greedily" not in text
    assert result.summary()["tasks"]["sums"]["denominators"]["draws"]["total"] == 16


def test_a_failed_draw_is_counted_and_its_document_left_out() -> None:
    def fail(request: Request) -> str | Failure:
        is_bad = isinstance(request, Generation) and str(request.prompt).startswith("3") and request.draw == 2
        return Failure("timeout", "slow") if is_bad else say(request)

    result = run(fail)
    task = result.task("sums")
    assert task.metric("pass@1").estimate.n == 3
    assert task.metric("pass@1").estimate.value == pytest.approx((0 + 1 + 2) / 12)
    assert task.denominators.failed == 1
    assert task.denominators.draws is not None and task.denominators.draws.failed == 1
    assert "16 answers, 1 failed" in printed(result)
    # The same command asks the failed draw alone.
    again = run()
    assert again.counts.asked == 1 and again.task("sums").metric("pass@1").estimate.n == 4


def test_greedy_draws_are_reported() -> None:
    result = run(gen_kwargs={"do_sample": False, "temperature": 0.0})
    assert result.task("sums").metric("pass@2").estimate.value == result.task("sums").metric("pass@1").estimate.value
    assert "generated greedily" in printed(result)


def test_a_run_is_rescored_over_its_draws() -> None:
    first = run(metrics="exact_match")
    again = rescore(first.run_id, metrics="+pass^2,gpass@4:0.5,mean@k", store="s.db")
    found = {metric.metric: metric.estimate.value for metric in again.task("sums").metrics}
    assert found == {
        "exact_match": 0.75,
        "pass^2": pytest.approx((0 + 0 + 1 / 6 + 3 / 6) / 4),
        "gpass@4:0.5": 0.5,
        "mean@1": pytest.approx(6 / 16),
    }
    assert again.counts.asked == 0


def test_other_metrics_judge_as_the_task_does() -> None:
    text = FILE.replace("- metric: exact_match", '- {metric: exact_match, regexes_to_ignore: ["9"]}')
    Path("sums.yaml").write_text(text.replace('doc_to_target: "{{a + 1}}"', 'doc_to_target: "9{{a + 1}}"'))
    task = run(metrics="mean@1").task("sums")
    assert [metric.metric for metric in task.metrics] == ["mean@1"]
    assert task.metric("mean@1").estimate.value == pytest.approx(6 / 16)


def test_python_tasks_may_name_them() -> None:
    toy = toy_generation_task(3, draws=3)
    specs = (MetricSpec("pass@k", options={"k": [1, 3]}),)
    task = replace(toy, scoring=Scoring("generate_until", specs))
    result = evaluate(ScriptedModel(lambda request: "7"), [task], store=":memory:")
    found = {metric.metric: metric.estimate.value for metric in result.tasks[0].metrics}
    assert found == {"pass@1": pytest.approx(1 / 3), "pass@3": pytest.approx(1 / 3)}


def test_a_wrong_setting_is_reported_with_its_line() -> None:
    Path("sums.yaml").write_text(FILE.replace("[1, 2, 9]", "[1, none]"))
    with pytest.raises(UserError, match=r"sums\.yaml:\d+.*\"k\" of the metric \"pass@k\".*1 or more draws"):
        run()
    with pytest.raises(UserError, match="--metrics.*pass@0"):
        run(metrics="pass@0")


def test_the_sample_log_has_what_each_draw_is_worth(tmp_path: Path) -> None:
    command = ["run", "--model", "dummy", "--tasks", "sums.yaml", "--store", "d.db", "-o", "out", "--log_samples"]
    assert main(command) == 0
    (path,) = tmp_path.glob("out/*/samples_*.jsonl")
    for line in map(json.loads, path.read_text().splitlines()):
        draws = line["assay"]["draws"]
        assert len(draws) == 4 and set(draws) <= {None, 0.0, 1.0}
        assert line["pass@1"] == pytest.approx(sum(draw or 0 for draw in draws) / 4)
    (path,) = tmp_path.glob("out/*/results_*.json")
    results = json.loads(path.read_text())["results"]["sums"]
    assert results["pass@9,number"] is None and results["pass@9_stderr,number"] == "N/A"
    assert isinstance(results["pass@1_stderr,number"], float)
