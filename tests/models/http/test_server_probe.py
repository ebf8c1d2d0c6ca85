"""A server whose log-likelihoods are wrong is refused for them, with the reason; generation goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood
from assay.core.responses import Failure
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json
from tests.models.http.faults import always, answer, reset

Open = Callable[..., Any]


def ignoring_echo(body: Json, sound: Json) -> Json:
    """As llama.cpp: the log-probabilities of the generated token alone."""
    for choice in sound["choices"]:
        for values in choice.get("logprobs", {}).values():
            del values[:-1]
    return sound


def in_chat_form(body: Json, sound: Json) -> Json:
    """As llama.cpp's /v1/completions."""
    for choice in sound["choices"]:
        choice["logprobs"] = {"content": [{"id": 1, "token": "a", "logprob": -1.0}]}
    return sound


def without_logprobs(body: Json, sound: Json) -> Json:
    """As Ollama and LM Studio: the fields are accepted and dropped."""
    for choice in sound["choices"]:
        choice.pop("logprobs", None)
    return sound


def shifted(places: int) -> Callable[[Json, Json], Json]:
    """Log-probabilities of other positions: what a BOS token that the server adds or drops can lead to."""

    def spoil(body: Json, sound: Json) -> Json:
        for choice in sound["choices"] if body.get("echo") else []:
            for name in ("token_logprobs", "top_logprobs"):
                values = choice["logprobs"][name][1:]
                choice["logprobs"][name] = [None, *values[places:], *values[:places]]
        return sound

    return spoil


def with_bos(body: Json, sound: Json) -> Json:
    """One position more than was sent."""
    for choice in sound["choices"] if body.get("echo") else []:
        for values in choice["logprobs"].values():
            values.insert(1, values[1])
    return sound


def swapped(body: Json, sound: Json) -> Json:
    """As servers that collect answers as they finish, and number them afterwards."""
    choices = sound["choices"]
    for number, choice in enumerate(reversed(choices)):
        choice["index"] = number
    return {**sound, "choices": choices[::-1]}


def zeros(body: Json, sound: Json) -> Json:
    for choice in sound["choices"]:
        values = choice.get("logprobs", {}).get("token_logprobs", [])
        values[:] = [None if value is None else 0.0 for value in values]
    return sound


def same_for_all(body: Json, sound: Json) -> Json:
    """Scores the most likely continuation, whatever is sent."""
    for choice in sound["choices"] if body.get("echo") else []:
        logprobs = choice["logprobs"]
        logprobs["token_logprobs"] = [top and max(top.values()) for top in logprobs["top_logprobs"]]
    return sound


REFUSED = {
    "echo is ignored": ignoring_echo,
    "form of chat completions": in_chat_form,
    "echo or logprobs is ignored": without_logprobs,
    "shifted by one": shifted(1),
    "shifted by": shifted(-1),
    "adds or drops a token": with_bos,
    "two prompts in one request": swapped,
    "all log-probabilities are 0": zeros,
    "the continuation is not scored": same_for_all,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_wrong_server_is_refused_with_the_reason(opened: Open, reason: str) -> None:
    with FaultServer(spoil=REFUSED[reason]) as server:
        model = opened(server, max_retries=1)
        assert model.fingerprint.settings["likelihood"] == "refused"
        assert reason in model.capabilities.refusal
        assert model.capabilities.kinds == {"generation"}
        found = answers(model, [Loglikelihood("a", "b"), Generation("a", max_tokens=1)])
    assert isinstance(found[0], Failure) and not found[0].retryable and "refused" in found[0].message
    assert not isinstance(found[1], Failure)


@pytest.mark.parametrize("field", ["prompt_token_ids", "rank", "id"])
def test_vllm_must_report_the_tokens_that_were_sent(opened: Open, field: str) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        for choice in sound["choices"] if "prompt_logprobs" in body else []:
            if field == "prompt_token_ids":
                choice["prompt_token_ids"] = [0, *choice["prompt_token_ids"]]
            for entries in choice["prompt_logprobs"][1:]:
                if field == "rank":
                    next(iter(entries.values())).pop("rank")
                elif field == "id":
                    entries["300"] = entries.popitem()[1]
        return sound

    with FaultServer("vllm", spoil=spoil) as server:
        model = opened(server, dialect="vllm", max_retries=0)
        assert model.fingerprint.settings["likelihood"] == "refused"


def test_llamacpp_must_generate_the_forced_tokens(opened: Open) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        changed = copy.deepcopy(sound)
        for entry in changed["completion_probabilities"] if "grammar" in body else []:
            entry["id"] += 1
        return changed

    with FaultServer("llamacpp", spoil=spoil) as server:
        model = opened(server, max_retries=0)
        assert model.fingerprint.settings["likelihood"] == "refused"
        assert "of the continuation is" in model.capabilities.refusal


def test_another_dialect_is_tried_where_the_first_fails(opened: Open) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        for choice in sound["choices"]:
            choice.pop("prompt_logprobs", None)
        return sound

    with FaultServer("vllm", spoil=spoil) as server:
        assert opened(server, max_retries=0).fingerprint.settings["likelihood"] == "openai"


def test_a_server_with_one_prompt_per_request_passes(opened: Open) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        return await answer(400)(request) if isinstance(body["prompt"][0], list) else None

    with FaultServer(fault=fault) as server:
        assert opened(server).fingerprint.settings["likelihood"] == "openai"


def test_a_server_that_cannot_be_reached_is_an_error_and_not_refused(opened: Open) -> None:
    with FaultServer(fault=always(reset)) as server, pytest.raises(ModelError, match="connection was closed"):
        assert opened(server, max_retries=1).fingerprint
    with pytest.raises(ModelError, match="Start the server"):
        assert opened(server, max_retries=1).fingerprint


def test_the_tolerance_is_the_users(opened: Open) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        for choice in sound["choices"] if body.get("echo") else []:
            values = choice["logprobs"]["token_logprobs"]
            values[1:] = [value - 0.02 for value in values[1:]]
            choice["logprobs"]["top_logprobs"] = [
                top and {name: value - 0.02 for name, value in top.items()}
                for top in choice["logprobs"]["top_logprobs"]
            ]
        return sound

    with FaultServer(spoil=spoil) as server:
        assert opened(server).fingerprint.settings["likelihood"] == "refused"
        assert opened(server, probe_tolerance=0.05).fingerprint.settings["likelihood"] == "openai"
