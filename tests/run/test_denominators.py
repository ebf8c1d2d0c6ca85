"""Every score of a run carries n, error, interval and what it leaves out: with failures, texts cut off, no answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from assay.api import evaluate
from assay.core.requests import Generation, Request
from assay.core.responses import Failure, Text
from assay.core.results import RunResult
from assay.core.scores import FailureBounds
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec
from assay.report.tables import result_rows
from assay.testing import ScriptedModel, ToyTask, toy_generation_task, toy_perplexity_task

ESTIMATE = {"value", "stderr", "low", "high", "n", "method", "level", "clusters"}
COUNTS = {"available", "total", "scored", "failed", "truncated", "cut_off", "unparsed", "notes", "draws"}
COUNTS |= {"left_out", "misses_by_space"}


def answer(request: Request) -> Any:
    """By the left number: 0 fails, 1 is cut off with an answer, 2 without one, 3 has no answer, others are right."""
    assert isinstance(request, Generation)
    left = int(str(request.prompt).split(" + ")[0])
    right = str(left + 7)
    reported = {0: Failure("timeout", "too slow"), 1: Text(f"#### {right}\nand", "length")}
    reported |= {2: Text("so", finish_reason="length"), 3: Text("none")}
    return reported.get(left, right)


def extracting(size: int) -> ToyTask:
    task = toy_generation_task(size, "sums")
    pipeline = PipelineSpec("number", (FilterSpec("extract", {"using": "number"}), FilterSpec("take_first")))
    return replace(task, scoring=replace(task.scoring, pipelines=(pipeline,)))


def run(size: int) -> RunResult:
    return evaluate(ScriptedModel(answer), [extracting(size)], store=":memory:", bootstrap_iters=100)


def test_documents_are_counted_by_what_became_of_them() -> None:
    counts = run(8).task("sums").denominators
    assert (counts.available, counts.total, counts.scored, counts.failed) == (8, 8, 7, 1)
    assert (counts.truncated, counts.cut_off, counts.unparsed) == (0, 2, {"number": 2})


def test_every_score_and_rate_in_the_summary_is_complete() -> None:
    for size in (1, 2, 3, 8):
        reported = run(size).summary()["tasks"]["sums"]
        assert set(reported["denominators"]) == COUNTS
        scores = [*reported["metrics"], *reported["rates"]]
        assert [score["metric"] for score in scores] == ["exact_match", "no_answer", "truncated"]
        assert all(set(score["estimate"]) == ESTIMATE for score in scores)
        assert {score["estimate"]["n"] for score in scores} == {size - 1}


def test_where_all_failed_there_is_no_number() -> None:
    result = run(1).task("sums")
    for score in (*result.metrics, *result.rates):
        found = score.estimate
        assert (found.value, found.stderr, found.low, found.high, found.n) == (None, None, None, None, 0)


def test_one_scored_document_has_an_interval_and_no_error() -> None:
    found = run(2).task("sums").metric("exact_match").estimate
    assert (found.value, found.stderr, found.high) == (1.0, None, 1.0)
    assert found.low is not None and 0 < found.low < 0.3


def test_a_score_without_failed_documents_has_its_bounds_beside_it() -> None:
    (found,) = run(8).task("sums").metrics  # 0 failed; 2 and 3 are wrong
    assert (found.estimate.value, found.estimate.n) == (5 / 7, 7)
    assert found.bounds == FailureBounds(1, 5 / 8, 6 / 8)
    reported = run(8).summary()["tasks"]["sums"]["metrics"][0]
    assert reported["bounds"] == {"failed": 1, "low": 5 / 8, "high": 6 / 8}


def test_where_all_failed_the_score_may_be_anything() -> None:
    (found,) = run(1).task("sums").metrics
    assert found.bounds == FailureBounds(1, 0.0, 1.0)


def test_without_failures_there_are_no_bounds() -> None:
    result = evaluate(ScriptedModel(lambda request: "7"), [toy_generation_task(3)], store=":memory:")
    assert [metric.bounds for metric in result.tasks[0].metrics] == [None]


def test_a_perplexity_has_no_bounds_but_the_count() -> None:
    def fail_first(request: Request) -> Any:
        return Failure("error", "no") if "House number 0" in request.text else -2.5  # type: ignore[union-attr]

    metrics = evaluate(ScriptedModel(fail_first), [toy_perplexity_task(3)], store=":memory:").tasks[0].metrics
    assert metrics and {metric.bounds for metric in metrics} == {FailureBounds(1)}


def test_the_table_says_how_many_of_how_many_and_what_failed_ones_could_change() -> None:
    rows = result_rows(run(8))
    assert [(row.metric, row.n, row.bounds) for row in rows] == [
        ("exact_match", "7 of 8", "0.6250 … 0.7500"),
        ("no_answer", "7", ""),
        ("truncated", "7", ""),
    ]


def test_a_metric_without_a_value_for_a_scored_document_says_so() -> None:
    task = toy_generation_task(4, "sums")
    scoring = replace(task.scoring, metrics=(MetricSpec("seen"),), process=own_values)
    result = evaluate(ScriptedModel(lambda r: "7"), [replace(task, scoring=scoring)], store=":memory:")
    assert result.tasks[0].metric("seen").estimate.n == 3
    assert "sums: seen has no value for 1 of 4 scored documents and leaves them out" in result.notices


def own_values(fields: Any, results: Any) -> dict[str, float]:
    return {} if fields["left"] == 2 else {"seen": 1.0}


def test_a_metric_that_is_not_a_number_for_some_documents_says_why_it_has_no_value() -> None:
    def process(fields: Any, results: Any) -> dict[str, float]:
        return {"seen": math.nan if fields["left"] == 2 else 1.0}

    task = toy_generation_task(4, "sums")
    scoring = replace(task.scoring, metrics=(MetricSpec("seen"),), process=process)
    result = evaluate(ScriptedModel(lambda r: "7"), [replace(task, scoring=scoring)], store=":memory:")
    assert result.tasks[0].metric("seen").estimate.value is None
    assert "sums: seen has no value for 1 of 4 scored documents, so the task has none either" in result.notices
