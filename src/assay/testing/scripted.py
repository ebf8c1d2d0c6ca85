"""A model whose answers come from a function that you write; it records every request.

In: a handler from request to answer. Out: a `Model` that streams one answer at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from assay.core.identity import Fingerprint, request_digest
from assay.core.protocols import Capabilities
from assay.core.requests import REQUEST_KINDS, Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Output, Text

# A number is a log-likelihood, a text a generation.
Reply = Output | Failure | float | str


@dataclass(frozen=True)
class ScriptedModel:
    """Answers with what `handler` returns.

    An exception of the handler ends the whole stream, as a crash would; to fail one request, return a
    `Failure`.

    Attributes:
        handler: request → output, failure, number or text.
        name: counts in the fingerprint: two names are two models.
        kinds: request kinds it declares.
        delay: seconds to wait before each answer.
        max_tokens: longest sequence it declares.
        labels: labels of the classification head it declares.
        log_path: file to which the digest of each request is written, as hex and flushed, before it is answered; it
            survives a killed process.
        asked: every request so far, in order.
    """

    handler: Callable[[Request], Reply]
    name: str = "scripted"
    kinds: Sequence[str] = REQUEST_KINDS
    delay: float = 0.0
    max_tokens: int | None = None
    labels: tuple[str, ...] = ()
    log_path: Path | None = None
    asked: list[Request] = field(default_factory=list)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, settings={"model": "scripted"})

    @cached_property
    def capabilities(self) -> Capabilities:
        kinds, labels = frozenset(self.kinds), tuple(self.labels)
        return Capabilities(kinds, max_tokens=self.max_tokens, has_chat=True, family="scripted", labels=labels)

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        for index, request in enumerate(requests):
            if self.delay:
                time.sleep(self.delay)
            self._note(request)
            yield index, _as_answer(self.handler(request), request)

    def close(self) -> None:
        pass

    def _note(self, request: Request) -> None:
        self.asked.append(request)
        if self.log_path is not None:
            with self.log_path.open("a", encoding="ascii") as log:
                log.write(request_digest(request).hex() + "\n")


def _as_answer(reply: Reply, request: Request) -> Output | Failure:
    if isinstance(reply, str):
        if isinstance(request, Generation) and request.max_tokens == 0:
            return Text("", "length")
        return Text(reply, token_count=len(reply.split()))
    if isinstance(reply, (int, float)):
        given = 1 if isinstance(request, RollingLoglikelihood) and not request.stands_on_prefix else 0
        count = (len(_scored(request).split()) or 1) - given
        return Logprob(float(reply), count, is_greedy=False, prompt_tokens=given)
    return reply


def _scored(request: Request) -> str:
    if isinstance(request, Loglikelihood):
        return request.continuation
    return "" if isinstance(request, Generation) else request.text
