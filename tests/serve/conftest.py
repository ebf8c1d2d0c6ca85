"""A server of a tiny model in a thread of the test's process, and a plain client of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from assay.core.protocols import Model
from assay.core.specs import ModelSettings
from assay.models.hf.families import open_hf
from assay.serve.access import Access
from assay.serve.server import ServerSettings, hosted
from assay.store.store import Store
from tests.models.conftest import (
    TEMPLATE,
    bart,
    bert_tokenizer,
    encoders,
    own_cache,
    roberta_tokenizer,
    save_llama,
    train_tokenizer,
)

__all__ = ["bart", "bert_tokenizer", "encoders", "own_cache", "roberta_tokenizer"]
LENGTH = 256


class Reply(NamedTuple):
    """Status and JSON of an answer; the text of a stream."""

    status: int
    data: Any


class Running:
    """A server that runs in a thread."""

    def __init__(self, model: Model, store: Path | str, access: Access, name: str = "tiny") -> None:
        self.model = model
        self._given = (model, name, ServerSettings(port=0), access)
        self._store, self._ready = store, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        with Store(self._store) as store:
            async with hosted(*self._given, store) as host:
                await host.ready
                self.url = host.address
                self._ready.set()
                await self._stop.wait()

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.model.close()

    def ask(self, path: str, body: Any = None, **headers: str) -> Reply:
        """The answer to a GET, or to a POST of a body."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        try:
            with urlopen(Request(self.url + path, data, own), timeout=60) as answer:
                text = answer.read().decode()
                return Reply(answer.status, text if text.startswith("data:") else json.loads(text))
        except HTTPError as error:
            return Reply(error.code, json.loads(error.read()))

    def complete(self, prompt: Any, **fields: Any) -> Any:
        """The answer to a completion, which must succeed."""
        status, data = self.ask("/v1/completions", {"model": "tiny", "prompt": prompt, "temperature": 0, **fields})
        assert status == 200, data
        return data

    def frames(self, path: str, body: Any) -> list[Any]:
        """The frames of a stream, which must end properly."""
        status, text = self.ask(path, {"model": "tiny", "temperature": 0, "stream": True, **body})
        assert status == 200, text
        lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with room for few-shot prompts, whose tokenizer adds BOS."""
    target = tmp_path_factory.mktemp("served")
    return save_llama(target, train_tokenizer(True, TEMPLATE), max_position_embeddings=LENGTH)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers, and ends them."""
    servers: list[Running] = []

    def begin(model: Model, key: Any = None, is_local: bool = True, store: Path | None = None) -> Running:
        servers.append(Running(model, store or tmp_path / "store.db", Access(is_local, key)))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def open_model(folder: Path) -> Callable[[], Model]:
    """Opens the tiny Llama."""
    return lambda: open_hf({"pretrained": str(folder)}, ModelSettings("auto", "cpu"))


@pytest.fixture(scope="session")
def server(open_model: Callable[[], Model], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests that leave nothing behind."""
    found = Running(open_model(), tmp_path_factory.mktemp("store") / "store.db", Access(True, None))
    yield found
    found.close()
