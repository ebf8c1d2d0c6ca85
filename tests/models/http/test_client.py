"""The client asks again where that helps, and only there; no answer is lost, stored twice or wrong."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood
from assay.core.responses import Failure
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json, ids_of, total
from tests.models.http.faults import always, answer, cut, drip, first, hang, reset, sometimes

Open = Callable[..., Any]


def score_some(model: Any, count: int) -> None:
    """Scores distinct texts; each must have its own exact log-likelihood."""
    requests = [Loglikelihood(f"text {number}", f" is {number * 7}") for number in range(count)]
    found = answers(model, requests)
    assert [answer for answer in found if isinstance(answer, Failure)] == []
    wanted = [total(ids_of(item.prompt + item.continuation, True), len(item.continuation)) for item in requests]
    assert [answer.total for answer in found] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
def test_no_answer_is_lost_or_wrong_with_a_third_of_faults(opened: Open, kind: str) -> None:
    with FaultServer(kind) as server:
        model = opened(server, num_concurrent=32, max_retries=30)
        assert model.fingerprint.settings["likelihood"] == kind
        server.fault = sometimes(0.3)
        score_some(model, 300)
        rejected = model.description()["requests"]["rejected"]
    assert {"rate_limited", "server_error", "malformed", "overloaded", "cut"} <= set(rejected)


@pytest.mark.slow
def test_no_answer_of_ten_thousand_is_lost_or_wrong(opened: Open) -> None:
    with FaultServer() as server:
        model = opened(server, num_concurrent=64)
        assert model.capabilities
        server.fault = sometimes(0.3)
        score_some(model, 10_000)


def test_requests_in_flight_stay_below_the_limit(opened: Open) -> None:
    with FaultServer() as server:
        score_some(opened(server, num_concurrent=3), 30)
        assert server.most_at_once <= 3


def test_a_rate_limit_pauses_everything_and_cuts_the_limit_once(opened: Open) -> None:
    with FaultServer() as server:
        model = opened(server, num_concurrent=8)
        assert model.capabilities
        begun = len(server.seen)
        moments: list[float] = []

        async def fault(request: Any, body: Json, number: int) -> Any:
            moments.append(time.monotonic())
            return await answer(429, retry_after="0.5")(request) if number < begun + 4 else None

        server.fault = fault
        score_some(model, 20)
        concurrency = model.description()["concurrency"]
    assert (concurrency["pauses"], concurrency["lowest"]) == (1, 4)
    assert max(late - early for early, late in itertools.pairwise(moments)) >= 0.45


def ended(opened: Open, fault: Any, count: int = 30, **arguments: Any) -> tuple[str, int]:
    """The error that ends a run, and the number of requests that were sent after the probe."""
    with FaultServer() as server:
        model = opened(server, num_concurrent=2, **arguments)
        assert model.capabilities
        begun = len(server.seen)
        server.fault = fault
        with pytest.raises(ModelError) as caught:
            list(model.respond([Generation(f"text {number}", max_tokens=1) for number in range(count)]))
        return str(caught.value), len(server.seen) - begun


QUOTA = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota"}}
ENDING = {
    "OPENAI_API_KEY": answer(401),
    "Set the key": answer(403),
    "Check model and base_url": answer(404),
    "Raise the quota": answer(429, QUOTA),
    "redirects to http://elsewhere/": answer(302, "", Location="http://elsewhere/"),
    "asks to wait 86400 seconds": answer(429, retry_after="86400"),
}


@pytest.mark.parametrize("message", ENDING)
def test_what_cannot_succeed_ends_the_run_after_one_request_per_worker(opened: Open, message: str) -> None:
    error, sent = ended(opened, always(ENDING[message]))
    assert message in error and "run the command again to continue" in error
    assert sent <= 2


def test_identical_failures_without_a_success_end_the_run(opened: Open) -> None:
    error, sent = ended(opened, always(answer(400, {"error": {"message": "unsupported parameter: stop"}})), 100)
    assert "20 requests in a row failed alike" in error and "unsupported parameter" in error
    assert sent <= 22


def test_a_rate_limit_for_ever_ends_the_run_within_the_users_patience(opened: Open) -> None:
    error, _ = ended(opened, always(answer(429)), patience=0.5)
    assert "patience in --model_args" in error


def generated(opened: Open, fault: Any, count: int = 1, **arguments: Any) -> tuple[list[Any], int]:
    """Answers to generations, and the number of requests that they took."""
    with FaultServer() as server:
        model = opened(server, num_concurrent=1, **arguments)
        assert model.capabilities
        begun, server.seen = 0, []
        server.fault = fault
        found = answers(model, [Generation(f"text {number}", max_tokens=1) for number in range(count)])
        return found, len(server.seen) - begun


@pytest.mark.parametrize("make", [answer(500), cut, answer(200, "<html>"), answer(200, {"choices": []}), answer(408)])
def test_a_passing_fault_is_asked_again_and_bounded(opened: Open, make: Any) -> None:
    assert generated(opened, first(1, make))[1] == 2
    (found,), sent = generated(opened, always(make), max_retries=2)
    assert isinstance(found, Failure) and found.retryable and sent == 3


def test_a_connection_that_is_closed_before_any_byte_is_used_again_at_once(opened: Open) -> None:
    (found,), sent = generated(opened, first(1, reset), max_retries=0)
    assert not isinstance(found, Failure) and sent == 2


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("too_long", answer(400, {"error": {"message": "This model's maximum context length is 8 tokens"}})),
        ("too_long", answer(400, {"error": {"type": "exceed_context_size_error"}})),
        ("too_long", answer(413)),
        ("rejected", answer(422, {"detail": "extra field"})),
    ],
)
def test_a_request_that_cannot_succeed_is_sent_once_and_others_go_on(opened: Open, kind: str, make: Any) -> None:
    found, sent = generated(opened, first(1, make), count=3)
    assert (found[0].kind, found[0].retryable, sent) == (kind, False, 3)
    assert not any(isinstance(other, Failure) for other in found[1:])


@pytest.mark.parametrize("make", [hang, drip])
def test_an_attempt_has_an_end(opened: Open, make: Any) -> None:
    (found,), sent = generated(opened, first(1, make), timeout=1.5)
    assert not isinstance(found, Failure) and sent == 2


def test_closing_the_stream_ends_the_requests(opened: Open) -> None:
    with FaultServer() as server:
        model = opened(server, num_concurrent=2)
        assert model.capabilities
        begun = len(server.seen)
        stream = model.respond([Generation(f"text {number}", max_tokens=1) for number in range(400)])
        next(stream)
        stream.close()
        model.close()
        assert len(server.seen) - begun < 400  # at most 256 answers wait to be taken
