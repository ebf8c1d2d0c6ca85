"""A key is sent to its server and appears nowhere else: not in the store, records, messages or exported files."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import ModelError
from assay.core.requests import Generation
from assay.models.http.traffic.api_key import ApiKey, read_api_key
from assay.testing import toy_generation_task
from tests.models.http.fault_server import MODEL, FaultServer, Json
from tests.models.http.faults import always, answer, first

CANARY = "canary-4f9a1c77d2e84b01"
Open = Callable[..., Any]


def test_a_key_prints_as_stars() -> None:
    key = ApiKey(CANARY)
    assert {str(key), repr(key), f"{key}", f"{[key]}"} == {"***", "[***]"}
    assert key.header() == {"Authorization": f"Bearer {CANARY}"}
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_a_key_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{CANARY}\n")
    for key in (read_api_key("K", str(file), {}), read_api_key("K", None, {"K": CANARY})):
        assert key is not None and key.header() == {"Authorization": f"Bearer {CANARY}"}
    assert read_api_key("K", None, {}) is None


@pytest.mark.parametrize("content", ["", "two words", "line\nbreak", "ключ"])
def test_a_file_that_is_no_key_is_not_quoted(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(ModelError, match="does not hold a key") as caught:
        read_api_key("K", str(tmp_path / "key"), {})
    assert not content or content not in str(caught.value)


@pytest.mark.parametrize("status", [None, 401, 400, 500])
def test_a_key_is_in_no_artefact(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any, status: int | None
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    leak = {"error": {"message": f"Incorrect API key provided: {CANARY}", "header": f"Bearer {CANARY}"}}
    messages = ""
    with FaultServer() as server:
        model = opened(server, max_retries=1)
        assert model.fingerprint
        server.seen.clear()
        server.fault = None if status is None else first(4, answer(status, leak))
        try:
            result = assay.evaluate(model, toy_generation_task(2), store=str(tmp_path / "store.db"))
            messages = repr(result)
        except ModelError as error:
            messages = f"{error!r} {error}"
        messages += repr(model.description()) + repr(vars(model)) + repr(model.fingerprint)
        assert server.keys == {f"Bearer {CANARY}"}
    model.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(CANARY.encode() in path.read_bytes() for path in files)
    assert CANARY not in messages + caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("status", [None, 401, 400, 500])
@pytest.mark.parametrize(
    ("provider", "header", "path", "sound"),
    [
        ("anthropic", "x-api-key", "messages", {"content": [{"type": "text", "text": "4"}], "stop_reason": "end_turn"}),
        (
            "gemini",
            "x-goog-api-key",
            f"models/{MODEL}:generateContent",
            {"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}]},
        ),
    ],
)
def test_a_key_of_a_provider_is_in_no_artefact(
    opened: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    caplog: Any,
    provider: str,
    header: str,
    path: str,
    sound: Json,
    status: int | None,
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", CANARY)
    leak = {"error": {"message": f"API key not valid: {CANARY}", header: CANARY}}
    about = {f"/v1/models/{MODEL}": {"id": MODEL}}
    with FaultServer(routes={f"/v1/{path}": lambda body: sound}, about=about) as server:
        server.fault = None if status is None else first(4, answer(status, leak))
        model = opened(server, provider, max_retries=1)
        try:
            messages = repr(assay.evaluate(model, toy_generation_task(2), store=str(tmp_path / "store.db")))
        except ModelError as error:
            messages = f"{error!r} {error}"
        messages += repr(model.description()) + repr(vars(model)) + repr(model.fingerprint) + repr(model.provider)
        assert {headers.get(header) for headers in server.headers} == {CANARY}
        assert server.keys == {""} and not any(CANARY in str(headers.get("referer")) for headers in server.headers)
    model.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(CANARY.encode() in path.read_bytes() for path in files)
    assert CANARY not in messages + caplog.text + "".join(capfd.readouterr())


def test_a_key_that_gemini_does_not_know_ends_the_run(opened: Open) -> None:
    error = {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "X"}}
    path = f"/v1/models/{MODEL}"
    with FaultServer(
        routes={f"{path}:generateContent": dict}, about={path: {}}, fault=always(answer(400, error))
    ) as server:
        with pytest.raises(ModelError, match="GEMINI_API_KEY"):
            list(opened(server, "gemini").respond([Generation("Q", max_tokens=2)]))
        assert len(server.seen) == 1


def test_a_key_in_the_refusal_of_a_parameter_is_in_no_report(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)

    async def fault(request: Any, body: Json, number: int) -> Any:
        error = {"error": {"message": f"temperature is not supported with {CANARY}"}}
        return await answer(400, error)(request) if "temperature" in body else None

    with FaultServer(fault=fault) as server:
        model = opened(server, "openai-chat")
        assert len(list(model.respond([Generation("Q", max_tokens=2)]))) == 1
        report = model.description()["refused_parameters"]
    assert "not supported with ***" in report["temperature"] and CANARY not in repr(report)
