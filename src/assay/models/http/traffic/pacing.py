"""How many requests are in flight: additive increase, multiplicative decrease, and one pause shared by all.

In: successes, rate limits, and what headers say is left. Out: a slot for each request. The limit doubles until the
first rate limit, then grows by one for every round of successes; a rate limit halves it once per pause, at most once
per second, however many requests it hits. A request that would exceed what the server's headers leave waits, so that a
rate limit is not hit in the first place.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Mapping

from assay.models.http.spending.usage import Size
from assay.models.http.traffic.allowances import LONGEST_WAIT, Allowances

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
        held: number of requests that waited because of what headers leave.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit: int = min(most, _START)
        self.lowest = self.limit
        self.pauses = self.held = 0
        self._active = 0
        self._prompt = self._new = 0
        self._allowances = Allowances()
        self._reason = ""
        self._held_until = 0.0
        self._successes = 0
        self._is_doubling = True
        self._resume = self._next_cut = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._random = random.Random()

    async def enter(self, size: Size) -> None:
        """Waits for the end of a pause, for a free slot, and for what the request takes of the server's limits."""
        loop = asyncio.get_running_loop()
        held_until = math.inf
        while True:
            now = loop.time()
            if (remaining := self._resume - now) > 0:
                await asyncio.sleep(remaining + self._random.uniform(0, min(remaining * _SPREAD, _MOST_SPREAD)))
            elif self._active >= self.limit:
                await self._wait(loop)
            elif now < held_until and (held := self._allowances.wait(size, now)):
                if held_until == math.inf:
                    held_until, self.held = now + LONGEST_WAIT, self.held + 1
                self._held_until = max(self._held_until, now + held)
                await asyncio.sleep(held)
            else:
                self._active += 1
                self._prompt, self._new = self._prompt + size.prompt, self._new + size.new
                self._allowances.take(size, now)
                return

    def leave(self, size: Size) -> None:
        """Gives a slot back."""
        self._active -= 1
        self._prompt, self._new = self._prompt - size.prompt, self._new - size.new
        self._wake()

    def learn(self, headers: Mapping[str, str], size: Size) -> None:
        """Takes the headers of the answer to a request that is still in its slot."""
        others = Size(self._prompt - size.prompt, self._new - size.new)
        now = asyncio.get_running_loop().time()
        self._allowances.learn(headers, now, time.time(), others, self._active - 1)

    def waits_for(self, now: float) -> tuple[float, str]:
        """Seconds until requests are sent again, and why they are not; 0 while they are."""
        if (remaining := self._resume - now) > 0:
            return remaining, self._reason
        if self._active == 0 and (remaining := self._held_until - now) > 0:
            return remaining, "the server's headers say that its rate limit is used up"
        return 0.0, ""

    def succeeded(self) -> None:
        """One more success; the limit grows after each round of them."""
        self._successes += 1
        if self._successes >= self.limit and self.limit < self.most:
            self._successes = 0
            self.limit = min(self.most, self.limit * 2 if self._is_doubling else self.limit + 1)
            self._wake()

    def pause(self, seconds: float, reason: str = "") -> None:
        """Nothing is sent for some seconds; the limit is cut unless a pause is on already."""
        now = asyncio.get_running_loop().time()
        self._reason = reason
        if now >= self._resume:
            self.pauses += 1
        if now >= self._next_cut:
            self.limit = max(1, int(self.limit * _CUT))
            self.lowest = min(self.lowest, self.limit)
            self._is_doubling, self._successes = False, 0
            self._next_cut = now + _SECONDS_BETWEEN_CUTS
        self._resume = max(self._resume, now + seconds)
        self._next_cut = max(self._next_cut, self._resume)

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
