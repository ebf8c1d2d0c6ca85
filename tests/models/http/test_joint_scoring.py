"""Choices of one token share a request, where the server's answer to it is proved; every text keeps its own score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.requests import Loglikelihood
from assay.core.responses import Failure
from assay.models.http.dialects.vllm import Vllm
from assay.models.http.exchange import Unreadable
from assay.models.http.joint_scoring import JointScoring
from assay.models.tokens.tokenization import EncodedText
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json, greedy, ids_of, text_of, total

Open = Callable[..., Any]
QUESTIONS = [Loglikelihood(question, letter) for question in ("Q1:", "Q2:") for letter in "ABCD"]


def joined(server: FaultServer) -> list[Json]:
    return [body for body in server.seen if "logprob_token_ids" in body]


def test_the_letters_of_a_question_are_scored_by_one_request(opened: Open) -> None:
    with FaultServer("vllm") as server:
        model = opened(server)
        assert model.fingerprint  # probes
        before = len(server.seen)
        found = answers(model, QUESTIONS)
        assert len(server.seen) - before == 2
    expected = [total(ids_of(entry.prompt + entry.continuation, True), 1) for entry in QUESTIONS]
    assert [answer.total for answer in found] == pytest.approx(expected, abs=1e-9)
    assert {(answer.token_count, answer.prompt_tokens) for answer in found} == {(1, 4)}


def test_the_likeliest_token_is_greedy_among_others_of_its_request(opened: Open) -> None:
    likely = text_of(greedy(ids_of("Q1:", True), 1))
    other = "A" if likely != "A" else "B"
    with FaultServer("vllm") as server:
        found = answers(opened(server), [Loglikelihood("Q1:", other), Loglikelihood("Q1:", likely)])
        assert len(joined(server)) == 2  # the probe's, and one for both
    assert [answer.is_greedy for answer in found] == [False, True]


def without_them(body: Json, sound: Json) -> Json:
    """As versions of vLLM that ignore the field."""
    for choice in sound["choices"] if "logprob_token_ids" in body else []:
        choice["logprobs"]["top_logprobs"] = [{"token_id:5": -1.0}]
    return sound


def other_numbers(body: Json, sound: Json) -> Json:
    """As a server that reports log-probabilities after its sampling settings."""
    for choice in sound["choices"] if "logprob_token_ids" in body else []:
        (top,) = choice["logprobs"]["top_logprobs"]
        choice["logprobs"]["top_logprobs"] = [{name: value * 2 for name, value in top.items()}]
    return sound


def other_token(body: Json, sound: Json) -> Json:
    """As a server whose defaults make it generate another token than the likeliest."""
    for choice in sound["choices"] if "logprob_token_ids" in body else []:
        choice["token_ids"] = [body["logprob_token_ids"][0]]
    return sound


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(without_them, "of the next token"), (other_numbers, "differ by up to"), (other_token, "most likely one")],
)
def test_a_server_that_does_not_do_it_right_is_asked_one_by_one(opened: Open, spoil: Any, reason: str) -> None:
    with FaultServer("vllm", spoil=spoil) as server:
        model = opened(server, max_retries=0)
        assert model.fingerprint.settings["likelihood"] == "vllm"
        before = len(joined(server))
        found = answers(model, QUESTIONS[:4])
        assert len(joined(server)) == before
        (against,) = model.description()["likelihood"]["against"]
    assert reason in against
    assert found[1].total == pytest.approx(total(ids_of("Q1:B", True), 1), abs=1e-9)


def texts(*rows: tuple[tuple[int, ...], int]) -> list[EncodedText]:
    return [EncodedText(index, ids, scored) for index, (ids, scored) in enumerate(rows)]


def test_equal_token_ids_are_asked_for_once_and_longer_continuations_alone() -> None:
    rows = texts(((1, 2), 1), ((1, 2, 3), 2), ((1, 2), 1), ((1, 4), 1), ((9, 2), 1))
    scoring = JointScoring(rows, Vllm("m"), joins=True)
    bodies = [exchange.body for _, exchange in scoring.exchanges()]
    assert [body.get("logprob_token_ids") for body in bodies if body] == [[2, 4], None, [2]]
    found = [text.index for text, _ in scoring.scores(0, Failure("timeout", ""))]
    assert found == [0, 2, 3]


def test_many_choices_are_spread_over_requests_that_a_server_accepts() -> None:
    rows = texts(*(((1, 100 + number), 1) for number in range(45)))
    scoring = JointScoring(rows, Vllm("m"), joins=True)
    bodies = [exchange.body for _, exchange in scoring.exchanges()]
    assert [len(body["logprob_token_ids"]) for body in bodies if body] == [20, 20, 5]


def test_a_next_token_without_a_number_is_not_read() -> None:
    exchange = Vllm("m").next_tokens([1, 2], [7, 8])
    choice = {"index": 0, "token_ids": [7], "logprobs": {"top_logprobs": [{"token_id:7": -0.1}]}}
    with pytest.raises(Unreadable, match="next token 8"):
        exchange.read({"choices": [choice]})
