"""`/v1/chat/completions`: conversations, written out by the model's own chat template.

In: a JSON body. Out: JSON data, or pieces of a stream.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.protocols import TokenRow, TokenScores
from assay.core.requests import Message, Prompt
from assay.core.responses import Failure
from assay.serve.api_errors import failed, refused
from assay.serve.completions import MOST_LOGPROBS, finished, usage
from assay.serve.decoding import Decoding, read_decoding
from assay.serve.fields import Fields
from assay.serve.service import Asked, Service, answer_of
from assay.serve.streaming import pieces
from assay.serve.token_answers import chat_logprobs, names_of
from assay.serve.worker import Written

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_LOST = {
    "system_dropped": "the chat template leaves the system message out",
    "turn_dropped": "the chat template leaves a message out",
    "question_dropped": "the chat template leaves the last message of the user out",
}
# Tokens of an answer of a model whose context length is unknown.
_USUAL_MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A request for chat completions.

    Attributes:
        prompt: the conversation, or its text if template arguments changed it.
        ids: the same as token ids; None for models that read text.
        decoding: how answers are generated.
        max_tokens: tokens of an answer.
        top_logprobs: most likely tokens per position; None for no log-probabilities.
        names_ids: whether tokens are called by their id.
        returns_ids: whether token ids are returned.
    """

    prompt: Prompt
    ids: tuple[int, ...] | None
    decoding: Decoding
    max_tokens: int
    top_logprobs: int | None
    names_ids: bool
    returns_ids: bool


def read_chat(body: Any, service: Service) -> ChatCall:
    """Reads and checks a body."""
    fields = Fields(body)
    service.check_model(fields.text("model"))
    messages = read_messages(fields)
    options = fields.mapping("chat_template_kwargs")
    text, ids = _rendered(messages, options, service)
    decoding = read_decoding(fields)
    call = ChatCall(
        prompt=messages if text is None or not options else text,
        ids=ids,
        decoding=decoding,
        max_tokens=_max_tokens(fields, len(ids or ()), service),
        top_logprobs=_top_logprobs(fields, service, decoding),
        names_ids=fields.flag("return_tokens_as_token_ids"),
        returns_ids=fields.flag("return_token_ids"),
    )
    if call.returns_ids:
        service.require_scores("return_token_ids")
    fields.finish()
    return call


def read_messages(fields: Fields) -> tuple[Message, ...]:
    """The conversation; the model writes its next message, or continues the last if the fields say so."""
    value = fields.get("messages")
    if not isinstance(value, list) or not value:
        raise refused("messages must be a list with at least one message", "messages")
    messages = tuple(_message(entry, f"messages[{place}]") for place, entry in enumerate(value))
    continues = fields.flag("continue_final_message")
    if fields.flag("add_generation_prompt", not continues) == continues:
        raise refused("expected either continue_final_message or add_generation_prompt", "continue_final_message")
    if (messages[-1].role == "assistant") != continues:
        advice = "is the assistant's: set continue_final_message: true and add_generation_prompt: false"
        found = "is not the assistant's, so it cannot be continued" if continues else advice
        raise refused(f"the last message {found}", "messages")
    return messages


def _message(value: Any, where: str) -> Message:
    fields = Fields(value)
    role, content = fields.get("role"), fields.get("content")
    fields.finish()
    if role not in _ROLES:
        raise refused(f"{where}.role is {role!r}; expected {', '.join(_ROLES)}", "messages")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        if len(parts) < len(content) or any(part.get("type") != "text" for part in parts):
            raise refused(f"{where}.content has parts other than text", "messages")
        content = "".join(str(part.get("text")) for part in parts)
    if not isinstance(content, str):
        raise refused(f"{where}.content must be a text, or a list of text parts", "messages")
    return Message(_ROLES[role], content)


def _rendered(
    messages: tuple[Message, ...], options: Mapping[str, Any], service: Service
) -> tuple[str | None, tuple[int, ...] | None]:
    """The conversation as text and ids; neither for a model that renders it itself."""
    if not service.facts.reads_ids:
        if options:
            raise refused(f"chat_template_kwargs: {service.facts.name} has no template", "chat_template_kwargs")
        return None, None
    found = service.codec.render(messages, options)
    if isinstance(found, Failure):
        raise failed(found)
    text, notes = found
    lost = next((_LOST[note] for note in notes if note in _LOST), None)
    if lost is not None:
        raise refused(lost, "messages")
    return text, service.codec.encode(text)


