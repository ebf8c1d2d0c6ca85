"""How fast some work goes, and how long the rest of it takes.

In: reports of how much was done at what time. Out: a rate that neither jumps nor clings to the past.
"""

from __future__ import annotations

from collections import deque

# Before the first and the last report lie this far apart, a rate says more about the clock than about the work.
_LEAST_SECONDS = 1.0
_RECENT_SECONDS = 30.0


class RateEstimator:
    """The rate of one work. It counts from the first report on: what came before, such as loading, is left out."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._recent: deque[tuple[float, float]] = deque()

    def add(self, now: float, done: float) -> None:
        """So much is done by now."""
        if self._first is None:
            self._first = (now, done)
        self._recent.append((now, done))
        while len(self._recent) > 2 and self._recent[1][0] <= now - _RECENT_SECONDS:
            self._recent.popleft()

    @property
    def rate(self) -> float | None:
        """Work per second: the mean of the rate over all and that of the last half minute; None while unknown."""
        if self._first is None:
            return None
        now, done = self._recent[-1]
        seconds, work = now - self._first[0], done - self._first[1]
        if seconds < _LEAST_SECONDS or work <= 0:
            return None
        then, done_then = self._recent[0]
        return (work / seconds + max(0.0, done - done_then) / (now - then)) / 2

    def remaining_seconds(self, total: float) -> float | None:
        """Seconds from the last report until the total is done."""
        rate = self.rate
        return max(0.0, total - self._recent[-1][1]) / rate if rate else None
