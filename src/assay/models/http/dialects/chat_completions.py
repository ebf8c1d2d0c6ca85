"""OpenAI's chat completions: answers to conversations, and the most likely first tokens of an answer.

Servers differ in four things, which a `ChatServer` holds: how the beginning of an answer is given, how reasoning is
limited, how answers are constrained to a list, and the name of the limit of tokens. Reasoning text is kept apart from
the answer. An answer that ends while the model is still reasoning is a failure of its own, `truncated_thinking`, and so
are refusals and answers that a content filter removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from assay.core.errors import Fault, ModelError
from assay.core.requests import Message
from assay.core.responses import Failure, Text
from assay.models.http.dialects.reading import (
    CONSTRAINED_TOKENS,
    OPTIONAL,
    Constraint,
    Written,
    choice_schema,
    choices_of,
    count_of,
    generated_text,
    list_of,
    logprob_of,
    mapping_of,
    sampling_fields,
    sent_stops,
    turns_of,
)
from assay.models.http.exchange import (
    ChatSettings,
    Exchange,
    FirstTokens,
    GenerationCall,
    OptionalField,
    Thinking,
    Unreadable,
)

PATH = "chat/completions"
_OPTIONS = frozenset({"top_p", "frequency_penalty", "presence_penalty"})
_THINK, _THINK_END = "<think>", "</think>"
_RENAMED = OptionalField("max_tokens", replacement="max_completion_tokens")

# The allowed answers → the constraint.
Constrain = Callable[[tuple[str, ...]], Constraint]


def json_schema(allowed: tuple[str, ...]) -> Constraint:
    """OpenAI's form of a constraint: a JSON object whose answer is one of a list."""
    schema = {"name": "choice", "strict": True, "schema": choice_schema(allowed)}
    return Constraint(allowed, {"response_format": {"type": "json_schema", "json_schema": schema}}, is_json=True)


def effort_only(thinking: Thinking) -> Mapping[str, Any]:
    """OpenAI's setting of reasoning: an effort, without a budget of tokens."""
    if thinking.budget is not None:
        raise no_budget("reasoning_effort=low, medium or high")
    return {"reasoning_effort": thinking.effort} if thinking.effort else {}


def template_switch(thinking: Thinking) -> dict[str, Any]:
    """Whether the model's chat template asks for reasoning, as vLLM, SGLang and llama.cpp take it."""
    return {} if thinking.budget is None else {"chat_template_kwargs": {"enable_thinking": thinking.budget != 0}}


def no_budget(expected: str) -> ModelError:
    """The error for a setting of reasoning that a kind of server does not have."""
    return ModelError(Fault("model_args.thinking", "this kind of server has no such setting", expected))


@dataclass(frozen=True, slots=True)
class ChatServer:
    """Where servers with `/v1/chat/completions` differ.

    Attributes:
        prefill: fields with which a last message of the assistant is continued; None if it is not known how.
        repeats_prefill: whether the answer repeats that message.
        thinking: the settings of reasoning → fields of the body; raises a `ModelError` for what the server lacks.
        constrain: the allowed answers → fields of the body.
        max_tokens_field: name of the field with the number of new tokens.
    """

    prefill: Mapping[str, Any] | None = None
    repeats_prefill: bool = False
    thinking: Callable[[Thinking], Mapping[str, Any]] = effort_only
    constrain: Constrain = json_schema
    max_tokens_field: str = "max_tokens"


