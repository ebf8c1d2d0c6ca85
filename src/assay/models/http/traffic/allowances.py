"""What servers say in their headers of the requests and tokens that are left, and how long to wait for more.

In: response headers of OpenAI (`x-ratelimit-…`), Anthropic (`anthropic-ratelimit-…`) and the generic `ratelimit-…`.
Out: seconds to wait before a request of some size. A request waits a minute at most: a wrong header stops nothing.

A limit is a bucket that fills up evenly: until it is full again, the reset of its header, the amount that is left grows
from `remaining` to `limit`. A server with fixed windows, which gives nothing before the reset, then answers 429 once,
and the shared pause follows. Headers without a positive limit, or with a reset in the past, say nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from assay.models.http.spending.usage import Size

LONGEST_WAIT = 60.0
# Resets are within a day; a larger number is a time: seconds or milliseconds since the epoch.
_LONGEST_RESET = 86_400.0
_LEAST_MILLISECONDS = 1e11
# Names of headers: before and after the word for the measure, its own name, and what it counts.
_MEASURES = (
    ("x-ratelimit-{}-requests", "requests"),
    ("x-ratelimit-{}-tokens", "tokens"),
    ("anthropic-ratelimit-requests-{}", "requests"),
    ("anthropic-ratelimit-tokens-{}", "tokens"),
    ("anthropic-ratelimit-input-tokens-{}", "input"),
    ("anthropic-ratelimit-output-tokens-{}", "output"),
    ("x-ratelimit-{}", "requests"),
    ("ratelimit-{}", "requests"),
)
_NAMES = tuple(
    (pattern, *(pattern.format(word) for word in ("remaining", "limit", "reset")), of) for pattern, of in _MEASURES
)
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|µs|ns|h|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(slots=True)
class Bucket:
    """What is left of one limit.

    Attributes:
        of: what it counts: `requests`, `tokens`, `input`, `output`.
        left: amount at `since`.
        most: the limit; None if the server does not say.
        since: moment of `left`, on the loop's clock.
        full: moment at which the limit is reset.
    """

    of: str
    left: float
    most: float | None
    since: float
    full: float

    def take(self, amount: int, now: float) -> None:
        """A request is sent."""
        self.left, self.since = self._level(now) - amount, now

    def wait(self, amount: int, now: float) -> float:
        """Seconds until the amount is there; 0 once the limit is reset."""
        if now >= self.full:
            return 0.0
        missing = (amount if self.most is None else min(amount, self.most)) - self._level(now)
        if missing <= 0:
            return 0.0
        speed = self._speed(now)
        return min(self.full - now, missing / speed if speed > 0 else math.inf)

    def _speed(self, now: float) -> float:
        return 0.0 if self.most is None else max(0.0, self.most - self.left) / max(1e-3, self.full - self.since)

    def _level(self, now: float) -> float:
        grown = self.left + self._speed(now) * max(0.0, now - self.since)
        return grown if self.most is None else min(self.most, grown)


class Allowances:
    """The limits of one server, as its latest answers state them."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def learn(self, headers: Mapping[str, str], now: float, epoch: float, in_flight: Size, others: int) -> None:
        """Takes the headers of an answer.

        Args:
            headers: headers, whose names the mapping compares without case.
            now: the loop's clock.
            epoch: seconds since the epoch.
            in_flight: size of the requests that are in flight, which the server may not have counted yet.
            others: their number.
        """
        for name, bucket in read_buckets(headers, now, epoch):
            uncounted = others if bucket.of == "requests" else in_flight.counted(bucket.of)
            bucket.left -= uncounted
            self._buckets[name] = bucket

    def take(self, size: Size, now: float) -> None:
        """A request is sent."""
        for bucket in self._buckets.values():
            bucket.take(size.counted(bucket.of), now)

    def wait(self, size: Size, now: float) -> float:
        """Seconds to wait before a request is sent."""
        if not self._buckets:
            return 0.0
        longest = max(bucket.wait(size.counted(bucket.of), now) for bucket in self._buckets.values())
        return min(LONGEST_WAIT, longest)


def read_buckets(headers: Mapping[str, str], now: float, epoch: float) -> Iterator[tuple[str, Bucket]]:
    """The limits that headers state."""
    for pattern, remaining, limit, reset, of in _NAMES:
        if remaining not in headers:
            continue
        left, most = _amount(headers[remaining]), _amount(headers.get(limit))
        seconds = reset_seconds(headers.get(reset), epoch)
        if left is None or seconds is None or most == 0 or (most is not None and left > most):
            continue
        yield pattern, Bucket(of, left, most, now, now + seconds)


def reset_seconds(text: str | None, epoch: float) -> float | None:
    """Seconds until a reset: a Go duration (`6m0s`, `12ms`), seconds, an RFC 3339 date, or a time since the epoch.

    None for what is none of these, is not in the future, or is more than a day away.
    """
    if text is None:
        return None
    text = text.strip()
    seconds = _duration(text) if _DURATION.fullmatch(text) else _number(text)
    if seconds is None:
        seconds = _date(text, epoch)
    elif seconds > _LONGEST_RESET:
        seconds = (seconds / 1000 if seconds >= _LEAST_MILLISECONDS else seconds) - epoch
    return seconds if seconds is not None and 0 < seconds <= _LONGEST_RESET else None


def _duration(text: str) -> float:
    return math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _date(text: str, epoch: float) -> float | None:
    try:
        # Python 3.10 does not read the Z.
        date = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text)
        date = date if date.tzinfo is not None else date.replace(tzinfo=timezone.utc)
        return date.timestamp() - epoch
    except (ValueError, OverflowError):
        return None


def _amount(text: str | None) -> float | None:
    """A count; `100, 100;w=60` of the generic headers begins with it."""
    return _number(text.split(",")[0].split(";")[0]) if text is not None else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
