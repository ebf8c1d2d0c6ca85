"""Opens models of a fault server, without waits that tests need not have, and closes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assay.core.specs import ModelSettings
from assay.models.model_registry import open_model
from tests.models.http.fault_server import MODEL, FaultServer

Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens a model of a server by `--model` name and arguments."""
    models = []

    def open_at(server: FaultServer, name: str = "openai", **arguments: Any) -> Any:
        given = {"model": MODEL, "base_url": server.url, "backoff": 0.002, **arguments}
        models.append(open_model(name, given, ModelSettings()))
        return models[-1]

    yield open_at
    for model in models:
        model.close()
