"""Reads the parts that dialects share: choices, numbers, finish reasons, generated text.

In: JSON objects of a server. Out: plain values; `Unreadable` for what a sound server does not send.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from assay.core.identity import canonical_json
from assay.core.output_checks import LOGPROB_TOLERANCE
from assay.core.requests import Generation, Message, Sampling
from assay.core.responses import Failure, Text
from assay.models.http.exchange import GenerationCall, OptionalField, Unreadable
from assay.models.tokens.tokenization import cut_at_stops

# Servers write -9999 (vLLM) or the lowest float for a probability of 0, since JSON has no infinity.
_ZERO_PROBABILITY = -9999.0
# Attempts after the first for an answer without content: a greedy model repeats itself, and each attempt is paid for.
_EMPTY_REPEATS = 2
# OpenAI and vLLM refuse more stop strings; the text is cut at all of them here anyway.
MOST_STOPS = 4
# Room for a constrained answer: the constraint ends it.
CONSTRAINED_TOKENS = 64
_HIGHEST_SEED = 2**31 - 1
# A note: token ids were sent, and the server counts another number of them.
_OTHER_COUNT = "server_counts_other_prompt_tokens"

# Options without effect on greedy decoding; penalties have one.
_OF_SAMPLING = frozenset({"top_p", "top_k", "min_p"})
# Options of transformers and lm-eval that change nothing when they have these values.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (True, False),
    "num_beams": (1,),
    "repetition_penalty": (1, 1.0),
    "top_k": (0, -1, None),
    "top_p": (1, 1.0, None),
}


def choices_of(data: Mapping[str, Any], count: int = 1) -> list[Mapping[str, Any]]:
    """The choices by their `index`, which must be 0 … count - 1, each once. A single choice may have none."""
    choices = data.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        raise Unreadable("malformed", 'the answer has no list "choices"')
    if len(choices) != count:
        raise Unreadable("malformed", f"the answer has {len(choices)} choices; expected {count}")
    indices = [choice.get("index", 0 if count == 1 else None) for choice in choices]
    if any(type(index) is not int for index in indices) or sorted(indices) != list(range(count)):
        raise Unreadable("malformed", f"the choices have the indices {indices}; expected 0 to {count - 1}, each once")
    return [choice for _, choice in sorted(zip(indices, choices, strict=True), key=lambda pair: pair[0])]


def list_of(value: Any, name: str, length: int | None = None, kind: str = "no_logprobs") -> list[Any]:
    """A JSON list, of a certain length; else `Unreadable` of some kind."""
    if not isinstance(value, list):
        raise Unreadable(kind, f"the answer has no list {name}")
    if length is not None and len(value) != length:
        raise Unreadable("token_count", f"{name} has {len(value)} entries; expected {length}")
    return value


def mapping_of(value: Any, name: str, kind: str = "no_logprobs") -> Mapping[str, Any]:
    """A JSON object; else `Unreadable` of some kind."""
    if not isinstance(value, Mapping):
        raise Unreadable(kind, f"the answer has no object {name}")
    return value


def logprob_of(value: Any, place: str | int) -> float:
    """A log-probability; -inf for the servers' stand-ins for it. `place` is for messages: words, or a token's index."""
    if type(value) is float and _ZERO_PROBABILITY < value <= 0.0:
        return value
    if isinstance(place, int):
        place = f"of token {place}"
    if type(value) not in (int, float):
        raise Unreadable("no_logprobs", f"the log-probability {place} is {value!r}; expected a number")
    number = float(value)
    if math.isnan(number) or number == math.inf:
        raise Unreadable("not_finite", f"the log-probability {place} is {number}")
    if number > LOGPROB_TOLERANCE:
        raise Unreadable("positive_logprob", f"the log-probability {place} is {number:g}; expected at most 0")
    return -math.inf if number <= _ZERO_PROBABILITY else min(number, 0.0)


def check_logprobs(values: Sequence[Any], first: int) -> None:
    """Raises unless all values are log-probabilities; `first` is the index of the first one, for messages."""
    # At C speed: a long prompt has thousands, of which few are scored.
    if set(map(type, values)) == {float} and max(values) <= 0.0 and math.isfinite(math.fsum(values)):
        return
    for place, value in enumerate(values, first):
        logprob_of(value, place)


def check_ids(reported: Any, ids: Sequence[int], name: str) -> None:
    """Raises unless the ids that a server reports, if it does, are those that were sent."""
    if reported is not None and reported != list(ids):
        raise Unreadable("other_tokens", f"the server read other tokens than were sent ({name}): a BOS token, or a cut")


def check_prompt_count(data: Mapping[str, Any], count: int) -> None:
    """Raises unless `usage.prompt_tokens`, if it is reported, is the number of tokens that were sent."""
    usage = data.get("usage")
    reported = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if type(reported) is int and reported > 0 and reported != count:
        raise Unreadable("token_count", f"the server counts {reported} prompt tokens; {count} were sent")


# Generation

# Fields of OpenAI's requests that models may refuse, most of them reasoning models.
OPTIONAL = (
    OptionalField("temperature", "temperature_refused"),
    OptionalField("top_p", "top_p_refused"),
    OptionalField("top_k", "top_k_refused"),
    OptionalField("seed", "seed_refused"),
    OptionalField("stop", "stop_refused"),
)


def sampling_fields(request: Generation, allowed: frozenset[str], default_seed: int | None) -> dict[str, Any] | Failure:
    """The decoding settings as fields of a body; a failure for one that the server does not have.

    Args:
        request: the generation.
        allowed: options that the server has.
        default_seed: seed of sampled generations if the request has none.
    """
    sampling = request.sampling
    fields: dict[str, Any] = {"temperature": sampling.temperature}
    for name, value in sampling.options:
        neutral = _NEUTRAL.get(name, ())
        if value in neutral:
            continue
        if name not in allowed:
            return Failure("unsupported", f"this server cannot generate with {name}={value!r}", retryable=False)
        if not (sampling.is_greedy and name in _OF_SAMPLING):
            fields[name] = value
    seed = _seed(sampling, request.draw, default_seed)
    return fields if seed is None else {**fields, "seed": seed}


def _seed(sampling: Sampling, draw: int, default: int | None) -> int | None:
    """A seed per draw: draws of one request are independent samples."""
    own = default if sampling.seed is None else sampling.seed
    if own is None or sampling.is_greedy:
        return None
    return int.from_bytes(hashlib.sha256(canonical_json([own, draw]).encode()).digest()[:4], "big") & _HIGHEST_SEED


@dataclass(frozen=True, slots=True)
class Written:
    """A generated text as a server reports it.

    Attributes:
        text: the text; anything else than a string is not an answer.
        reason: why it ended, in OpenAI's words.
        reasoning: what the model wrote before it, where that is apart.
        has_reasoned: whether it reasoned, shown or not.
        prompt_tokens: tokens of the prompt that the server counts; 0 if it does not say.
        new_tokens: tokens that it counts as generated, reasoning included; 0 if it does not say.
        stops: the stop strings that were sent.
        limit: the limit of tokens that was sent.
        detail: more about the end, such as a category of a content filter.
    """

    text: Any
    reason: Any
    reasoning: str = ""
    prompt_tokens: int = 0
    new_tokens: int = 0
    stops: tuple[str, ...] = ()
    limit: int = 0
    detail: str = ""
    has_reasoned: bool = False


def generated_text(written: Written, call: GenerationCall, constraint: Constraint | None = None) -> Text | Failure:
    """A generated text, cut at the stop strings, with its end, counts and notes; or why it is not an answer."""
    text, reason = written.text, written.reason
    if reason == "content_filter":
        about = f" ({written.detail})" if written.detail else ""
        return Failure("content_filter", f"the provider's content filter removed the answer{about}", retryable=False)
    if reason in ("tool_calls", "function_call"):
        return Failure("tool_call", "the model called a tool instead of answering", retryable=False)
    if reason in ("abort", "error"):
        found = written.detail or repr(reason)
        raise Unreadable("aborted", f"the server ended the generation with finish_reason {found}")
    if (written.reasoning or written.has_reasoned) and not text and reason == "length":
        found = f"the limit of {written.limit} tokens ended the reasoning before an answer; raise max_gen_toks"
        return Failure("truncated_thinking", found, retryable=False)
    if text is None:
        raise Unreadable("no_content", f"the answer has no text (finish_reason {reason!r})", _EMPTY_REPEATS)
    if not isinstance(text, str):
        raise Unreadable("malformed", f"the text of the answer is of type {type(text).__name__}")
    kept = cut_at_stops(text, () if constraint else call.request.stop)
    end, notes = _end(written, kept, len(kept) < len(text))
    if constraint is not None:
        chosen = constraint.chosen(kept)
        if isinstance(chosen, Failure):
            return chosen
        kept = chosen
        notes.append("constrained")
    sent = call.sent
    prompt_tokens = written.prompt_tokens
    if not isinstance(sent, str) and sent and isinstance(sent[0], int):
        if prompt_tokens not in (0, len(sent)):
            notes.append(_OTHER_COUNT)
        prompt_tokens = len(sent)
    return Text(
        text=kept,
        finish_reason=end,
        token_count=written.new_tokens,
        prompt_tokens=prompt_tokens,
        truncated=call.truncated,
        notes=(*call.notes, *notes),
        reasoning=written.reasoning,
    )


def _end(written: Written, kept: str, is_cut: bool) -> tuple[str, list[str]]:
    """How a text ended, and notes on limits that the server did not keep."""
    notes = ["limit_ignored"] if written.new_tokens > written.limit > 0 else []
    rest = written.text[len(kept) :]
    if is_cut:
        is_ignored = any(rest.startswith(stop) and len(rest) > len(stop) for stop in written.stops)
        return "stop", [*notes, *(["stop_ignored"] if is_ignored else [])]
    if written.reason == "length":
        return "length", [*notes, "stop_at_limit"]
    is_known = written.reason in ("stop", "eos", "end_turn", "stop_sequence")
    return "stop", notes if is_known else [*notes, f"finish_reason {written.reason}"]


def count_of(data: Mapping[str, Any], name: str, part: str = "usage") -> int:
    """A count of tokens in the part of an answer that holds them; 0 for one that is missing or impossible."""
    usage = data.get(part)
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if type(value) is int and value >= 0 else 0


def turns_of(call: GenerationCall) -> list[Message] | Failure:
    """The prompt as a conversation; a text is one user message."""
    if isinstance(call.sent, str):
        return [Message("user", call.sent)]
    turns = [turn for turn in call.sent if isinstance(turn, Message)]
    return turns or Failure("unsupported", "the conversation has no messages", retryable=False)


def sent_stops(call: GenerationCall, most: int = MOST_STOPS) -> tuple[str, ...]:
    """The stop strings that are sent: answers are cut at all of them here anyway."""
    return tuple(stop for stop in call.request.stop if stop)[:most]


class Constraint(NamedTuple):
    """A constraint of answers to a list of texts.

    Attributes:
        allowed: the texts.
        fields: the fields of the request body that ask for it.
        is_json: whether the answer is a JSON object that holds the text.
    """

    allowed: tuple[str, ...]
    fields: Mapping[str, Any]
    is_json: bool = False

    def chosen(self, answer: str) -> str | Failure:
        """The answer, which must be one of the texts whatever the server does."""
        found = (_in_json(answer) if self.is_json else answer).strip()
        if found in self.allowed:
            return found
        said = f"the answer {found[:80]!r} is none of {', '.join(self.allowed)}: the constraint is ignored"
        return Failure("not_a_choice", said, retryable=False)


def choice_schema(allowed: Sequence[str]) -> dict[str, Any]:
    """A JSON schema of an object that holds one of some texts."""
    answer = {"type": "string", "enum": list(allowed)}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"], "additionalProperties": False}


def _in_json(text: str) -> str:
    try:
        data = json.loads(text)
    except ValueError:
        return text
    value = data.get("answer") if isinstance(data, dict) else None
    return value if isinstance(value, str) else text
