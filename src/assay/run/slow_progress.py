"""Work within a stage that may take long: progress is shown once it lasts, and not for what is done at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from assay.core.progress import ProgressCallback
from assay.run.events import Listener, Progressed

_QUIET_SECONDS = 2.0
_LEAST_REST = 1.0
_SECONDS_BETWEEN_EVENTS = 0.25


def delayed_report(listener: Listener, clock: Callable[[], float] = time.monotonic) -> ProgressCallback:
    """A report that becomes events when the work has lasted two seconds and goes on, a few times a second."""
    started: dict[str, float] = {}
    heard: dict[str, float] = {}

    def report(what: str, done: int, total: int) -> None:
        now = clock()
        lasted = now - started.setdefault(what, now)
        rest = lasted * (total - done) / max(1, done)
        is_new = lasted >= _QUIET_SECONDS and rest >= _LEAST_REST if what not in heard else done == total
        if is_new or now - heard.get(what, now) >= _SECONDS_BETWEEN_EVENTS:
            heard[what] = now
            listener(Progressed(what, done, total))

    return report
