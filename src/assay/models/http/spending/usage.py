"""Tokens of a request before it is sent, and tokens that a server counted.

In: bodies of requests and answers of any dialect. Out: `Size`, an estimate; `Usage`, the server's count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# UTF-8 bytes per token: English texts have more, texts in other scripts about as many.
BYTES_PER_TOKEN = 3
_PROMPTS = ("prompt", "messages", "system", "contents", "systemInstruction", "input_ids", "text", "input")
_NEW = ("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict", "maxOutputTokens")
_NESTED = ("generationConfig", "sampling_params", "parameters")


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a request: tokens of its prompt, and most new tokens. Both are estimated before it is sent."""

    prompt: int = 0
    new: int = 0

    def counted(self, of: str) -> int:
        """What the request takes of a limit."""
        return {"requests": 1, "tokens": self.prompt + self.new, "input": self.prompt, "output": self.new}[of]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a server counted.

    Attributes:
        prompt: tokens read, with those from a cache.
        new: tokens written, with those of reasoning.
        cached: prompt tokens that were read from a cache.
        written: prompt tokens that were written to a cache.
        reasoning: tokens of reasoning among the new ones.
    """

    prompt: int = 0
    new: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.new + other.new,
            self.cached + other.cached,
            self.written + other.written,
            self.reasoning + other.reasoning,
        )


def estimated_size(body: Mapping[str, Any] | None, tokens_field: str | None = None) -> Size:
    """The size of a request: its prompt's tokens, estimated unless it is sent as ids, and its limit of new tokens.

    Args:
        body: what is sent; None for a GET.
        tokens_field: a name of the user's for the limit of new tokens.
    """
    if body is None:
        return Size()
    prompt = sum(_tokens(body[name]) for name in _PROMPTS if name in body)
    places = [body, *(body[name] for name in _NESTED if isinstance(body.get(name), Mapping))]
    names = _NEW if tokens_field is None else (*_NEW, tokens_field)
    limits = [place[name] for place in places for name in names if type(place.get(name)) is int]
    return Size(prompt, max(limits, default=0))


def _tokens(value: Any) -> int:
    """Tokens of a prompt, estimated from its texts; ids count one each."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1
    if isinstance(value, Mapping):
        return sum(_tokens(part) for name, part in value.items() if name not in ("role", "type"))
    if isinstance(value, (list, tuple)):
        return len(value) if value and isinstance(value[0], int) else sum(map(_tokens, value)) + len(value)
    return 0


def read_usage(data: Mapping[str, Any]) -> Usage | None:
    """The tokens that a server's answer reports; None if it reports none, or negative ones."""
    usage = data.get("usage")
    if isinstance(usage, Mapping):
        if "input_tokens" in usage:
            return _of_anthropic(usage)
        prompt, new = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        if prompt is None:
            return None
        cached = _count(_part(usage, "prompt_tokens_details"), "cached_tokens") or 0
        details = _part(usage, "completion_tokens_details")
        reasoning = _count(details, "reasoning_tokens") or _count(usage, "reasoning_tokens") or 0
        return Usage(prompt, new or 0, min(cached, prompt), 0, reasoning)
    usage = data.get("usageMetadata")
    if isinstance(usage, Mapping):
        prompt, thoughts = _count(usage, "promptTokenCount"), _count(usage, "thoughtsTokenCount") or 0
        if prompt is None:
            return None
        new = (_count(usage, "candidatesTokenCount") or 0) + thoughts
        return Usage(prompt, new, min(prompt, _count(usage, "cachedContentTokenCount") or 0), 0, thoughts)
    prompt, new = _count(data, "tokens_evaluated"), _count(data, "tokens_predicted")  # llama.cpp
    return None if prompt is None or new is None else Usage(prompt, new)


def _of_anthropic(usage: Mapping[str, Any]) -> Usage | None:
    """Anthropic counts tokens from and for the cache beside the others."""
    prompt, new = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    if prompt is None or new is None:
        return None
    cached, written = _count(usage, "cache_read_input_tokens") or 0, _count(usage, "cache_creation_input_tokens") or 0
    thoughts = _count(_part(usage, "output_tokens_details"), "thinking_tokens") or 0
    return Usage(prompt + cached + written, new, cached, written, thoughts)


def _part(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, Mapping) else {}


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else None
