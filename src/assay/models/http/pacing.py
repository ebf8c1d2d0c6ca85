"""How many requests are in flight: additive increase, multiplicative decrease, and one pause shared by all.

In: successes and rate limits. Out: a slot for each request. The limit doubles until the first rate limit, then grows by
one for every round of successes; a rate limit halves it once per pause, at most once per second, however many requests
it hits.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_START = 8
_CUT = 0.5
# After a pause the workers begin spread over this share of it, at most so many seconds.
_SPREAD, _MOST_SPREAD = 0.25, 2.0
# Requests that were in flight together are refused together: one sign, not many.
_SECONDS_BETWEEN_CUTS = 1.0


class Pacing:
    """Slots for requests; used by one event loop only.

    Attributes:
        most: highest number of requests in flight.
        limit: current number.
        lowest: lowest limit so far.
        pauses: number of pauses so far.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit: int = min(most, _START)
        self.lowest = self.limit
        self.pauses = 0
        self._active = 0
        self._successes = 0
        self._is_doubling = True
        self._resume = self._next_cut = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._random = random.Random()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for the end of a pause and for a free slot."""
        await self._enter()
        try:
            yield
        finally:
            self._active -= 1
            self._wake()

    def succeeded(self) -> None:
        """One more success; the limit grows after each round of them."""
        self._successes += 1
        if self._successes >= self.limit and self.limit < self.most:
            self._successes = 0
            self.limit = min(self.most, self.limit * 2 if self._is_doubling else self.limit + 1)
            self._wake()

    def pause(self, seconds: float) -> None:
        """Nothing is sent for some seconds; the limit is cut unless a pause is on already."""
        now = asyncio.get_running_loop().time()
        if now >= self._resume:
            self.pauses += 1
        if now >= self._next_cut:
            self.limit = max(1, int(self.limit * _CUT))
            self.lowest = min(self.lowest, self.limit)
            self._is_doubling, self._successes = False, 0
            self._next_cut = now + _SECONDS_BETWEEN_CUTS
        self._resume = max(self._resume, now + seconds)
        self._next_cut = max(self._next_cut, self._resume)

    async def _enter(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            remaining = self._resume - loop.time()
            if remaining > 0:
                await asyncio.sleep(remaining + self._random.uniform(0, min(remaining * _SPREAD, _MOST_SPREAD)))
            elif self._active < self.limit:
                self._active += 1
                return
            else:
                await self._wait(loop)

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        future = loop.create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            self._wake()  # it may have been woken for a slot that it does not take
            raise

    def _wake(self) -> None:
        free = self.limit - self._active
        while free > 0 and self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                free -= 1
