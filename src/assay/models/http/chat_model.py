"""Models behind a chat endpoint: answers to conversations, and with `choices=top_logprobs` letters of multiple choice.

In: a provider and lm-eval's model arguments. Out: a `Model`. Conversations are rendered by the server. There are no
log-likelihoods of given texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from assay.core.identity import Fingerprint
from assay.core.protocols import Capabilities
from assay.core.requests import Generation, Loglikelihood, Request
from assay.core.responses import Failure, Text, unsupported
from assay.core.server_report import GENERATION, LOGLIKELIHOODS, ProbedForm, ServerReport
from assay.models.http.chat_choices import Question, compared, questions_of
from assay.models.http.exchange import ChatDialect, Exchange, FirstTokens, GenerationCall
from assay.models.http.http_model import Answer, HttpModel, plain_prompt
from assay.models.http.servers.probed_forms import generation_form, letters_form, letters_limit

_NONE = "a chat endpoint has no log-likelihoods of given texts"
_ADVICE = (
    f"{_NONE}; for multiple choice by letters set choices=top_logprobs in --model_args, or let the model write its "
    "answer: TASK@generate"
)


class ChatModel(HttpModel):
    """A model behind a chat endpoint."""

    @cached_property
    def fingerprint(self) -> Fingerprint:
        wanted = self.arguments
        settings: dict[str, Any] = {
            "model": self.provider.name,
            "max_tokens_field": self._max_tokens_field or "max_tokens",
            **self._thinking_settings(),
            **({"constrain": list(wanted.constrain)} if wanted.constrain else {}),
            **({"choices": wanted.choices} if wanted.choices else {}),
        }
        if self._depends_on_kind:
            settings["server"] = self._kind_name
        return self._fingerprint(None, settings)

    @cached_property
    def capabilities(self) -> Capabilities:
        if self._depends_on_kind:
            assert self._dialect  # raises now for settings that the server does not have
        kinds = {Generation.kind}
        refusal = _ADVICE
        if self.arguments.choices is not None:
            _, fault = self._letters
            refusal = f"{_NONE}, and choices=top_logprobs is refused: {fault}" if fault else ""
            kinds |= set() if fault else {Loglikelihood.kind}
        return Capabilities(
            frozenset(kinds), has_chat=True, is_deterministic=False, family="chat server", refusal=refusal
        )

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Compares letters, then generates, many requests at a time."""
        compares = self.arguments.choices is not None
        scored = [(i, entry) for i, entry in enumerate(requests) if compares and isinstance(entry, Loglikelihood)]
        yield from self._compare(scored)
        others = {index for index, _ in scored}
        calls = ((i, self._call(entry)) for i, entry in enumerate(requests) if i not in others)
        yield from self._written(calls, self._dialect.generate)

    def description(self) -> Mapping[str, Any]:
        """Execution report, with how choices are answered."""
        report = super().description()
        return {**report, "choices": self.arguments.choices} if report and self.arguments.choices else report

    def _compare(self, requests: Sequence[tuple[int, Loglikelihood]]) -> Iterator[Answer]:
        """The log-probability of each letter; one request for all letters of a question."""
        questions, failures = questions_of(requests)
        yield from failures
        most = self._letters[0] if questions else 0
        exchanges: list[tuple[int, Exchange[FirstTokens]]] = []
        for number, question in enumerate(questions):
            found = self._dialect.first_tokens(_call_of(question), most)
            if isinstance(found, Failure):
                yield from ((place, found) for place in question.places)
            else:
                exchanges.append((number, found))
        if not exchanges:
            return
        for number, answer in self._connection.stream(iter(exchanges)):
            question = questions[number]
            if isinstance(answer, Failure):
                yield from ((place, answer) for place in question.places)
            else:
                yield from zip(question.places, compared(answer, question.letters), strict=True)

    @property
    def _depends_on_kind(self) -> bool:
        """Whether settings are sent differently to different kinds of servers."""
        wanted = self.arguments
        return bool(wanted.constrain or wanted.reasoning_effort) or wanted.thinking is not None

    @property
    def _kind_name(self) -> str:
        return self.provider.kind or self.facts_of_server.kind

    @cached_property
    def _dialect(self) -> ChatDialect:
        assert self.provider.chat is not None
        return self.provider.chat(self._chat_settings(self._kind_name))

    @cached_property
    def _letters(self) -> tuple[int, str]:
        """How many first tokens this server lists, and why they cannot be used; found by a request or two."""
        return letters_limit(self._connection, self._dialect)

    def probe(self) -> ServerReport:
        """What the server can do, with every form tried."""
        forms = (
            ProbedForm(LOGLIKELIHOODS, "of given texts", (_NONE,)),
            generation_form(self._connection, f"answers to conversations ({self._dialect.name})", self._dialect, True),
            letters_form(self._connection, self._dialect),
        )
        return ServerReport(self.arguments.model, self.arguments.base_url, self._facts(), forms, (GENERATION,))

    def _call(self, request: Request) -> GenerationCall | Text | Failure:
        return self._plain_call(request) if isinstance(request, Generation) else unsupported(request.kind)


def _call_of(question: Question) -> GenerationCall:
    return GenerationCall(plain_prompt(question.prompt), Generation(question.prompt), 1)
