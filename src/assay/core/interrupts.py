"""Termination signals: Ctrl-C (SIGINT), SIGTERM and SIGHUP, which a closing terminal sends.

`raise_on_signals` is for the command line: each signal raises `Interrupted`, several in quick succession raise once.
`defer_signals` is for work that must not stop half-way; it defers whatever handler is installed, even if Assay is
used as a library.
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
# Signals this close together count as one: an impatient Ctrl-C, or the SIGTERM that follows a SIGHUP.
_DEBOUNCE_SECONDS = 1.0
# After this time a further signal is no longer deferred: the disk or lock being waited for may never respond.
_FORCE_EXIT_SECONDS = 5.0
_RERAISE_DELAY_SECONDS = 0.02


class Interrupted(KeyboardInterrupt):
    """A signal requested the end of the program."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Handler:
    """Raises at the first signal of a burst. Once the program is exiting, it only makes sure that it does exit."""

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
        """Re-raises a signal that Python dropped, as it does with everything raised in a destructor."""
        self._last = float("-inf")
        timer = threading.Timer(_RERAISE_DELAY_SECONDS, signal.raise_signal, (number,))
        timer.daemon = True
        timer.start()


_current: _Handler | None = None


def received_signal() -> int | None:
    """The first signal that the command line received; None for none."""
    return _current.received_signal if _current is not None else None


def exit_code(number: int) -> int:
    """The exit code that shells and job schedulers expect of a program ended by a signal: 129, 130 or 143."""
    return 128 + number


@contextmanager
def raise_on_signals(until_exit: bool = False) -> Iterator[None]:
    """Makes signals raise `Interrupted`. Signals that are ignored (nohup, background jobs) stay ignored.

    Args:
        until_exit: whether the process exits next, so that late signals must not disturb the interpreter's shutdown.
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
        atexit.register(_ignore_signals)  # registered first, so called last
    try:
        yield
    finally:
        handler.is_ending = True
        if not until_exit:
            for number, known in earlier.items():
                signal.signal(number, known)
            sys.unraisablehook, _current = hook, before


def _ignore_signals() -> None:
    """Python removes its handlers before the process exits: a late Ctrl-C would change the exit code."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _unraisable(handler: _Handler, hook: Any, dropped: Any) -> None:
    if not isinstance(dropped.exc_value, Interrupted):
        hook(dropped)
    elif not handler.is_ending:
        handler.raise_again(dropped.exc_value.number)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defers signals until the block is left; a signal that comes long after the first takes effect at once."""
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
