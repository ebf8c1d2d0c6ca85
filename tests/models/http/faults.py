"""Faults of servers, each a reply in the server's place, for `FaultServer`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from tests.models.http.fault_server import Fault, Json, Reply

Maker = Callable[[web.Request], Any]


def answer(status: int, body: Any = None, **headers: str) -> Maker:
    """A status with an error body."""
    content = {"error": {"message": "no", "type": "test"}} if body is None else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def reply(request: web.Request) -> Reply:
        if isinstance(content, str):
            return web.Response(status=status, text=content, headers=named, content_type="text/html")
        return web.json_response(content, status=status, headers=named)

    return reply


async def reset(request: web.Request) -> Reply:
    """The connection is closed before any byte."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut(request: web.Request) -> Reply:
    """A body that is shorter than its content-length."""
    response = web.StreamResponse(headers={"Content-Length": "500", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.abort()
    return response


async def hang(request: web.Request) -> Reply:
    """No answer at all."""
    await asyncio.sleep(60)
    return web.Response()


async def drip(request: web.Request) -> Reply:
    """One byte now and then, for ever."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(600):
        await response.write(b" ")
        await asyncio.sleep(0.1)
    return response


# Rate limits and overload, after which all requests pause, without long waits.
PAUSING: Sequence[Maker] = (
    answer(429, retry_after_ms="5"),
    answer(429, retry_after="0"),
    answer(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    answer(429),
    answer(503, {"error": {"message": "loading model", "code": 503}}),
    answer(529),
)
# Other faults after which asking again helps.
RETRIED: Sequence[Maker] = (
    answer(500),
    answer(502, "<html>bad gateway</html>"),
    answer(200, "<html>not JSON</html>"),
    answer(200, {"error": {"message": "internal", "code": 500}}),
    answer(200, {"choices": []}),
    answer(200, '{"choices": [{"index": 0, "text": '),
    reset,
    cut,
)
PASSING = (*PAUSING, *RETRIED)


def always(make: Maker) -> Fault:
    async def fault(request: web.Request, body: Json, number: int) -> Reply:
        reply: Reply = await make(request)
        return reply

    return fault


def first(count: int, make: Maker) -> Fault:
    """A fault of the first requests."""

    async def fault(request: web.Request, body: Json, number: int) -> Reply:
        reply: Reply = await make(request) if number < count else None
        return reply

    return fault


def sometimes(share: float, makers: Sequence[Maker] = PASSING, seed: int = 1) -> Fault:
    """Random faults in a share of the requests."""
    draw = random.Random(seed)

    async def fault(request: web.Request, body: Json, number: int) -> Reply:
        reply: Reply = await draw.choice(makers)(request) if draw.random() < share else None
        return reply

    return fault
