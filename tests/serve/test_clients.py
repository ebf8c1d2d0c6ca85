"""Real clients of the server: Assay's own, whose answers must be those of the same model in process, and OpenAI's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import Model
from assay.core.requests import Generation, Loglikelihood, Message, Request, RollingLoglikelihood, Windows
from assay.core.responses import Logprob, Text
from assay.core.specs import ModelSettings
from assay.models.hf.families import open_hf
from assay.models.model_registry import open_model as open_by_name
from tests.serve.conftest import LENGTH, Running

QUESTION = "Question: what colour is the sky?\nA. four\nB. blue\nC. girl\nAnswer:"
WHOLE = "Once upon a time there was a little girl who liked to answer questions about the world. " * 6
# What a run asks, by kind of task.
REQUESTS: dict[str, list[Request]] = {
    "choices": [Loglikelihood(QUESTION, f" {answer}") for answer in ("four, said the girl", "Blue", "a little girl")],
    "letters": [Loglikelihood(QUESTION, letter) for letter in (" A", " B", " C")],
    "perplexity": [RollingLoglikelihood(WHOLE, windows=Windows(100, 50)), RollingLoglikelihood(WHOLE)],
    "generation": [Generation(f"The sky {n}", stop, 20) for n, stop in enumerate([(), ("e",), ("the", "\n", "zz")])],
}
CHAT: list[Request] = [
    Generation((Message("system", "Be brief."), Message("user", f"What is {n}?")), ("a",), 16) for n in range(3)
]


@pytest.fixture(scope="module")
def in_process(folder: Path) -> Any:
    """The same model in process, with the length that a client of a server has."""
    return open_hf({"pretrained": str(folder), "max_length": LENGTH - 2}, ModelSettings("auto", "cpu"))


@pytest.fixture(scope="module", params=["remote", "huggingface"])
def client(request: pytest.FixtureRequest, server: Running, folder: Path) -> Any:
    """Assay's own client, with the server's tokenizer and with that of the folder."""
    arguments = {"model": "tiny", "base_url": server.url, "tokenizer_backend": request.param}
    if request.param == "huggingface":
        arguments["tokenizer"] = str(folder)
    model = open_by_name("openai", arguments, ModelSettings())
    yield model
    model.close()


def test_the_probe_passes(client: Any) -> None:
    assert client.capabilities.kinds == {"loglikelihood", "rolling_loglikelihood", "generation"}
    assert client.description()["likelihood"] == {"dialect": "openai", "against": []}


@pytest.mark.parametrize("kind", REQUESTS)
def test_answers_are_those_of_the_model_in_process(client: Model, in_process: Model, kind: str) -> None:
    requests = REQUESTS[kind]
    own, served = dict(in_process.respond(requests)), dict(client.respond(requests))
    assert sorted(served) == list(range(len(requests)))
    for index in own:
        _check_same(own[index], served[index])


def test_texts_in_chat_are_those_of_the_model_in_process(server: Running, in_process: Model) -> None:
    model = open_by_name("openai-chat", {"model": "tiny", "base_url": server.url}, ModelSettings())
    own, served = dict(in_process.respond(CHAT)), dict(model.respond(CHAT))
    model.close()
    for index in own:
        _check_same(own[index], served[index])


def test_vllms_form_serves_the_same_client(server: Running, in_process: Model, folder: Path) -> None:
    arguments = {"model": "tiny", "base_url": server.url, "tokenizer": str(folder), "dialect": "vllm"}
    model = open_by_name("openai", arguments, ModelSettings())
    assert "loglikelihood" in model.capabilities.kinds
    own, served = (dict(one.respond(REQUESTS["choices"])) for one in (in_process, model))
    model.close()
    for index in own:
        _check_same(own[index], served[index])


def _check_same(own: Any, served: Any) -> None:
    if isinstance(own, Logprob):
        assert isinstance(served, Logprob), served
        assert served.total == pytest.approx(own.total, abs=1e-4)
        assert (served.token_count, served.is_greedy) == (own.token_count, own.is_greedy)
    else:
        assert isinstance(own, Text) and isinstance(served, Text), served
        assert (served.text, served.prompt_tokens) == (own.text, own.prompt_tokens)
        assert (served.finish_reason == "length") == (own.finish_reason == "length")


@pytest.fixture
def sdk(server: Running) -> Any:
    """OpenAI's own client; skips where it is not installed."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_openais_client_completes(sdk: Any, server: Running) -> None:
    fields: dict[str, Any] = {"prompt": ["The sky", "Blue"], "max_tokens": 4, "logprobs": 2}
    answer = sdk.completions.create(model="tiny", temperature=0, **fields)
    plain = server.complete(**fields)
    assert [choice.text for choice in answer.choices] == [choice["text"] for choice in plain["choices"]]
    assert answer.choices[1].logprobs.token_logprobs == plain["choices"][1]["logprobs"]["token_logprobs"]
    assert answer.usage.total_tokens == plain["usage"]["total_tokens"]
    assert [model.id for model in sdk.models.list()] == ["tiny"]


def test_openais_client_chats_and_streams(sdk: Any) -> None:
    messages = [{"role": "user", "content": "What colour is the sky?"}]
    fields: dict[str, Any] = {"model": "tiny", "messages": messages, "max_tokens": 12, "temperature": 0}
    answer = sdk.chat.completions.create(**fields, logprobs=True, top_logprobs=1)
    assert answer.choices[0].logprobs.content[0].top_logprobs[0].token == answer.choices[0].logprobs.content[0].token
    stream = list(sdk.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == answer.choices[0].message.content and stream[-1].usage == answer.usage
    pieces = sdk.completions.create(model="tiny", prompt="The sky", max_tokens=8, temperature=0, stream=True)
    whole = sdk.completions.create(model="tiny", prompt="The sky", max_tokens=8, temperature=0)
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text


def test_openais_client_raises_its_own_errors(sdk: Any, refusals: Callable[[str], type[Exception]]) -> None:
    for name, fields in {"NotFoundError": {"model": "other"}, "BadRequestError": {"suffix": "x"}}.items():
        with pytest.raises(refusals(name)):
            sdk.completions.create(**{"model": "tiny", "prompt": "a", **fields})


@pytest.fixture
def refusals() -> Callable[[str], type[Exception]]:
    openai = pytest.importorskip("openai")
    return lambda name: getattr(openai, name)
