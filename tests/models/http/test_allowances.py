"""Headers of rate limits slow requests down before a limit is hit; nonsense in them changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from multidict import CIMultiDict

from assay.models.http.spending.usage import Size
from assay.models.http.traffic.allowances import Allowances, read_buckets, reset_seconds
from tests.models.http.fault_server import FaultServer, Json
from tests.models.http.test_client import score_some

Open = Callable[..., Any]
NOW = 1_000_000_000.0  # 9 September 2001, 01:46:40 GMT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3.5s", 3723.5),
        ("20", 20.0),
        ("0.5", 0.5),
        ("2001-09-09T01:47:40Z", 60.0),
        ("2001-09-09T03:47:40+02:00", 60.0),
        (str(int(NOW) + 30), 30.0),
        (str((int(NOW) + 30) * 1000), 30.0),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("2001-09-09T01:46:00Z", None),
        ("9999-12-31T23:59:59Z", None),
        (str(int(NOW) - 30), None),
        ("1e300", None),
        ("", None),
        (None, None),
    ],
)
def test_a_reset_in_all_its_forms(text: str | None, seconds: float | None) -> None:
    assert reset_seconds(text, NOW) == (None if seconds is None else pytest.approx(seconds))


OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "6000",
    "x-ratelimit-remaining-tokens": "100",
    "x-ratelimit-reset-tokens": "59s",
}
ANTHROPIC = {
    "anthropic-ratelimit-output-tokens-limit": "8000",
    "anthropic-ratelimit-output-tokens-remaining": "0",
    "anthropic-ratelimit-output-tokens-reset": "2001-09-09T01:47:00Z",
}
GENERIC = {"RateLimit-Limit": "10, 10;w=60", "RateLimit-Remaining": "0", "RateLimit-Reset": "7"}


def waits(headers: dict[str, str], size: Size, others: int = 0) -> float:
    allowances = Allowances()
    allowances.learn(CIMultiDict(headers), 100.0, NOW, Size(), others)
    return allowances.wait(size, 100.0)


@pytest.mark.parametrize(
    ("headers", "size", "seconds"),
    [
        (OPENAI, Size(100, 0), 0.0),
        (OPENAI, Size(150, 50), 1.0),  # 100 tokens are missing, 100 come per second
        (OPENAI, Size(50_000, 0), 59.0),  # more than the limit: not longer than until it is full
        (ANTHROPIC, Size(50, 0), 0.0),
        (ANTHROPIC, Size(50, 400), 1.0),
        (GENERIC, Size(), 0.7),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "5"}, Size(), 5.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "3000"}, Size(), 60.0),
        ({"x-ratelimit-remaining": "0"}, Size(), 0.0),
        ({"x-ratelimit-remaining": "-1", "x-ratelimit-limit": "-1", "x-ratelimit-reset": "60"}, Size(), 0.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-limit": "0", "x-ratelimit-reset": "60"}, Size(), 0.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-limit": "9", "x-ratelimit-reset": "-60"}, Size(), 0.0),
        ({"x-ratelimit-remaining": "x", "x-ratelimit-limit": "9", "x-ratelimit-reset": "60"}, Size(), 0.0),
        ({}, Size(9, 9), 0.0),
    ],
)
def test_the_wait_until_a_request_fits(headers: dict[str, str], size: Size, seconds: float) -> None:
    assert waits(headers, size) == pytest.approx(seconds, rel=0.02)


def test_requests_in_flight_are_subtracted() -> None:
    assert waits(OPENAI, Size(1, 0), others=58) == 0 < waits(OPENAI, Size(1, 0), others=59)


def test_every_reset_is_over_one_day() -> None:
    allowances = Allowances()
    allowances.learn({"ratelimit-remaining": "0", "ratelimit-reset": "9"}, 100.0, NOW, Size(), 0)
    assert [allowances.wait(Size(), at) for at in (100.0, 108.0, 109.0)] == [9.0, 1.0, 0.0]
    assert [name for name, _ in read_buckets(OPENAI, 0.0, NOW)] == ["x-ratelimit-{}-requests", "x-ratelimit-{}-tokens"]


def headed(headers: Callable[[], dict[str, str]]) -> Any:
    """A fault server's sound answers with headers."""
    from aiohttp import web

    class Headed(FaultServer):
        async def _handle(self, request: web.Request) -> web.StreamResponse:
            response = await super()._handle(request)
            response.headers.update(headers())
            return response

    return Headed


def test_a_limit_that_the_headers_state_is_not_hit(opened: Open) -> None:
    """A server that allows 40 requests at once and 40 more per second."""
    state = {"left": 40.0, "at": time.monotonic()}

    def headers() -> dict[str, str]:
        missing = 40 - state["left"]
        return {
            "x-ratelimit-limit-requests": "40",
            "x-ratelimit-remaining-requests": str(int(max(0, state["left"]))),
            "x-ratelimit-reset-requests": f"{int(missing / 40 * 1000) + 1}ms",
        }

    from tests.models.http.faults import answer

    async def fault(request: Any, body: Json, number: int) -> Any:
        now = time.monotonic()
        state.update(left=min(40.0, state["left"] + (now - state["at"]) * 40), at=now)
        state["left"] -= 1
        return await answer(429)(request) if state["left"] < -1 else None

    with headed(headers)() as server:
        model = opened(server, num_concurrent=16)
        assert model.capabilities
        server.fault = fault
        score_some(model, 100)
        report = model.description()
    assert report["requests"]["rejected"].get("rate_limited", 0) <= 3
    assert report["concurrency"]["held"] > 0


NONSENSE = [
    {"x-ratelimit-remaining-requests": "-1", "x-ratelimit-limit-requests": "-1", "x-ratelimit-reset-requests": "0"},
    {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-limit-tokens": "0", "x-ratelimit-reset-tokens": "0s"},
    {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"},
    {"ratelimit-remaining": "0", "ratelimit-limit": "1", "ratelimit-reset": "Wed, 21 Oct 2015 07:28:00 GMT"},
    {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "1999-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("headers", NONSENSE)
def test_nonsense_in_headers_stops_nothing(opened: Open, headers: dict[str, str]) -> None:
    started = time.monotonic()
    with headed(lambda: headers)() as server:
        score_some(opened(server), 3)
    assert time.monotonic() - started < 20
