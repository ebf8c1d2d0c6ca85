"""Sends exchanges to one server: keep-alive connections, timeouts, retries, shared pauses, and a breaker.

In: exchanges. Out: what each reads from its answer, or a `Failure`; a `ModelError` where no request can succeed.

Retries: transport faults, 5xx and unreadable answers with jittered backoff, up to `max_retries` per request. Rate
limits and overload pause all requests; they count against `patience` seconds per request, not against `max_retries`.
What cannot succeed is not asked again: 400 is a failure of one request; 401, 402, 403, 404 and exhausted quotas end the
run.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import ssl
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.core.errors import Fault, ModelError, missing_extra, plain_reason
from assay.core.responses import Failure
from assay.core.secrets import redacted_text
from assay.models.http.exchange import Exchange, Unreadable, Value
from assay.models.http.spending.budget import Spending
from assay.models.http.spending.usage import Size, Usage, estimated_size, read_usage
from assay.models.http.traffic.api_key import ApiKey
from assay.models.http.traffic.pacing import Pacing
from assay.models.http.traffic.refused_parameters import RefusedParameters
from assay.models.http.traffic.replies import Action, Rejection, read_reply

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

_HEADERS = {"Content-Type": "application/json", "User-Agent": "assay"}
_CONNECT_SECONDS = 10.0
# An attempt that ended without an answer in time may be paid for.
_TIMEOUT_REPEATS = 2
# Requests are in flight for longer before it is worth a word.
_LONG_SECONDS = 5.0
# uvicorn closes idle connections after 5 seconds.
_KEEPALIVE_SECONDS = 4.0
_MOST_BACKOFF = 30.0
# Further attempts to learn something about a server.
_LOOKS = 2
# Identical failures without a success in between that end the run.
_BREAKER = 20
# Failures that depend on the request alone.
_OF_THE_REQUEST = frozenset({"too_long", "no_content", "content_filter", "refusal", "truncated_thinking"})
# Without an answer: the server may have computed one, and may charge for it.
_MAY_BE_BILLED = frozenset({"timeout", "cut"})
# Endpoints of servers' tokenizers, which nobody charges for.
_FREE = frozenset({"/tokenize", "/detokenize"})
_BUDGET = "budget"
_MOST_NAMES = 20
_NUMBERS = re.compile(r"\d+")
SAVED = "Answers so far are saved: run the command again to continue"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a server is reached.

    Attributes:
        base_url: address of the API, such as `http://127.0.0.1:8000/v1`.
        most: highest number of requests in flight.
        max_retries: attempts after the first, per request.
        timeout: seconds for one attempt.
        patience: longest time spent on one request, including pauses that the server asks for.
        backoff: seconds before the first retry; doubled for each further one.
        verify_certificate: whether TLS certificates are verified.
        ca_cert_path: file of certificates to trust; None for the system's.
        headers: headers that a provider needs besides the key, such as the version of its API.
        tokens_field: the user's name of the field with the number of new tokens.
    """

    base_url: str
    most: int = 16
    max_retries: int = 10
    timeout: float = 300.0
    patience: float = 1800.0
    backoff: float = 0.5
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens_field: str | None = None

    @property
    def root(self) -> str:
        """The server's address without the API's `/v1`."""
        return self.base_url.removesuffix("/v1")


