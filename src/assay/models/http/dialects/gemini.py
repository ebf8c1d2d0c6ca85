"""Gemini's generateContent: answers to conversations, and the most likely first tokens of an answer where offered.

An answer is a list of parts, of which thoughts are reasoning. A blocked prompt has no candidates. The key goes into a
header, never into the address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.core.responses import Failure, Text
from assay.models.http.dialects.reading import (
    CONSTRAINED_TOKENS,
    Constraint,
    Written,
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
from assay.models.http.provider import Provider
from assay.models.http.traffic.api_key import KeyHeader

_OPTIONS = {"top_p": "topP", "top_k": "topK", "frequency_penalty": "frequencyPenalty"}
_OPTIONS |= {"presence_penalty": "presencePenalty"}
_CONFIG = "generationConfig"
_OPTIONAL = (
    OptionalField(f"{_CONFIG}.temperature", "temperature_refused"),
    OptionalField(f"{_CONFIG}.topP", "top_p_refused"),
    OptionalField(f"{_CONFIG}.topK", "top_k_refused"),
    OptionalField(f"{_CONFIG}.seed", "seed_refused"),
    OptionalField(f"{_CONFIG}.stopSequences", "stop_refused"),
)
_ROLES = {"user": "user", "assistant": "model"}
_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("OTHER", "FINISH_REASON_UNSPECIFIED", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"), "error"),
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"), "tool_calls"),
}
_FILTERED = frozenset({"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})


@dataclass(frozen=True, slots=True)
class Gemini:
    """Requests to `models/NAME:generateContent`."""

    name: ClassVar[str] = "gemini"
    settings: ChatSettings

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """The next message of a conversation."""
        body = self._body(call)
        fields = sampling_fields(call.request, frozenset(_OPTIONS), self.settings.seed)
        if isinstance(body, Failure):
            return body
        if isinstance(fields, Failure):
            return fields
        stops = sent_stops(call)
        limit = call.max_tokens + self.settings.thinking.extra_tokens
        constraint = None
        if allowed := self.settings.constrain:
            shape = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": list(allowed)}}
            constraint = Constraint(allowed, shape)
            limit, stops = max(limit, CONSTRAINED_TOKENS), ()
        config = {
            "maxOutputTokens": limit,
            **{_OPTIONS.get(name, name): value for name, value in fields.items()},
            **({"stopSequences": list(stops)} if stops else {}),
            **(constraint.fields if constraint else {}),
            **_thinking_fields(self.settings.thinking),
        }

        def read(data: Mapping[str, Any]) -> Text | Failure:
            written = _read_candidate(data, stops, limit)
            return written if isinstance(written, Failure) else generated_text(written, call, constraint)

        return Exchange(self._path, {**body, _CONFIG: config}, read, _OPTIONAL)

    def first_tokens(self, call: GenerationCall, most: int) -> Exchange[FirstTokens] | Failure:
        """The likeliest first tokens of an answer, from a request for one token."""
        body = self._body(call)
        if isinstance(body, Failure):
            return body
        config = {"maxOutputTokens": 1, "temperature": 1, "responseLogprobs": True, "logprobs": most}
        config |= _thinking_fields(self.settings.thinking)
        return Exchange(self._path, {**body, _CONFIG: config}, _read_first_tokens, _OPTIONAL[:1])

    @property
    def _path(self) -> str:
        return f"models/{self.settings.model}:generateContent"

    def _body(self, call: GenerationCall) -> dict[str, Any] | Failure:
        turns = turns_of(call)
        if isinstance(turns, Failure):
            return turns
        if turns[-1].role == "assistant":
            message = "Gemini's API does not say how it continues an assistant's message, so none is sent as the last"
            return Failure("unsupported", message, retryable=False)
        system = [{"text": turn.text} for turn in turns if turn.role == "system"]
        contents = [
            {"role": _ROLES.get(turn.role, turn.role), "parts": [{"text": turn.text}]}
            for turn in turns
            if turn.role != "system"
        ]
        return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}


def _thinking_fields(thinking: Thinking) -> dict[str, Any]:
    config: dict[str, Any] = {} if thinking.budget is None else {"thinkingBudget": thinking.budget}
    if thinking.effort:
        config["thinkingLevel"] = thinking.effort.upper()
    if not config:
        return {}
    return {"thinkingConfig": {**config, "includeThoughts": thinking.budget != 0}}


def _candidate(data: Mapping[str, Any]) -> Mapping[str, Any] | Failure:
    """The candidate of an answer; a failure for a blocked prompt."""
    candidates = data.get("candidates")
    feedback = data.get("promptFeedback")
    if not candidates and isinstance(feedback, Mapping) and feedback.get("blockReason"):
        reason = feedback["blockReason"]
        return Failure("content_filter", f"the provider blocked the prompt ({reason})", retryable=False)
    if not isinstance(candidates, list) or len(candidates) != 1:
        raise Unreadable("malformed", "the answer does not have one candidate")
    return mapping_of(candidates[0], "candidates", "malformed")


def _read_candidate(data: Mapping[str, Any], stops: tuple[str, ...], limit: int) -> Written | Failure:
    candidate = _candidate(data)
    if isinstance(candidate, Failure):
        return candidate
    content = candidate.get("content")
    listed = content.get("parts", []) if isinstance(content, Mapping) else []
    parts = [mapping_of(part, "parts", "malformed") for part in list_of(listed, "parts", kind="malformed")]
    thoughts = [str(part.get("text", "")) for part in parts if part.get("thought")]
    texts = [part["text"] for part in parts if not part.get("thought") and isinstance(part.get("text"), str)]
    found = str(candidate.get("finishReason"))
    reason = "content_filter" if found in _FILTERED else _REASONS.get(found, candidate.get("finishReason"))
    text = "".join(texts)
    thought_tokens = count_of(data, "thoughtsTokenCount", "usageMetadata")
    return Written(
        text if text or reason == "stop" else None,
        reason,
        reasoning="".join(thoughts),
        prompt_tokens=count_of(data, "promptTokenCount", "usageMetadata"),
        new_tokens=count_of(data, "candidatesTokenCount", "usageMetadata") + thought_tokens,
        stops=stops,
        limit=limit,
        detail=found,
        has_reasoned=thought_tokens > 0,  # thoughts are counted even where they are not shown
    )


def _read_first_tokens(data: Mapping[str, Any]) -> FirstTokens | Failure:
    candidate = _candidate(data)
    if isinstance(candidate, Failure):
        return candidate
    if count_of(data, "thoughtsTokenCount", "usageMetadata"):
        found = "the answer begins with reasoning, so its first token says nothing about the choices: set thinking=off"
        return Failure("reasoning_first", found, retryable=False)
    try:
        result = mapping_of(candidate.get("logprobsResult"), "logprobsResult")
        first = mapping_of((list_of(result.get("topCandidates"), "topCandidates") or [None])[0], "topCandidates")
        entries = [mapping_of(entry, "candidates") for entry in list_of(first.get("candidates"), "candidates")]
    except Unreadable as error:
        return Failure("no_logprobs", f"{error}: this model has no log-probabilities", retryable=False)
    tokens = ((str(entry.get("token", "")), logprob_of(entry.get("logProbability"), "of a token")) for entry in entries)
    return FirstTokens(tuple(tokens), count_of(data, "promptTokenCount", "usageMetadata"))


PROVIDER = Provider(
    "gemini",
    chat=Gemini,
    base_url="https://generativelanguage.googleapis.com/v1beta",
    key_variable="GEMINI_API_KEY",
    key_header=KeyHeader("x-goog-api-key"),
    lists_all_models=False,
)
