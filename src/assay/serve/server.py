"""A server's life: opens the model, listens, says where, serves until a signal, ends.

In: the specification of a model, and where to listen. Out: an exit code. Standard output has one line, the address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.core.errors import Fault, ModelError, UserError, missing_extra
from assay.core.interrupts import SIGNALS
from assay.core.protocols import Model, ProvidesCodec, ReportsNotices, ScoresTokens, TokenRow
from assay.core.requests import Generation
from assay.core.secrets import redacted_text
from assay.core.specs import RunSpec
from assay.models.http.traffic.api_key import ApiKey, read_api_key
from assay.run.events import Listener
from assay.run.open_model import opened_model
from assay.serve.access import KEY_VARIABLE, LOOPBACK, Access
from assay.serve.routes import make_application
from assay.serve.service import Service, facts_of
from assay.serve.worker import Worker
from assay.store.store import Store, StoreLocation, open_store

if TYPE_CHECKING:
    from aiohttp import web

_KEEPALIVE_SECONDS = 75.0
# Answers under way when a signal arrives: those that take longer are given up.
_SECONDS_TO_ANSWER = 2.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a server listens.

    Attributes:
        host: address to listen on; others than loopback need a key.
        port: port; 0 for a free one.
        name: the model's id for clients; None for the name it was opened by.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    name: str | None = None


def serve(spec: RunSpec, settings: ServerSettings, listener: Listener, store: StoreLocation = None) -> int:
    """Serves a model until a signal ends it.

    Raises:
        UserError: for a model that cannot be served, an address that cannot be used, or a missing key.
    """
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise missing_extra("aiohttp", "api", "assay serve") from None
    access = _access(settings.host)
    with open_store(store) as opened:
        model = opened_model(spec, listener, opened)
        try:
            check_model(spec.model, model)
            name = settings.name or str(spec.model_args.get("pretrained", spec.model))
            return asyncio.run(_serve(model, name, settings, access, opened))
        finally:
            model.close()


def check_model(name: str, model: Model) -> None:
    """Refuses a model that cannot generate text."""
    able = model.capabilities
    if Generation.kind not in able.kinds:
        kinds = ", ".join(sorted(able.kinds)) or "no requests that a server gets"
        found = f"is a model of the kind {able.family}, which answers {kinds}"
        raise ModelError(Fault(f"model {name}", found, "a model that generates text: a decoder or an encoder-decoder"))


def _access(host: str) -> Access:
    """The rules of access on an address; other machines need a key."""
    key: ApiKey | None = read_api_key(KEY_VARIABLE, None)
    is_local = host in LOOPBACK or _is_loopback(host)
    if not is_local and key is None:
        found = f"{host} can be reached from other machines, and no key is set"
        raise UserError(
            Fault("--host", found, next=f"Set the environment variable {KEY_VARIABLE}, or leave --host out")
        )
    return Access(is_local, key)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(model: Model, name: str, settings: ServerSettings, access: Access, store: Store) -> int:
    """Serves until a signal arrives."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    for number in SIGNALS:
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt
            loop.add_signal_handler(number, _end, ended, number)
    async with hosted(model, name, settings, access, store) as host:
        sys.stdout.write(f"{host.address}\n")
        sys.stdout.flush()
        first: list[asyncio.Future[Any]] = [ended, host.ready]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if host.ready.done():
            host.ready.result()  # raises what kept the model from loading
            _say(f"{name} is loaded")
        _say(f"ends at {signal.Signals(await ended).name}")
    if not host.is_over():
        # The thread of the model is inside a library that cannot be interrupted, and would be for a long time.
        os._exit(0)
    return 0


@dataclass(frozen=True, slots=True)
class Host:
    """A server that listens.

    Attributes:
        address: where.
        ready: ends when the model is loaded.
        is_over: whether the model has stopped working.
    """

    address: str
    ready: asyncio.Future[None]
    is_over: Callable[[], bool]


@contextlib.asynccontextmanager
async def hosted(
    model: Model, name: str, settings: ServerSettings, access: Access, store: Store
) -> AsyncIterator[Host]:
    """A server of a model, within the block; the model is loaded meanwhile."""

    def prepare() -> None:
        if isinstance(model, ProvidesCodec):
            service.loaded_codec = model.codec()
        if isinstance(model, ScoresTokens):
            for _, scores in model.score_tokens([TokenRow((0,), 0, follows=True)]):  # loads the weights
                del scores
        for text in model.notices() if isinstance(model, ReportsNotices) else ():
            _say(text)

    worker = Worker(model, store, asyncio.get_running_loop(), prepare)
    service = Service(facts_of(model, name, int(time.time())), worker)
    runner = await _listening(service, access, settings)
    worker.start()
    try:
        yield Host(_address(runner, settings.host), worker.ready, worker.is_over)
    finally:
        await runner.cleanup()
        worker.close()


def _end(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


async def _listening(service: Service, access: Access, settings: ServerSettings) -> web.AppRunner:
    """The application, listening; raises for an address that cannot be used."""
    from aiohttp import web

    runner = web.AppRunner(
        make_application(service, access),
        handle_signals=False,
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        shutdown_timeout=_SECONDS_TO_ANSWER,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        found = f"cannot listen on {settings.host}, port {settings.port}: {reason}"
        raise UserError(
            Fault("assay serve", found, next="Choose another with --port N; --port 0 takes a free one")
        ) from None
    return runner


def _address(runner: web.AppRunner, host: str) -> str:
    port = runner.addresses[0][1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(text: str) -> None:
    sys.stderr.write(f"assay serve: {redacted_text(text)}\n")
    sys.stderr.flush()
