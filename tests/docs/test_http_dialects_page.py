"""The page on new providers: its provider answers, keeps reasoning apart, and learns what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import Model
from assay.core.registry import Registry
from assay.core.requests import Generation, Message
from assay.core.responses import Failure, Text
from assay.core.specs import ModelSettings
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json
from tests.models.http.faults import answer

PAGE = (Path(__file__).parents[2] / "docs" / "http-dialects.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MOST_LINES = 40


@pytest.fixture
def provider() -> Any:
    names: dict[str, Any] = {}
    exec(CODE, names)
    return names["PROVIDER"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("ACME_API_KEY", "key-of-acme")

    def ask(body: Json) -> Json:
        ended = "limit" if body["limit"] < 3 else "done"
        return {"answer": body["question"][::-1], "thoughts": "backwards", "ended": ended, "tokens": 2}

    with FaultServer(routes={"/v1/ask": ask}, about={"/v1/models/m": {"id": "m"}}) as running:
        yield running


def test_it_is_short() -> None:
    assert len([line for line in CODE.splitlines() if line.strip()]) <= MOST_LINES


def test_the_provider_answers(provider: Any, server: FaultServer) -> None:
    model = provider({"model": "m", "base_url": server.url})
    asked = [Generation("abc", stop=("b",), max_tokens=5), Generation((Message("user", "xy"),), max_tokens=2)]
    found = answers(model, asked)
    model.close()
    assert found == [
        Text("c", "stop", 2, reasoning="backwards"),
        Text("yx", "length", 2, notes=("stop_at_limit",), reasoning="backwards"),
    ]
    assert {"model": "m", "question": "abc", "limit": 5, "heat": 0.0} in server.seen
    assert all(headers["x-acme-key"] == "key-of-acme" for headers in server.headers)


def test_a_field_that_its_model_refuses_is_learnt(provider: Any, server: FaultServer) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        error = {"error": {"message": "heat is not supported by this model"}}
        return await answer(400, error)(request) if "heat" in body else None

    server.fault = fault
    model = provider({"model": "m", "base_url": server.url})
    (found,) = answers(model, [Generation("abc", max_tokens=5)])
    model.close()
    assert not isinstance(found, Failure) and found.notes == ("temperature_refused",)


def test_its_address_and_key_are_named(provider: Any) -> None:
    wanted = provider({"model": "m"}).arguments
    assert (wanted.base_url, wanted.api_key_env) == ("https://api.acme.example/v1", "ACME_API_KEY")


def test_it_is_a_plugin_by_the_entry_point_of_the_page(
    server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    name, target = re.findall(r'^(\w+) = "(.*)"$', entry, re.MULTILINE)[0]
    package, module = target.partition(":")[0].split(".")
    (tmp_path / package).mkdir()
    (tmp_path / package / f"{module}.py").write_text(CODE)
    about = tmp_path / "acme_tools-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[assay.models]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("model", {}, "assay.models")
    model = registry.create("acme-tools/acme", Model, {"model": "m", "base_url": server.url}, ModelSettings())
    (found,) = answers(model, [Generation("ab", max_tokens=5)])
    model.close()
    assert not isinstance(found, Failure) and found.text == "ba"  # type: ignore[union-attr]
    assert "--model acme-tools/acme" in PAGE
