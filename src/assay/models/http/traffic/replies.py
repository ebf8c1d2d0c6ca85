"""What a server's reply means: a JSON object to read, or a rejection and what to do about it.

In: status, headers and body. Out: the object, or a `Rejection`. Pure functions; the client acts on them.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Any

_LONGEST_QUOTED = 300


class Action(enum.Enum):
    """What helps: ask again, let all requests pause first, give this request up, or end the run."""

    RETRY = enum.auto()
    PAUSE = enum.auto()
    FAIL = enum.auto()
    STOP = enum.auto()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request that was not answered.

    Attributes:
        kind: short name, as in `Failure`.
        message: what happened.
        action: what to do.
        wait: seconds that the server asks to wait; None if it does not say.
        advice: what the user can do, if the run ends.
        repeats: how often it is worth asking again; None for the client's own bound.
    """

    kind: str
    message: str
    action: Action
    wait: float | None = None
    advice: str = ""
    repeats: int | None = None


# Rate limits that no waiting lifts within a run.
_QUOTA = re.compile(
    r"insufficient[_ ]quota|exceeded your current quota|credit[_ ]balance|billing|spend(?:ing)?[_ ]limit|per[_ ]day"
    r"|daily (?:quota|limit)|payment required|hard[_ ]limit",
    re.IGNORECASE,
)
# A prompt that is too long, as vLLM, llama.cpp, SGLang, TGI and providers word it.
_TOO_LONG = re.compile(
    r"exceed_context_size|context[_ ]length|maximum context|context (?:size|window)|prompt is too long|max_model_len"
    r"|too many tokens|longer than the maximum|exceeds the (?:available|model's|maximum number of tokens)"
    r"|inputs`? (?:tokens|must have less than)|too long for requested",
    re.IGNORECASE,
)
# A key that is wrong, where a provider answers 400 (Gemini).
_BAD_KEY = re.compile(r"api[ _]key (?:not valid|not found|expired|invalid)|API_KEY_INVALID", re.IGNORECASE)
# A request that exceeds a rate limit by itself: no waiting helps.
_TOO_LARGE = re.compile(r"request (?:is )?too large|requested \d+.*must be (?:reduced|smaller)", re.IGNORECASE)
# A prompt that a provider refuses to answer, as Azure, OpenAI and OpenRouter word it.
_FILTERED = re.compile(
    r"content[_ ](?:filter|policy|management)|responsibleaipolicy|moderation|flagged|safety[_ ](?:system|policy)"
    r"|usage polic(?:y|ies)",
    re.IGNORECASE,
)
_LIMITED = re.compile(r"rate[_ ]?limit|too many requests|overloaded", re.IGNORECASE)
# Statuses that may differ next time.
_TEMPORARY = frozenset({408, 409, 425, 500, 502, 504, 520, 521, 522, 523, 524})
_BUSY = frozenset({429, 503, 529})
_KEY_ADVICE = (
    "Set the key: its environment variable (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, or api_key_env=NAME), "
    "or api_key_file=PATH in --model_args"
)


def read_reply(status: int, headers: Mapping[str, str], body: bytes, now: float) -> dict[str, Any] | Rejection:
    """The JSON object of a reply, or why there is none.

    Args:
        status: HTTP status.
        headers: response headers, whose names are compared without case by the mapping.
        body: the whole body.
        now: seconds since the epoch, for dates in headers.
    """
    data = _parse(body)
    error = _error_of(data, status)
    if status == 200 and error is None:
        if isinstance(data, dict):
            return data
        fault = "what is not JSON" if data is None else f"a JSON {type(data).__name__}"
        return Rejection("malformed", f"answered 200 with {fault}: {_quoted(body)}", Action.RETRY)
    quoted = error if error is not None else _quoted(body)
    if 300 <= status < 400:
        place = headers.get("Location", "another address")
        found = f"redirects to {place}; redirects are not followed, so that the key stays with its server"
        return Rejection("redirect", found, Action.STOP, advice="Set base_url to the final address")
    number = _code_of(data) if status == 200 else status
    rejection = _rejected(number, quoted, wait_seconds(headers, now))
    # Providers know what passes: their clients follow this header too.
    wanted = {("true", Action.FAIL): Action.RETRY, ("false", Action.RETRY): Action.FAIL}
    action = wanted.get((headers.get("x-should-retry", ""), rejection.action))
    return rejection if action is None else replace(rejection, action=action)


def wait_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a server asks for: `retry-after-ms`, then `retry-after` as seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        date = parsedate_to_datetime(text.strip())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - now)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _rejected(status: int, said: str, wait: float | None) -> Rejection:
    message = f"answered {status}: {said}"
    if status in (400, 403, 422) and _FILTERED.search(said):
        return Rejection("content_filter", message, Action.FAIL)
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(said)):
        return Rejection("unauthorized", message, Action.STOP, advice=_KEY_ADVICE)
    if status == 402 or (status in (429, 400) and _QUOTA.search(said)):
        return Rejection("quota", message, Action.STOP, advice="Raise the quota and run the command again")
    if status == 404:
        advice = "Check model and base_url in --model_args"
        return Rejection("not_found", message, Action.STOP, advice=advice)
    if status == 429 and _TOO_LARGE.search(said):
        return Rejection("too_long", message, Action.FAIL)
    if status in _BUSY:
        return Rejection("rate_limited" if status == 429 else "overloaded", message, Action.PAUSE, wait)
    if status in _TEMPORARY:
        return Rejection("server_error", message, Action.RETRY, wait)
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(said)):
        return Rejection("too_long", message, Action.FAIL)
    return Rejection("rejected", message, Action.FAIL)


def _parse(body: bytes) -> Any:
    """The JSON value of a body; None if it is not JSON."""
    try:
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _error_of(data: Any, status: int) -> str | None:
    """The text of an error in a JSON body; None if it has none."""
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    if error is None and (data.get("object") == "error" or status >= 300):
        error = data.get("message") or data.get("detail")
    if not error:
        return None
    if isinstance(error, dict):
        parts = [str(error[name]) for name in ("code", "type", "param", "message") if error.get(name)]
        error = " · ".join(parts) or json.dumps(error)
    return " ".join(str(error).split())[:_LONGEST_QUOTED]


def _code_of(data: Any) -> int:
    """The status that an error inside a 200 stands for; 500, which is asked again, if it does not say."""
    error = data.get("error") if isinstance(data, dict) else None
    code = error.get("code") if isinstance(error, dict) else data.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    if isinstance(code, str) and code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    said = _error_of(data, 200) or ""
    return 429 if _LIMITED.search(said) or _QUOTA.search(said) else 400 if _TOO_LONG.search(said) else 500


def _quoted(body: bytes) -> str:
    text = " ".join(body[: 4 * _LONGEST_QUOTED].decode("utf-8", "replace").split())
    return f'"{text[:_LONGEST_QUOTED]}"' if text else "an empty body"
