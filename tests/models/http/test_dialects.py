"""Nothing is silent: what a sound server does not send is a named failure, and never an answer."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay.core.requests import Generation, Message, Sampling
from assay.core.responses import Failure, Text
from assay.models.http.dialects.chat_completions import Chat
from assay.models.http.dialects.completions import Completions
from assay.models.http.dialects.llamacpp import LlamaCpp
from assay.models.http.dialects.reading import choices_of, logprob_of
from assay.models.http.exchange import ChatSettings, Exchange, GenerationCall, Unreadable

IDS = [5, 6, 7]


def echo(**changes: Any) -> dict[str, Any]:
    """A sound answer to the echo of three ids, with changes to its lists."""
    logprobs = {
        "token_logprobs": [None, -1.0, -2.0, -0.5],
        "top_logprobs": [None, {"a": -1.0}, {"b": -0.1, "c": -2.0}, {"d": -0.5}],
        **changes,
    }
    return {"choices": [{"index": 0, "text": "x", "logprobs": logprobs}]}


def score(data: dict[str, Any], scored: int = 2) -> Any:
    return Completions("m").score(IDS, scored).read(data)


def test_only_the_continuation_is_scored_by_ids() -> None:
    assert score(echo()) == [(-1.0, True), (-2.0, False)]
    assert score(echo(), scored=1) == [(-2.0, False)]


def test_an_end_of_text_that_the_server_leaves_out_loses_no_token() -> None:
    tops = [None, {"a": -1.0}, {"c": -2.0}]
    assert score(echo(token_logprobs=[None, -1.0, -2.0], top_logprobs=tops)) == [(-1.0, True), (-2.0, True)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("malformed", {}),
        ("malformed", {"choices": []}),
        ("malformed", {"choices": [{"index": 1}]}),
        ("malformed", {"choices": [{"index": 0}, {"index": 1}]}),
        ("no_logprobs", {"choices": [{"index": 0, "logprobs": None}]}),
        ("no_logprobs", echo(token_logprobs=None)),
        ("token_count", echo(token_logprobs=[-0.5])),
        ("token_count", echo(token_logprobs=[None, -1.0, -1.0, -2.0, -0.5])),
        ("token_count", echo(top_logprobs=[None])),
        ("token_count", {**echo(), "usage": {"prompt_tokens": 4}}),
        ("shifted", echo(token_logprobs=[-3.0, -1.0, -2.0, -0.5])),
        ("no_logprobs", echo(token_logprobs=[None, -1.0, None, -0.5])),
        ("no_logprobs", echo(top_logprobs=[None, {"a": -1.0}, {}, {}])),
        ("no_logprobs", echo(token_logprobs=[None, "-1.0", -2.0, -0.5])),
        ("not_finite", echo(token_logprobs=[None, math.nan, -2.0, -0.5])),
        ("not_finite", echo(token_logprobs=[None, math.inf, -2.0, -0.5])),
        ("positive_logprob", echo(token_logprobs=[None, 0.5, -2.0, -0.5])),
        ("other_tokens", {"choices": [{**echo()["choices"][0], "prompt_token_ids": [1, 5, 6, 7]}]}),
    ],
)
def test_an_echo_that_is_not_sound_is_not_read(kind: str, data: dict[str, Any]) -> None:
    with pytest.raises(Unreadable) as caught:
        score(data)
    assert caught.value.kind == kind


@pytest.mark.parametrize("value", [-9999, -9999.0, -3.4e38, -math.inf])
def test_stand_ins_for_a_probability_of_zero(value: float) -> None:
    assert logprob_of(value, "") == -math.inf


def test_rounding_above_zero_is_zero() -> None:
    assert logprob_of(1e-6, "") == 0.0


def test_choices_are_read_by_index_and_never_by_position() -> None:
    data = {"choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a"}]}
    assert [choice["text"] for choice in choices_of(data, 2)] == ["a", "b"]
    for indices in ([0, 0], [0, None], [1, 2]):
        with pytest.raises(Unreadable):
            choices_of({"choices": [{"index": index} for index in indices]}, 2)


def test_llamacpp_is_forced_by_token_ids() -> None:
    body = LlamaCpp("m").score(IDS, 2).body
    assert body is not None and (body["prompt"], body["n_predict"]) == ([5], 2)
    assert body["grammar"] == "root ::= <[6]> <[7]>"


# Generation

REQUEST = Generation("Q", stop=("END",), max_tokens=9)


def read(dialect: Any, choice: dict[str, Any], request: Generation = REQUEST, **other: Any) -> Any:
    exchange = dialect.generate(GenerationCall("Q", request, 9))
    assert isinstance(exchange, Exchange)
    return exchange.read({"choices": [{"index": 0, **choice}], **other})


def said(content: Any, reason: Any = "stop", **message: Any) -> Any:
    return read(Chat(ChatSettings("m")), {"message": {"content": content, **message}, "finish_reason": reason})


def test_texts_are_cut_at_stop_strings_that_the_server_keeps() -> None:
    assert read(Completions("m"), {"text": "a END", "finish_reason": "length"}) == Text("a ", "stop")
    assert said("a END") == Text("a ", "stop")


def test_a_stop_string_that_the_server_ignores_is_noted() -> None:
    assert said("a END b") == Text("a ", "stop", notes=("stop_ignored",))
    beyond = Generation("Q", stop=("1", "2", "3", "4", "END"), max_tokens=9)  # of five stops four are sent
    assert read(Completions("m"), {"text": "a END b", "finish_reason": "stop"}, beyond) == Text("a ", "stop")


def test_more_tokens_than_allowed_are_noted() -> None:
    found = read(Completions("m"), {"text": "a b", "finish_reason": "stop"}, usage={"completion_tokens": 10})
    assert found == Text("a b", "stop", 10, notes=("limit_ignored",))


def test_a_text_that_was_cut_by_length_says_so() -> None:
    found = read(Completions("m"), {"text": "a", "finish_reason": "length"}, usage={"completion_tokens": 9})
    assert found == Text("a", "length", 9, notes=("stop_at_limit",))


@pytest.mark.parametrize("usage", [None, {}, {"completion_tokens": -1, "prompt_tokens": "4"}])
def test_missing_and_impossible_counts_are_0(usage: Any) -> None:
    assert read(Completions("m"), {"text": "a", "finish_reason": "stop"}, usage=usage) == Text("a", "stop")


@pytest.mark.parametrize("reason", [None, "weird"])
def test_an_unknown_end_is_noted(reason: Any) -> None:
    assert read(Completions("m"), {"text": "a", "finish_reason": reason}).notes == (f"finish_reason {reason}",)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("content_filter", lambda: said("", "content_filter")),
        ("content_filter", lambda: read(Completions("m"), {"text": "a", "finish_reason": "content_filter"})),
        ("refusal", lambda: said(None, refusal="I cannot")),
        ("tool_call", lambda: said(None, "tool_calls")),
        ("truncated_thinking", lambda: said(None, "length", reasoning_content="hm")),
        ("truncated_thinking", lambda: said("", "length", reasoning="hm")),
        ("truncated_thinking", lambda: said("<think>hm", "length")),
    ],
)
def test_answers_that_are_none_are_named(kind: str, answer: Any) -> None:
    found = answer()
    assert isinstance(found, Failure) and (found.kind, found.retryable) == (kind, False)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("no_content", lambda: said(None)),
        ("no_content", lambda: said("", "length")),
        ("no_content", lambda: said("", None)),
        ("no_content", lambda: said([])),
        ("no_content", lambda: read(Completions("m"), {"text": None})),
        ("malformed", lambda: said(7)),
        ("malformed", lambda: read(Chat(ChatSettings("m")), {"message": None})),
        ("malformed", lambda: read(Completions("m"), {"text": ["a"]})),
        ("aborted", lambda: read(Completions("m"), {"text": "a", "finish_reason": "abort"})),
    ],
)
def test_answers_that_are_worth_asking_again_are_named(kind: str, answer: Any) -> None:
    with pytest.raises(Unreadable) as caught:
        answer()
    assert caught.value.kind == kind
    assert caught.value.repeats == (2 if kind == "no_content" else None)


def test_reasoning_is_no_part_of_an_answer() -> None:
    assert said("4", reasoning_content="2 + 2").text == "4"
    assert said("<think>2 + 2</think>\n4").text == "4"
    assert said([{"type": "text", "text": "4"}, {"type": "image"}]).text == "4"


def test_an_empty_answer_that_the_model_ended_is_an_answer() -> None:
    assert said("") == Text("", "stop")


def test_conversations_go_to_chat_alone() -> None:
    turns = (Message("system", "s"), Message("user", "u"))
    exchange = Chat(ChatSettings("m")).generate(GenerationCall(turns, REQUEST, 9))
    assert isinstance(exchange, Exchange) and exchange.body is not None
    assert exchange.body["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert isinstance(Completions("m").generate(GenerationCall(turns, REQUEST, 9)), Failure)
    assert isinstance(
        Chat(ChatSettings("m")).generate(GenerationCall((*turns, Message("assistant", "A:")), REQUEST, 9)), Failure
    )


def test_options_without_effect_are_not_sent() -> None:
    sampling = Sampling(0.5, options=(("do_sample", True), ("num_beams", 1), ("top_p", 0.9)))
    exchange = Chat(ChatSettings("m")).generate(GenerationCall("Q", Generation("Q", sampling=sampling), 9))
    assert isinstance(exchange, Exchange) and exchange.body is not None
    assert {"temperature": 0.5, "top_p": 0.9}.items() <= exchange.body.items()
    assert "num_beams" not in exchange.body and "stop" not in exchange.body


def test_penalties_change_greedy_answers_and_are_sent() -> None:
    request = Generation("Q", sampling=Sampling(options=(("presence_penalty", 1.5), ("top_p", 0.9))))
    exchange = Completions("m").generate(GenerationCall("Q", request, 9))
    assert isinstance(exchange, Exchange) and exchange.body is not None
    assert exchange.body["presence_penalty"] == 1.5 and "top_p" not in exchange.body
