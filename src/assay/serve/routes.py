"""Paths and their handlers. In: a service and the rules of access. Out: an application of aiohttp."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from assay.core.version import __version__
from assay.serve.access import MOST_BYTES, Access, guarded
from assay.serve.api_errors import ApiError, refused
from assay.serve.chat import answer_chat, read_chat, stream_chat
from assay.serve.completions import complete, read_completion, stream_completion
from assay.serve.service import Service
from assay.serve.streaming import send_frames
from assay.serve.token_routes import detokenize, tokenize, tokenizer_info

if TYPE_CHECKING:
    from aiohttp import web


def make_application(service: Service, access: Access) -> web.Application:
    """The application of a server."""
    from aiohttp import web

    handlers = Handlers(service)
    application = web.Application(middlewares=[guarded(access)], client_max_size=MOST_BYTES)
    router = application.router
    router.add_get("/health", handlers.health)
    router.add_get("/version", handlers.version)
    router.add_get("/v1/models", handlers.models)
    router.add_get("/v1/models/{name:.+}", handlers.model)
    router.add_post("/v1/completions", handlers.completions)
    router.add_post("/v1/chat/completions", handlers.chat)
    # vLLM has these at the root; clients that know a base URL only look below it.
    for prefix in ("", "/v1"):
        router.add_get(f"{prefix}/tokenizer_info", handlers.tokenizer_info)
        router.add_post(f"{prefix}/tokenize", handlers.with_body(tokenize))
        router.add_post(f"{prefix}/detokenize", handlers.with_body(detokenize))
    return application


class Handlers:
    """Handlers of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, request: web.Request) -> web.Response:
        """200 when the model is loaded, 503 before."""
        from aiohttp import web

        is_ready = self._service.is_ready
        return web.json_response({"status": "ok" if is_ready else "loading"}, status=200 if is_ready else 503)

    async def version(self, request: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response({"version": __version__, "server": "assay"})

    async def models(self, request: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response({"object": "list", "data": [self._row()]})

    async def model(self, request: web.Request) -> web.Response:
        from aiohttp import web

        self._service.check_model(request.match_info["name"])
        return web.json_response(self._row())

    async def tokenizer_info(self, request: web.Request) -> web.Response:
        from aiohttp import web

        await self._service.wait_until_ready()
        return web.json_response(tokenizer_info(self._service))

    def with_body(self, answer: Callable[[Any, Service], dict[str, Any]]) -> Any:
        """A handler of a function from body to answer."""

        async def handle(request: web.Request) -> web.Response:
            from aiohttp import web

            await self._service.wait_until_ready()
            return web.json_response(answer(await read_body(request), self._service))

        return handle

    async def completions(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        await self._service.wait_until_ready()
        call = read_completion(await read_body(request), self._service)
        if call.decoding.stream:
            return await send_frames(request, stream_completion(call, self._service))
        return web.json_response(await complete(call, self._service))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        await self._service.wait_until_ready()
        call = read_chat(await read_body(request), self._service)
        if call.decoding.stream:
            return await send_frames(request, stream_chat(call, self._service))
        return web.json_response(await answer_chat(call, self._service))

    def _row(self) -> dict[str, Any]:
        facts = self._service.facts
        row = {"id": facts.name, "object": "model", "created": facts.created, "owned_by": "assay"}
        return {**row, "max_model_len": facts.max_length}


async def read_body(request: web.Request) -> Any:
    """The JSON of a body."""
    try:
        return json.loads(await request.read())
    except RecursionError:
        raise refused("the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
