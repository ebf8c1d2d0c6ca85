"""Faults of servers that need more than a status: connections, encodings, restarts, slow answers, silence."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import assay
from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood
from assay.core.responses import Failure
from assay.run.events import Event, Progressed
from assay.testing import toy_generation_task
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json, ids_of
from tests.models.http.faults import answer, first
from tests.models.http.test_client import generated, score_some

Open = Callable[..., Any]


def test_one_request_that_always_fails_does_not_stop_the_others(opened: Open) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        return await answer(500)(request) if body.get("prompt") == ids_of("text 3", True) else None

    found, _ = generated(opened, fault, count=30, max_retries=2)
    assert [index for index, item in enumerate(found) if isinstance(item, Failure)] == [3]
    assert found[3].kind == "server_error" and "(asked 3 times)" in found[3].message


def test_one_request_that_is_rate_limited_for_ever_does_not_end_the_run(opened: Open) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        await asyncio.sleep(0.02)
        return await answer(429)(request) if body.get("prompt") == ids_of("text 1", True) else None

    with FaultServer() as server:
        model = opened(server, num_concurrent=4, patience=0.6)
        assert model.capabilities
        server.fault = fault
        found = answers(model, [Generation(f"text {number}", max_tokens=1) for number in range(80)])
    assert [index for index, item in enumerate(found) if isinstance(item, Failure)] == [1]
    assert (found[1].kind, found[1].retryable) == ("rate_limited", True)


def test_a_server_that_is_away_for_a_moment_is_waited_for(opened: Open) -> None:
    server = FaultServer()
    with server:
        model = opened(server, backoff=0.05, max_retries=30)
        assert model.capabilities
    restarted = FaultServer(port=server.port)
    timer = threading.Timer(0.5, restarted.__enter__)
    timer.start()
    try:
        score_some(model, 10)
        rejected = model.description()["requests"]["rejected"]
    finally:
        timer.join()
        restarted.__exit__()
    assert rejected["unreachable"] > 0


@pytest.mark.parametrize("form", ["gzip", "chunked", "close", "bom"])
def test_every_form_of_a_sound_answer_is_read(opened: Open, form: str) -> None:
    class Formed(FaultServer):
        async def _handle(self, request: web.Request) -> web.StreamResponse:
            sound = await super()._handle(request)
            assert isinstance(sound, web.Response) and isinstance(sound.body, bytes)
            if form == "gzip":
                headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
                return web.Response(status=sound.status, body=gzip.compress(sound.body), headers=headers)
            if form == "close":
                sound.force_close()
                return sound
            if form == "bom":
                return web.Response(status=sound.status, body=b"\xef\xbb\xbf" + sound.body)
            reply = web.StreamResponse(status=sound.status)
            reply.enable_chunked_encoding()
            await reply.prepare(request)
            for place in range(0, len(sound.body), 50):
                await reply.write(sound.body[place : place + 50])
            return reply

    with Formed() as server:
        score_some(opened(server), 20)


async def hang_after_headers(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b"{")
    await asyncio.sleep(60)
    return response


def test_a_hang_after_the_headers_ends_with_the_attempt(opened: Open) -> None:
    (found,), sent = generated(opened, first(1, hang_after_headers), timeout=1.0)
    assert not isinstance(found, Failure) and sent == 2


def test_spaces_that_keep_a_connection_alive_are_no_fault(opened: Open) -> None:
    """As OpenRouter: headers at once, spaces while the model computes, then the answer."""

    async def fault(request: web.Request, body: Json, number: int) -> web.StreamResponse | None:
        if number != 0:
            return None
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(5):
            await response.write(b"   \n")
            await asyncio.sleep(0.05)
        await response.write(json.dumps({"choices": [{"text": "late", "finish_reason": "stop"}]}).encode())
        return response

    (found,), sent = generated(opened, fault)
    assert (found.text, sent) == ("late", 1)


def test_timeouts_are_asked_again_twice_since_each_may_be_paid_for(opened: Open) -> None:
    from tests.models.http.faults import always, hang

    (found,), sent = generated(opened, always(hang), timeout=0.3)
    assert (found.kind, found.retryable, sent) == ("timeout", True, 3)


def test_a_tls_error_ends_the_run_at_once(opened: Open) -> None:
    with FaultServer() as server:
        model = opened(server, base_url=server.url.replace("http:", "https:"))
        with pytest.raises(ModelError, match="TLS"):
            assert model.capabilities


def test_a_server_that_restarts_with_another_tokenizer_is_noticed(opened: Open) -> None:
    with FaultServer() as server:
        model = opened(server, max_retries=0)
        assert model.capabilities

        def spoil(body: Json, sound: Json) -> Json:
            return {**sound, "usage": {"prompt_tokens": len(body["prompt"]) + 1, "completion_tokens": 1}}

        server.spoil = spoil
        found = answers(model, [Loglikelihood("a", "b")])
    assert isinstance(found[0], Failure) and found[0].kind == "token_count"


def test_another_model_in_the_answers_is_a_notice(opened: Open) -> None:
    number = iter(range(100))

    def spoil(body: Json, sound: Json) -> Json:
        return {**sound, "model": f"scripted-{next(number) % 2}", "system_fingerprint": "fp"}

    with FaultServer(spoil=spoil) as server:
        model = opened(server, "openai-chat")
        answers(model, [Generation(f"text {place}", max_tokens=1) for place in range(4)])
        (notice,) = model.notices()
    assert "several values of model" in notice and "scripted-0, scripted-1" in notice


def test_the_server_is_given_time_for_its_first_answer(opened: Open) -> None:
    async def slow(request: web.Request) -> None:
        await asyncio.sleep(1.5)

    (found,), sent = generated(opened, first(1, slow))
    assert not isinstance(found, Failure) and sent == 1


def test_a_wait_that_a_5xx_asks_for_is_kept(opened: Open) -> None:
    started = time.monotonic()
    assert generated(opened, first(1, answer(500, retry_after="0.6")))[1] == 2
    assert time.monotonic() - started > 0.6


def test_a_server_that_asks_for_no_wait_is_not_asked_without_pause(opened: Open) -> None:
    with pytest.raises(ModelError, match="patience"):
        generated(opened, first(10_000, answer(429, retry_after="0")), patience=1.0, backoff=0.1)


def test_a_wait_is_explained(opened: Open, tmp_path: Path) -> None:
    events: list[Event] = []
    with FaultServer() as server:
        server.fault = first(1, answer(429, retry_after="2.5"))
        assay.evaluate(
            opened(server, "openai-chat", num_concurrent=1),
            toy_generation_task(3),
            store=str(tmp_path / "s.db"),
            listener=events.append,
        )
    said = [event.waiting for event in events if isinstance(event, Progressed) and event.waiting]
    assert said[0].startswith("waiting ") and all("answered 429" in text for text in said)
    assert isinstance(events[-1], Event.__args__) and not getattr(events[-1], "waiting", "")  # type: ignore[attr-defined]


def test_a_hanging_answer_is_explained() -> None:
    from assay.models.http.traffic.client import Client, ClientSettings

    client = Client(ClientSettings("http://127.0.0.1:1/v1"))
    now = time.monotonic()
    assert client.why_waiting(now) == ""
    client._begun = {3: now - 70.0, 4: now - 1.0}
    assert client.why_waiting(now) == "2 in flight, the oldest for 70 s"
