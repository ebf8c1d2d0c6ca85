"""How providers take many requests as one batch: OpenAI's and Anthropic's form of creating, watching and reading one.

In: a client, and requests by id. Out: the batch's id, its state, and the reply to each request. An envelope knows
nothing of what a request asks; a further provider is one more class here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from assay.models.http.traffic.client import Client
from assay.models.http.traffic.replies import Action, Rejection

_BOUNDARY = "assay-batch-7d1f0c"
_MEGABYTE = 1_000_000


class Item(NamedTuple):
    """A request of a batch: its id, its endpoint below the base URL, and its body."""

    name: str
    path: str
    body: Mapping[str, Any]


class Reply(NamedTuple):
    """The reply to one request of a batch: a status and a JSON value, as if it had been sent alone."""

    name: str
    status: int
    data: Any


@dataclass(frozen=True, slots=True)
class State:
    """The state of a batch.

    Attributes:
        has_ended: whether no more replies will come.
        text: the state for people.
        files: where the replies are.
    """

    has_ended: bool
    text: str
    files: tuple[str, ...] = ()


class Envelope(Protocol):
    """A provider's batches."""

    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]

    def line(self, item: Item) -> bytes:
        """A request as it is sent."""
        ...

    async def create(self, client: Client, lines: Sequence[bytes], path: str, mark: str) -> str | Rejection:
        """Creates a batch; its id. `mark` is ours, to recognise it by."""
        ...

    async def find(self, client: Client, mark: str) -> str | Rejection | None:
        """The id of a batch that was created with a mark; None if there is none, or if the provider keeps no marks."""
        ...

    async def state(self, client: Client, batch: str) -> State | Rejection: ...

    async def replies(self, client: Client, batch: str, state: State) -> list[Reply] | Rejection:
        """The replies of a batch that has ended, in any order; requests without one are left out."""
        ...


class OpenAiBatches:
    """OpenAI's: a file of requests is uploaded, and two files of replies are read: answers and errors."""

    most_requests: ClassVar[int] = 50_000
    most_bytes: ClassVar[int] = 200 * _MEGABYTE

    def line(self, item: Item) -> bytes:
        return _json({"custom_id": item.name, "method": "POST", "url": f"/v1/{item.path}", "body": item.body})

    async def create(self, client: Client, lines: Sequence[bytes], path: str, mark: str) -> str | Rejection:
        content = b"\n".join(lines) + b"\n"
        body = _multipart({"purpose": "batch"}, f"{mark}.jsonl", content)
        uploaded = await client.fetch("POST", "files", body, f"multipart/form-data; boundary={_BOUNDARY}")
        if isinstance(uploaded, Rejection):
            return uploaded
        file = _text(uploaded, "id")
        if isinstance(file, Rejection):
            return file
        wanted = {"input_file_id": file, "endpoint": f"/v1/{path}", "completion_window": "24h"}
        # Sent once: a second attempt could create a second batch. The mark finds a batch whose reply was lost.
        created = await client.fetch("POST", "batches", _json({**wanted, "metadata": {"assay": mark}}), most_retries=0)
        return created if isinstance(created, Rejection) else _text(created, "id")

    async def find(self, client: Client, mark: str) -> str | Rejection | None:
        after = ""
        while True:
            found = await client.fetch("GET", f"batches?limit=100{after}")
            if isinstance(found, Rejection):
                return found
            data = _object(found)
            rows = [row for row in data.get("data") or [] if isinstance(row, Mapping)]
            for row in rows:
                marks = row.get("metadata")
                if isinstance(marks, Mapping) and marks.get("assay") == mark:
                    return str(row.get("id"))
            if not rows or not data.get("has_more"):
                return None
            after = f"&after={rows[-1].get('id')}"

    async def state(self, client: Client, batch: str) -> State | Rejection:
        found = await client.fetch("GET", f"batches/{batch}")
        if isinstance(found, Rejection):
            return found
        data = _object(found)
        status, counts = str(data.get("status")), data.get("request_counts")
        done = f"{counts.get('completed', 0)} of {counts.get('total', 0)}" if isinstance(counts, Mapping) else "some"
        errors = data.get("errors")
        listed = errors.get("data") if isinstance(errors, Mapping) else None
        reasons = [str(row.get("message")) for row in listed or [] if isinstance(row, Mapping)]
        text = f"{status}, {done} done" + (f": {'; '.join(reasons[:3])}" if reasons else "")
        files = tuple(str(data[name]) for name in ("output_file_id", "error_file_id") if data.get(name))
        return State(status in ("completed", "failed", "expired", "cancelled"), text, files)

    async def replies(self, client: Client, batch: str, state: State) -> list[Reply] | Rejection:
        replies: list[Reply] = []
        for file in state.files:
            found = await client.fetch("GET", f"files/{file}/content")
            if isinstance(found, Rejection):
                return found
            for row in _rows(found):
                response = row.get("response")
                response = response if isinstance(response, Mapping) else {}
                status = response.get("status_code")
                status = status if type(status) is int and status > 0 else 500
                data = response.get("body")
                error = row.get("error")
                replies.append(Reply(str(row.get("custom_id")), status, data if data else {"error": error or row}))
        return replies


