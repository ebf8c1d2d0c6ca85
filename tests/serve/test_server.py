"""The server around the endpoints: who may ask, what is stored, what is given up, which models are served."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from assay.core.errors import UserError
from assay.core.protocols import Model
from assay.core.requests import Generation, Loglikelihood
from assay.core.responses import Text
from assay.core.specs import ModelSettings
from assay.models.hf.families import open_hf
from assay.models.http.traffic.api_key import ApiKey
from assay.models.model_registry import open_model as open_by_name
from assay.serve.access import KEY_VARIABLE
from assay.serve.server import _access, check_model
from assay.store.store import Store
from tests.serve.conftest import LENGTH, Running

Start = Callable[..., Running]
Open = Callable[[], Model]


def test_the_server_says_what_it_is(server: Running) -> None:
    listed = server.ask("/v1/models").data
    assert listed["object"] == "list" and listed["data"][0]["id"] == "tiny"
    assert listed["data"][0]["max_model_len"] == LENGTH
    assert server.ask("/v1/models/tiny").data == listed["data"][0]
    assert server.ask("/v1/models/other").status == 404
    assert server.ask("/health") == (200, {"status": "ok"})
    assert "version" in server.ask("/version").data


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_the_tokenizer_is_served(server: Running, prefix: str) -> None:
    info = server.ask(f"{prefix}/tokenizer_info").data
    assert (info["bos_token"], info["eos_token"]) == ("<s>", "</s>") and "message" in info["chat_template"]
    found = server.ask(f"{prefix}/tokenize", {"prompt": "The sky", "add_special_tokens": False}).data
    assert found["count"] == len(found["tokens"]) and found["max_model_len"] == LENGTH
    assert server.ask(f"{prefix}/detokenize", {"tokens": found["tokens"]}).data == {"prompt": "The sky"}
    chat = server.ask(f"{prefix}/tokenize", {"messages": [{"role": "user", "content": "Hi"}]}).data["tokens"]
    assert server.ask("/detokenize", {"tokens": chat}).data["prompt"] == "<s><user>Hi\n<assistant>"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/completions", {"model": "other", "prompt": "a"}, 404),
        ("/v1/completions", {"prompt": "a"}, 400),
        ("/v1/completions", b"{", 400),
        ("/v1/completions", [1], 400),
        ("/v1/completions", b"[" * 100_000, 400),
        ("/v1/completions", None, 405),
        ("/nowhere", None, 404),
        ("/tokenize", {}, 400),
        ("/detokenize", {"tokens": [-1]}, 400),
    ],
)
def test_errors_have_openais_form(server: Running, path: str, body: Any, status: int) -> None:
    found = server.ask(path, body)
    assert found.status == status and set(found.data["error"]) == {"message", "type", "param", "code"}


def test_a_body_that_is_too_large_is_refused(server: Running) -> None:
    found = server.ask("/tokenize", b'{"prompt": "' + b"a" * (65 << 20) + b'"}')
    assert found.status == 413 and "MiB" in found.data["error"]["message"]


def test_pages_in_a_browser_get_nothing(server: Running) -> None:
    assert server.ask("/v1/models", None, Host="evil.example").status == 403
    assert server.ask("/v1/models", None, Host="[::1").status == 403
    assert server.ask("/v1/models", None, Host="localhost:1").status == 200
    assert server.ask("/v1/models", None, Origin="https://evil.example").status == 403
    assert server.ask("/v1/models", None, Origin="null").status == 403
    body = json.dumps({"model": "tiny", "prompt": "a"}).encode()
    assert server.ask("/v1/completions", body, Content_Type="text/plain").status == 415


def test_a_key_opens_everything_but_health(open_model: Open, start: Start) -> None:
    server = start(open_model(), ApiKey("sesame-4711-sesame"))
    assert server.ask("/health").status == 200
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "sesame-4711-sesame"}):
        found = server.ask("/v1/models", None, **given)
        assert (found.status, found.data["error"]["code"]) == (401, "invalid_api_key")
        assert "4711" not in str(found.data)
    assert server.ask("/v1/models", None, Authorization="Bearer sesame-4711-sesame").status == 200


def test_other_addresses_need_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    for host in ("0.0.0.0", "192.168.0.7", "example.org", "::"):
        with pytest.raises(UserError, match=KEY_VARIABLE):
            _access(host)
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        assert _access(host).is_local
    monkeypatch.setenv(KEY_VARIABLE, "sesame-4711-sesame")
    assert not _access("0.0.0.0").is_local and _access("127.0.0.1").key is not None


def test_generations_come_from_the_store(open_model: Open, start: Start, tmp_path: Path) -> None:
    server = start(open_model())
    server.complete("The sky", max_tokens=5)
    server.complete("The sky", max_tokens=5, temperature=1.0)  # without a seed: not stored
    request, fingerprint = Generation("The sky", (), 5), server.model.fingerprint
    server.close()
    from assay.core.identity import response_key

    key = response_key(fingerprint.digest, request)
    with Store(tmp_path / "store.db") as store:
        assert store.responses.count() == 1
        assert isinstance(store.responses.get([key])[key], Text)
        store.responses.remove([key])
        store.responses.put([(key, Text("from the store", "stop", 3, 4))], fingerprint)  # type: ignore[list-item]
    again = start(open_model())
    ids = again.ask("/tokenize", {"prompt": "The sky"}).data["tokens"]
    for prompt in ("The sky", ids):
        answer = again.complete(prompt, max_tokens=5)
        assert answer["choices"][0]["text"] == "from the store" and answer["usage"]["total_tokens"] == 7
    frames = again.frames("/v1/completions", {"prompt": "The sky", "max_tokens": 5})
    assert "".join(frame["choices"][0]["text"] for frame in frames) == "from the store"


class Slow:
    """A model whose first generation waits, and which remembers what it was asked."""

    def __init__(self, model: Any) -> None:
        self._model, self.may_go, self.begun = model, threading.Event(), threading.Event()
        self.asked: list[int] = []
        self.ended_early = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def codec(self) -> Any:
        return self._model.codec()

    def score_tokens(self, rows: Any) -> Any:
        return self._model.score_tokens(rows)

    def continue_tokens(self, prompts: Any, on_tokens: Any) -> Any:
        self.asked.append(len(prompts))
        self.begun.set()
        while not self.may_go.is_set():
            time.sleep(0.01)
            try:
                on_tokens(0, [5])
            except BaseException:
                self.ended_early = True
                raise
        yield from self._model.continue_tokens(prompts, on_tokens)


def send(server: Running, prompt: str) -> socket.socket:
    """Sends a request and does not wait for its answer."""
    address = urlsplit(server.url)
    found = socket.create_connection((address.hostname, address.port or 0))
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 3, "temperature": 0})
    head = ["POST /v1/completions HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    found.sendall("\r\n".join([*head, f"Content-Length: {len(body)}", "", body]).encode())
    return found


def test_what_waits_becomes_one_batch_without_those_who_left(open_model: Open, start: Start) -> None:
    slow = Slow(open_model())
    server = start(slow)
    with closing(send(server, "first")):
        assert slow.begun.wait(20)
        left = [send(server, "gone"), send(server, "gone too")]
        rest = [send(server, text) for text in ("a", "b", "c", "c")]
        time.sleep(0.3)
        for connection in left:
            connection.close()
        time.sleep(0.3)
        slow.may_go.set()
        assert all(b"200 OK" in connection.recv(4096) for connection in rest)
    assert slow.asked == [1, 3]  # equal requests run once
    for connection in rest:
        connection.close()


def test_a_generation_nobody_waits_for_ends(open_model: Open, start: Start) -> None:
    slow = Slow(open_model())
    server = start(slow)
    with closing(send(server, "first")):
        assert slow.begun.wait(20)
    until = time.monotonic() + 20
    while not slow.ended_early and time.monotonic() < until:
        time.sleep(0.01)
    assert slow.ended_early
    slow.may_go.set()
    server.complete("next", max_tokens=2)


def test_the_server_ends_during_a_generation(open_model: Open, start: Start) -> None:
    slow = Slow(open_model())
    server = start(slow)
    with closing(send(server, "first")):
        assert slow.begun.wait(20)
        server.close()
    assert slow.ended_early


def test_encoders_are_refused_with_the_reason(encoders: Any) -> None:
    model = open_hf({"pretrained": str(encoders("Bert", "ForSequenceClassification"))}, ModelSettings("auto", "cpu"))
    with pytest.raises(UserError, match=r"encoder.*expected a model that generates text"):
        check_model("bert", model)


def test_encoder_decoders_generate_and_do_not_score(bart: Path, start: Start) -> None:
    server = start(open_hf({"pretrained": str(bart)}, ModelSettings("auto", "cpu")))
    own = server.model.respond([Generation("The sky is", (), 5)])
    expected = dict(own)[0]
    answer = server.complete("The sky is", max_tokens=5)
    assert answer["choices"][0]["text"] == expected.text and answer["usage"]["prompt_tokens"] == expected.prompt_tokens  # type: ignore[union-attr]
    frames = server.frames("/v1/completions", {"prompt": "The sky is", "max_tokens": 5})
    assert "".join(frame["choices"][0]["text"] for frame in frames) == expected.text  # type: ignore[union-attr]
    for fields in ({"logprobs": 1}, {"prompt": [3, 4]}, {"prompt_logprobs": 0}, {"return_token_ids": True}):
        status, data = server.ask("/v1/completions", {"model": "tiny", "prompt": "a", **fields})
        assert status == 400 and "encoder-decoder" in data["error"]["message"]


def test_models_without_a_tokenizer_serve_text(start: Start) -> None:
    server = start(open_by_name("dummy", {}, ModelSettings()))
    answer = server.complete(["a", "b"], max_tokens=4)
    assert len(answer["choices"]) == 2
    assert server.ask("/tokenize", {"prompt": "a"}).status == 400
    assert server.ask("/v1/completions", {"model": "tiny", "prompt": "a", "logprobs": 1}).status == 400


def test_a_request_of_another_kind_does_not_disturb(server: Running) -> None:
    """Scores and generations in one batch."""
    found: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda n=n: found.append(server.complete(f"girl {n}", max_tokens=n % 3, logprobs=n % 2))
        )
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 12
    assert Loglikelihood.kind in server.model.capabilities.kinds
