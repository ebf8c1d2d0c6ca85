"""Sends many exchanges: a number of workers take them from one iterator and hand over each answer as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from assay.models.http.exchange import Exchange
from assay.models.http.traffic.client import Client
from assay.models.http.traffic.loop_thread import Outbox

# When the run must end, requests in flight have this long to bring answers that may have been paid for.
GRACE_SECONDS = 30.0


async def send_all(client: Client, tasks: Iterable[tuple[int, Exchange[Any]]], box: Outbox[tuple[int, Any]]) -> None:
    """Answers all tasks, as (index, answer) in the outbox, in the order in which they arrive.

    Raises:
        ModelError: if no request can succeed; answers that were in flight have been handed over before.
    """
    source = iter(tasks)
    workers = [asyncio.create_task(_work(client, source, box)) for _ in range(client.settings.most)]
    try:
        _, remaining = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        if remaining:
            await asyncio.wait(remaining, timeout=GRACE_SECONDS)
    finally:
        for worker in workers:
            worker.cancel()
        ended = await asyncio.gather(*workers, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _work(client: Client, source: Iterator[tuple[int, Exchange[Any]]], box: Outbox[tuple[int, Any]]) -> None:
    # All workers run in one thread and take from the same iterator between two awaits, so each task is taken once.
    for index, exchange in source:
        box.put((index, await client.ask(exchange)))
        await box.room()
        if client.stopped is not None:
            return
