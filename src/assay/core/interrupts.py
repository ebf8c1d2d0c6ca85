"""Signals that end a program: Ctrl-C (SIGINT), SIGTERM and SIGHUP, which a closed terminal sends.

`heeded` is for the command line: each of them raises `Interrupted`, several in quick succession raise once.
`uninterrupted` is for work that must not stop half way; it holds back whatever handler there is, also where Assay is
called from Python.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# Signals so close together count as one: impatient Ctrl-C, or the SIGTERM that follows a SIGHUP.
_DEBOUNCE_SECONDS = 1.0
# After this time one more signal is no longer held back: the disk or the lock that is waited for may never come.
_FORCE_EXIT_SECONDS = 5.0
_RERAISE_DELAY_SECONDS = 0.02


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Handler:
    """Raises at the first signal of a press. Once the program is ending, it only makes sure that it does end."""

    def __init__(self) -> None:
        self.received_signal: int | None = None
        self.is_ending = False
        self._since = self._last = float("-inf")

    def __call__(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.received_signal is None:
            self.received_signal, self._since = number, now
        if self.is_ending:
            if now - self._since > _FORCE_EXIT_SECONDS:
                os._exit(exit_code(self.received_signal))
            return
        if now - self._last >= _DEBOUNCE_SECONDS:
            self._last = now
            raise Interrupted(number)

    def raise_again(self, number: int) -> None:
        """Sends a signal again that Python dropped, as it does with all that is raised in a destructor."""
        self._last = float("-inf")
        timer = threading.Timer(_RERAISE_DELAY_SECONDS, signal.raise_signal, (number,))
        timer.daemon = True
        timer.start()


_current: _Handler | None = None


def received_signal() -> int | None:
    """The signal that the command line got first; None for none."""
    return _current.received_signal if _current is not None else None


def exit_code(number: int) -> int:
    """What shells and job schedulers expect of a program that a signal ended: 129, 130 or 143."""
    return 128 + number


@contextmanager
def raise_on_signals(until_exit: bool = False) -> Iterator[None]:
    """Signals raise `Interrupted`. Those that are ignored (nohup, background jobs) stay so.

    Args:
        stays: whether the process ends next, so that late signals must not disturb the interpreter's own end.
    """
    global _current
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler, before, hook = _Handler(), _current, sys.unraisablehook
    earlier = {number: signal.getsignal(number) for number in SIGNALS}
    _current = handler
    sys.unraisablehook = lambda dropped: _unraisable(handler, hook, dropped)
    for number, known in earlier.items():
        if known is not signal.SIG_IGN:
            signal.signal(number, handler)
    if until_exit:
        atexit.register(_ignore_signals)  # the first to be registered is the last to be called
    try:
        yield
    finally:
        handler.is_ending = True
        if not until_exit:
            for number, known in earlier.items():
                signal.signal(number, known)
            sys.unraisablehook, _current = hook, before


def _ignore_signals() -> None:
    """Python's own end gives handlers up before the process ends: a late Ctrl-C would change its exit code."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _unraisable(handler: _Handler, hook: Any, dropped: Any) -> None:
    if not isinstance(dropped.exc_value, Interrupted):
        hook(dropped)
    elif not handler.is_ending:
        handler.raise_again(dropped.exc_value.number)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Holds signals back until this is left; one that comes long after the first is heeded at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: known for number in SIGNALS if callable(known := signal.getsignal(number))}
    held: list[tuple[int, float]] = []

    def hold(number: int, frame: Any) -> None:
        now = time.monotonic()
        held.append((number, now))
        if now - held[0][1] > _FORCE_EXIT_SECONDS:
            earlier[number](number, frame)

    try:
        for number in earlier:
            signal.signal(number, hold)
        yield
    finally:
        for number, known in reversed(earlier.items()):
            signal.signal(number, known)
        if held:
            earlier[held[0][0]](held[0][0], None)
