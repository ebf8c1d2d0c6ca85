"""The dry run: tokens and time from what a model says of its work, and from what it did before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate, plan_run
from assay.core.protocols import Progress, Workload
from assay.core.requests import Request
from assay.core.responses import Failure, Output
from assay.core.results import RunResult
from assay.store.store import Store
from assay.testing import ScriptedModel, toy_generation_task


@dataclass(frozen=True)
class Measured(ScriptedModel):
    """Ten operations and two tokens per request, one of them written; estimates its time if configured to."""

    guess: float | None = None
    watchers: list[Callable[[Progress], None]] = field(default_factory=list)

    def workload(self, requests: Sequence[Request]) -> Workload:
        count = len(requests)
        return Workload(count, 3 * count, 16 * count, 10.0 * count, self.guess)

    def watch(self, listener: Callable[[Progress], None]) -> None:
        self.watchers[:] = [listener]

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        total = len(requests)
        self.watchers[0](Progress(0, 10.0 * total, 0, 2 * total))
        for place, answer in super().respond(requests):
            self.watchers[0](Progress(10.0 * (place + 1), 10.0 * total, 2 * (place + 1), 2 * total))
            yield place, answer

    def description(self) -> dict[str, Any]:
        return {"engine": "tree", "why": "asked for", "asked": len(self.asked)}


def run(model: ScriptedModel, count: int, store: Path) -> RunResult:
    return evaluate(model, toy_generation_task(count), store=store, bootstrap_iters=100)


def test_a_model_without_measures_has_no_tokens() -> None:
    report = plan_run(ScriptedModel(lambda request: "7"), toy_generation_task(3), store=":memory:")
    assert (report.tokens, report.tokens_alone, report.operations, report.seconds) == (None, None, None, None)
    assert (report.generated_tokens, report.work > 0) == (48, True)


@pytest.mark.parametrize(("guess", "source"), [(None, None), (2.5, "measurement")])
def test_a_model_that_never_ran_may_guess_its_time(guess: float | None, source: str | None) -> None:
    report = plan_run(Measured(lambda request: "7", guess=guess), toy_generation_task(3), store=":memory:")
    assert (report.tokens, report.tokens_alone, report.generated_tokens, report.operations) == (3, 9, 48, 30.0)
    assert (report.seconds, report.seconds_from) == (guess, source)


def test_earlier_runs_say_more_than_a_guess(tmp_path: Path) -> None:
    model = Measured(lambda request: "7", guess=99.0, delay=0.02)
    run(model, 10, tmp_path / "s.db")
    report = plan_run(model, toy_generation_task(60), store=tmp_path / "s.db")
    assert report.seconds_from == "earlier runs"
    assert 50 * 0.02 <= (report.seconds or 0) < 50 * 0.2


def test_old_records_in_characters_do_not_speak_of_operations(tmp_path: Path) -> None:
    run(ScriptedModel(lambda request: "7"), 3, tmp_path / "s.db")
    report = plan_run(Measured(lambda request: "7"), toy_generation_task(5), store=tmp_path / "s.db")
    assert (report.known, report.seconds) == (3, None)


def test_the_record_says_how_the_model_ran_and_how_fast(tmp_path: Path) -> None:
    result = run(Measured(lambda request: "7"), 4, tmp_path / "s.db")
    with Store(tmp_path / "s.db") as opened:
        summary = opened.runs.get(result.run_id).summary or {}
    assert (summary["speed"]["operations"], "work" in summary["speed"]) == (40.0, False)
    seconds = summary["speed"]["seconds"]
    expected = {"tokens": 8, "seconds": seconds, "engine": "tree", "why": "asked for", "asked": 4}
    assert summary["model_run"] == result.model_run == expected


def test_a_run_that_requested_nothing_says_nothing_of_the_model(tmp_path: Path) -> None:
    run(Measured(lambda request: "7"), 4, tmp_path / "s.db")
    assert run(Measured(lambda request: "7"), 4, tmp_path / "s.db").model_run == {}
