"""A server of completions that costs as little as possible, to measure clients: echoed prompts, and short texts.

    python -m bench.free_server [--port 0]

In: HTTP/1.1 requests on loopback. Out: one line on stdout with the port, then answers. Log-probabilities depend on the
token's id alone and are rendered from a table; bodies are searched and not parsed. `GET /stats` gives the times at
which requests to the model arrived.
"""

import argparse
import asyncio
import json
import time
from typing import ClassVar

# The most likely token after any context, and the log-probabilities of it and of all others.
LIKELY, LIKELY_LOGPROB, OTHER_LOGPROB = b"100", b"-0.5", b"-2.25"
_TOP = b'{"x": -0.5}'
_TEXT = b'{"index": 0, "text": " stone\\n", "finish_reason": "stop"}'
_STEP = (
    b'{"index": 0, "text": "x", "finish_reason": "length", "token_ids": [100],'
    b' "logprobs": {"tokens": ["x"], "token_logprobs": [-0.5], "top_logprobs": [{"x": -0.5}], "text_offset": [0]}}'
)
_END = b"\r\n\r\n"


def prompts_of(body: bytes) -> list[bytes]:
    """The token ids of each prompt of a body, as they are written; empty for a prompt of text."""
    start = body.index(b'"prompt"') + 8
    rest = body[start:].lstrip(b": ")
    if not rest.startswith(b"["):
        return [b""]
    if rest.lstrip(b"[ ") and rest[1:].lstrip().startswith(b"["):
        inside = rest[1 : rest.index(b"]]") + 1]
        return [part.strip(b"[] ,") for part in inside.split(b"]") if part.strip(b"[] ,")]
    return [rest[1 : rest.index(b"]")]]


def echoed(index: int, ids: bytes) -> bytes:
    """A choice with the log-probabilities of a prompt and of one token more."""
    tokens = ids.split(b",")
    values = [LIKELY_LOGPROB if token.strip() == LIKELY else OTHER_LOGPROB for token in tokens[1:]]
    shown = b", ".join([b"null", *values, LIKELY_LOGPROB])
    count = len(tokens)
    return b"".join(
        (
            b'{"index": %d, "text": "", "finish_reason": "length", "logprobs": {"token_logprobs": [' % index,
            shown,
            b'], "top_logprobs": [null, ',
            b", ".join([_TOP] * count),
            b'], "tokens": [',
            b", ".join([b'"x"'] * (count + 1)),
            b'], "text_offset": [',
            b", ".join([b"0"] * (count + 1)),
            b"]}}",
        )
    )


def answer_of(body: bytes) -> bytes:
    """The answer to a request to /v1/completions."""
    if b'"echo"' in body:
        choices = b", ".join(echoed(index, ids) for index, ids in enumerate(prompts_of(body)))
    elif b'"logprobs"' in body:
        choices = _STEP
    else:
        count = len(prompts_of(body))
        choices = b", ".join(_TEXT.replace(b'"index": 0', b'"index": %d' % index) for index in range(count))
    return b'{"id": "x", "object": "text_completion", "created": 0, "model": "free", "choices": [' + choices + b"]}"


class FreeServer(asyncio.Protocol):
    """One connection. Requests arrive one after the other, as clients of evaluation tools send them."""

    arrived: ClassVar[list[float]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_END)) >= 0:
            head = self._received[:end].lower()
            place = head.find(b"content-length:")
            length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
            start = end + len(_END)
            if len(self._received) < start + length:
                return
            body, self._received = self._received[start : start + length], self._received[start + length :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        status, found = b"200 OK", b""
        if b"/completions " in head.split(b"\r\n", 1)[0]:
            self.arrived.extend([time.perf_counter()] * len(prompts_of(body)))
            found = answer_of(body)
        elif head.startswith(b"get /stats"):
            found = json.dumps(self.arrived).encode()
            self.arrived.clear()
        elif head.startswith(b"get /v1/models"):
            found = b'{"object": "list", "data": [{"id": "free", "object": "model", "owned_by": "bench"}]}'
        else:
            status, found = b"404 Not Found", b'{"detail": "none"}'
        headers = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d" % (status, len(found))
        self._transport.write(headers + _END + found)  # type: ignore[attr-defined]


async def serve(port: int) -> None:
    """Serves until the process ends."""
    server = await asyncio.get_running_loop().create_server(FreeServer, "127.0.0.1", port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    port = parser.parse_args().port
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(port))
    else:
        uvloop.run(serve(port))


if __name__ == "__main__":
    main()
