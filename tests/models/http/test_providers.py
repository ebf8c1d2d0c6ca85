"""Providers with APIs of their own: the exact requests that are sent, and every answer that they may give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood, Message, Sampling
from assay.core.responses import Failure, Text
from assay.models.http.dialects.anthropic import Anthropic
from assay.models.http.dialects.gemini import Gemini
from assay.models.http.exchange import ChatSettings, Exchange, GenerationCall, Thinking, Unreadable
from assay.models.model_registry import ALIASES
from assay.testing.contracts import answers
from tests.models.http.fault_server import MODEL, FaultServer, Json

Open = Callable[..., Any]
TURNS = (Message("system", "Be brief."), Message("user", "2 + 2?"), Message("assistant", "3"), Message("user", "No."))
SAMPLING = Sampling(0.5, 7, options=(("top_p", 0.9),))
SAMPLED = Generation(TURNS, stop=("\n", "END"), max_tokens=9, sampling=SAMPLING)
REQUEST = Generation(TURNS, max_tokens=9)


def sent(dialect: Any, request: Generation = REQUEST) -> Any:
    exchange = dialect.generate(GenerationCall(request.prompt, request, request.max_tokens or 9))
    assert isinstance(exchange, Exchange)
    return exchange


def anthropic(**settings: Any) -> Anthropic:
    return Anthropic(ChatSettings(MODEL, **settings))


def gemini(**settings: Any) -> Gemini:
    return Gemini(ChatSettings(MODEL, **settings))


def blocks(*content: Json, reason: Any = "end_turn", **usage: int) -> Json:
    """An answer of Anthropic's."""
    return {"type": "message", "content": list(content), "stop_reason": reason, "usage": usage}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def parts(*content: Json, reason: Any = "STOP", **usage: int) -> Json:
    """An answer of Gemini's."""
    candidate: Json = {"content": {"role": "model", "parts": list(content)}, "finishReason": reason, "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage}


# Anthropic


def test_a_request_to_anthropic() -> None:
    exchange = sent(anthropic(), SAMPLED)
    assert (exchange.path, exchange.body) == (
        "messages",
        {
            "model": MODEL,
            "messages": [
                {"role": "user", "content": "2 + 2?"},
                {"role": "assistant", "content": "3"},
                {"role": "user", "content": "No."},
            ],
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.9,
            "system": "Be brief.",
            "stop_sequences": ["END"],  # white space alone is refused there, and cut here
        },
    )


def test_a_seed_that_anthropic_does_not_take_is_noted() -> None:
    assert "seed" not in sent(anthropic(seed=3), SAMPLED).body
    assert sent(anthropic(), SAMPLED).read(blocks(text("4"))).notes == ("seed_refused",)
    assert sent(anthropic(seed=3), Generation("Q")).read(blocks(text("4"))).notes == ()  # greedy


def test_an_answer_of_anthropic() -> None:
    thought = {"type": "thinking", "thinking": "2 + 2 is 4", "signature": "x"}
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 6}
    found = sent(anthropic()).read(blocks(thought, text("Fo"), text("ur"), **usage))
    assert found == Text("Four", "stop", 6, 17, reasoning="2 + 2 is 4")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (blocks(reason="refusal"), "refusal"),
        (blocks(text("a"), reason="refusal"), "refusal"),
        (blocks({"type": "tool_use"}, reason="tool_use"), "tool_call"),
        (blocks({"type": "thinking", "thinking": "hm"}, reason="max_tokens"), "truncated_thinking"),
        (blocks({"type": "redacted_thinking", "data": "x"}, reason="max_tokens"), "truncated_thinking"),
    ],
)
def test_answers_of_anthropic_that_are_none(data: Json, kind: str) -> None:
    found = sent(anthropic()).read(data)
    assert isinstance(found, Failure) and (found.kind, found.retryable) == (kind, False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({}, "malformed"),
        ({"content": "4"}, "malformed"),
        ({"content": ["4"]}, "malformed"),
        (blocks(reason="pause_turn"), "aborted"),
        (blocks(reason="max_tokens"), "no_content"),
        (blocks(reason=None), "no_content"),
    ],
)
def test_answers_of_anthropic_that_are_asked_again(data: Json, kind: str) -> None:
    with pytest.raises(Unreadable) as caught:
        sent(anthropic()).read(data)
    assert caught.value.kind == kind


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_cut_answer_of_anthropic_says_so(reason: str) -> None:
    assert sent(anthropic()).read(blocks(text("4"), reason=reason)) == Text("4", "length", notes=("stop_at_limit",))