@dataclass(frozen=True, slots=True)
class Chat:
    """Requests to `/v1/chat/completions`.

    Attributes:
        settings: the model and the user's settings.
        server: the kind of server.
    """

    name: ClassVar[str] = "chat"
    settings: ChatSettings
    server: ChatServer = field(default_factory=ChatServer)

    def __post_init__(self) -> None:
        self.server.thinking(self.settings.thinking)  # raises for settings that the server does not have

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """The next message of a conversation; a text is sent as one user message."""
        body = self._body(call)
        fields = sampling_fields(call.request, _OPTIONS, self.settings.seed)
        if isinstance(body, Failure):
            return body
        if isinstance(fields, Failure):
            return fields
        limit = call.max_tokens + self.settings.thinking.extra_tokens
        stops = sent_stops(call)
        constraint = self.server.constrain(self.settings.constrain) if self.settings.constrain else None
        if constraint is not None:
            limit, stops, fields = max(limit, CONSTRAINED_TOKENS), (), {**fields, **constraint.fields}
        body |= {self._limit_field: limit, **fields, **({"stop": list(stops)} if stops else {})}
        prefill = _prefill(call) if self.server.repeats_prefill else ""

        def read(data: Mapping[str, Any]) -> Text | Failure:
            written = _read_message(data, stops, limit)
            if isinstance(written, Failure):
                return written
            text, notes = written.text, call.notes
            if prefill and isinstance(text, str) and text.startswith(prefill):
                text, notes = text[len(prefill) :], (*notes, "prefill_repeated")
            return generated_text(replace(written, text=text), replace(call, notes=notes), constraint)

        return Exchange(PATH, body, read, (*OPTIONAL, _RENAMED))

    def first_tokens(self, call: GenerationCall, most: int) -> Exchange[FirstTokens] | Failure:
        """The likeliest first tokens of an answer, from a request for one token."""
        body = self._body(call)
        if isinstance(body, Failure):
            return body
        # At temperature 1 log-probabilities are the model's own, whether or not a server reports them after scaling.
        asked = {self._limit_field: 1, "temperature": 1, "logprobs": True, "top_logprobs": most}
        return Exchange(PATH, body | asked, _read_first_tokens, (OPTIONAL[0], _RENAMED))

    @property
    def _limit_field(self) -> str:
        return self.settings.max_tokens_field or self.server.max_tokens_field

    def _body(self, call: GenerationCall) -> dict[str, Any] | Failure:
        turns = turns_of(call)
        if isinstance(turns, Failure):
            return turns
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": turn.role, "content": turn.text} for turn in turns],
            **self.server.thinking(self.settings.thinking),
        }
        if turns[-1].role != "assistant":
            return body
        if self.server.prefill is None:
            message = (
                "it is not known how this server continues an assistant's message, so none is sent as the last one; "
                "for a server of a known kind use its name: --model vllm, sglang, llamacpp"
            )
            return Failure("unsupported", message, retryable=False)
        return {**body, **self.server.prefill}


def _prefill(call: GenerationCall) -> str:
    """The beginning of the answer that the conversation gives; empty if it gives none."""
    last = call.sent[-1] if not isinstance(call.sent, str) and call.sent else None
    return last.text if isinstance(last, Message) and last.role == "assistant" else ""


def _read_message(data: Mapping[str, Any], stops: tuple[str, ...], limit: int) -> Written | Failure:
    choice = choices_of(data)[0]
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise Unreadable("malformed", 'the choice has no object "message"')
    reason = choice.get("finish_reason")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return Failure("refusal", f"the model refused: {refusal[:200]}", retryable=False)
    content = _joined(message.get("content"))
    thought, text = _without_thinking(content)
    if not text and reason not in ("stop", "content_filter"):
        text = None  # an empty answer that the model ended itself is an answer; any other is not
    return Written(
        text,
        reason,
        reasoning=_reasoning(message) or thought,
        prompt_tokens=count_of(data, "prompt_tokens"),
        new_tokens=count_of(data, "completion_tokens"),
        stops=stops,
        limit=limit,
        has_reasoned=isinstance(content, str) and content.lstrip().startswith(_THINK),
    )


def _reasoning(message: Mapping[str, Any]) -> str:
    """Reasoning that a server keeps apart; the field's name differs."""
    found = message.get("reasoning_content") or message.get("reasoning")
    return found if isinstance(found, str) else ""


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
    return thought.lstrip().removeprefix(_THINK).strip(), answer.lstrip() if found else None


def _read_first_tokens(data: Mapping[str, Any]) -> FirstTokens | Failure:
    choice = choices_of(data)[0]
    message = choice.get("message")
    if isinstance(message, Mapping) and _reasoning(message):
        found = "the answer begins with reasoning, so its first token says nothing about the choices: set thinking=off"
        return Failure("reasoning_first", found, retryable=False)
    try:
        logprobs = mapping_of(choice.get("logprobs"), "logprobs")
        first = mapping_of((list_of(logprobs.get("content"), "logprobs.content") or [None])[0], "logprobs.content")
        entries = [mapping_of(entry, "top_logprobs") for entry in list_of(first.get("top_logprobs"), "top_logprobs")]
    except Unreadable as error:
        found = f"{error}: it has no top_logprobs"
        return Failure("no_logprobs", found, retryable=False)
    tokens = tuple((str(entry.get("token", "")), logprob_of(entry.get("logprob"), "of a token")) for entry in entries)
    return FirstTokens(tokens, count_of(data, "prompt_tokens"))
