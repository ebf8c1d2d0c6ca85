"""The contract checks catch every broken promise, and pass what is sound."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.protocols import Progress, Workload
from assay.core.requests import Generation, Instance, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Output, Text
from assay.testing import ScriptedModel, ToyTask, check_model, check_task, toy_choice_task

Answers = Iterator[tuple[int, Output | Failure]]
ASK = [Loglikelihood("a", "b"), Loglikelihood("a", "c")]
CAPABILITIES = Capabilities(frozenset({"loglikelihood", "generation"}))
FINGERPRINT = Fingerprint("careless")
LOAD = Workload(3, 4, 0, 1.0)
REPORTS = (Progress(0.0, 2.0, 0, 3), Progress(2.0, 2.0, 3, 3))


@dataclass(frozen=True)
class Careless:
    """A model whose whole stream is up to the test."""

    stream: Callable[[Sequence[Request]], Answers]
    capabilities: Capabilities = CAPABILITIES
    fingerprint: Fingerprint = FINGERPRINT

    def respond(self, requests: Sequence[Request]) -> Answers:
        return self.stream(requests)

    def close(self) -> None:
        pass


def constant(answer: Output | Failure) -> Careless:
    return Careless(lambda requests: ((index, answer) for index, _ in enumerate(requests)))


@dataclass(frozen=True)
class Measuring(ScriptedModel):
    """A model that reports what the test says, whatever it does."""

    load: Workload = LOAD
    reports: Sequence[Progress] = REPORTS
    watchers: list[Callable[[Progress], None]] = field(default_factory=list)

    def workload(self, requests: Sequence[Request]) -> Workload:
        return self.load

    def watch(self, listener: Callable[[Progress], None]) -> None:
        self.watchers[:] = [listener]

    def respond(self, requests: Sequence[Request]) -> Answers:
        for report in self.reports if self.watchers else ():
            self.watchers[0](report)
        yield from super().respond(requests)


def test_a_sound_model_that_measures_passes() -> None:
    check_model(Measuring(lambda request: -1.0), ASK)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"load": Workload(5, 4, 0, 1.0)}, "cannot need more than each alone"),
        ({"load": Workload(3, 4, 0, 0.0)}, "work takes operations"),
        ({"reports": ()}, "reported no progress"),
        ({"reports": (Progress(2.0, 3.0, 2, 3), Progress(1.0, 3.0, 3, 3))}, "is behind"),
        ({"reports": (Progress(4.0, 3.0, 2, 3),)}, "more is done than there is"),
        ({"reports": (Progress(1.0, 3.0, 4, 3),)}, "more tokens are done"),
    ],
)
def test_a_model_that_measures_wrongly_is_caught(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_model(Measuring(lambda request: -1.0, **changes), ASK)


def test_an_unanswered_request_is_caught() -> None:
    model = Careless(lambda requests: iter([(0, Logprob(-1.0, 1, False))] if requests else []))
    with pytest.raises(AssertionError, match=r"without an answer: \[1\]"):
        check_model(model, ASK)


def test_a_request_answered_twice_is_caught() -> None:
    model = Careless(lambda requests: iter([(0, Logprob(-1.0, 1, False))] * 2 if requests else []))
    with pytest.raises(AssertionError, match="answered twice"):
        check_model(model, ASK)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Text("x"), "expected a Logprob"),
        (Logprob(float("nan"), 1, False), "not_finite.*log-likelihood nan"),
        (Logprob(0.5, 1, False), "positive_logprob.*expected at most 0"),
        (Logprob(-0.5, -1, False), "token_count=-1"),
        (Logprob("-0.5", 1, False), "expected a number"),  # type: ignore[arg-type]
        (Logprob(-0.5, 0, False), "scored no token"),
        (Failure("error", "no"), "failed"),
    ],
)
def test_a_wrong_answer_is_caught(answer: Output | Failure, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_model(constant(answer), ASK)


def test_a_text_that_runs_over_its_stop_string_is_caught() -> None:
    with pytest.raises(AssertionError, match="stop string"):
        check_model(constant(Text("one. two")), [Generation("a", stop=(".",))])
    with pytest.raises(AssertionError, match="9 tokens"):
        check_model(constant(Text("one", token_count=9)), [Generation("a", max_tokens=3)])


def drifting(step: float, is_deterministic: bool) -> Careless:
    counter = itertools.count()

    def stream(requests: Sequence[Request]) -> Answers:
        for index, _ in enumerate(requests):
            yield index, Logprob(-1.0 - step * next(counter), 1, False)

    kinds = frozenset({"loglikelihood"})
    return Careless(stream, Capabilities(kinds, is_deterministic=is_deterministic))


def test_an_answer_that_changes_is_caught() -> None:
    with pytest.raises(AssertionError, match="when asked in reversed order"):
        check_model(drifting(0.1, is_deterministic=False), ASK)


def test_small_differences_pass_unless_the_model_says_it_has_none() -> None:
    check_model(drifting(1e-7, is_deterministic=False), ASK)
    with pytest.raises(AssertionError, match="when asked"):
        check_model(drifting(1e-7, is_deterministic=True), ASK)


def test_only_declared_kinds_are_requested() -> None:
    model = ScriptedModel(lambda request: -1.0, kinds=("rolling_loglikelihood",))
    check_model(model)
    assert {request.kind for request in model.asked} == {"rolling_loglikelihood"}


def test_a_first_token_that_is_scored_though_given_is_caught() -> None:
    scored = RollingLoglikelihood("a b", stands_on_prefix=False)
    check_model(ScriptedModel(lambda request: Logprob(-1.0, 1, False, prompt_tokens=1)), [scored])
    with pytest.raises(AssertionError, match="its first token is given"):
        check_model(ScriptedModel(lambda request: Logprob(-1.0, 2, False)), [scored])


def test_a_text_of_one_token_that_is_given_needs_no_other() -> None:
    only = Logprob(0.0, 0, True, prompt_tokens=1)
    check_model(ScriptedModel(lambda request: only), [RollingLoglikelihood("a", stands_on_prefix=False)])
    with pytest.raises(AssertionError, match="scored no token"):
        check_model(ScriptedModel(lambda request: only), [RollingLoglikelihood("a")])


def test_unknown_kinds_are_caught() -> None:
    with pytest.raises(AssertionError, match="telepathy"):
        check_model(ScriptedModel(lambda request: -1.0, kinds=("telepathy",)))


def broken(**changes: object) -> ToyTask:
    """The choice task with every instance changed."""
    task = toy_choice_task(4)
    return replace(task, builder=lambda document: replace(task.builder(document), **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"gold": 4}, "gold 4 is not one of 4 choices"),
        ({"gold": (0, -1)}, "gold -1"),
        ({"requests": ()}, "has no requests"),
        ({"requests": (Loglikelihood("a", "b"),)}, "1 requests for 4 choices"),
        ({"draws": 3}, "not a multiple of 3"),
        ({"document_id": 99}, "names another task"),
    ],
)
def test_a_wrong_instance_is_caught(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_task(broken(**changes))


def test_a_task_that_builds_differently_each_time_is_caught() -> None:
    counter = itertools.count()

    def build(document: Document) -> Instance:
        return Instance(document.task, document.id, (Loglikelihood(f"try {next(counter)}", "b"),))

    with pytest.raises(AssertionError, match="differently the second time"):
        check_task(replace(toy_choice_task(2), builder=build))


def test_documents_out_of_order_are_caught() -> None:
    task = toy_choice_task(3)
    with pytest.raises(AssertionError, match="ids are not 0, 1, 2"):
        check_task(replace(task, rows=task.rows[::-1]))
