"""Runs that stop early: at the same document whatever happens in between, each task independently."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import explain, rescore
from assay.core.errors import UserError
from assay.core.requests import Generation, Request
from assay.core.responses import Failure
from assay.core.results import RunResult, TaskResult
from assay.core.specs import MetricSpec
from assay.stats.means import normal_quantile
from assay.stats.sampling import random_order
from assay.stats.sequential import decide, mean_bounds
from assay.store.store import Store
from assay.studies.sampling.subsample_report import subsample_lines
from assay.studies.sampling.subsample_values import EarlyStop
from assay.testing import ScriptedModel, ToyTask, toy_generation_task, toy_perplexity_task

SIZE = 400


def number(request: Request) -> int:
    assert isinstance(request, Generation)
    return int(str(request.prompt).split(" + ")[0])


def model(share: float, name: str = "scripted", seed: int = 1) -> ScriptedModel:
    """A model that knows about this share of the documents."""
    known = {place for place in range(SIZE) if random.Random(f"{seed} {place}").random() < share}
    return ScriptedModel(lambda request: str(number(request) + 7) if number(request) in known else "no", name=name)


def run(asked: ScriptedModel, *tasks: ToyTask, store: Path | str = ":memory:", **settings: Any) -> RunResult:
    return evaluate(asked, list(tasks) or toy_generation_task(SIZE), store=store, bootstrap_iters=0, **settings)


def stop_of(task: TaskResult) -> EarlyStop:
    assert task.subsample is not None and task.subsample.stop is not None
    return task.subsample.stop


def numbers(asked: ScriptedModel) -> list[int]:
    return [number(request) for request in asked.asked]


def test_it_stops_when_the_interval_is_narrow_enough_and_not_before() -> None:
    asked = model(0.97)
    result = run(asked, until_se=0.03)
    stop = stop_of(result.tasks[0])
    assert (stop.rule, stop.is_reached, stop.most, stop.wanted) == ("until_se", True, SIZE, 0.03)
    assert stop.documents == len(asked.asked) == len(set(numbers(asked))) < SIZE
    values = {sample.document_id: float(sample.values["exact_match"]) for sample in result.tasks[0].samples}
    order = random_order(SIZE, 1234)[: stop.documents]
    assert set(order) == set(values)
    wide = normal_quantile() * 0.03
    bounds = mean_bounds([values[place] for place in order])
    assert (stop.low, stop.high) == (bounds.low, bounds.high)
    assert bounds.half_width <= wide
    before = [32]
    while before[-1] < stop.documents:
        before.append(-(-before[-1] * 5 // 4))
    assert before[-1] == stop.documents and stop.laps == len(before)
    for count in before[:-1]:
        assert mean_bounds([values[place] for place in order[:count]]).half_width > wide


@pytest.mark.parametrize(("factor", "documents"), [(1.001, 63), (0.999, 79)])
def test_the_bar_is_the_reach_of_an_interval_with_that_error(factor: float, documents: int) -> None:
    """The fourth lap ends at 63 documents, the fifth at 79."""
    values = [float(random.Random(f"1 {place}").random() < 0.8) for place in random_order(SIZE, 1234)]
    error = mean_bounds(values[:63]).half_width / 1.959964
    assert stop_of(run(model(0.8), until_se=error * factor).tasks[0]).documents == documents


def test_the_first_documents_are_the_nested_sample() -> None:
    stopped = run(model(0.97), until_se=0.03)
    sample = run(model(0.97), sample=stop_of(stopped.tasks[0]).documents)
    assert [item.document.id for item in stopped.tasks[0].answered] == [
        item.document.id for item in sample.tasks[0].answered
    ]
    assert stopped.tasks[0].metrics == sample.tasks[0].metrics


@pytest.mark.parametrize("settings", [{"limit": 50}, {"sample": 50}])
def test_a_limit_or_a_sample_is_the_most_that_is_evaluated(settings: dict[str, Any]) -> None:
    asked = model(0.5)
    result = run(asked, until_se=0.01, **settings)
    stop = stop_of(result.tasks[0])
    assert (stop.is_reached, stop.documents, stop.most) == (False, 50, 50)
    expected = set(range(50)) if "limit" in settings else set(random_order(SIZE, 1234)[:50])
    assert set(numbers(asked)) == expected
    assert "evaluated all 50 documents" in next(subsample_lines(result.tasks))


def test_it_stops_when_it_is_decided_which_run_is_better(tmp_path: Path) -> None:
    other = run(model(0.5, "other", seed=2), store=tmp_path / "s.db")
    asked = model(0.9)
    result = run(asked, store=tmp_path / "s.db", until_decided="last")
    stop = stop_of(result.tasks[0])
    assert (stop.rule, stop.is_reached, stop.is_better, stop.other) == ("until_decided", True, True, other.run_id)
    assert stop.documents == len(asked.asked) < SIZE
    assert stop.p is not None and stop.p <= 0.05
    assert -1 <= stop.low < 0.4 < stop.high <= 1
    own = {sample.document_id: float(sample.values["exact_match"]) for sample in result.tasks[0].samples}
    theirs = {sample.document_id: float(sample.values["exact_match"]) for sample in other.tasks[0].samples}
    order = random_order(SIZE, 1234)[: stop.documents]
    assert decide([own[place] for place in order], [theirs[place] for place in order]).p == stop.p
    assert f"better than run {other.run_id}" in next(subsample_lines(result.tasks))


def test_of_errors_fewer_are_better(tmp_path: Path) -> None:
    task = toy_generation_task(SIZE)
    spec = MetricSpec("exact_match", higher_is_better=False)
    task = replace(task, scoring=replace(task.scoring, metrics=(spec,)))
    run(model(0.5, "other", seed=2), task, store=tmp_path / "s.db")
    stop = stop_of(run(model(0.9), task, store=tmp_path / "s.db", until_decided="last").tasks[0])
    assert (stop.is_reached, stop.is_better) == (True, False)


def test_equal_runs_are_not_decided(tmp_path: Path) -> None:
    run(model(0.5, "other"), store=tmp_path / "s.db")
    result = run(model(0.5), store=tmp_path / "s.db", until_decided="last")
    stop = stop_of(result.tasks[0])
    assert (stop.is_reached, stop.is_better, stop.documents) == (False, None, SIZE)
    assert "not decided whether it is better" in next(subsample_lines(result.tasks))


def test_only_documents_of_the_other_run_are_evaluated(tmp_path: Path) -> None:
    run(model(0.5, "other", seed=2), store=tmp_path / "s.db", limit=100)
    asked = model(0.5)
    stop = stop_of(run(asked, store=tmp_path / "s.db", until_decided="last").tasks[0])
    assert stop.most == 100
    assert max(numbers(asked)) < 100


def test_each_task_stops_by_itself() -> None:
    easy, hard = toy_generation_task(SIZE, "easy"), toy_generation_task(SIZE, "hard")
    rows = tuple(
        replace(row, fields={"left": row.id + SIZE, "right": 7, "sum": row.id + SIZE + 7}) for row in hard.rows
    )
    asked = ScriptedModel(lambda request: str(number(request) + 7) if number(request) < SIZE * 1.4 else "no")
    result = run(asked, easy, replace(hard, rows=rows), until_se=0.03)
    first, second = (stop_of(result.task(name)).documents for name in ("easy", "hard"))
    assert first < second
    assert len(asked.asked) == len(set(numbers(asked))) == first + second == result.counts.asked


class Killed(BaseException):
    """Ends a run as a kill would: nothing of the run's own code catches it."""


