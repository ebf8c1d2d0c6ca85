"""Rounds with scripted workers: how often each runs, and the resulting table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import AssayError
from bench.engine.processes import Worker, started_worker
from bench.engine.rounds import Measured, Plan, measure
from bench.engine.shape import Shape
from bench.engine.table import make_row
from bench.engine.workloads import BuiltWorkload, Workload

SHAPE = Shape(body=100, hidden=8, inner=16, vocabulary=32, attention=10, most=64)
Start = Callable[[dict[str, float]], Worker]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads /proc")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with ExitStack() as stack:

        def started(seconds: dict[str, float]) -> Worker:
            log, settings = tmp_path / "log", {"seconds": seconds}
            worker = started_worker("scripted", sys.executable, "scripted_worker", settings, environment, log)
            return stack.enter_context(worker)

        yield started


@pytest.fixture
def built(tmp_path: Path) -> BuiltWorkload:
    file = tmp_path / "workload.jsonl"
    file.write_text("".join(json.dumps({"document": place}) + "\n" for place in range(4)), encoding="utf-8")
    return BuiltWorkload(
        Workload("scripted", "none", 4, at_least=2.0, aim=3.0), file, 4, 4, "loglikelihood", is_full=True
    )


def measured(start: Start, built: BuiltWorkload, theirs: dict[str, float], **settings: Any) -> Measured:
    plan = Plan(**{"repeats": 3, "batches": ("1", "8"), "budget_seconds": 100.0, **settings})
    return measure(built, plan, SHAPE, start({"": 1.0}), start(theirs))


def test_after_the_first_round_only_the_best_batch_size_is_repeated(start: Start, built: BuiltWorkload) -> None:
    found = measured(start, built, {"1": 4.0, "8": 2.5})
    assert (found.best, {batch: len(runs) for batch, runs in found.theirs.items()}) == ("8", {"1": 1, "8": 3})
    assert found.ratios() == [2.5, 2.5, 2.5]


def test_a_spent_budget_ends_the_rounds_of_lm_eval_but_not_ours(start: Start, built: BuiltWorkload) -> None:
    found = measured(start, built, {"1": 4.0, "8": 5.0}, budget_seconds=14.0)
    assert (len(found.ours), len(found.reference), len(found.ratios())) == (3, 2, 3)


def test_fewer_documents_for_lm_eval_are_scaled_by_tokens(start: Start, built: BuiltWorkload) -> None:
    found = measured(start, built, {"1": 1.0, "8": 2.0}, documents=1)
    row = make_row(found, SHAPE, 100.0)
    assert (row.ratio, row.is_extrapolated, found.scale) == (4.0, True, 4.0)


def test_a_dear_workload_chooses_its_batch_size_on_a_sample(start: Start, built: BuiltWorkload) -> None:
    found = measured(start, built, {"1": 1.0, "8": 2.0}, budget_seconds=0.01)
    assert list(found.theirs) == ["1"]
    assert "chosen on the first" in found.notes[0]


def test_auto_that_cannot_win_is_left_out_and_said(start: Start, built: BuiltWorkload) -> None:
    found = measured(start, built, {"8": 2.0}, batches=("8", "auto"))
    assert list(found.theirs) == ["8"]
    assert any("batch auto not run" in note for note in found.notes)


@pytest.mark.parametrize(("seconds", "verdict"), [(3.0, "aim"), (2.0, "pass"), (1.9, "FAIL")])
def test_the_verdict_follows_the_bar(start: Start, built: BuiltWorkload, seconds: float, verdict: str) -> None:
    found = measured(start, built, {"1": seconds}, batches=("1",))
    assert make_row(found, SHAPE, 100.0).verdict == verdict


def test_a_worker_that_ends_is_an_error_with_its_last_words(start: Start) -> None:
    with pytest.raises(AssayError, match="these were my last words"):
        start({}).ask("end")


def test_a_failing_command_is_an_error_with_its_traceback(start: Start) -> None:
    with pytest.raises(AssayError, match="FileNotFoundError"):
        start({"1": 1.0}).ask("run", file="/nowhere", batch="1")