def test_an_answer_that_begins_with_a_stop_sequence_is_empty() -> None:
    assert sent(anthropic()).read(blocks(reason="stop_sequence")) == Text("", "stop")


def test_the_beginning_of_an_answer_is_sent_to_anthropic() -> None:
    turns = (Message("user", "2 + 2?"), Message("assistant", "It is"))
    assert sent(anthropic(), Generation(turns)).body["messages"][-1] == {"role": "assistant", "content": "It is"}


@pytest.mark.parametrize(
    ("thinking", "fields", "limit"),
    [
        (Thinking(0), {"thinking": {"type": "disabled"}}, 9),
        (Thinking(-1, "low"), {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, 9),
        (Thinking(2000), {"thinking": {"type": "enabled", "budget_tokens": 2000}}, 2009),
    ],
)
def test_thinking_of_anthropic(thinking: Thinking, fields: Json, limit: int) -> None:
    body = sent(anthropic(thinking=thinking)).body
    assert fields.items() <= body.items() and body["max_tokens"] == limit


def test_a_budget_that_anthropic_does_not_take_is_an_error_at_once() -> None:
    with pytest.raises(ModelError, match="at least 1024 tokens"):
        anthropic(thinking=Thinking(100))


def test_a_constrained_answer_of_anthropic() -> None:
    exchange = sent(anthropic(constrain=("A", "B")))
    schema = exchange.body["output_config"]["format"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["A", "B"] and "stop_sequences" not in exchange.body
    assert exchange.read(blocks(text('{"answer": "B"}'))) == Text("B", "stop", notes=("constrained",))
    assert exchange.read(blocks(text('{"answer": "C"}'))).kind == "not_a_choice"
    assert exchange.read(blocks(text('{"answer": 2}'))).kind == "not_a_choice"


def test_a_run_with_anthropic(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-1")
    routes = {"/v1/messages": lambda body: blocks(text("4"))}
    with FaultServer(routes=routes, about={f"/v1/models/{MODEL}": {"id": MODEL, "max_input_tokens": 99}}) as server:
        model = opened(server, "anthropic-chat")
        assert answers(model, [Generation("2 + 2?", max_tokens=5)]) == [Text("4", "stop")]
        assert model.facts_of_server.max_length == 99
        wanted = {"x-api-key": "k-1", "anthropic-version": "2023-06-01"}
        assert all(wanted.items() <= headers.items() for headers in server.headers)
        assert server.keys == {""}  # no header Authorization
        assert server.seen[-1]["messages"] == [{"role": "user", "content": "2 + 2?"}]
    assert model.capabilities.kinds == {"generation"}


def test_a_model_that_the_provider_does_not_know_is_an_error(opened: Open) -> None:
    with FaultServer() as server, pytest.raises(ModelError, match=r'model_args.model: "scripted"'):
        answers(opened(server, "anthropic"), [Generation("a", max_tokens=1)])


def test_providers_have_addresses_of_their_own() -> None:
    from assay.core.specs import ModelSettings
    from assay.models.model_registry import open_model

    urls = [open_model(name, {"model": "m"}, ModelSettings()).arguments.base_url for name in ("anthropic", "gemini")]  # type: ignore[attr-defined]
    assert urls == ["https://api.anthropic.com/v1", "https://generativelanguage.googleapis.com/v1beta"]
    assert ALIASES["anthropic-chat-completions"] == "anthropic"


# Gemini


def test_a_request_to_gemini() -> None:
    exchange = sent(gemini(), SAMPLED)
    seed = exchange.body["generationConfig"].pop("seed")
    assert (exchange.path, exchange.body) == (
        f"models/{MODEL}:generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "2 + 2?"}]},
                {"role": "model", "parts": [{"text": "3"}]},
                {"role": "user", "parts": [{"text": "No."}]},
            ],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {
                "maxOutputTokens": 9,
                "temperature": 0.5,
                "topP": 0.9,
                "stopSequences": ["\n", "END"],
            },
        },
    )
    assert type(seed) is int


def test_an_answer_of_gemini() -> None:
    usage = {"promptTokenCount": 8, "candidatesTokenCount": 2, "thoughtsTokenCount": 5}
    found = sent(gemini()).read(parts({"text": "hm", "thought": True}, {"text": "Fo"}, {"text": "ur"}, **usage))
    assert found == Text("Four", "stop", 7, 8, reasoning="hm")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "content_filter"),
        ({"candidates": [], "promptFeedback": {"blockReason": "OTHER"}}, "content_filter"),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "content_filter"),
        ({"candidates": [{"finishReason": "RECITATION"}]}, "content_filter"),
        (parts({"text": "a"}, reason="PROHIBITED_CONTENT"), "content_filter"),
        (parts(reason="MALFORMED_FUNCTION_CALL"), "tool_call"),
        (parts({"text": "a"}, reason="UNEXPECTED_TOOL_CALL"), "tool_call"),
        (parts(reason="MAX_TOKENS", thoughtsTokenCount=9), "truncated_thinking"),
        (parts({"text": "hm", "thought": True}, reason="MAX_TOKENS"), "truncated_thinking"),
    ],
)
def test_answers_of_gemini_that_are_none(data: Json, kind: str) -> None:
    found = sent(gemini()).read(data)
    assert isinstance(found, Failure) and (found.kind, found.retryable) == (kind, False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({}, "malformed"),
        ({"candidates": [{}, {}]}, "malformed"),
        (parts("4"), "malformed"),  # type: ignore[arg-type]
        (parts(reason="OTHER"), "aborted"),
        (parts({"text": "a"}, reason="MALFORMED_RESPONSE"), "aborted"),
        (parts(reason="MAX_TOKENS"), "no_content"),
        ({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}, "no_content"),
    ],
)
def test_answers_of_gemini_that_are_asked_again(data: Json, kind: str) -> None:
    with pytest.raises(Unreadable) as caught:
        sent(gemini()).read(data)
    assert caught.value.kind == kind


