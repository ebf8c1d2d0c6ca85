"""Anthropic's Messages API: answers to conversations. It has no log-probabilities and no seed.

System messages go to the top level; an answer is a list of typed blocks, of which text is the answer and thinking is
reasoning. Newer models take no temperature and no beginning of an answer: the first is learnt from the first refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from assay.core.errors import Fault, ModelError
from assay.core.responses import Failure, Text
from assay.models.http.dialects.reading import (
    CONSTRAINED_TOKENS,
    Constraint,
    Written,
    choice_schema,
    count_of,
    generated_text,
    list_of,
    mapping_of,
    sampling_fields,
    sent_stops,
    turns_of,
)
from assay.models.http.exchange import (
    AUTO_BUDGET,
    ChatSettings,
    Exchange,
    FirstTokens,
    GenerationCall,
    OptionalField,
    Thinking,
)
from assay.models.http.provider import Provider
from assay.models.http.traffic.api_key import KeyHeader

_OPTIONS = frozenset({"top_p", "top_k"})
_OPTIONAL = (
    OptionalField("temperature", "temperature_refused"),
    OptionalField("top_p", "top_p_refused"),
    OptionalField("top_k", "top_k_refused"),
    OptionalField("stop_sequences", "stop_refused"),
)
_LEAST_BUDGET = 1024
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "pause_turn": "error",
}


@dataclass(frozen=True, slots=True)
class Anthropic:
    """Requests to `/v1/messages`."""

    name: ClassVar[str] = "anthropic"
    settings: ChatSettings

    def __post_init__(self) -> None:
        _thinking_fields(self.settings.thinking)  # raises for a budget that is too small

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """The next message of a conversation, or the rest of one that ends with the assistant's words."""
        turns = turns_of(call)
        if isinstance(turns, Failure):
            return turns
        fields = sampling_fields(call.request, _OPTIONS, self.settings.seed)
        if isinstance(fields, Failure):
            return fields
        if fields.pop("seed", None) is not None:
            call = replace(call, notes=(*call.notes, "seed_refused"))
        # Sequences of white space alone are refused; answers are cut at them here.
        stops = tuple(stop for stop in sent_stops(call) if stop.strip())
        allowed = self.settings.constrain
        limit = call.max_tokens + self.settings.thinking.extra_tokens
        constraint = None
        extra = _thinking_fields(self.settings.thinking)
        if allowed:
            shape = {"format": {"type": "json_schema", "schema": choice_schema(allowed)}}
            constraint = Constraint(allowed, {}, is_json=True)
            extra = {**extra, "output_config": {**extra.get("output_config", {}), **shape}}
            limit, stops = max(limit, CONSTRAINED_TOKENS), ()
        system = "\n\n".join(turn.text for turn in turns if turn.role == "system")
        body = {
            "model": self.settings.model,
            "messages": [{"role": turn.role, "content": turn.text} for turn in turns if turn.role != "system"],
            "max_tokens": limit,
            **fields,
            **({"system": system} if system else {}),
            **({"stop_sequences": list(stops)} if stops else {}),
            **extra,
        }

        def read(data: Mapping[str, Any]) -> Text | Failure:
            written = _read_blocks(data, stops, limit)
            return written if isinstance(written, Failure) else generated_text(written, call, constraint)

        return Exchange("messages", body, read, _OPTIONAL)

    def first_tokens(self, call: GenerationCall, most: int) -> Exchange[FirstTokens] | Failure:
        """A failure: the API has no log-probabilities."""
        return Failure("unsupported", "Anthropic's API reports no log-probabilities", retryable=False)


def _thinking_fields(thinking: Thinking) -> dict[str, Any]:
    fields: dict[str, Any] = {"output_config": {"effort": thinking.effort}} if thinking.effort else {}
    if thinking.budget is None:
        return fields
    if thinking.budget == 0:
        return {**fields, "thinking": {"type": "disabled"}}
    if thinking.budget == AUTO_BUDGET:
        return {**fields, "thinking": {"type": "adaptive"}}
    if thinking.budget < _LEAST_BUDGET:
        found = f"is {thinking.budget}"
        raise ModelError(Fault("model_args.thinking", found, f"off, auto, or at least {_LEAST_BUDGET} tokens"))
    return {**fields, "thinking": {"type": "enabled", "budget_tokens": thinking.budget}}


def _read_blocks(data: Mapping[str, Any], stops: tuple[str, ...], limit: int) -> Written | Failure:
    reason = data.get("stop_reason")
    if reason == "refusal":
        return Failure("refusal", "the model refused (stop_reason refusal)", retryable=False)
    listed = list_of(data.get("content"), "content", kind="malformed")
    blocks = [mapping_of(block, "content", "malformed") for block in listed]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    thoughts = [str(block.get("thinking", "")) for block in blocks if block.get("type") == "thinking"]
    text = "".join(part for part in texts if isinstance(part, str)) if texts else None
    if not text and reason in ("end_turn", "stop_sequence"):
        text = ""  # the model ended before its first word, or with a stop sequence
    elif not text:
        text = None
    return Written(
        text,
        _REASONS.get(str(reason), reason),
        reasoning="\n\n".join(thought for thought in thoughts if thought),
        # What is read from or written to the provider's cache is not among the input tokens.
        prompt_tokens=sum(
            count_of(data, name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        ),
        new_tokens=count_of(data, "output_tokens"),
        stops=stops,
        limit=limit,
        has_reasoned=any(block.get("type") in ("thinking", "redacted_thinking") for block in blocks),
    )


PROVIDER = Provider(
    "anthropic",
    chat=Anthropic,
    base_url="https://api.anthropic.com/v1",
    key_variable="ANTHROPIC_API_KEY",
    key_header=KeyHeader("x-api-key"),
    headers={"anthropic-version": "2023-06-01"},
    lists_all_models=False,
)
