"""Execution: answers are stored, and every error of a model is reported."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy
import pytest

from assay.core.identity import Fingerprint
from assay.core.protocols import Capabilities, Model, Progress, ReportsWorkload, Workload
from assay.core.requests import REQUEST_KINDS, Classification, Generation, Instance, Loglikelihood, Request
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text
from assay.run.events import Event, Listener, Progressed, ignore
from assay.run.execute import Executed, execute
from assay.run.plan import RequestPlan, find_keys, make_plan
from assay.store.response_table import ResponseWriter
from assay.store.store import Store
from assay.testing import ScriptedModel

Stream = Iterator[tuple[int, Output | Failure]]
FINE = Logprob(-1.0, 1, False)


@dataclass(frozen=True)
class StreamModel:
    """A model whose whole stream is a function."""

    stream: Callable[[Sequence[Request]], Stream]
    fingerprint: ClassVar = Fingerprint("stream")
    capabilities: ClassVar = Capabilities(frozenset(REQUEST_KINDS))

    def respond(self, requests: Sequence[Request]) -> Stream:
        return self.stream(requests)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class MeasuringModel(StreamModel):
    """A model that says how far it has come: `stream` calls what is in `watchers`."""

    watchers: list[Callable[[Progress], None]] = field(default_factory=list)

    def workload(self, requests: Sequence[Request]) -> Workload:
        return Workload(len(requests), len(requests), 0, 1.0)

    def watch(self, listener: Callable[[Progress], None]) -> None:
        self.watchers[:] = [listener]


def reporting(reports: Sequence[Progress], pause: float = 0.0, loading: float = 0.0) -> MeasuringModel:
    """Reports, with a pause before each but the first, and then answers everything."""
    watchers: list[Callable[[Progress], None]] = []

    def stream(asked: Sequence[Request]) -> Stream:
        time.sleep(loading)
        for place, report in enumerate(reports):
            time.sleep(pause if place else 0.0)
            watchers[0](report)
        yield from ((place, FINE) for place in range(len(asked)))

    return MeasuringModel(stream, watchers)


def message(plan: RequestPlan, model: Model) -> tuple[list[Progressed], Executed]:
    events: list[Event] = []
    with Store() as store:
        executed = ask(plan, model, store, events.append)
    return [event for event in events if isinstance(event, Progressed)], executed


def ask(plan: RequestPlan, model: Model, store: Store, listener: Listener) -> Executed:
    with ResponseWriter(store.responses, model.fingerprint) as writer:
        return execute(plan, model, writer, listener)


def plan_of(count: int) -> RequestPlan:
    asked = tuple(Loglikelihood("q", f" {number}") for number in range(count))
    keys = find_keys([Instance("t", 0, asked)], StreamModel.fingerprint.digest)
    return make_plan(keys.built, keys.requests, set())


def kept_after(model: StreamModel, plan: RequestPlan, error: type[BaseException], match: str) -> int:
    with Store() as store:
        with pytest.raises(error, match=match):
            ask(plan, model, store, ignore)
        return store.responses.count()


def test_nothing_missing_requests_nothing() -> None:
    model = ScriptedModel(lambda request: -1.0)
    with Store() as store:
        executed = ask(plan_of(0), model, store, ignore)
    assert (executed.failures, executed.work, executed.seconds) == ({}, 0, 0.0)
    assert model.asked == []


def test_any_order_will_do() -> None:
    plan = plan_of(50)
    backwards = StreamModel(lambda asked: ((i, Logprob(-float(i), 1, False)) for i in reversed(range(len(asked)))))
    with Store() as store:
        executed = ask(plan, backwards, store, ignore)
        found = store.responses.get(list(plan.missing))
    assert [found[key].total for key in plan.missing] == [-float(i) for i in range(50)]  # type: ignore[union-attr]
    assert (executed.failures, executed.work) == ({}, sum(plan.works))


def test_a_request_that_is_answered_twice_and_differently_has_no_answer() -> None:
    other, plan = Logprob(-2.0, 1, False), plan_of(3)
    with Store() as store:
        model = StreamModel(lambda asked: iter([(0, FINE), (1, FINE), (0, other), (2, FINE)]))
        executed = ask(plan, model, store, ignore)
        assert store.responses.known(plan.missing) == set(list(plan.missing)[1:])
    (failure,) = executed.failures.values()
    assert failure.kind == "answered_twice" and "-1.0" in failure.message and "-2.0" in failure.message
    assert executed.answers[next(iter(plan.missing))] is failure


def test_the_same_answer_twice_does_no_harm() -> None:
    with Store() as store:
        executed = ask(plan_of(2), StreamModel(lambda asked: iter([(0, FINE), (0, FINE), (1, FINE)])), store, ignore)
        assert (executed.failures, store.responses.count()) == ({}, 2)


@pytest.mark.parametrize("stray", [(-1, FINE), (3, FINE), ("1", FINE), (1.0, FINE), FINE, None, (0, FINE, 1)])
def test_after_an_answer_to_nothing_no_answer_is_kept(stray: object) -> None:
    plan = plan_of(3)
    with Store() as store:
        executed = ask(plan, StreamModel(lambda asked: iter([(1, FINE), stray])), store, ignore)  # type: ignore[list-item]
        assert store.responses.count() == 0
    assert {failure.kind for failure in executed.failures.values()} == {"misnumbered"}
    assert executed.failures.keys() == executed.answers.keys() == plan.missing.keys()
    assert "expected (place, answer), places 0 to 2" in executed.failures[next(iter(plan.missing))].message


def test_a_model_that_returns_no_stream_fails_every_request() -> None:
    with Store() as store:
        executed = ask(plan_of(2), StreamModel(lambda asked: None), store, ignore)  # type: ignore[arg-type, return-value]
    assert [failure.kind for failure in executed.failures.values()] == ["misnumbered"] * 2


def test_places_may_be_numbers_of_numpy() -> None:
    with Store() as store:
        model = StreamModel(lambda asked: ((place, FINE) for place in numpy.arange(2)))
        assert ask(plan_of(2), model, store, ignore).failures == {}


def test_a_request_without_an_answer_is_a_failure() -> None:
    plan = plan_of(3)
    with Store() as store:
        executed = ask(plan, StreamModel(lambda asked: iter([(0, FINE), (2, FINE)])), store, ignore)
        assert store.responses.count() == 2
    assert {key: failure.kind for key, failure in executed.failures.items()} == {list(plan.missing)[1]: "no_answer"}


@pytest.mark.parametrize("total", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_a_failure(total: float) -> None:
    model = StreamModel(lambda asked: iter([(0, Logprob(total, 1, False)), (1, FINE)]))
    with Store() as store:
        executed = ask(plan_of(2), model, store, ignore)
        assert store.responses.count() == 1
    assert [failure.kind for failure in executed.failures.values()] == ["not_finite"]


@pytest.mark.parametrize("error", [RuntimeError("out of luck"), KeyboardInterrupt("out of luck")])
def test_what_was_answered_before_a_crash_is_kept(error: BaseException) -> None:
    def stream(asked: Sequence[Request]) -> Stream:
        for place in range(60):
            yield place, FINE
        raise error

    assert kept_after(StreamModel(stream), plan_of(100), type(error), "out of luck") == 60


def test_progress_ends_with_everything_counted() -> None:
    events: list[Event] = []
    model = ScriptedModel(lambda request: Failure("error", "no") if request.continuation == " 3" else -1.0)  # type: ignore[union-attr]
    plan = plan_of(20)
    with Store() as store:
        ask(plan, model, store, events.append)
    assert events[0] == Progressed("requests", 0, 20, 0, sum(plan.works), 0)
    assert events[-1] == Progressed("requests", 20, 20, sum(plan.works), sum(plan.works), 1)


def test_a_model_that_measures_is_loading_until_it_reports() -> None:
    model = reporting([Progress(0.0, 50.0, 0, 5), Progress(50.0, 50.0, 5, 5)])
    assert isinstance(model, ReportsWorkload)
    events, _ = message(plan_of(2), model)
    assert [event.is_loading for event in events] == [True, False, False]
    assert events[1] == Progressed("requests", 0, 2, 0.0, 50.0, 0, 0, 5)
    assert events[-1] == Progressed("requests", 2, 2, 50.0, 50.0, 0, 5, 5)


def test_a_model_that_does_not_measure_is_never_said_to_load() -> None:
    events, executed = message(plan_of(2), ScriptedModel(lambda request: -1.0))
    assert not any(event.is_loading or event.tokens_total for event in events)
    assert (executed.unit, executed.tokens) == ("work", 0)


def test_progress_comes_between_answers_and_never_falls() -> None:
    reports = [Progress(0, 90, 0, 9), Progress(60, 90, 6, 9), Progress(30, 80, 3, 8), Progress(80, 80, 8, 8)]
    events, _ = message(plan_of(1), reporting(reports, pause=0.11))
    assert [(event.work_done, event.work_total) for event in events[1:-1]] == [(0, 90), (60, 90), (60, 80), (80, 80)]
    assert [event.tokens for event in events[1:]] == [0, 6, 6, 8, 8]


def test_many_reports_make_few_events() -> None:
    reports = [Progress(done, 20_000, done, 20_000) for done in range(20_000)]
    started = time.perf_counter()
    events, _ = message(plan_of(1), reporting(reports))
    assert len(events) <= 3 + 10 * (time.perf_counter() - started)


def test_speed_is_measured_without_loading() -> None:
    reports = [Progress(7.0, 50.0, 1, 5), Progress(50.0, 50.0, 5, 5)]
    started = time.perf_counter()
    _, executed = message(plan_of(2), reporting(reports, pause=0.05, loading=0.2))
    assert (executed.unit, executed.work, executed.tokens) == ("operations", 43.0, 5)
    assert 0.05 <= executed.seconds <= time.perf_counter() - started - 0.2


def test_what_a_model_does_after_the_run_is_ignored() -> None:
    events: list[Event] = []
    reports: list[Progress] = []
    model, plan = reporting(reports), plan_of(2)
    with Store() as store:
        ask(plan, model, store, events.append)
    before = len(events)
    reports.append(Progress(0.0, 5.0, 0, 5))
    assert len(list(model.respond(list(plan.missing.values())))) == 2
    assert len(events) == before


@pytest.mark.parametrize("wrong", [None, 7, Text("yes"), "text"])
def test_an_answer_of_the_wrong_kind_is_a_failure_and_costs_no_other_its_place(wrong: object) -> None:
    model = StreamModel(lambda requests: iter([(0, FINE), (1, wrong), (2, FINE)]))  # type: ignore[list-item]
    with Store() as store:
        executed = ask(plan_of(3), model, store, ignore)
        assert store.responses.count() == 2
    (failure,) = executed.failures.values()
    assert failure.kind == "invalid"
    assert "loglikelihood" in failure.message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (LabelScores((-0.1,)), "invalid"),
        (LabelScores((-0.1, float("nan"))), "not_finite"),
        (Logprob(-1.0, 1, True), "invalid"),
        (Text("good"), "invalid"),
    ],
)
def test_scores_that_do_not_fit_the_labels_are_a_failure(answer: Output, kind: str) -> None:
    request = Classification("A fine film.", ("bad", "good"))
    plan = make_plan(1, {b"key": request}, set())
    with Store() as store:
        executed = ask(plan, StreamModel(lambda requests: iter([(0, answer)])), store, ignore)
        assert store.responses.count() == 0
    assert executed.failures[b"key"].kind == kind


def test_scores_of_a_head_are_stored() -> None:
    request = Classification("A fine film.", ("bad", "good"))
    plan = make_plan(1, {b"key": request}, set())
    with Store() as store:
        ask(plan, StreamModel(lambda requests: iter([(0, LabelScores((-2.0, -0.1), 5))])), store, ignore)
        assert store.responses.get([b"key"]) == {b"key": LabelScores((-2.0, -0.1), 5)}


def test_answers_at_hand_equal_those_read_back_from_the_store() -> None:
    odd = Logprob(-1, 1, 1)  # type: ignore[arg-type]
    with Store() as store:
        executed = ask(plan_of(1), StreamModel(lambda requests: iter([(0, odd)])), store, ignore)
        (key, output), *_ = executed.answers.items()
        read = store.responses.get([key])[key]
    assert repr(output) == repr(read) == repr(Logprob(-1.0, 1, True))


def test_halves_of_a_character_are_joined_before_they_are_scored() -> None:
    asked = Generation("q")
    keys = find_keys([Instance("t", 0, (asked,))], StreamModel.fingerprint.digest)
    plan = make_plan(keys.built, keys.requests, set())
    with Store() as store:
        model = StreamModel(lambda requests: iter([(0, Text("\ud83d\ude00 \ud83d"))]))
        executed = ask(plan, model, store, ignore)
        (key, output), *_ = executed.answers.items()
        assert output == store.responses.get([key])[key] == Text("\U0001f600 \ud83d")
