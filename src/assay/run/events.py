"""Events of a run, as values for a listener; nothing depends on what it does with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, Union

from assay.core.protocols import ProgressCallback
from assay.core.secrets import redacted_text
from assay.core.training import FitProgress

_QUIET_SECONDS = 2.0
_LEAST_REST = 1.0
_SECONDS_BETWEEN_EVENTS = 0.25
_ITEMS_BETWEEN_REPORTS = 64
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins: `resolve`, `lessons`, `fit`, `pose`, `plan`, `lap`, `execute`, `score`.

    Or the next `model` of several, or the download of the next dataset (`get`).
    """

    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan is made."""

    built: int
    unique: int
    known: int
    missing: int
    work: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """Some work is done.

    Attributes:
        what: name of the work: `requests`, or a download.
        done: number of items done.
        total: total number of items; None if unknown.
        work_done: their cost: operations if the model counts them, else characters.
        work_total: the same for all of them, as far as known.
        failed: requests that failed.
        tokens: tokens read and written; 0 if the model does not count them.
        tokens_total: the same for all requests, as far as known.
        is_loading: whether the model has not begun yet.
        waiting: why nothing happens at the moment; empty while something does. Secrets are redacted.
    """

    what: str
    done: int
    total: int | None
    work_done: float = 0
    work_total: float = 0
    failed: int = 0
    tokens: int = 0
    tokens_total: int = 0
    is_loading: bool = False
    waiting: str = ""

    def __post_init__(self) -> None:
        if self.waiting:
            object.__setattr__(self, "waiting", redacted_text(self.waiting))


@dataclass(frozen=True, slots=True)
class Trained:
    """A step of training is done.

    Attributes:
        progress: steps done, loss and validation value.
        metric: the validation metric.
    """

    progress: FitProgress
    metric: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """A notice; secrets are redacted."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", redacted_text(self.text))


Event = Union[StageStarted, Planned, Progressed, Trained, Noticed]
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener that shows nothing."""


def delayed_report(listener: Listener, clock: Callable[[], float] = time.monotonic) -> ProgressCallback:
    """A progress callback that emits events, a few per second, once the work has lasted two seconds and is not done."""
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


def with_progress(items: Sequence[Item], what: str, report: ProgressCallback) -> Iterator[Item]:
    """Yields the items and reports progress at regular intervals and at the end."""
    for index, item in enumerate(items):
        if index % _ITEMS_BETWEEN_REPORTS == 0:
            report(what, index, len(items))
        yield item
    report(what, len(items), len(items))
