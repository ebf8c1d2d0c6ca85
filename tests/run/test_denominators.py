"""Every score of a run carries n, error, interval and what it leaves out: with failures, texts cut off, no answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from assay.api import evaluate
from assay.core.requests import Generation, Request
from assay.core.responses import Failure, Text
from assay.core.results import RunResult
from assay.core.specs import FilterSpec, PipelineSpec
from assay.testing import ScriptedModel, ToyTask, toy_generation_task

ESTIMATE = {"value", "stderr", "low", "high", "n", "method", "level", "clusters"}
COUNTS = {"available", "total", "scored", "failed", "truncated", "cut_off", "unparsed", "notes", "draws"}


def answer(request: Request) -> Any:
    """By the left number: 0 fails, 1 is cut off with an answer, 2 without one, 3 has no answer, others are right."""
    assert isinstance(request, Generation)
    left = int(str(request.prompt).split(" + ")[0])
    right = str(left + 7)
    told = {0: Failure("timeout", "too slow"), 1: Text(f"#### {right}\nand", "length")}
    told |= {2: Text("so", finish_reason="length"), 3: Text("none")}
    return told.get(left, right)


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
        told = run(size).summary()["tasks"]["sums"]
        assert set(told["denominators"]) == COUNTS
        scores = [*told["metrics"], *told["rates"]]
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