def _max_tokens(fields: Fields, prompt: int, service: Service) -> int:
    old, new = fields.count("max_tokens", 0), fields.count("max_completion_tokens", 0)
    if old is not None and new is not None and old != new:
        raise refused("max_tokens and max_completion_tokens differ; set one", "max_tokens")
    wanted, most = new if new is not None else old, service.facts.max_length
    if wanted is None:
        wanted = _USUAL_MAX_TOKENS if most is None else max(most - prompt, 1)
    service.check_length(prompt, wanted)
    return wanted


def _top_logprobs(fields: Fields, service: Service, decoding: Decoding) -> int | None:
    wanted, top = fields.flag("logprobs"), fields.count("top_logprobs", 0, MOST_LOGPROBS)
    if not wanted:
        if top:
            raise refused("top_logprobs needs logprobs: true", "top_logprobs")
        return None
    service.require_scores("logprobs")
    if decoding.stream:
        raise refused("logprobs together with stream is not supported", "logprobs")
    return top or 0


async def answer_chat(call: ChatCall, service: Service) -> dict[str, Any]:
    """The answer to a request that is not streamed."""
    needs_ids = call.top_logprobs is not None or call.returns_ids
    written = await asyncio.gather(*(service.begin(asked, needs_ids) for asked in _generations_of(call)))
    answers = [answer_of(one) for one in written]
    scores: list[TokenScores | None] = [None] * len(written)
    if call.top_logprobs is not None:
        top = max(call.top_logprobs, 1)
        pairs = [((*(call.ids or ()), *(one.ids or ())), len(one.ids or ())) for one in written]
        scores = [*await service.score([TokenRow(ids, count, top) for ids, count in pairs])]
    choices = []
    copies = call.decoding.choices if call.decoding.is_greedy else 1
    for one, found in zip(written, scores, strict=True):
        choices += [_choice(call, service, one, found)] * copies
    numbered = [{"index": index, **choice} for index, choice in enumerate(choices)]
    counts = usage(answers[0].prompt_tokens, sum(answer.token_count for answer in answers) * copies)
    return {**_head("chat.completion", service), "choices": numbered, "usage": counts}


def _generations_of(call: ChatCall) -> list[Asked]:
    requests = call.decoding.requests(call.prompt, call.max_tokens)
    return [Asked(request, call.ids, call.decoding.is_repeatable) for request in requests]


def _head(kind: str, service: Service) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": service.facts.name,
        "system_fingerprint": service.facts.fingerprint,
    }


def _choice(call: ChatCall, service: Service, written: Written, scores: TokenScores | None) -> dict[str, Any]:
    text, reason = finished(written)
    message = {"role": "assistant", "content": text, "refusal": None}
    choice: dict[str, Any] = {"message": message, "logprobs": None, "finish_reason": reason}
    if scores is not None and call.top_logprobs is not None:
        names = names_of(service.codec, call.names_ids)
        choice["logprobs"] = chat_logprobs(written.ids or (), scores, call.top_logprobs, names)
    if call.returns_ids:
        choice |= {"prompt_token_ids": list(call.ids or ()), "token_ids": list(written.ids or ())}
    return choice


async def stream_chat(call: ChatCall, service: Service) -> AsyncIterator[dict[str, Any]]:
    """The frames of a streamed answer."""
    answers = _generations_of(call)
    copies = call.decoding.choices if call.decoding.is_greedy else 1
    common = _head("chat.completion.chunk", service)
    more = {"usage": None} if call.decoding.include_usage else {}

    def frame(index: int, delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        own = range(index * copies, (index + 1) * copies)
        choices = [{"index": copy, "delta": delta, "logprobs": None, "finish_reason": reason} for copy in own]
        return {**common, "choices": choices, **more}

    begun: set[int] = set()
    prompt_tokens = completion_tokens = 0
    async for piece in pieces(answers, service):
        if piece.index not in begun:
            begun.add(piece.index)
            yield frame(piece.index, {"role": "assistant", "content": ""})
        if piece.text:
            yield frame(piece.index, {"content": piece.text})
        if piece.finished is not None:
            answer = answer_of(piece.finished)
            prompt_tokens, completion_tokens = answer.prompt_tokens, completion_tokens + answer.token_count * copies
            yield frame(piece.index, {}, finished(piece.finished)[1])
    if call.decoding.include_usage:
        yield {**common, "choices": [], "usage": usage(prompt_tokens, completion_tokens)}
