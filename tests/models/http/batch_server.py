"""A server for tests that takes batches as OpenAI and Anthropic do; it computes them with the scripted model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.models.http.fault_server import FaultServer, Json, greedy, ids_of, text_of


def messages_answer(params: Json) -> Json:
    """Anthropic's answer to a body of /v1/messages."""
    prompt = ids_of("".join(turn["content"] for turn in params["messages"]), True)
    text = text_of(greedy(prompt, params["max_tokens"]))
    usage = {"input_tokens": len(prompt), "output_tokens": params["max_tokens"]}
    return {"content": [{"type": "text", "text": text}], "stop_reason": "max_tokens", "usage": usage}


@dataclass
class BatchServer(FaultServer):
    """The server.

    Attributes:
        looks: how often a batch is looked at before it has ended.
        end: status that a batch ends with.
        spoil_line: changes a line of results; None leaves it out.
        created: requests of each batch that was created.
        lost: number of replies to the creation of a batch that are lost.
    """

    looks: int = 2
    end: str = "completed"
    spoil_line: Callable[[Json], Json | None] = lambda line: line
    created: list[list[Json]] = field(default_factory=list)
    lost: int = 0
    _files: dict[str, str] = field(default_factory=dict)
    _marks: list[Json] = field(default_factory=list)
    _looked: dict[int, int] = field(default_factory=dict)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/v1/").split("/")
        if path[0] == "files" and request.method == "POST":
            return await self._upload(request)
        if path[0] == "files":
            return web.Response(text=self._results(int(path[1].removeprefix("out-")), _openai_line))
        if path[0] == "batches":
            return await self._batch(request, path[1:])
        if path[:2] == ["messages", "batches"]:
            return await self._anthropic(request, path[2:])
        return await super()._handle(request)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        assert form["purpose"] == "batch"
        file = form["file"]
        assert isinstance(file, web.FileField)
        name = f"file-{len(self._files)}"
        self._files[name] = file.file.read().decode()
        return web.json_response({"id": name, "object": "file"})

    async def _batch(self, request: web.Request, path: list[str]) -> web.StreamResponse:
        if request.method == "POST":
            body = await request.json()
            lines = [json.loads(line) for line in self._files[body["input_file_id"]].splitlines()]
            assert {line["url"] for line in lines} == {body["endpoint"]} and body["completion_window"] == "24h"
            self._marks.append(body["metadata"])
            return self._reply(self._create(lines, request))
        if not path:
            rows = [{"id": f"batch-{number}", "metadata": mark} for number, mark in enumerate(self._marks)]
            return web.json_response({"data": rows[::-1], "has_more": False})
        number = int(path[0].removeprefix("batch-"))
        if number >= len(self.created):
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        status = self.end if self._has_ended(number) else "in_progress"
        counts = {"total": len(self.created[number]), "completed": 0, "failed": 0}
        state: Json = {"id": path[0], "status": status, "request_counts": counts}
        if status in ("completed", "expired"):
            state["output_file_id"] = f"out-{number}"
        elif status == "failed":
            state["errors"] = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}
        return web.json_response(state)

    async def _anthropic(self, request: web.Request, path: list[str]) -> web.StreamResponse:
        if request.method == "POST":
            return self._reply(self._create((await request.json())["requests"], request))
        number = int(path[0].removeprefix("batch-"))
        if path[1:] == ["results"]:
            return web.Response(text=self._results(number, _anthropic_line))
        status = "ended" if self._has_ended(number) else "in_progress"
        counts = {"processing": 0, "succeeded": len(self.created[number])}
        return web.json_response({"id": path[0], "processing_status": status, "request_counts": counts})

    def _create(self, lines: list[Json], request: web.Request) -> web.Response:
        self.created.append(lines)
        if self.lost:
            self.lost -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"id": f"batch-{len(self.created) - 1}", "status": "validating"})

    def _reply(self, response: web.Response) -> web.Response:
        return response

    def _has_ended(self, number: int) -> bool:
        self._looked[number] = self._looked.get(number, 0) + 1
        return self._looked[number] > self.looks

    def _results(self, number: int, make: Callable[[FaultServer, Json], Json]) -> str:
        lines = [self.spoil_line(make(self, line)) for line in self.created[number]]
        random.Random(3).shuffle(lines)
        return "".join(json.dumps(line) + "\n" for line in lines if line is not None)


def _openai_line(server: FaultServer, line: Json) -> Json:
    body = server._answer(line["url"], line["body"])
    return {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}


def _anthropic_line(server: FaultServer, line: Json) -> Json:
    result: Any = {"type": "succeeded", "message": messages_answer(line["params"])}
    return {"custom_id": line["custom_id"], "result": result}
