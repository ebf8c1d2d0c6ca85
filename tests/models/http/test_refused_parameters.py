"""Parameters that a model refuses are learnt once, left out, and noted; nothing else is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.requests import Generation, Sampling
from assay.core.responses import NOTE_TEXTS, Failure, Text
from assay.models.http.dialects.anthropic import Anthropic
from assay.models.http.dialects.chat_completions import Chat
from assay.models.http.dialects.gemini import Gemini
from assay.models.http.exchange import ChatSettings, Exchange, GenerationCall
from assay.models.http.traffic.refused_parameters import RefusedParameters
from assay.models.http.traffic.replies import Rejection, read_reply
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json
from tests.models.http.faults import answer

Open = Callable[..., Any]
REQUEST = Generation("Q", stop=("END",), max_tokens=9, sampling=Sampling(0.5, 7, options=(("top_p", 0.9),)))
# Messages as OpenAI, Anthropic and Gemini word them.
OPENAI_MAX_TOKENS = {
    "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
    "instead.",
    "type": "invalid_request_error",
    "param": "max_tokens",
    "code": "unsupported_parameter",
}
OPENAI_TEMPERATURE = {
    "message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
    "supported.",
    "type": "invalid_request_error",
    "param": "temperature",
    "code": "unsupported_value",
}


def exchange_of(dialect: Any) -> Any:
    found = dialect(ChatSettings("m")).generate(GenerationCall("Q", REQUEST, 9))
    assert isinstance(found, Exchange)
    return found


def rejected(error: Any) -> Rejection:
    import json

    found = read_reply(400, {}, json.dumps({"error": error}).encode(), 0.0)
    assert isinstance(found, Rejection)
    return found


@pytest.mark.parametrize(
    ("dialect", "error", "path"),
    [
        (Chat, OPENAI_TEMPERATURE, "temperature"),
        (Chat, OPENAI_MAX_TOKENS, "max_tokens"),
        (Chat, {"message": "Unsupported parameter: 'stop' is not supported with this model.", "param": "stop"}, "stop"),
        (Anthropic, {"type": "invalid_request_error", "message": "`temperature` is deprecated for this model."}, None),
        (Anthropic, {"type": "x", "message": "top_p: Extra inputs are not permitted"}, "top_p"),
        (Anthropic, {"message": "`temperature` may only be set to 1 when thinking is enabled."}, "temperature"),
        (Gemini, {"message": "Unknown name \"seed\" at 'generation_config': Cannot find field."}, None),
        (Gemini, {"code": 400, "message": "stop_sequences is not supported for this model"}, None),
    ],
)
def test_a_refusal_names_the_parameter(dialect: Any, error: Json, path: str | None) -> None:
    known, sent = RefusedParameters(), exchange_of(dialect)
    assert known.adapted(sent) is sent
    assert known.learn(sent, rejected(error))
    (found,) = known.refused
    assert path is None or found == path
    without = known.adapted(sent)
    assert without.body != sent.body
    assert not known.learn(without, rejected(error))  # what is not sent cannot be left out


@pytest.mark.parametrize(
    "error",
    [
        {"message": "temperature must be at most 2", "param": "temperature", "code": "invalid_value"},
        {"message": "This model does not support images", "param": "messages", "code": "unsupported_value"},
        {"message": "Unsupported parameter: 'logit_bias'", "param": "logit_bias", "code": "unsupported_parameter"},
        {"message": "Stopping early is not supported"},
        {"message": "no"},
    ],
)
def test_other_rejections_teach_nothing(error: Json) -> None:
    known = RefusedParameters()
    assert not known.learn(exchange_of(Chat), rejected(error)) and known.refused == {}


def test_a_field_within_another_is_left_out() -> None:
    known, sent = RefusedParameters(), exchange_of(Gemini)
    assert known.learn(sent, rejected({"message": "temperature is not supported for this model"}))
    config = known.adapted(sent).body["generationConfig"]
    assert "temperature" not in config and config["maxOutputTokens"] == 9
    assert "temperature" in sent.body["generationConfig"]


def test_every_note_has_a_text() -> None:
    notes = {entry.note for dialect in (Chat, Anthropic, Gemini) for entry in exchange_of(dialect).optional}
    assert notes - {""} <= set(NOTE_TEXTS)


def test_a_model_is_asked_once_too_often_and_no_request_fails(opened: Open) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        if "max_tokens" in body:
            return await answer(400, {"error": OPENAI_MAX_TOKENS})(request)
        if "temperature" in body:
            return await answer(400, {"error": OPENAI_TEMPERATURE})(request)
        return None

    requests = [Generation(f"Q{number}", stop=("~",), max_tokens=3) for number in range(30)]
    with FaultServer(fault=fault) as server:
        model = opened(server, "openai-chat", num_concurrent=1)
        found = answers(model, requests)
        assert all(isinstance(text, Text) and text.notes[-1] == "temperature_refused" for text in found)
        assert len(server.seen) == len(requests) + 2
        assert server.seen[-1].keys() == {"model", "messages", "max_completion_tokens", "stop"}
        report = model.description()
        assert report["requests"]["rejected"] == {} and report["requests"]["answered"] == 30
        assert list(report["refused_parameters"]) == ["max_tokens", "temperature"]
        server.seen.clear()
        answers(model, [Generation("Q", max_tokens=3)])
        assert len(server.seen) == 1  # learnt for the rest of the run


def test_many_at_once_all_learn(opened: Open) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        return await answer(400, {"error": OPENAI_TEMPERATURE})(request) if "temperature" in body else None

    with FaultServer(fault=fault) as server:
        found = answers(opened(server, "openai-chat"), [Generation(f"Q{n}", max_tokens=2) for n in range(100)])
        assert len(server.seen) <= 100 + 16
    assert not any(isinstance(entry, Failure) for entry in found)


def test_a_parameter_that_the_user_sets_is_never_left_out(opened: Open) -> None:
    error = {"message": "reasoning_effort is not supported with this model", "param": "reasoning_effort"}

    async def fault(request: Any, body: Json, number: int) -> Any:
        return await answer(400, {"error": error})(request)

    with FaultServer(fault=fault) as server:
        (found,) = answers(opened(server, "openai-chat", reasoning_effort="low"), [Generation("Q", max_tokens=2)])
        assert len(server.seen) == 1 and server.seen[0]["reasoning_effort"] == "low"
    assert isinstance(found, Failure) and found.kind == "rejected"
