"""Puts the missing requests to the model and keeps each answer as it comes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.core.errors import AssayError
from assay.core.protocols import Measures, Model, Progress
from assay.core.requests import (
    Choosing,
    Classification,
    Generation,
    Loglikelihood,
    Request,
    RollingLoglikelihood,
    SpanExtraction,
)
from assay.core.responses import Failure, LabelScores, Logprob, Output, Response, Text
from assay.plan.planning import Plan
from assay.run.events import Listener, Progressed
from assay.store.responses import ResponseWriter

_SECONDS_BETWEEN_EVENTS = 0.1
_SLOW_ANSWER_SECONDS = 0.002
_STREAK_OF_A_FAST_MODEL = 1000
_HANDED_OVER_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Executed:
    """What asking brought.

    Attributes:
        answers: key → output or failure; the store holds the same outputs.
        failures: key → failure.
        work: work done in `seconds`: characters, or operations where the model counts them.
        seconds: time it took; without loading where the model says when it begins.
        tokens: tokens read and written; 0 where the model does not count them.
        unit: what `work` counts: `work` or `operations`.
    """

    answers: Mapping[bytes, Output | Failure]
    failures: Mapping[bytes, Failure]
    work: float
    seconds: float
    tokens: int = 0
    unit: str = "work"


def execute(plan: Plan, model: Model, writer: ResponseWriter, listener: Listener) -> Executed:
    """Asks everything that is missing. Answers are safe in the store when the writer is left."""
    if not plan.missing:
        return Executed({}, {}, 0, 0.0)
    keys, requests = list(plan.missing), list(plan.missing.values())
    meter = _Meter(plan.works, listener, isinstance(model, Measures))
    if isinstance(model, Measures):
        model.watch(meter.heed)
    answers: dict[bytes, Output | Failure] = {}
    failures: dict[bytes, Failure] = {}
    is_open = bytearray(b"\x01") * len(keys)
    with _Keeper(writer) as keeper:
        for place, answer in model.respond(requests):
            if not 0 <= place < len(keys) or not is_open[place]:
                raise AssayError(
                    f"model {model.fingerprint.name} answered request {place} twice, or none such was asked"
                )
            is_open[place] = 0
            now = time.perf_counter()
            key = keys[place]
            answers[key] = checked = _checked(answer, requests[place])
            if isinstance(checked, Failure):
                failures[key] = checked
            else:
                keeper.keep(Response(key, checked), now)
            meter.advance(place, len(failures), now)
    for place, still_open in enumerate(is_open):
        if still_open:
            failures[keys[place]] = Failure("no_answer", "the model ended without answering this request")
    answers.update(failures)
    return Executed(answers, failures, *meter.finish(len(failures)))


def _checked(answer: object, request: Request) -> Output | Failure:
    """An answer fit to be stored. What is of the wrong kind or not finite would mislead in silence: a failure."""
    if isinstance(answer, Logprob) and isinstance(request, (Loglikelihood, RollingLoglikelihood)):
        if not math.isfinite(answer.total):
            return Failure("not_finite", f"the log-likelihood is {answer.total}")
        if type(answer.total) is float and type(answer.is_greedy) is bool:
            return answer
        return replace(answer, total=float(answer.total), is_greedy=bool(answer.is_greedy))
    if isinstance(answer, Text) and isinstance(request, (Generation, SpanExtraction)):
        return answer if answer.text.isascii() else _with_whole_characters(answer)
    if isinstance(answer, Failure):
        return answer
    if isinstance(answer, LabelScores) and isinstance(request, (Classification, Choosing)):
        return _checked_scores(answer, request)
    return Failure("invalid", f"a {request.kind} request was answered with a {type(answer).__name__}", retryable=False)


def _checked_scores(answer: LabelScores, request: Classification | Choosing) -> LabelScores | Failure:
    wanted = len(request.labels if isinstance(request, Classification) else request.choices)
    if len(answer.scores) != wanted:
        return Failure("invalid", f"{len(answer.scores)} scores for {wanted} labels or choices", retryable=False)
    if not all(map(math.isfinite, answer.scores)):
        return Failure("not_finite", f"the scores are {answer.scores}")
    return replace(answer, scores=tuple(map(float, answer.scores)))


def _with_whole_characters(answer: Text) -> Text:
    """Two halves of a character become one, as they would on the way through the store."""
    whole = answer.text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return answer if whole == answer.text else replace(answer, text=whole)


class _Keeper:
    """Hands answers to the writer so that a kill loses none that was worth waiting for.

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
            self._hand_over()
            if was_idle:
                self._writer.settle()
                now = time.perf_counter()
        else:
            self._streak += 1
            if self._streak < _STREAK_OF_A_FAST_MODEL or len(self._pending) >= _HANDED_OVER_AT_ONCE:
                self._hand_over()
        self._last = now

    def _hand_over(self) -> None:
        self._writer.put(self._pending)
        self._pending = []

    def __enter__(self) -> _Keeper:
        return self

    def __exit__(self, *error: object) -> None:
        self._hand_over()


class _Meter:
    """Counts requests and work, and reports now and then. A model that measures itself says how far it has come."""

    def __init__(self, works: Sequence[int], listener: Listener, is_measuring: bool) -> None:
        self._works = works
        self._total = sum(works)
        self._listener = listener
        self._is_loading = is_measuring
        self._is_over = False
        self._count = self._failed = self._done = 0
        self._first: Progress | None = None
        self._reached: Progress | None = None
        self._started = self._last = time.perf_counter()
        self._report()

    def heed(self, progress: Progress) -> None:
        """What the model says of its progress. The first time, it has just been loaded: the clock starts anew."""
        if self._is_over:
            return  # someone else asks the model, after this run
        now = time.perf_counter()
        if self._reached is None:
            self._first = self._reached = progress
            self._is_loading, self._started, self._last = False, now, now
            self._report()
            return
        done, tokens = max(self._reached.done, progress.done), max(self._reached.tokens, progress.tokens)
        self._reached = replace(progress, done=done, tokens=tokens)
        self._report_at_times(now)

    def advance(self, place: int, failed: int, now: float) -> None:
        """One more request is answered."""
        self._count += 1
        self._failed = failed
        self._done += self._works[place]
        self._report_at_times(now)

    def finish(self, failed: int) -> tuple[float, float, int, str]:
        """Reports the end; gives work, seconds, tokens and the unit of work, as `Executed` keeps them."""
        seconds = time.perf_counter() - self._started
        self._is_over, self._is_loading, self._failed = True, False, failed
        self._report()
        if self._first is None or self._reached is None:
            return self._done, seconds, 0, "work"
        return self._reached.done - self._first.done, seconds, self._reached.tokens, "operations"

    def _report_at_times(self, now: float) -> None:
        # The last answer is left to `finish`, so that the end is told once.
        if now - self._last >= _SECONDS_BETWEEN_EVENTS and self._count < len(self._works):
            self._last = now
            self._report()

    def _report(self) -> None:
        reached = self._reached or Progress(self._done, self._total, 0, 0)
        event = Progressed(
            "requests",
            self._count,
            len(self._works),
            reached.done,
            reached.total,
            self._failed,
            reached.tokens,
            reached.tokens_total,
            self._is_loading,
        )
        self._listener(event)