def test_the_beginning_of_an_answer_is_not_sent_to_gemini() -> None:
    turns = (Message("user", "2 + 2?"), Message("assistant", "It is"))
    assert isinstance(gemini().generate(GenerationCall(turns, Generation(turns), 9)), Failure)


@pytest.mark.parametrize(
    ("thinking", "config"),
    [
        (Thinking(0), {"thinkingBudget": 0, "includeThoughts": False}),
        (Thinking(-1), {"thinkingBudget": -1, "includeThoughts": True}),
        (Thinking(500), {"thinkingBudget": 500, "includeThoughts": True}),
        (Thinking(effort="low"), {"thinkingLevel": "LOW", "includeThoughts": True}),
    ],
)
def test_thinking_of_gemini(thinking: Thinking, config: Json) -> None:
    assert sent(gemini(thinking=thinking)).body["generationConfig"]["thinkingConfig"] == config


def test_a_constrained_answer_of_gemini() -> None:
    exchange = sent(gemini(constrain=("A", "B")))
    config = exchange.body["generationConfig"]
    assert (config["responseMimeType"], config["responseSchema"]["enum"]) == ("text/x.enum", ["A", "B"])
    assert exchange.read(parts({"text": "A"})) == Text("A", "stop", notes=("constrained",))


def test_a_run_with_gemini(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k-2")

    def answer(body: Json) -> Json:
        if not body["generationConfig"].get("responseLogprobs"):
            return parts({"text": "4"})
        tops = [{"token": "B", "logProbability": -0.2}, {"token": "A", "logProbability": -2.0}]
        return {"candidates": [{"finishReason": "STOP", "logprobsResult": {"topCandidates": [{"candidates": tops}]}}]}

    path = f"/v1/models/{MODEL}"
    with FaultServer(routes={f"{path}:generateContent": answer}, about={path: {"inputTokenLimit": 77}}) as server:
        model = opened(server, "gemini", choices="top_logprobs")
        found = answers(model, [Loglikelihood("Q", " A"), Loglikelihood("Q", " B"), Generation("2 + 2?", max_tokens=5)])
        assert [getattr(entry, "total", None) for entry in found] == [-2.0, -0.2, None]
        assert found[2] == Text("4", "stop")
        assert all(headers["x-goog-api-key"] == "k-2" for headers in server.headers)
        assert model.facts_of_server.max_length == 77
