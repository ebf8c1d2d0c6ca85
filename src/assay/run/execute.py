"""Sends the missing requests to the model and stores each answer as it arrives."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.core.output_checks import check_answer, shown
from assay.core.protocols import Model, Progress, ReportsWaiting, ReportsWorkload
from assay.core.responses import Failure, Output, Response
from assay.run.events import Listener, Progressed
from assay.run.plan import RequestPlan
from assay.store.response_table import ResponseWriter

_SECONDS_BETWEEN_EVENTS = 0.1
_SLOW_ANSWER_SECONDS = 0.002
_FAST_MODEL_STREAK = 1000
_FLUSH_SIZE = 64


@dataclass(frozen=True, slots=True)
class Executed:
    """The answers of an execution, with its time.

    Attributes:
        answers: key → output or failure; the store holds the same outputs.
        failures: key → failure.
        work: work done in `seconds`: characters, or operations if the model counts them.
        seconds: time it took; without loading if the model reports when it begins.
        tokens: tokens read and written; 0 if the model does not count them.
        unit: what `work` counts: `work` or `operations`.
    """

    answers: Mapping[bytes, Output | Failure]
    failures: Mapping[bytes, Failure]
    work: float
    seconds: float
    tokens: int = 0
    unit: str = "work"


# No request was sent: the answers come from the store alone.
NOTHING_EXECUTED = Executed({}, {}, 0, 0.0)


def execute(plan: RequestPlan, model: Model, writer: ResponseWriter, listener: Listener) -> Executed:
    """Executes everything that is missing. Answers are safe in the store when the writer is closed."""
    if not plan.missing:
        return NOTHING_EXECUTED
    meter = _Meter(plan.works, listener, isinstance(model, ReportsWorkload))
    if isinstance(model, ReportsWorkload):
        model.watch(meter.on_progress)
    if isinstance(model, ReportsWaiting):
        model.watch_waiting(meter.on_waiting)
    collector = _AnswerCollector(plan, writer)
    with _ResponseBuffer(writer) as buffer:
        for index, response in collector.received(model.respond(collector.requests)):
            now = time.perf_counter()
            if response is not None:
                buffer.keep(response, now)
            meter.advance(index, len(collector.failures), now)
    answers = collector.settled()
    return Executed(answers, collector.failures, *meter.finish(len(collector.failures)))


class _AnswerCollector:
    """Receives answers: each is checked, and assigned to its request by the index that the model yields with it.

    A request with two different answers counts as unanswered. An index that is out of range shows that the model
    numbers requests differently: which answer belongs to which request is then unknown, so none is stored.
    """

    def __init__(self, plan: RequestPlan, writer: ResponseWriter) -> None:
        self.keys, self.requests = list(plan.missing), list(plan.missing.values())
        self.answers: dict[bytes, Output | Failure] = {}
        self.failures: dict[bytes, Failure] = {}
        self._writer = writer
        self._is_open = bytearray(b"\x01") * len(self.keys)
        self._withdrawn: list[bytes] = []
        self._misnumbered = ""

    def received(self, stream: Iterable[tuple[int, object]]) -> Iterator[tuple[int, Response | None]]:
        """The responses to store, by index, None for a failure; up to the first answer that belongs to no request."""
        keys, requests, answers, is_open = self.keys, self.requests, self.answers, self._is_open
        if not isinstance(stream, Iterable):
            self._misnumbered = f"respond returned {shown(stream)}; expected an iterator of (place, answer)"
            return
        for item in stream:
            try:
                index, answer = item
                is_new = is_open[index] if index >= 0 else None
            except (TypeError, ValueError, IndexError):
                is_new = None
            if is_new:
                is_open[index] = 0
                key = keys[index]
                answers[key] = checked = check_answer(answer, requests[index])
                if isinstance(checked, Failure):
                    self.failures[key] = checked
                    yield index, None
                else:
                    yield index, Response(key, checked)
            elif is_new is None:
                expected = f"(place, answer), places 0 to {len(keys) - 1}"
                self._misnumbered = f"respond yielded {shown(item)}; expected {expected}"
                return
            else:
                self._compare(index, answer)

    def settled(self) -> dict[bytes, Output | Failure]:
        """The answers with a failure for each request that has none, after removing what must not be stored."""
        if self._misnumbered:
            self._withdrawn = [key for key in self.answers if key not in self.failures]
            message = f"{self._misnumbered}. No answer can be assigned to its request, so none is stored"
            self.failures.update(dict.fromkeys(self.keys, Failure("misnumbered", message, retryable=False)))
        else:
            for index, still_open in enumerate(self._is_open):
                if still_open:
                    failure = Failure("no_answer", "the model ended without answering this request")
                    self.failures[self.keys[index]] = failure
        if self._withdrawn:
            self._writer.discard(self._withdrawn)
        self.answers.update(self.failures)
        return self.answers

    def _compare(self, index: int, answer: object) -> None:
        """Checks a second answer to a request: an identical one is harmless."""
        key = self.keys[index]
        first, second = self.answers[key], check_answer(answer, self.requests[index])
        if first == second or key in self.failures:
            return
        message = f"answered twice: first {shown(first)}, then {shown(second)}; expected one answer per request"
        self.failures[key] = Failure("answered_twice", message)
        self._withdrawn.append(key)


class _ResponseBuffer:
    """Hands answers to the writer so that a kill loses no answer that took long.

    After a slow answer it waits for the commit before the model goes on. The rest of a batch follows at once and is
    handed over one by one, to be committed while the model works on the next batch. Only a model that has given a
    thousand answers without a pause has them handed over a few dozen at a time.
    """

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._pending: list[Response] = []
        self._streak = 0
        self._last = time.perf_counter()

    def keep(self, response: Response, now: float) -> None:
        self._pending.append(response)
        if now - self._last > _SLOW_ANSWER_SECONDS:
            # While the writer was busy, the pause was for it and not for the model.
            was_idle, self._streak = self._writer.is_idle, 0
            self._flush()
            if was_idle:
                self._writer.flush()
                now = time.perf_counter()
        else:
            self._streak += 1
            if self._streak < _FAST_MODEL_STREAK or len(self._pending) >= _FLUSH_SIZE:
                self._flush()
        self._last = now

    def _flush(self) -> None:
        self._writer.put(self._pending)
        self._pending = []

    def __enter__(self) -> _ResponseBuffer:
        return self

    def __exit__(self, *error: object) -> None:
        self._flush()


class _Meter:
    """Counts requests and work, and reports now and then. A model that measures its work reports its own progress."""

    def __init__(self, works: Sequence[int], listener: Listener, is_measuring: bool) -> None:
        self._works = works
        self._total = sum(works)
        self._listener = listener
        self._is_loading = is_measuring
        self._is_over = False
        self._waiting = ""
        self._count = self._failed = self._done = 0
        self._first: Progress | None = None
        self._reached: Progress | None = None
        self._started = self._last = time.perf_counter()
        self._report()

    def on_progress(self, progress: Progress) -> None:
        """Progress that the model reports. The first report means that it has just been loaded: the clock restarts."""
        if self._is_over:
            return  # other code uses the model after this run
        now = time.perf_counter()
        if self._reached is None:
            self._first = self._reached = progress
            self._is_loading, self._started, self._last = False, now, now
            self._report()
            return
        done, tokens = max(self._reached.done, progress.done), max(self._reached.tokens, progress.tokens)
        self._reached = replace(progress, done=done, tokens=tokens)
        self._report_at_times(now)

    def on_waiting(self, reason: str) -> None:
        """The model says why no answer arrives."""
        if not self._is_over:
            self._waiting = reason
            self._report()

    def advance(self, index: int, failed: int, now: float) -> None:
        """One more request is answered."""
        self._count += 1
        self._failed, self._waiting = failed, ""
        self._done += self._works[index]
        self._report_at_times(now)

    def finish(self, failed: int) -> tuple[float, float, int, str]:
        """Reports the end; returns work, seconds, tokens and the unit of work, as in `Executed`."""
        seconds = time.perf_counter() - self._started
        self._is_over, self._is_loading, self._failed, self._waiting = True, False, failed, ""
        self._report()
        if self._first is None or self._reached is None:
            return self._done, seconds, 0, "work"
        return self._reached.done - self._first.done, seconds, self._reached.tokens, "operations"

    def _report_at_times(self, now: float) -> None:
        # The last answer is left to `finish`, so that the end is reported once.
        if now - self._last >= _SECONDS_BETWEEN_EVENTS and self._count < len(self._works):
            self._last = now
            self._report()

    def _report(self) -> None:
        reached = self._reached or Progress(self._done, self._total, 0, 0)
        event = Progressed(
            what="requests",
            done=self._count,
            total=len(self._works),
            work_done=reached.done,
            work_total=reached.total,
            failed=self._failed,
            tokens=reached.tokens,
            tokens_total=reached.tokens_total,
            is_loading=self._is_loading,
            waiting=self._waiting,
        )
        self._listener(event)
