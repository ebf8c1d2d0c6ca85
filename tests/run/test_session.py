"""A whole run: failures are data, no request is sent twice, the record has what happened."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from assay.api import evaluate
from assay.core.errors import ModelError, UserError
from assay.core.requests import Generation, Instance, Loglikelihood, Request
from assay.core.responses import Failure, Logprob, Text
from assay.core.results import Contribution, RunResult
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.options.specification import make_spec
from assay.run.build import BuiltTask
from assay.run.events import Event, Noticed, Planned, StageStarted, ignore
from assay.run.execute import Executed
from assay.run.resolve import Setup
from assay.run.session import Analysis, Batch, FullSchedule, RunFeatures, RunOutcome, Session
from assay.run.session import run as run_session
from assay.store.store import Store
from assay.testing import ScriptedModel, ToyTask, toy_choice_task, toy_generation_task, toy_perplexity_task


def solve(request: Request) -> str | float:
    """The right sum; a choice is likely when it is right."""
    if isinstance(request, Generation):
        left, right = str(request.prompt).rstrip(" =").split(" + ")
        return str(int(left) + int(right))
    if isinstance(request, Loglikelihood):
        left, right = str(request.prompt).split("is ")[1].split("?")[0].split(" + ")
        return -1.0 if int(request.continuation) == int(left) + int(right) else -5.0
    return -2.5 * len(request.text.split())


def fail_on(word: str) -> Callable[[Request], str | float | Failure]:
    def handler(request: Request) -> str | float | Failure:
        return Failure("out_of_memory", "no room") if word in str(request.prompt) else solve(request)  # type: ignore[union-attr]

    return handler


def run(model: ScriptedModel, *tasks: ToyTask, store: Path | str = ":memory:", **settings: object) -> RunResult:
    return evaluate(model, list(tasks), store=store, bootstrap_iters=100, **settings)  # type: ignore[arg-type]


def test_a_perfect_model_is_perfect_on_every_shape() -> None:
    result = run(ScriptedModel(solve), toy_choice_task(8), toy_generation_task(6), toy_perplexity_task(5))
    assert result.task("toy_choice").metric("acc").estimate.value == 1.0
    assert result.task("toy_generation").metric("exact_match").estimate.value == 1.0
    assert result.task("toy_perplexity").metric("word_perplexity").estimate.value == pytest.approx(math.exp(2.5))
    assert result.counts.built == 8 * 4 + 6 + 5


def test_a_failed_request_is_data() -> None:
    result = run(ScriptedModel(fail_on("3 + 7 =")), toy_generation_task(5))
    task = result.task("toy_generation")
    assert task.metric("exact_match").estimate.value == 1.0
    assert task.metric("exact_match").estimate.n == 4
    counts = task.denominators
    assert (counts.available, counts.total, counts.scored, counts.failed) == (5, 5, 4, 1)
    assert result.failures == {"out_of_memory": (1, "no room")}
    assert (result.counts.asked, result.counts.failed) == (5, 1)


def test_one_failed_choice_leaves_its_document_out() -> None:
    model = ScriptedModel(lambda r: Failure("error", "no") if r.continuation == " 4" else solve(r))  # type: ignore[union-attr]
    result = run(model, toy_choice_task(6))
    failed = [item.document.id for item in result.tasks[0].answered if Failure("error", "no") in item.outputs]
    assert result.tasks[0].denominators.failed == len(failed) > 0
    assert [sample.document_id for sample in result.tasks[0].samples] == [n for n in range(6) if n not in failed]


def test_all_requests_failed_gives_nulls_not_zeros() -> None:
    result = run(ScriptedModel(lambda request: Failure("error", "no")), toy_generation_task(3))
    estimate = result.tasks[0].metric("exact_match").estimate
    assert (estimate.value, estimate.n, result.tasks[0].denominators.scored) == (None, 0, 0)


def test_a_failed_request_is_requested_again_next_time(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    first = run(ScriptedModel(fail_on("3 + 7 =")), toy_generation_task(5), store=store)
    again = ScriptedModel(solve)
    second = run(again, toy_generation_task(5), store=store)
    assert [request.prompt for request in again.asked] == ["3 + 7 ="]  # type: ignore[union-attr]
    assert (second.counts.known, second.counts.asked, second.counts.failed) == (4, 1, 0)
    with Store(store) as opened:
        assert opened.runs.get(first.run_id).status == "incomplete"
        assert opened.runs.get(second.run_id).status == "finished"


def test_nothing_is_requested_twice(tmp_path: Path) -> None:
    first, again = ScriptedModel(solve), ScriptedModel(solve)
    one = run(first, toy_choice_task(8), store=tmp_path / "s.db")
    two = run(again, toy_choice_task(8), store=tmp_path / "s.db")
    assert len(first.asked) == 32
    assert again.asked == []
    assert (one.tasks, one.counts.known) == (two.tasks, 0)
    assert (two.counts.known, two.counts.asked) == (32, 0)


def test_another_model_gets_its_own_requests(tmp_path: Path) -> None:
    run(ScriptedModel(solve), toy_generation_task(4), store=tmp_path / "s.db")
    other = ScriptedModel(lambda request: "wrong", name="other")
    result = run(other, toy_generation_task(4), store=tmp_path / "s.db")
    assert len(other.asked) == 4
    assert result.tasks[0].metric("exact_match").estimate.value == 0.0


def test_two_tasks_with_the_same_requests_execute_them_once() -> None:
    model = ScriptedModel(solve)
    result = run(model, toy_generation_task(4), toy_generation_task(6, name="more"))
    assert (result.counts.built, result.counts.unique, len(model.asked)) == (10, 6, 6)
    assert result.task("more").metric("exact_match").estimate.n == 6


def test_a_crash_keeps_what_was_answered(tmp_path: Path) -> None:
    def crash_at_5(request: Request) -> str | float:
        if str(request.prompt).startswith("5"):  # type: ignore[union-attr]
            raise RuntimeError("power cut")
        return solve(request)

    with pytest.raises(RuntimeError, match="power cut"):
        run(ScriptedModel(crash_at_5), toy_generation_task(9), store=tmp_path / "s.db")
    with Store(tmp_path / "s.db") as opened:
        assert [record.status for record in opened.runs.all()] == ["failed"]
        assert opened.responses.count() == 5
    again = ScriptedModel(solve)
    assert run(again, toy_generation_task(9), store=tmp_path / "s.db").counts.known == 5
    assert len(again.asked) == 4


def test_an_interrupted_run_is_marked_so(tmp_path: Path) -> None:
    def interrupt(request: Request) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ScriptedModel(interrupt), toy_generation_task(2), store=tmp_path / "s.db")
    with Store(tmp_path / "s.db") as opened:
        assert [record.status for record in opened.runs.all()] == ["interrupted"]


def test_the_record_has_the_numbers(tmp_path: Path) -> None:
    result = run(ScriptedModel(solve), toy_generation_task(4), store=tmp_path / "s.db")
    with Store(tmp_path / "s.db") as opened:
        record = opened.runs.get(result.run_id)
    assert record.summary is not None
    assert record.summary["tasks"]["toy_generation"]["metrics"][0]["estimate"]["value"] == 1.0
    assert record.summary["requests"]["asked"] == 4
    assert record.summary["speed"]["work"] > 0
    assert record.manifest["tasks"]["toy_generation"]["prompts_fingerprint"] == result.tasks[0].prompts


def test_a_limit_is_noticed_as_no_random_sample() -> None:
    result = run(ScriptedModel(solve), toy_generation_task(6), limit=3)
    assert result.notices == ("evaluated only part of the documents (not a random sample): toy_generation",)
    assert result.tasks[0].denominators.available == 6


def test_cut_prompts_and_notes_are_noticed() -> None:
    def answer(request: Request) -> Text:
        return Text("7", truncated=9, notes=("double_bos", "odd_thing"))

    notices = run(ScriptedModel(answer), toy_generation_task(3)).notices
    assert "toy_generation: 3 of 3 documents were cut to fit the model" in notices
    assert "toy_generation: prompts began with two BOS tokens (3)" in notices
    assert "toy_generation: odd_thing (3)" in notices


def test_answers_that_were_not_found_are_counted() -> None:
    toy = toy_generation_task(4)
    number = PipelineSpec("number", (FilterSpec("regex"), FilterSpec("take_first")))
    task = ToyTask(toy.card, Scoring("generate_until", (MetricSpec("exact_match"),), (number,)), toy.rows, toy.builder)
    model = ScriptedModel(lambda r: "dunno" if str(r.prompt).startswith("2") else f"#### {solve(r)}")  # type: ignore[union-attr]
    result = run(model, task)
    assert result.tasks[0].denominators.unparsed == {"number": 1}
    assert "toy_generation: no answer was found in 1 of 4 (number)" in result.notices
    assert result.tasks[0].metric("exact_match").estimate.value == 0.75


def test_an_invalid_gold_is_noticed_and_counts_as_wrong() -> None:
    toy = toy_choice_task(4)

    def build(document: object) -> Instance:
        instance = toy.builder(document)  # type: ignore[arg-type]
        return replace(instance, gold=-1 if instance.document_id else instance.gold)

    result = run(ScriptedModel(solve), ToyTask(toy.card, toy.scoring, toy.rows, build))
    assert result.tasks[0].metric("acc").estimate.value == 0.25
    assert any("not among the choices" in notice and "(3)" in notice for notice in result.notices)


@pytest.mark.parametrize(("total", "failed"), [(0.5, 3), (0.0, 0), (1e-9, 0)])
def test_a_log_probability_above_0_fails(total: float, failed: int) -> None:
    result = run(ScriptedModel(lambda request: Logprob(total, 1, is_greedy=False)), toy_choice_task(3))
    assert result.tasks[0].denominators.failed == failed
    assert ("positive_logprob" in result.failures) == bool(failed)


def test_a_stored_log_probability_above_0_is_noticed(tmp_path: Path) -> None:
    """Stores of earlier versions hold such answers."""
    model = ScriptedModel(lambda request: Logprob(-0.5, 1, is_greedy=False))
    run(model, toy_choice_task(3), store=tmp_path / "s.db")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
        connection.execute("UPDATE responses SET total = 0.5, checksum = NULL")
    result = run(model, toy_choice_task(3), store=tmp_path / "s.db")
    assert result.tasks[0].denominators.notes == {"positive_logprob": 3}
    assert any("above 0, which is not possible for a probability (3)" in notice for notice in result.notices)


def test_what_a_model_says_of_itself_is_noticed() -> None:
    class Adviser(ScriptedModel):
        def notices(self) -> list[str]:
            return ["no BOS token"]

    assert run(Adviser(solve), toy_generation_task(2)).notices == ("no BOS token",)


def test_stages_are_announced_in_order() -> None:
    events: list[Event] = []
    run(ScriptedModel(solve), toy_generation_task(2), listener=events.append)
    stages = [event.stage for event in events if isinstance(event, StageStarted)]
    assert stages == ["resolve", "pose", "plan", "execute", "score"]
    planned = next(event for event in events if isinstance(event, Planned))
    assert (planned.built, planned.unique, planned.known, planned.missing) == (2, 2, 0, 2)
    assert not any(isinstance(event, Noticed) for event in events)


def test_a_model_that_cannot_answer_is_refused_before_anything_runs() -> None:
    model = ScriptedModel(solve, kinds=("loglikelihood",))
    with pytest.raises(ModelError, match="cannot answer generation requests.*toy_generation.*it answers loglikelihood"):
        run(model, toy_choice_task(2), toy_generation_task(2))
    assert model.asked == []


def test_faults_of_model_and_tasks_come_together() -> None:
    with pytest.raises(UserError) as caught:
        evaluate("no-such-model", "no-such-task", store=":memory:")
    text = str(caught.value)
    assert 'unknown task "no-such-task"' in text
    assert 'unknown model "no-such-model"' in text


def test_an_empty_task_gives_nulls() -> None:
    result = run(ScriptedModel(solve), toy_choice_task(0))
    assert result.tasks[0].metric("acc").estimate.value is None
    assert result.counts.built == 0


def test_several_draws_are_several_requests() -> None:
    model = ScriptedModel(solve)
    result = run(model, toy_generation_task(3, draws=4))
    assert len(model.asked) == 12
    assert result.tasks[0].metric("exact_match").estimate.n == 3


def test_a_metric_may_report_several_values() -> None:
    """Toy choices have the right answer at positions 0 to 3 in turn, so a perfect model predicts each equally often."""
    task = toy_choice_task(8)
    places = [task.build(document).gold for document in task.documents()]
    listed = replace(task, scoring=replace(task.scoring, metrics=(MetricSpec("acc"), MetricSpec("positions"))))
    found = {metric.metric: metric.estimate.value for metric in run(ScriptedModel(solve), listed).tasks[0].metrics}
    assert found == {"acc": 1.0, **{f"position_{place}": places.count(place) / 8 for place in range(4)}}


class InTwoBatches(FullSchedule):
    """The last documents of every task first, then the others."""

    def __init__(self, session: Session, setup: Setup) -> None:
        super().__init__(session, setup)
        documents = [task.documents() for task in setup.tasks]
        parts = {"1: the last": slice(3, None), "2: the first": slice(3)}
        self._batches = iter(
            [
                Batch({index: partial(list, own[part]) for index, own in enumerate(documents)}, title)
                for title, part in parts.items()
            ]
        )
        self.observed: list[int] = []

    def observe(self, built: Sequence[BuiltTask], executed: Executed) -> None:
        self.observed.append(sum(len(item.documents) for item in built))


def test_a_run_in_batches_scores_what_a_full_run_scores() -> None:
    task, schedules = toy_choice_task(8), []

    def schedule(session: Session, setup: Setup) -> InTwoBatches:
        schedules.append(InTwoBatches(session, setup))
        return schedules[0]

    results = []
    for features in (RunFeatures(), RunFeatures(schedule)):
        with Store(":memory:") as store:
            session = Session(make_spec("scripted", [task.card.name]), store, ignore, features=features)
            results.append(run_session(session, [task], ScriptedModel(lambda request: -1.0)))
    full, parts = results
    assert schedules[0].observed == [5, 3]
    assert parts.tasks[0].metrics == full.tasks[0].metrics and parts.tasks[0].prompts == full.tasks[0].prompts
    assert parts.counts == full.counts and parts.manifest["tasks"] == full.manifest["tasks"]


def test_analyses_add_to_the_result_and_one_that_raises_costs_its_own_part() -> None:
    def count(outcome: RunOutcome) -> Contribution:
        return Contribution(notices=(f"{outcome.requested} asked",), lines=("a line",))

    def broken(outcome: RunOutcome) -> Contribution:
        raise RuntimeError("no")

    features = RunFeatures(analyses=(Analysis("the ghost", broken), Analysis("the count", count)))
    task = toy_choice_task(2)
    with Store(":memory:") as store:
        session = Session(make_spec("scripted", [task.card.name]), store, ignore, features=features)
        result = run_session(session, [task], ScriptedModel(lambda request: -1.0))
    assert result.notices == (f"{result.counts.asked} asked",)
    assert [item.lines for item in result.contributions] == [("a line",)]
    assert [problem.text for problem in result.run_problems] == ["the ghost: could not be made: RuntimeError: no"]
