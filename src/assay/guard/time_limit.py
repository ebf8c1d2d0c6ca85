"""Time and memory limit for a block of code controlled by an outside file: `with ResourceLimit(): …`.

On the main thread a profiling timer (SIGPROF) interrupts the block, also within `re`. Elsewhere, and on Windows, a
thread interrupts it between two Python instructions; for a single search of `re` there is `guard.regex`.
A block of a few microseconds never sees a tick; within `keep_limit_timer` the limit costs less than one microsecond.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from assay.core.errors import Fault, LimitError

# CPU time limit of a block. Ordinary ones take microseconds, slow ones milliseconds.
MOST_SECONDS = 5.0
# By how much a block may raise the peak memory of the process.
MOST_BYTES = 1 << 30
_TICK = 0.05
# Off the main thread the limit is wall-clock time, which includes other work.
_WALL_CLOCK_FACTOR = 3
_MAIN = threading.main_thread().ident


class TimeLimitExceeded(LimitError):
    """A block exceeded its time limit."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        found = f"takes more than {seconds:g} seconds"
        super().__init__(Fault("", found, "well under a second", "Simplify it: look for loops in loops, (a+)+ or .*.*"))


class MemoryLimitExceeded(LimitError):
    """A block exceeded its memory limit."""

    def __init__(self) -> None:
        found = f"takes more than {MOST_BYTES >> 20:,} MB of memory"
        super().__init__(Fault("", found, "a few megabytes", "Simplify it: look for texts that grow in a loop"))


class ResourceLimit:
    """Raises a `LimitError` in its block if that takes too much time or memory; the outermost block counts.

    Entered for every document, so a class and not a generator, and with few calls. It holds no state of a block.
    """

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if _get_ident() != _MAIN or not (_TIMER.is_running or _TIMER.start()):
            _WATCHDOG.enter(_WALL_CLOCK_FACTOR * self._seconds)
        elif _TIMER.depth:
            _TIMER.depth += 1
        else:
            _TIMER.since, _TIMER.limit, _TIMER.depth = 0.0, self._seconds, 1

    def __exit__(self, *_: object) -> None:
        if _get_ident() == _MAIN and _TIMER.depth:
            _TIMER.depth -= 1
            if not _TIMER.depth and not _TIMER.loops:
                _TIMER.stop()
        else:
            _WATCHDOG.leave()


def is_interruptible() -> bool:
    """Whether a limited block of the calling thread can interrupt a single slow call of `re`."""
    return _get_ident() == _MAIN and _TIMER.is_ours()


@contextmanager
def keep_limit_timer() -> Iterator[None]:
    """For a loop with a limited block in every iteration: the timer is started and stopped once for all of them."""
    if _get_ident() != _MAIN:
        yield
        return
    _TIMER.loops += 1
    try:
        yield
    finally:
        _TIMER.loops -= 1
        if not _TIMER.loops and not _TIMER.depth:
            _TIMER.stop()


_get_ident = threading.get_ident
_set_timer: Any = getattr(signal, "setitimer", None)  # not on Windows


class _Timer:
    """The main thread's limit: a CPU-time timer whose ticks check what the block has used.

    Within a loop it keeps running after a block, for the next one, and is stopped by a tick outside any block. It never
    outlives the loop: a program that replaces this one by `exec` would be killed by it.

    Attributes:
        is_running: whether the timer ticks.
        depth: number of open blocks.
        loops: number of loops in progress.
        since: when the outermost block saw its first tick; 0 before.
        limit: its time limit in seconds.
    """

    __slots__ = ("_is_ours", "_peak", "depth", "is_running", "limit", "loops", "since")

    def __init__(self) -> None:
        self.is_running = False
        self.depth = 0
        self.loops = 0
        self.since = 0.0
        self.limit = MOST_SECONDS
        self._peak = 0
        self._is_ours: bool | None = None

    def is_ours(self) -> bool:
        """Whether we may use the signal, decided on the main thread; a profiler that uses it keeps it."""
        if self._is_ours is None:
            self._is_ours = _set_timer is not None and signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
            if self._is_ours:
                signal.signal(signal.SIGPROF, self._tick)
                signal.siginterrupt(signal.SIGPROF, False)  # system calls resume after a tick
        return self._is_ours

    def start(self) -> bool:
        """Starts the timer; False if there is none."""
        if self.is_ours():
            self.is_running = True
            _set_timer(signal.ITIMER_PROF, _TICK, _TICK)
        return self.is_running

    def stop(self) -> None:
        """Stops the timer."""
        if self.is_running:
            _set_timer(signal.ITIMER_PROF, 0)
            self.is_running = False

    def forget(self) -> None:
        """In a child created by `fork`: it inherits neither the timer nor the blocks of its parent's other threads."""
        self.is_running, self.depth, self.loops = False, 0, 0

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if not self.depth:
            self.stop()
            return
        if frame is not None and frame.f_code is ResourceLimit.__exit__.__code__:
            return  # the block is over, and an error here would leave it open
        # The timer counts the CPU time of all threads; a block is only charged its own.
        now = time.thread_time()
        if self.since == 0.0:
            self.since, self._peak = now, _peak_memory()
        elif now - self.since > self.limit:
            self.since = now - self.limit + 1  # if something swallows the error, it is raised again
            raise TimeLimitExceeded(self.limit)
        elif _peak_memory() - self._peak > MOST_BYTES:
            self._peak = _peak_memory()
            raise MemoryLimitExceeded


def _peak_memory() -> int:
    """Peak memory of the process in bytes; never less than its current memory."""
    import resource  # not on Windows, where there is no such timer either

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class _Watchdog:
    """The limit of other threads: a watchdog thread raises an error in each of them when its time is up."""

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}
        self._depths: dict[int, int] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def enter(self, seconds: float) -> None:
        """The calling thread enters a block; time counts from the outermost."""
        ident = threading.get_ident()
        self._depths[ident] = depth = self._depths.get(ident, 0) + 1
        if depth > 1:
            return
        with self._lock:
            self._ends[ident] = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="assay-time-limit", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        """The calling thread leaves a block; an error pending for it is cancelled."""
        ident = threading.get_ident()
        depth = self._depths.pop(ident, 0) - 1
        if depth > 0:
            self._depths[ident] = depth
        elif depth == 0:
            with self._lock:
                is_interrupted = self._ends.pop(ident, None) is None
            if is_interrupted:
                _cancel_interrupt()

    def _work(self) -> None:
        while True:
            time.sleep(_TICK)
            with self._lock:
                if not self._ends:
                    self._thread = None
                    return
                for ident in [ident for ident, end in self._ends.items() if end < time.monotonic()]:
                    del self._ends[ident]
                    _interrupt(ident, TimeLimitExceeded)


def _interrupt(ident: int, error: type[BaseException]) -> None:
    """Makes a thread raise an error at its next instruction, replacing one that it has not raised yet."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error))


class _CancelledInterrupt(BaseException):
    """Replaces an error that comes too late."""


def _cancel_interrupt() -> None:
    """Cancels an error that is pending for the calling thread.

    Another one replaces it and is caught here. Sending None would do that too, but leaves Python 3.11 with a
    pending-error flag, and a profiler or debugger then never gets past the next call.
    """
    try:
        _interrupt(threading.get_ident(), _CancelledInterrupt)
        while True:  # until the next instruction at which errors are raised
            pass
    except _CancelledInterrupt:
        pass


_TIMER = _Timer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TIMER.forget)
_WATCHDOG = _Watchdog()
