"""A server for tests: a scripted model with exact log-probabilities behind OpenAI's, vLLM's and llama.cpp's endpoints.

Handler-driven: a test passes `fault`, which may answer in the server's place (a status, a cut body, a hang), and
`spoil`, which may change a sound answer (a shift by one, an ignored echo). The server listens on loopback in a thread
of its own.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Union

import numpy as np
from aiohttp import web

# Ids 0 and 1 are BOS and EOS, id 2 + b is byte b.
VOCABULARY = 258
BOS, EOS = 0, 1
MODEL = "scripted"
Json = dict[str, Any]
Reply = Union[web.StreamResponse, None]
Fault = Callable[[web.Request, Json, int], Awaitable[Reply]]
Spoil = Callable[[Json, Json], Json]


@lru_cache(maxsize=100_000)
def distribution(context: tuple[int, ...]) -> Any:
    """Log-probabilities of all tokens after the last two ids of a context."""
    values = np.random.default_rng([7, *context]).normal(size=VOCABULARY) * 2
    # Printable ASCII is likelier, so that greedy tokens have texts of their own, as those of real models mostly have.
    values[:34] -= 9
    values[128:] -= 9
    return values - math.log(np.exp(values).sum())


def after(ids: Sequence[int]) -> Any:
    return distribution(tuple(ids[-2:]))


def total(ids: Sequence[int], scored: int) -> float:
    """The exact log-likelihood of the last `scored` ids, which the tests compare with."""
    return math.fsum(float(after(ids[:place])[ids[place]]) for place in range(len(ids) - scored, len(ids)))


def text_of(ids: Sequence[int]) -> str:
    names = {BOS: "<s>", EOS: "</s>"}
    return "".join(names.get(i, "") or chr(i - 2) for i in ids)


def ids_of(text: str, special: bool) -> list[int]:
    return [*([BOS] if special else []), *(2 + byte for byte in text.encode())]


def greedy(ids: Sequence[int], count: int) -> list[int]:
    found = list(ids)
    for _ in range(count):
        found.append(int(after(found).argmax()))
    return found[len(ids) :]


@dataclass
class FaultServer:
    """The server; a context manager.

    Attributes:
        kind: `openai`, `vllm` or `llamacpp`: which endpoints and fields it has.
        fault: answers in the server's place, or None for a sound answer.
        spoil: changes a sound answer to a POST, given the request's body.
        tokenizes: whether it has /tokenize.
        max_length: the context length that it states; None for none.
        routes: further endpoints: path → the answer to a body, or to a GET, whose body is empty.
        about: further endpoints about the model: path → their answer.
        seen: bodies of all POST requests to an endpoint of the model, in order of arrival.
        keys: values of the header Authorization.
        headers: the headers of all requests, in lower case.
        port: where it listens; 0 for any.
    """

    kind: str = "openai"
    fault: Fault | None = None
    spoil: Spoil | None = None
    tokenizes: bool = True
    max_length: int | None = 64
    routes: Mapping[str, Callable[[Json], Json]] = field(default_factory=dict)
    about: Mapping[str, Json] = field(default_factory=dict)
    seen: list[Json] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    most_at_once: int = 0
    _at_once: int = 0

    def __enter__(self) -> FaultServer:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _start(self) -> int:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        port: int = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return port

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.keys.add(request.headers.get("Authorization", ""))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        body = json.loads(await request.read() or b"{}")
        if request.path not in ("/v1/completions", "/v1/chat/completions", "/completion", *self.routes):
            return self._about(request.path, body)
        self.seen.append(body)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.fault is not None:
                reply = await self.fault(request, body, len(self.seen) - 1)
                if reply is not None:
                    return reply
            route = self.routes.get(request.path)
            answer = self._answer(request.path, body) if route is None else route(body)
            return web.json_response(answer if self.spoil is None else self.spoil(body, answer))
        finally:
            self._at_once -= 1

    def _about(self, path: str, body: Json) -> web.StreamResponse:
        """Endpoints about the model."""
        found: Any = self.about.get(path)
        if found is None and path == "/v1/models":
            row: Json = {"id": MODEL, "object": "model", "owned_by": self.kind}
            if self.max_length is not None and self.kind == "vllm":
                row["max_model_len"] = self.max_length
            found = {"object": "list", "data": [row]}
        elif path == "/props" and self.kind == "llamacpp":
            found = {"default_generation_settings": {"n_ctx": self.max_length}, "bos_token": "<s>", "eos_token": "</s>"}
        elif path == "/tokenizer_info" and self.kind == "vllm":
            found = {"bos_token": "<s>", "eos_token": "</s>"}
        elif path == "/tokenize" and self.tokenizes:
            special = body.get("add_special", body.get("add_special_tokens", True))
            text = body.get("content", body.get("prompt", ""))
            found = {"tokens": [BOS] if text == "<s>" else [EOS] if text == "</s>" else ids_of(text, special)}
        elif path == "/detokenize" and self.tokenizes:
            found = {"prompt": text_of(body["tokens"])}
        return web.json_response(found) if found is not None else web.json_response({"detail": "none"}, status=404)

    def _answer(self, path: str, body: Json) -> Json:
        if path == "/completion":
            return _forced(body)
        if path == "/v1/chat/completions":
            prompt = ids_of("".join(turn["content"] for turn in body["messages"]), True)
            text = text_of(greedy(prompt, body.get("max_tokens", body.get("max_completion_tokens", 16))))
            message = {"role": "assistant", "content": text}
            return {**_usage(len(prompt)), "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
        if self.kind != "vllm":  # other servers ignore the field
            body = {name: value for name, value in body.items() if name != "prompt_logprobs"}
        prompt = body["prompt"]
        rows = [prompt] if isinstance(prompt, str) or isinstance(prompt[0], int) else prompt
        ids = [ids_of(row, True) if isinstance(row, str) else row for row in rows]
        choices = [_choice(number, row, body) for number, row in enumerate(ids)]
        return {"model": MODEL, **_usage(sum(map(len, ids))), "choices": choices}


def _usage(tokens: int) -> Json:
    return {"usage": {"prompt_tokens": tokens, "completion_tokens": 1}}


def _choice(index: int, ids: Sequence[int], body: Json) -> Json:
    """A choice of /v1/completions, in OpenAI's form and with vLLM's additions."""
    new = greedy(ids, body.get("max_tokens", 16))
    text = text_of(new)
    stops = [text.index(stop) for stop in body.get("stop", []) if stop in text]
    choice: Json = {"index": index, "text": text[: min(stops)] if stops else text}
    choice["finish_reason"] = "stop" if stops else "length"
    if body.get("return_token_ids"):
        choice.update(token_ids=new, prompt_token_ids=list(ids))
    if body.get("prompt_logprobs") == 0:
        choice["prompt_logprobs"] = [None, *(_entry(ids, place) for place in range(1, len(ids)))]
    if "logprob_token_ids" in body:
        values = after(ids)
        top = {f"token_id:{token}": float(values[token]) for token in [new[0], *body["logprob_token_ids"]]}
        choice["logprobs"] = {"top_logprobs": [top]}
    elif body.get("logprobs") is not None:
        shown, first = ([*ids, *new], 0) if body.get("echo") else ([*ids, *new], len(ids))
        places = range(first, len(shown))
        choice["logprobs"] = {
            "tokens": [text_of([shown[place]]) for place in places],
            "token_logprobs": [float(after(shown[:place])[shown[place]]) if place else None for place in places],
            "top_logprobs": [_top(shown, place) if place else None for place in places],
        }
    return choice


def _entry(ids: Sequence[int], place: int) -> Json:
    values = after(ids[:place])
    rank = int((values > values[ids[place]]).sum()) + 1
    return {str(ids[place]): {"logprob": float(values[ids[place]]), "rank": rank, "decoded_token": ""}}


def _top(ids: Sequence[int], place: int) -> Json:
    values = after(ids[:place])
    return {text_of([token]): float(values[token]) for token in {int(values.argmax()), ids[place]}}


def _forced(body: Json) -> Json:
    """llama.cpp's /completion, with and without a grammar of token ids."""
    ids = list(body["prompt"])
    forced = [int(number) for number in re.findall(r"<\[(\d+)\]>", body.get("grammar", ""))]
    forced = forced or greedy(ids, body["n_predict"])
    entries = []
    for token in forced[: body["n_predict"]]:
        values = after(ids)
        top = [{"id": int(values.argmax()), "logprob": float(values.max())}]
        entries.append({"id": token, "token": text_of([token]), "logprob": float(values[token]), "top_logprobs": top})
        ids.append(token)
    return {"content": text_of(forced), "completion_probabilities": entries}
