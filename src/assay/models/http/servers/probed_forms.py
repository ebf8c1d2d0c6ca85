"""Tries forms of request one by one, so that `assay probe` can list what works and why the rest does not.

In: a connection and exchanges. Out: `ProbedForm` values. A form that the server refuses altogether ends no other: each
is tried on a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from assay.core.errors import ModelError
from assay.core.requests import Generation, Message
from assay.core.responses import Failure, Text
from assay.core.server_report import GENERATION, LETTERS, LOGLIKELIHOODS, ProbedForm
from assay.models.http.chat_choices import fault_of
from assay.models.http.connection import Connection
from assay.models.http.exchange import ChatDialect, Dialect, Exchange, GenerationCall, TokenScore, Writer
from assay.models.http.servers.server_probe import TEXT, Probe

_RETRIES = 2
_GREEDY_REPEATS = 3
# First tokens that are asked for: OpenAI's most, and what some servers allow at most.
LISTED_TOKENS = (20, 5)
# Room for a few words after the reasoning of models that reason.
_TOKENS = 16
_QUESTION = "Which letter comes first in the alphabet, A or B? Answer with the letter alone."
# Dialect → how it scores, for people.
FORMS = {
    "openai": "/v1/completions with echo and logprobs",
    "vllm": "/v1/completions with prompt_logprobs (vLLM)",
    "sglang": "/generate with input_ids and logprob_start_len (SGLang)",
    "llamacpp": "/completion with a grammar of token ids (llama.cpp)",
    "tgi": "/generate with decoder_input_details (TGI)",
}


def letters_limit(connection: Connection, dialect: ChatDialect) -> tuple[int, str]:
    """How many first tokens of a chat answer the server lists, and why they cannot be compared; empty if they can."""
    call = GenerationCall((Message("user", _QUESTION),), Generation(_QUESTION), 1)
    for most in LISTED_TOKENS:
        found = _asked(connection, dialect.first_tokens(call, most))
        fault = fault_of(found)
        if not (isinstance(found, Failure) and found.kind == "rejected"):
            break
    return most, fault


def letters_form(connection: Connection, dialect: ChatDialect) -> ProbedForm:
    """Whether letters of multiple choice can be compared."""
    name = "top_logprobs of a chat answer (choices=top_logprobs)"
    return _tried(connection, LETTERS, name, lambda: [letters_limit(connection, dialect)[1]])


def generation_form(connection: Connection, name: str, writer: Writer, is_chat: bool) -> ProbedForm:
    """Whether texts are generated, and whether the same greedy request gets the same text."""
    call = GenerationCall((Message("user", _QUESTION),) if is_chat else TEXT, Generation(TEXT), _TOKENS)
    texts: list[str] = []

    def attempt() -> list[str]:
        for _ in range(_GREEDY_REPEATS):
            found = _asked(connection, writer.generate(call))
            # A model that thinks for so long does answer, given more tokens.
            if isinstance(found, Failure):
                return [] if found.kind == "truncated_thinking" else [found.message]
            texts.append(found.text)
        return []

    form = _tried(connection, GENERATION, name, attempt)
    different = len(set(texts))
    said = f"the same greedy request got {different} different texts when asked {len(texts)} times"
    return replace(form, remark=said) if form.works and different > 1 else form


def likelihood_forms(
    connection: Connection, dialects: Sequence[Dialect], probe: Probe
) -> tuple[list[ProbedForm], dict[str, list[TokenScore]]]:
    """Whether each dialect gives log-likelihoods that are right, and the scores of a text by those that do."""
    scores: dict[str, list[TokenScore]] = {}

    def attempt(dialect: Dialect) -> list[str]:
        reasons = probe.reasons_against(dialect)
        if not reasons:
            scores[dialect.name] = probe.scores(dialect)
        return reasons

    tried = [_tried(connection, LOGLIKELIHOODS, FORMS[dialect.name], partial(attempt, dialect)) for dialect in dialects]
    return tried, scores


def largest_difference(scores: dict[str, list[TokenScore]]) -> float | None:
    """The largest difference between forms in the log-probability of the same token; None with fewer than two."""
    if len(scores) < 2:
        return None
    columns: list[list[float]] = [[score.logprob for score in column] for column in zip(*scores.values(), strict=True)]
    return max(max(column) - min(column) for column in columns)


def counted_tokens(connection: Connection, writer: Writer) -> int | None:
    """The prompt tokens that a server counts when the probe's text is sent as text; None if it does not say."""
    try:
        found = _asked(connection, writer.generate(GenerationCall(TEXT, Generation(TEXT), 1)))
    except ModelError:
        connection.close()
        return None
    return found.prompt_tokens or None if isinstance(found, Text) else None


def _asked(connection: Connection, exchange: Exchange[Any] | Failure) -> Any:
    return exchange if isinstance(exchange, Failure) else connection.ask(exchange, max_retries=_RETRIES)


def _tried(connection: Connection, purpose: str, name: str, attempt: Callable[[], list[str]]) -> ProbedForm:
    try:
        reasons = attempt()
    except ModelError as error:
        reasons = [fault.found for fault in error.faults]
        connection.close()  # a client that has given up asks nothing more; the next use opens another
    return ProbedForm(purpose, name, tuple(reason for reason in reasons if reason))