def require_aiohttp(purpose: str) -> None:
    """Raises an error that names the extra if aiohttp is not installed."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise missing_extra("aiohttp", "api", purpose) from None


class Client:
    """A client of one server; its coroutines run in one event loop.

    Attributes:
        settings: how the server is reached.
        pacing: requests in flight, pauses.
        spending: tokens and dollars, and the budget.
        counts: rejections by kind.
        attempts: requests sent.
        answered: requests that were answered.
        parameters: parameters that the model refuses.
        names: names that the server gave in its answers: `model`, `system_fingerprint`.
        stopped: the error that ended the run; None while it goes on.
        progress: what a provider says of work that takes long, such as a batch.
    """

    def __init__(self, settings: ClientSettings, key: ApiKey | None = None, spending: Spending | None = None) -> None:
        self.settings = settings
        self.pacing = Pacing(settings.most)
        self.spending = Spending() if spending is None else spending
        self.counts: Counter[str] = Counter()
        self.attempts = self.answered = 0
        self.names: dict[str, set[str]] = {"model": set(), "system_fingerprint": set()}
        self.stopped: ModelError | None = None
        self.parameters = RefusedParameters()
        self.progress = ""
        self._key = key
        self._session: aiohttp.ClientSession | None = None
        self._urls: dict[str, URL] = {}
        self._random = random.Random()
        self._streak: tuple[str, int] = ("", 0)
        # Attempts in flight: number → when they began, the oldest first.
        self._begun: dict[int, float] = {}
        self._last_rejection = ""
        self._last_success = -math.inf

    async def ask(self, exchange: Exchange[Value], max_retries: int | None = None) -> Value | Failure:
        """What an exchange reads from the server's answer, or why there is none.

        Raises:
            ModelError: if no request can succeed, such as for a rejected key.
        """
        most = self.settings.max_retries if max_retries is None else max_retries
        refused_since = math.inf
        retries, may_repeat_at_once = 0, True
        repeats: Counter[str] = Counter()
        size = Size() if exchange.path in _FREE else estimated_size(exchange.body, self.settings.tokens_field)
        while True:
            sent = self.parameters.adapted(exchange)
            found = await self._sent(sent, size)
            if not isinstance(found, Rejection):
                self._succeeded()
                answer: Value | Failure = found
                return answer
            if self.parameters.learn(sent, found):
                continue  # asked again without the parameter: no failure of the request
            self.counts[found.kind] += 1
            self._last_rejection = found.message
            if found.kind == _BUDGET:
                return Failure(found.kind, found.message)
            if found.action is Action.STOP:
                raise self.stop(found.message, found.advice)
            if found.action is Action.FAIL:
                return self._failed(found, retryable=False)
            if found.kind == "disconnected" and may_repeat_at_once:
                may_repeat_at_once = False  # the server closed an idle connection: no attempt was made
                continue
            # Waiting for a slot while others are answered is no sign of trouble, so the first refusal starts the clock.
            refused_since = min(refused_since, time.monotonic())
            if found.action is Action.PAUSE:
                if not self._may_pause(found, repeats[found.kind], refused_since):
                    return self._failed(found, retryable=True, asked=sum(repeats.values()) + 1)
                repeats[found.kind] += 1
                continue
            retries += 1
            repeats[found.kind] += 1
            is_bound = found.repeats is not None and repeats[found.kind] > found.repeats
            seconds = max(self._backoff(retries - 1), found.wait or 0.0)
            is_late = time.monotonic() + seconds > refused_since + self.settings.patience
            if retries > most or is_bound or is_late:
                return self._failed(found, retryable=True, asked=retries)
            await asyncio.sleep(seconds)

    async def look(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | Rejection:
        """What a server answers to a GET, or to a POST of some body; retried while it is not reachable."""
        exchange: Exchange[dict[str, Any]] = Exchange(path, body, dict)
        attempt = 0
        while True:
            found, _ = await self._attempt(exchange, Size())
            if not isinstance(found, Rejection):
                return found if isinstance(found, dict) else {}
            if found.action in (Action.STOP, Action.FAIL) or attempt >= min(self.settings.max_retries, _LOOKS):
                return found
            attempt += 1
            await asyncio.sleep(self._backoff(attempt))

    async def fetch(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        content_type: str | None = None,
        most_retries: int | None = None,
    ) -> bytes | Rejection:
        """The body of what a server answers at some path below the base URL; retried while that can help."""
        most = self.settings.max_retries if most_retries is None else most_retries
        attempt, started = 0, time.monotonic()
        while True:
            reply = await self._reply(method, path, data, content_type)
            if not isinstance(reply, Rejection):
                status, headers, body = reply
                if status == 200:
                    return body
                found = read_reply(status, headers, body, time.time())
                reply = (
                    found if isinstance(found, Rejection) else Rejection("malformed", f"status {status}", Action.RETRY)
                )
            self.counts[reply.kind] += 1
            seconds = max(self._backoff(attempt), reply.wait or 0.0)
            is_late = time.monotonic() - started + seconds > self.settings.patience
            if reply.action in (Action.STOP, Action.FAIL) or attempt >= most or is_late:
                return reply
            attempt += 1
            await asyncio.sleep(seconds)

    def note(self, data: Mapping[str, Any]) -> None:
        """Counts an answer, and keeps the names that the server gives in it."""
        self.answered += 1
        self._note_names(data)

    def stop(self, found: str, advice: str = "") -> ModelError:
        """Ends the run: requests that have not been sent are not sent any more."""
        if self.stopped is None:
            following = f"{advice}. {SAVED}" if advice else SAVED
            self.stopped = ModelError(Fault(self.settings.base_url, found, next=following))
        return self.stopped

    def why_waiting(self, now: float) -> str:
        """Why no answer arrives, for people; empty if there is nothing to say."""
        seconds, reason = self.pacing.waits_for(now)
        if seconds:
            return f"waiting {seconds:.0f} s: {reason}"
        if self.progress:
            return self.progress
        begun = next(iter(self._begun.copy().values()), None)
        if begun is None:
            return f"asking again after: {self._last_rejection}" if self._last_rejection else ""
        return (
            f"{len(self._begun)} in flight, the oldest for {now - begun:.0f} s" if now - begun > _LONG_SECONDS else ""
        )

    async def close(self) -> None:
        """Closes all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _sent(self, exchange: Exchange[Any], size: Size) -> Any:
        """One attempt within the pace and the budget: what the exchange reads, or a `Rejection`."""
        reserved = await self.spending.reserve(size)
        if isinstance(reserved, str):
            return Rejection(_BUDGET, reserved, Action.FAIL)
        usage: Usage | None = None
        may_be_billed = False
        try:
            await self.pacing.enter(reserved)
            try:
                if self.stopped is not None:
                    raise self.stopped
                may_be_billed = True  # until the server says otherwise
                found, usage = await self._attempt(exchange, reserved)
                may_be_billed = not isinstance(found, Rejection) or found.kind in _MAY_BE_BILLED
            finally:
                self.pacing.leave(reserved)
        finally:
            self.spending.settle(reserved, usage, may_be_billed)
        return found

    async def _attempt(self, exchange: Exchange[Any], size: Size) -> tuple[Any, Usage | None]:
        """One attempt: what the exchange reads or a `Rejection`, and the tokens that the server counted."""
        self.attempts += 1
        number = self.attempts
        self._begun[number] = time.monotonic()
        try:
            reply = await self._send(exchange)
        finally:
            del self._begun[number]
        if isinstance(reply, Rejection):
            return reply, None
        status, headers, body = reply
        if size.prompt:
            self.pacing.learn(headers, size)
        found = read_reply(status, headers, body, time.time())
        if isinstance(found, Rejection):
            return found, None
        usage = read_usage(found)
        try:
            answer = exchange.read(found)
        except Unreadable as error:
            return Rejection(error.kind, redacted_text(str(error)), Action.RETRY, repeats=error.repeats), usage
        self._note_names(found)
        return answer, usage

    async def _send(self, exchange: Exchange[Any]) -> tuple[int, Mapping[str, str], bytes] | Rejection:
        if exchange.body is None:
            return await self._reply("GET", exchange.path, None)
        return await self._reply("POST", exchange.path, json.dumps(exchange.body).encode())

    async def _reply(
        self, method: str, path: str, data: bytes | None, content_type: str | None = None
    ) -> tuple[int, Mapping[str, str], bytes] | Rejection:
        """Status, headers and body of an answer, or why there is none."""
        import aiohttp

        session = self._open()
        headers = None if content_type is None else {"Content-Type": content_type}
        try:
            url = self._url(path)
            async with session.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
                return response.status, response.headers, await response.read()
        except asyncio.TimeoutError:
            message = f"no complete answer within {self.settings.timeout:g} seconds (timeout in --model_args)"
            return Rejection("timeout", message, Action.RETRY, repeats=_TIMEOUT_REPEATS)
        except aiohttp.ClientSSLError as error:
            advice = "Check base_url, or set ca_cert_path or verify_certificate=false in --model_args"
            return Rejection("tls", f"TLS: {plain_reason(error)}", Action.STOP, advice=advice)
        except aiohttp.ClientConnectorError as error:
            return Rejection("unreachable", plain_reason(error), Action.RETRY)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            return Rejection("disconnected", f"the connection was closed: {plain_reason(error)}", Action.RETRY)
        except aiohttp.InvalidURL as error:
            return Rejection("address", f"not an address: {plain_reason(error)}", Action.STOP, advice="Check base_url")
        except aiohttp.ClientError as error:
            return Rejection("cut", f"the answer is incomplete: {plain_reason(error)}", Action.RETRY)

    def _url(self, path: str) -> URL | str:
        """The address of a path, parsed once: below the base URL, or the root if it begins with a slash."""
        from yarl import URL

        url = self._urls.get(path)
        if url is None:
            text = self.settings.root + path if path.startswith("/") else f"{self.settings.base_url}/{path}"
            try:
                url = URL(text)
            except ValueError:
                return text  # aiohttp says what is wrong with it
            if len(self._urls) < _MOST_NAMES:
                self._urls[path] = url
        return url

    def _open(self) -> aiohttp.ClientSession:
        """The session, created on first use within the loop."""
        import aiohttp

        if self._session is None:
            key = {} if self._key is None else self._key.header()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS, ssl=self._certificates()),
                timeout=aiohttp.ClientTimeout(total=self.settings.timeout, sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={**_HEADERS, **self.settings.headers, **key},
            )
        return self._session

    def _certificates(self) -> ssl.SSLContext | bool:
        if not self.settings.verify_certificate:
            return False
        path = self.settings.ca_cert_path
        return True if path is None else ssl.create_default_context(cafile=path)

    def _may_pause(self, found: Rejection, earlier: int, refused_since: float) -> bool:
        """Pauses all requests; False if this one has been refused for too long while others were answered.

        Raises:
            ModelError: if the pause would take too long and no request was answered meanwhile.
        """
        # A server that asks for no wait, and refuses again, is not asked again at once.
        least = self._backoff(earlier) if found.wait is None or earlier else 0.0
        seconds = max(least, found.wait or 0.0)
        patience = self.settings.patience
        if seconds <= patience and time.monotonic() + seconds <= refused_since + patience:
            self.pacing.pause(seconds, found.message)
            return True
        if seconds <= patience and self._last_success > refused_since:
            return False
        asked = f"; it asks to wait {seconds:g} seconds" if found.wait is not None else ""
        limit = f"the longest wait for one request is {patience:g} seconds (patience in --model_args)"
        raise self.stop(f"{found.message}{asked}; {limit}")

    def _backoff(self, retry: int) -> float:
        longest: float = min(_MOST_BACKOFF, self.settings.backoff * 2 ** min(retry, 16))
        return longest * self._random.uniform(0.5, 1.0)

    def _succeeded(self) -> None:
        self.answered += 1
        self._last_success = time.monotonic()
        self._streak = ("", 0)
        self.pacing.succeeded()

    def _failed(self, found: Rejection, retryable: bool, asked: int = 1) -> Failure:
        times = f" (asked {asked} times)" if asked > 1 else ""
        failure = Failure(found.kind, found.message + times, retryable)
        if found.kind not in _OF_THE_REQUEST:
            # Numbers differ between messages that mean the same: counts of tokens, ids of requests.
            signature = f"{found.kind} {_NUMBERS.sub('0', found.message)}"
            same, count = self._streak
            self._streak = (signature, count + 1 if same == signature else 1)
            if self._streak[1] >= _BREAKER:
                raise self.stop(f"{_BREAKER} requests in a row failed alike, none succeeded: {failure.message}")
        return failure

    def _note_names(self, data: Mapping[str, Any]) -> None:
        for name, known in self.names.items():
            value = data.get(name)
            if isinstance(value, str) and len(known) < _MOST_NAMES:
                known.add(value)
