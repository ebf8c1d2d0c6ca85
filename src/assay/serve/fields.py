"""The JSON object of a request, read field by field; every field must be read, or have a value without effect.

Out: plain values; an `ApiError` with status 400 that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.errors import did_you_mean
from assay.serve.api_errors import ApiError, refused

# Without effect on an answer, whatever they hold.
_FOR_THE_PROVIDER = frozenset({"user", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"})
# Not there: the values that mean the same as leaving the field out.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "use_beam_search": (False,),
    "ignore_eos": (False,),
    "min_tokens": (0,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "stop_token_ids": ([],),
    "length_penalty": (1,),
    "typical_p": (1,),
    "store": (False,),
    "metadata": ({},),
    "service_tier": ("auto", "default"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
}


class Fields:
    """The fields of a request's body.

    Args:
        body: the parsed JSON.
    """

    def __init__(self, body: Any) -> None:
        if not isinstance(body, dict):
            raise refused("the body is not a JSON object")
        self._body: Mapping[str, Any] = body
        self._read: set[str] = set()

    def get(self, name: str) -> Any:
        """The value of a field; None if it is absent or null."""
        self._read.add(name)
        return self._body.get(name)

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(name, value, "a string")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _wrong(name, value, "true or false")
        return value

    def count(self, name: str, low: int, high: int | None = None) -> int | None:
        """A whole number within bounds."""
        value = self.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if type(value) is not int or value < low or (high is not None and value > high):
            raise _wrong(name, value, f"a whole number from {low}" + ("" if high is None else f" to {high}"))
        return value

    def number(self, name: str, default: float, low: float, high: float = math.inf) -> float:
        value = self.get(name)
        if value is None:
            return default
        if type(value) not in (int, float) or not low <= value <= high or not math.isfinite(value):
            raise _wrong(name, value, f"a number from {low:g}" + (f" to {high:g}" if math.isfinite(high) else ""))
        return float(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _wrong(name, value, "an object")
        return value

    def token_ids(self, name: str, vocabulary: int) -> tuple[int, ...]:
        """A list of token ids."""
        return checked_ids(name, self.get(name), vocabulary)

    def finish(self) -> None:
        """Refuses fields that were not read, unless they are without effect."""
        for name, value in self._body.items():
            if name in self._read or value is None or name in _FOR_THE_PROVIDER:
                continue
            if name not in _NEUTRAL:
                raise refused(f"unknown field {name!r}{did_you_mean(name, self._read)}", name, "unknown_parameter")
            if value not in _NEUTRAL[name] or isinstance(value, bool) != isinstance(_NEUTRAL[name][0], bool):
                raise refused(f"{name} is not supported; leave it out", name, "unsupported_parameter")


def checked_ids(name: str, value: Any, vocabulary: int) -> tuple[int, ...]:
    """Token ids of the model's vocabulary."""
    if not isinstance(value, list) or any(type(entry) is not int for entry in value):
        raise _wrong(name, value, "a list of token ids")
    outside = next((entry for entry in value if not 0 <= entry < vocabulary), None)
    if outside is not None:
        raise refused(f"{name}: {outside} is not a token id; expected 0 to {vocabulary - 1}", name)
    return tuple(value)


def strings_of(name: str, value: Any) -> tuple[str, ...]:
    """A string, or a list of strings."""
    found: Sequence[Any] = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise _wrong(name, value, "a string or a list of strings")
    return tuple(found)


def _wrong(name: str, value: Any, expected: str) -> ApiError:
    text = repr(value)
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return refused(f"{name} is {shown}; expected {expected}", name, "invalid_value")