def dying(after: int, whole: ScriptedModel) -> tuple[ScriptedModel, Callable[[], int]]:
    count = 0

    def answer(request: Request) -> Any:
        nonlocal count
        count += 1
        if count > after:
            raise Killed
        return whole.handler(request)

    return ScriptedModel(answer), lambda: count


@pytest.mark.parametrize("after", [5, 40, 60])
def test_a_killed_run_goes_on_and_stops_at_the_same_document(tmp_path: Path, after: int) -> None:
    whole = model(0.97)
    expected = run(model(0.97), until_se=0.03)
    broken, _ = dying(after, whole)
    with pytest.raises(Killed):
        run(broken, store=tmp_path / "s.db", until_se=0.03)
    again = run(whole, store=tmp_path / "s.db", until_se=0.03)
    assert stop_of(again.tasks[0]) == stop_of(expected.tasks[0])
    assert again.tasks[0].metrics == expected.tasks[0].metrics
    asked = numbers(broken)[:after] + numbers(whole)
    assert len(asked) == len(set(asked)) == stop_of(expected.tasks[0]).documents


def test_repeating_requests_nothing_and_says_the_same(tmp_path: Path) -> None:
    first = run(model(0.97), store=tmp_path / "s.db", until_se=0.03)
    silent = model(0.97)
    second = run(silent, store=tmp_path / "s.db", until_se=0.03)
    assert silent.asked == []
    assert list(subsample_lines(first.tasks)) == list(subsample_lines(second.tasks))
    assert (second.counts.known, second.counts.asked) == (first.counts.asked, 0)


