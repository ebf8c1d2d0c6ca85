"""A thread that runs an event loop, so that synchronous code can use an asynchronous client.

In: coroutines. Out: their results, or a stream of what they hand over while they run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")

_SECONDS_BETWEEN_CHECKS = 1.0
_SECONDS_TO_END = 10.0
_SECONDS_OF_A_FULL_BOX = 0.005
# Answers that wait to be stored: beyond these no further request is sent, since a kill would lose what it brings.
_MOST_WAITING = 256


class Outbox(Generic[Item]):
    """Items on their way from the loop's thread to the caller's."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Item | None] = SimpleQueue()

    def put(self, item: Item) -> None:
        self.queue.put(item)

    async def room(self) -> None:
        """Waits until the caller has taken most items."""
        while self.queue.qsize() >= _MOST_WAITING:
            await asyncio.sleep(_SECONDS_OF_A_FULL_BOX)


class LoopThread:
    """An event loop in a daemon thread; started on first use. uvloop is used if it is installed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, coroutine: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
        """The result of a coroutine; waits for it, at most so many seconds."""
        future = self._start(coroutine)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def stream(
        self, work: Callable[[Outbox[Item]], Coroutine[Any, Any, None]], idle: Callable[[], None] = lambda: None
    ) -> Iterator[Item]:
        """Yields what a coroutine function puts into its outbox, then raises what it raised.

        Closing the iterator cancels the coroutine.

        Args:
            work: the coroutine function.
            idle: called about once a second while nothing arrives.
        """
        box: Outbox[Item] = Outbox()
        future = self._start(_signed_off(work, box))
        try:
            while True:
                try:
                    item = box.queue.get(timeout=_SECONDS_BETWEEN_CHECKS)
                except Empty:
                    if future.done() and box.queue.empty():
                        break
                    idle()
                    continue
                if item is None:
                    break
                yield item
            future.result()
        finally:
            future.cancel()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancels what still runs, then runs a last coroutine and ends the thread."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(_end(last), loop).result(_SECONDS_TO_END)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_SECONDS_TO_END)
        if not thread.is_alive():
            loop.close()

    def _start(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        if self._loop is None:
            self._loop = _new_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="assay-http", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


async def _signed_off(work: Callable[[Outbox[Item]], Coroutine[Any, Any, None]], box: Outbox[Item]) -> None:
    try:
        await work(box)
    finally:
        box.queue.put(None)


async def _end(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # What is cancelled first cannot open anything that `last` has closed.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
