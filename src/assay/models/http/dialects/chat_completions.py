"""OpenAI's chat completions: generation from conversations. A chat endpoint has no log-likelihoods of given texts.

Reasoning text is never part of an answer. An answer that ends while the model is still reasoning is a failure of its
own, `truncated_thinking`, and so are refusals and answers that a content filter removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.core.requests import Message
from assay.core.responses import Failure, Text
from assay.models.http.dialects.reading import MOST_STOPS, choices_of, generated_text, sampling_fields
from assay.models.http.exchange import Exchange, GenerationCall, Unreadable

_OPTIONS = frozenset({"top_p", "frequency_penalty", "presence_penalty"})
_THINK, _THINK_END = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Chat:
    """Requests to `/v1/chat/completions`.

    Attributes:
        model: the model's name at the server.
        max_tokens_field: name of the field with the number of new tokens.
        seed: seed of sampled generations whose request has none.
    """

    name: ClassVar[str] = "chat"
    model: str
    max_tokens_field: str = "max_tokens"
    seed: int | None = None

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """The next message of a conversation; a text is sent as one user message."""
        if isinstance(call.sent, str):
            messages = [{"role": "user", "content": call.sent}]
        else:
            turns = [turn for turn in call.sent if isinstance(turn, Message)]
            messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        if not messages or messages[-1]["role"] == "assistant":
            message = "chat servers differ in how they continue an assistant's message, so none is sent as the last one"
            return Failure("unsupported", message, retryable=False)
        fields = sampling_fields(call.request, _OPTIONS, self.seed)
        if isinstance(fields, Failure):
            return fields
        body = {"model": self.model, "messages": messages, self.max_tokens_field: call.max_tokens, **fields}
        if stops := [stop for stop in call.request.stop if stop][:MOST_STOPS]:
            body["stop"] = stops

        def read(data: Mapping[str, Any]) -> Text | Failure:
            return _read_message(data, call)

        return Exchange("chat/completions", body, read)


def _read_message(data: Mapping[str, Any], call: GenerationCall) -> Text | Failure:
    choice = choices_of(data)[0]
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise Unreadable("malformed", 'the choice has no object "message"')
    reason = choice.get("finish_reason")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return Failure("refusal", f"the model refused: {refusal[:200]}", retryable=False)
    if reason in ("tool_calls", "function_call"):
        return Failure("tool_call", "the model called a tool instead of answering", retryable=False)
    thought, text = _without_thinking(_joined(message.get("content")))
    reasoning = message.get("reasoning_content") or message.get("reasoning") or thought
    if reasoning and not text and reason == "length":
        found = f"the limit of {call.max_tokens} tokens ended the reasoning before an answer; raise max_gen_toks"
        return Failure("truncated_thinking", found, retryable=False)
    if not text and reason != "stop" and reason != "content_filter":
        text = None  # an empty answer that the model ended itself is an answer; any other is not
    return generated_text(text, choice, data, call)


def _joined(content: Any) -> str | None:
    """The text of a message; of a list of parts, the text parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    if content is None or isinstance(content, str):
        return content
    raise Unreadable("malformed", f"the content of the message is of type {type(content).__name__}")


def _without_thinking(text: str | None) -> tuple[str, str | None]:
    """Reasoning that a server without a parser leaves in the text, and the answer after it."""
    if text is None or not text.lstrip().startswith(_THINK):
        return "", text
    thought, found, answer = text.partition(_THINK_END)
    return thought, answer.lstrip() if found else None