def test_the_record_reports_the_documents_and_can_be_read_again(tmp_path: Path) -> None:
    result = run(model(0.97), store=tmp_path / "s.db", until_se=0.03)
    ids = [item.document.id for item in result.tasks[0].answered]
    with Store(tmp_path / "s.db") as store:
        record = store.runs.get(result.run_id)
    assert record.status == "finished"
    assert record.manifest["tasks"]["toy_generation"]["sample"] == ids == sorted(ids)
    assert record.manifest["tasks"]["toy_generation"]["documents"] == len(ids)
    summary = record.summary or {}
    assert summary["tasks"]["toy_generation"]["spared"]["stop"]["documents"] == len(ids)
    again = rescore(result.run_id, store=tmp_path / "s.db", tasks=toy_generation_task(SIZE))
    assert again.tasks[0].metrics == result.tasks[0].metrics
    assert not any("not a random sample" in notice for notice in again.notices)


def test_a_stopped_run_of_a_task_file_can_be_explained(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    first = evaluate("dummy", "demo_questions", store=store, until_se=0.2, bootstrap_iters=0)
    second = evaluate("ngram", "demo_questions", store=store, until_decided=first.run_id, bootstrap_iters=0)
    assert stop_of(first.tasks[0]).documents < 120
    assert stop_of(second.tasks[0]).most == stop_of(first.tasks[0]).documents
    assert explain(first.run_id, second.run_id, store=store)


def test_the_usual_interval_is_said_not_to_hold() -> None:
    result = run(model(0.97), until_se=0.03)
    assert any("are not valid after early stopping" in notice for notice in result.notices)
    assert result.tasks[0].subsample is not None
    assert result.tasks[0].subsample.whole == ()


def test_the_first_documents_in_random_order_are_not_a_random_sample() -> None:
    message = run(model(0.97), until_se=0.1, limit=100).notices
    assert any("(not a random sample): toy_generation" in notice for notice in message)
    assert not any("a random sample of" in notice for notice in message)


def test_documents_that_another_run_has_are_said_to_be_so(tmp_path: Path) -> None:
    other = run(model(0.2, "other"), store=tmp_path / "s.db", limit=60)
    message = run(model(0.97), store=tmp_path / "s.db", until_decided=other.run_id).notices
    assert any(f"evaluated only documents that run {other.run_id} has" in notice for notice in message)
    assert not any("a random sample" in notice for notice in message)


def test_a_task_evaluated_to_its_end_has_the_usual_interval() -> None:
    result = run(model(0.5), until_se=0.001)
    assert stop_of(result.tasks[0]).documents == SIZE
    assert not any("are not valid" in notice for notice in result.notices)


def test_failed_documents_are_passed_over() -> None:
    bad = set(random_order(SIZE, 1234)[:3])
    whole = model(1.0)
    asked = ScriptedModel(lambda r: Failure("error", "no") if number(r) in bad else whole.handler(r))
    result = run(asked, until_se=0.03)
    task = result.tasks[0]
    assert task.denominators.failed == 3
    assert stop_of(task).documents == task.denominators.total == task.denominators.scored + 3
    assert result.counts.failed == 3


def test_tasks_that_no_rule_fits_are_refused_before_the_first_request() -> None:
    texts = ScriptedModel(lambda request: -1.0)
    with pytest.raises(UserError, match=r"none of its metrics \(word_perplexity"):
        run(texts, toy_perplexity_task(50), until_se=0.05)
    asked = model(0.5)
    with pytest.raises(UserError, match="has clusters"):
        run(asked, until_se=0.05, cluster="left")
    assert texts.asked == asked.asked == []


def test_values_beyond_0_and_1_are_an_error() -> None:
    task = toy_perplexity_task(50)
    scoring = replace(task.scoring, metrics=(MetricSpec("word_perplexity", aggregation="mean"),))
    result = run(ScriptedModel(lambda request: -9.0), replace(task, scoring=scoring), until_se=0.05)
    assert result.tasks[0].problem is not None and not result.tasks[0].metrics


def test_the_other_run_must_have_the_metric_and_the_documents(tmp_path: Path) -> None:
    other = toy_generation_task(SIZE)
    run(model(0.5, "other"), other, store=tmp_path / "s.db", metrics="bypass")
    with pytest.raises(UserError, match="has no value of exact_match"):
        run(model(0.5), store=tmp_path / "s.db", until_decided="last")


def test_variants_that_stop_apart_are_reported_and_read_again_apart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"orders": 4, "until_se": 0.064, "bootstrap_iters": 0}
    result = evaluate("dummy", "demo_questions@letters", store=tmp_path / "s.db", **settings)
    asked = [len(task.answered) for task in result.tasks]
    assert min(asked) < max(asked) == 120
    assert any(f"demo_questions@letters {min(asked)} to 120 of 120" in notice for notice in result.notices)
    message = "intervals in the table and the errors and intervals over prompts, seeds, orders and draws are not valid"
    assert any(message in notice for notice in result.notices)
    again = rescore(result.run_id, store=tmp_path / "s.db")
    assert [len(task.answered) for task in again.tasks] == asked