class AnthropicBatches:
    """Anthropic's: the requests are one body, and the results one stream of lines. It keeps no marks."""

    most_requests: ClassVar[int] = 100_000
    most_bytes: ClassVar[int] = 256 * _MEGABYTE

    def line(self, item: Item) -> bytes:
        return _json({"custom_id": item.name, "params": item.body})

    async def create(self, client: Client, lines: Sequence[bytes], path: str, mark: str) -> str | Rejection:
        created = await client.fetch(
            "POST", f"{path}/batches", b'{"requests":[' + b",".join(lines) + b"]}", most_retries=0
        )
        return created if isinstance(created, Rejection) else _text(created, "id")

    async def find(self, client: Client, mark: str) -> str | Rejection | None:
        return None

    async def state(self, client: Client, batch: str) -> State | Rejection:
        found = await client.fetch("GET", f"messages/batches/{batch}")
        if isinstance(found, Rejection):
            return found
        data = _object(found)
        status, counts = str(data.get("processing_status")), data.get("request_counts")
        numbers = {name: number for name, number in counts.items() if number} if isinstance(counts, Mapping) else {}
        text = ", ".join([status, *(f"{number} {name}" for name, number in numbers.items())])
        return State(status == "ended", text, (batch,))

    async def replies(self, client: Client, batch: str, state: State) -> list[Reply] | Rejection:
        found = await client.fetch("GET", f"messages/batches/{batch}/results")
        if isinstance(found, Rejection):
            return found
        return [_anthropic_reply(row) for row in _rows(found)]


def _anthropic_reply(row: Mapping[str, Any]) -> Reply:
    result = row.get("result")
    result = result if isinstance(result, Mapping) else {}
    name, kind = str(row.get("custom_id")), result.get("type")
    if kind == "succeeded":
        return Reply(name, 200, result.get("message"))
    error = result.get("error")
    inner = error.get("error") if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping) else error
    is_of_request = isinstance(inner, Mapping) and inner.get("type") == "invalid_request_error"
    return Reply(name, 400 if is_of_request else 500, {"error": inner or {"message": f"the request was {kind}"}})


# Endpoint below the base URL → the provider's batches.
ENVELOPES: Mapping[str, Envelope] = {
    "chat/completions": OpenAiBatches(),
    "completions": OpenAiBatches(),
    "messages": AnthropicBatches(),
}


def _json(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _multipart(fields: Mapping[str, str], file: str, content: bytes) -> bytes:
    """A form with one file, as browsers send it."""
    start = "".join(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    start += f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{file}"\r\n'
    start += "Content-Type: application/jsonl\r\n\r\n"
    return start.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()


def _object(content: bytes) -> dict[str, Any]:
    try:
        data = json.loads(content)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _text(content: bytes, name: str) -> str | Rejection:
    value = _object(content).get(name)
    if isinstance(value, str) and value:
        return value
    return Rejection("malformed", f'the provider answered without "{name}"', Action.STOP)


def _rows(content: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; a line that is none is left out, so its request counts as unanswered."""
    return filter(None, map(_object, content.splitlines()))
