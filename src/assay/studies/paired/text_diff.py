"""Two values side by side, as short lines for people: configurations, prompts with visible white space, requests."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.requests import Generation, Loglikelihood, Prompt, Request, untruncated_prompt

_LONGEST_VALUE = 120
_LONGEST_LINE = 160
_MOST_LINES = 24
_MOST_CONTINUATIONS = 6


def short(value: Any) -> str:
    """A value as JSON on one line, truncated if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def flat(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dots in its keys."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{above}{key}."))
        else:
            found[f"{above}{key}"] = value
    return found


def visible(text: str) -> list[str]:
    """Lines of a text with visible blanks, tabs and line ends."""
    marked = text.replace(" ", "·").replace("\t", "⇥").replace("\r", "␍").replace("\n", "⏎\n")
    return marked.split("\n") if not marked.endswith("⏎\n") else marked[:-1].split("\n")


def request_lines(first: Sequence[Request], second: Sequence[Request]) -> list[str]:
    """The differences between the requests of a document: prompt, continuations, generation settings."""
    if not first or not second or first[0].kind != second[0].kind or len(first) != len(second):
        kinds = [f"{len(requests)} {requests[0].kind if requests else 'requests'}" for requests in (first, second)]
        return [f"requests: {kinds[0]} → {kinds[1]}", *_text_diff(_text(first[0]), _text(second[0]))]
    index = next(index for index, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])
    lines = _text_diff(_text(first[index]), _text(second[index]))
    lines += _continuations(first, second)
    one, two = first[index], second[index]
    if isinstance(one, Generation) and isinstance(two, Generation):
        for name in ("stop", "max_tokens", "sampling", "draw"):
            mine, theirs = getattr(one, name), getattr(two, name)
            lines += [f"{name}: {mine!r} → {theirs!r}"] if mine != theirs else []
    return lines


def _text(request: Request) -> str:
    return _prompt(request.prompt) if isinstance(request, (Loglikelihood, Generation)) else request.text


def _prompt(prompt: Prompt) -> str:
    whole = untruncated_prompt(prompt)
    return whole if isinstance(whole, str) else "\n".join(f"<{part.role}> {part.text}" for part in whole)


def _text_diff(first: str, second: str) -> list[str]:
    if first == second:
        return []
    found = list(difflib.unified_diff(visible(first), visible(second), "first", "second", lineterm="", n=1))[2:]
    cut = [line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…" for line in found]
    return cut if len(cut) <= _MOST_LINES else [*cut[:_MOST_LINES], f"… {len(cut) - _MOST_LINES} lines more"]


def _continuations(first: Sequence[Request], second: Sequence[Request]) -> list[str]:
    pairs = [
        (one.continuation, two.continuation)
        for one, two in zip(first, second, strict=True)
        if isinstance(one, Loglikelihood) and isinstance(two, Loglikelihood) and one.continuation != two.continuation
    ]
    lines = [f"continuation: {_seen(one)} → {_seen(two)}" for one, two in pairs[:_MOST_CONTINUATIONS]]
    return lines + ([f"… {len(pairs) - _MOST_CONTINUATIONS} continuations more"] if len(pairs) > len(lines) else [])


def _seen(text: str) -> str:
    return "".join(visible(text))[:_LONGEST_VALUE]
