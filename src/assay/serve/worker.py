"""The thread of the model: everything that waits when it becomes free is the next batch.

In: jobs from the event loop. Out: their results, set on futures of that loop as they come. Rows to score share one
prefix tree, equal generations run once, and generations that the store knows do not run at all. A job whose future is
cancelled is not begun; a generation ends when nobody waits for any part of its batch.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.core.errors import StoreError
from assay.core.identity import response_key
from assay.core.output_checks import check_answer
from assay.core.protocols import ContinuesTokens, Model, ScoresTokens, TokenPrompt, TokenRow, TokenScores
from assay.core.requests import Generation
from assay.core.responses import Failure, Output, Response, Text, unsupported
from assay.store.response_table import ResponseWriter
from assay.store.store import Store

# A batch waits for as many jobs as the last one had: clients send the next when they have an answer. At most this share
# of the last batch's time, and so many seconds.
_SHARE_TO_GATHER, _MOST_SECONDS_TO_GATHER = 0.1, 0.25
# Numbers in the answers of one batch of rows.
_MOST_NUMBERS = 1 << 22
# Waited for the thread at the end: for what is under way, and less if it still loads the model.
_SECONDS_TO_END, _SECONDS_TO_END_LOADING = 20.0, 1.0

OnTokens = Callable[[Sequence[int]], None]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreJob:
    """A row to score."""

    future: asyncio.Future[TokenScores | Failure]
    row: TokenRow

    @property
    def size(self) -> int:
        return (self.row.scored + 1) * (self.row.top + 2)


class Written(NamedTuple):
    """A generated answer; its token ids unless it comes from the store or from a model that does not show them."""

    answer: Text | Failure
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GenerationJob:
    """A text to generate.

    Attributes:
        future: its result.
        request: the generation.
        ids: the prompt as token ids; None for models that read text.
        is_stored: whether the answer may come from the store, and go there.
        needs_ids: whether the ids of the answer are wanted, which the store does not have.
        on_tokens: receives all ids so far, in the thread of the event loop.
    """

    future: asyncio.Future[Written]
    request: Generation
    ids: tuple[int, ...] | None
    is_stored: bool = True
    needs_ids: bool = False
    on_tokens: OnTokens | None = None

    @property
    def size(self) -> int:
        return 1


Job = ScoreJob | GenerationJob


class _Abandoned(BaseException):
    """Nobody waits for a running generation; not an `Exception`, which the engine would answer by trying again."""


@dataclass
class _Queue:
    """Jobs that wait, and the size and time of the last batch."""

    jobs: list[Job] = field(default_factory=list)
    condition: threading.Condition = field(default_factory=threading.Condition)
    last_count: int = 0
    last_seconds: float = 0.0
    is_closed: bool = False

    def put(self, job: Job) -> None:
        with self.condition:
            self.jobs.append(job)
            self.condition.notify()

    def close(self) -> None:
        with self.condition:
            self.is_closed = True
            self.condition.notify()

    def next_batch(self) -> list[Job] | None:
        """Everything that waits, up to a size; None when closed. Cancelled jobs are dropped."""
        with self.condition:
            while not self.is_closed:
                if not self.jobs:
                    self.condition.wait()
                    continue
                self._gather()
                batch = self._taken()
                if batch:
                    return batch
            return None

    def _gather(self) -> None:
        most = min(_SHARE_TO_GATHER * self.last_seconds, _MOST_SECONDS_TO_GATHER)
        until = time.monotonic() + most
        while len(self.jobs) < self.last_count and not self.is_closed:
            left = until - time.monotonic()
            if left <= 0 or not self.condition.wait(left):
                return

    def _taken(self) -> list[Job]:
        size, count = 0, 0
        for job in self.jobs:
            size += job.size
            if count and size > _MOST_NUMBERS:
                break
            count += 1
        batch, self.jobs = self.jobs[:count], self.jobs[count:]
        return [job for job in batch if not job.future.cancelled()]


class Worker:
    """Runs a model's jobs in a thread.

    Args:
        model: the model; used by this thread only.
        store: answers of earlier runs and requests; used by this thread only.
        loop: the event loop whose futures receive results.
        prepare: called in the thread before the first job; loads what takes long.
    """

    def __init__(
        self, model: Model, store: Store, loop: asyncio.AbstractEventLoop, prepare: Callable[[], None]
    ) -> None:
        self.ready: asyncio.Future[None] = loop.create_future()
        self._model = model
        self._store = store
        self._loop = loop
        self._prepare = prepare
        self._fingerprint = model.fingerprint
        self._queue = _Queue()
        self._thread = threading.Thread(target=self._work, name="assay-serve-model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queues a job."""
        self._queue.put(job)

    def is_over(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Ends the thread after the pack or token under way."""
        self._queue.close()
        self._thread.join(_SECONDS_TO_END if self.ready.done() else _SECONDS_TO_END_LOADING)

    def _work(self) -> None:
        try:
            self._prepare()
        except BaseException as error:  # ends the server, in whose thread it is raised again
            self._post(self.ready, error)
            return
        self._post(self.ready, None)
        try:
            with ResponseWriter(self._store.responses, self._fingerprint) as writer:
                while (batch := self._queue.next_batch()) is not None:
                    started = time.monotonic()
                    self._run(batch, writer)
                    self._queue.last_count, self._queue.last_seconds = len(batch), time.monotonic() - started
        except StoreError as error:  # the last answers could not be written
            _complain(str(error))

    def _run(self, batch: Sequence[Job], writer: ResponseWriter) -> None:
        """Answers a batch: rows first, which take less time."""
        rows = [job for job in batch if isinstance(job, ScoreJob)]
        generations = [job for job in batch if isinstance(job, GenerationJob)]
        try:
            self._score(rows)
            self._generate(generations, writer)
        except Exception as error:
            _complain(f"{type(error).__name__}: {error}")
            failure = Failure("error", f"{type(error).__name__}: {error}", retryable=False)
            for row in rows:
                self._post(row.future, failure)
            for job in generations:
                self._post(job.future, Written(failure))

    # Scores

    def _score(self, jobs: Sequence[ScoreJob]) -> None:
        if not jobs:
            return
        if not isinstance(self._model, ScoresTokens):
            raise TypeError(f"{type(self._model).__name__} does not score tokens")
        found = self._model.score_tokens([job.row for job in jobs])
        for index, scores in found:
            self._post(jobs[index].future, scores)
            if self._is_abandoned(jobs):
                break

    # Generations

    def _generate(self, jobs: Sequence[GenerationJob], writer: ResponseWriter) -> None:
        groups: dict[Any, list[GenerationJob]] = {}
        for job in jobs:
            groups.setdefault((response_key(self._fingerprint.digest, job.request), job.ids), []).append(job)
        left = [(key, group) for (key, _), group in groups.items() if not self._from_store(key, group)]
        if not left:
            return
        for index, written in self._written([group for _, group in left]):
            key, group = left[index]
            checked = check_answer(written.answer, group[0].request)
            if isinstance(checked, Text) and any(job.is_stored for job in group):
                _save(writer, key, checked)
            answer = checked if isinstance(checked, (Text, Failure)) else unsupported(group[0].request.kind)
            for job in group:
                self._post(job.future, Written(answer, written.ids))

    def _from_store(self, key: bytes, group: Sequence[GenerationJob]) -> bool:
        """Answers equal generations from the store, if it knows them."""
        if any(job.needs_ids or not job.is_stored for job in group):
            return False
        known: dict[bytes, Output] = self._store.responses.get([key])
        answer = known.get(key)
        if not isinstance(answer, Text):
            return False
        for job in group:
            self._post(job.future, Written(answer))
        return True

    def _written(self, groups: Sequence[Sequence[GenerationJob]]) -> Iterator[tuple[int, Written]]:
        """The answers of some groups of equal generations, as they finish."""
        jobs = [job for group in groups for job in group]
        if not isinstance(self._model, ContinuesTokens):
            for index, output in self._model.respond([group[0].request for group in groups]):
                yield index, Written(output if isinstance(output, (Text, Failure)) else unsupported("generation"))
            return
        last: dict[int, tuple[int, ...]] = {}

        def on_tokens(index: int, ids: Sequence[int]) -> None:
            if self._is_abandoned(jobs):
                raise _Abandoned
            last[index] = tuple(ids)
            for job in groups[index]:
                if job.on_tokens is not None:
                    self._loop.call_soon_threadsafe(job.on_tokens, last[index])

        prompts = [TokenPrompt(group[0].ids or (), group[0].request) for group in groups]
        with suppress(_Abandoned):
            for index, answer in self._model.continue_tokens(prompts, on_tokens):
                yield index, Written(answer, last.get(index, ()))

    def _is_abandoned(self, jobs: Sequence[Job]) -> bool:
        """Whether nobody waits for any of these jobs any more, or the server is ending."""
        return self._queue.is_closed or all(job.future.done() for job in jobs)

    def _post(self, future: asyncio.Future[Any], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(_settle, future, value)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if future.done():
        return
    if isinstance(value, BaseException):
        future.set_exception(value)
    else:
        future.set_result(value)


def _save(writer: ResponseWriter, key: bytes, answer: Text) -> None:
    try:
        writer.put([Response(key, answer)])
    except StoreError as error:  # answers are given all the same
        _complain(str(error))


def _complain(text: str) -> None:
    from assay.core.secrets import redacted_text

    sys.stderr.write(f"assay serve: {redacted_text(text)}\n")
    sys.stderr.flush()
