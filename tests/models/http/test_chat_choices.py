"""Letters of multiple choice by the first tokens of a chat answer: exact, a bound, or a failure, and never a guess."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import ModelError
from assay.core.requests import Demonstrated, Generation, Loglikelihood, Message
from assay.core.responses import NOTE_TEXTS, Failure, Logprob, Text
from assay.models.http.chat_choices import compared, fault_of, questions_of
from assay.models.http.exchange import FirstTokens
from assay.testing import toy_choice_task
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, Json
from tests.models.http.faults import answer

Open = Callable[..., Any]
TOPS = (("B", -0.6), (" A", -1.5), ("A", -2.0), ("The", -3.0))


def listing(*tops: tuple[str, float], **message: Any) -> Callable[[Json, Json], Json]:
    """A chat server that lists these first tokens where it is asked for them."""

    def spoil(body: Json, sound: Json) -> Json:
        if body.get("top_logprobs"):
            entries = [{"token": text, "logprob": value, "bytes": None} for text, value in tops]
            content = [{**entries[0], "top_logprobs": entries}] if entries else []
            sound["choices"][0]["logprobs"] = {"content": content}
            sound["choices"][0]["message"].update(message)
        return sound

    return spoil


def test_tokens_of_a_letter_are_added_up() -> None:
    found = compared(FirstTokens(TOPS, 7), ["A", "B"])
    both = math.log(math.exp(-1.5) + math.exp(-2.0))
    assert [(entry.total, entry.is_greedy, entry.prompt_tokens) for entry in found] == [  # type: ignore[union-attr]
        (pytest.approx(both), False, 7),
        (-0.6, True, 7),
    ]


def test_a_letter_that_is_not_listed_gets_a_bound_below_all_that_are() -> None:
    known, unknown = compared(FirstTokens((("A", -0.5), ("B", -3.0)), 0), ["B", "C"])
    assert isinstance(known, Logprob) and isinstance(unknown, Logprob)
    assert unknown.total < known.total == -3.0 and unknown.total == pytest.approx(-3.0)
    assert (known.notes, unknown.notes) == (("by_top_logprobs",), ("by_top_logprobs", "outside_top_k"))
    assert {*known.notes, *unknown.notes} <= set(NOTE_TEXTS)


def test_without_any_letter_nothing_is_known() -> None:
    found = compared(FirstTokens((("The", -0.1), ("Sure", -3.0)), 0), ["A", "B"])
    assert [entry.kind for entry in found if isinstance(entry, Failure)] == ["outside_top_k"] * 2


def test_a_listed_letter_of_probability_zero_is_no_error() -> None:
    (found,) = compared(FirstTokens((("B", 0.0), ("A", -math.inf)), 0), ["A"])
    assert isinstance(found, Logprob) and found.total == -math.inf


def test_only_single_letters_are_compared() -> None:
    prompts: list[Any] = ["Q", "Q", "Q", "Q", (Message("user", "Q"),), Demonstrated((), "Q")]
    texts = [" A", "B", " (A)", " Paris", " A", " A"]
    requests = [Loglikelihood(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]
    questions, failures = questions_of(enumerate(requests))
    assert [(question.places, question.letters) for question in questions] == [((0, 1), ("A", "B")), ((4,), ("A",))]
    assert [index for index, _ in failures] == [2, 3, 5] and "TASK@generate" in failures[0][1].message


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        (TOPS, ""),
        (TOPS[:1], "lists 1 first tokens"),
        ((("A", -0.1), ("B", -0.2)), "add up to"),
        ((("A", 0.0), ("B", 0.0)), "add up to 2"),
    ],
)
def test_numbers_that_cannot_be_log_probabilities_are_refused(tokens: Any, fault: str) -> None:
    assert fault in fault_of(FirstTokens(tokens, 0)) and bool(fault) == bool(fault_of(FirstTokens(tokens, 0)))


def test_one_request_answers_all_letters_of_a_question(opened: Open) -> None:
    requests = [Loglikelihood("Q", " A"), Generation("Q", max_tokens=2), Loglikelihood("Q", " B")]
    with FaultServer(spoil=listing(*TOPS)) as server:
        model = opened(server, "openai-chat", choices="top_logprobs")
        assert model.capabilities.kinds == {"generation", "loglikelihood"}
        server.seen.clear()
        found = answers(model, requests)
        (asked,) = (body for body in server.seen if body.get("logprobs"))
        assert asked == {
            "model": "scripted",
            "messages": [{"role": "user", "content": "Q"}],
            "max_tokens": 1,
            "temperature": 1,
            "logprobs": True,
            "top_logprobs": 20,
        }
        assert len(server.seen) == 2
    assert found[2].total == -0.6 and isinstance(found[1], Text)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (None, "it has no top_logprobs"),
        (listing(), "it has no top_logprobs"),
        (listing(("A", -0.1)), "lists 1 first tokens"),
        (listing(*TOPS, reasoning_content="hm"), "begins with reasoning"),
    ],
)
def test_a_server_without_first_tokens_is_refused_before_the_run(opened: Open, spoil: Any, reason: str) -> None:
    with FaultServer(spoil=spoil) as server:
        model = opened(server, "openai-chat", choices="top_logprobs", max_retries=0)
        assert model.capabilities.kinds == {"generation"} and reason in model.capabilities.refusal
        assert len(server.seen) == 1


def test_anthropic_has_none(opened: Open) -> None:
    with FaultServer(about={"/v1/models/scripted": {"id": "scripted"}}) as server:
        model = opened(server, "anthropic", choices="top_logprobs")
        assert "reports no log-probabilities" in model.capabilities.refusal


def test_the_way_is_said_beside_the_score(opened: Open, tmp_path: Path) -> None:
    with FaultServer(spoil=listing(("A", -1.0), ("B", -2.0))) as server:
        model = opened(server, "openai-chat", choices="top_logprobs")
        result = assay.evaluate(model, "demo_questions@letters", limit=4, store=str(tmp_path / "s.db"))
        assert len(server.seen) == 5  # one per question, and the probe
        assert model.description()["choices"] == "top_logprobs"
        assert model.fingerprint.settings["choices"] == "top_logprobs"
    (task,) = result.tasks
    assert task.problem is None and task.denominators.scored == 4
    assert any("log-probability of their letter as the first token" in line for line in result.notices)
    assert any("an upper bound" in line for line in result.notices)


def test_choices_that_are_texts_are_failures_that_say_what_works(opened: Open, tmp_path: Path) -> None:
    with FaultServer(spoil=listing(*TOPS)) as server:
        model = opened(server, "openai-chat", choices="top_logprobs")
        result = assay.evaluate(model, "demo_questions@cloze", limit=3, store=str(tmp_path / "s.db"))
        assert len(server.seen) == 1  # the probe
    assert result.tasks[0].denominators.failed == 3
    outputs = [output for item in result.tasks[0].answered for output in item.outputs]
    assert {output.kind for output in outputs if isinstance(output, Failure)} == {"unsupported"}


def test_other_requests_are_refused_with_the_advice(opened: Open, tmp_path: Path) -> None:
    with FaultServer() as server, pytest.raises(ModelError, match="set choices=top_logprobs in --model_args"):
        assay.evaluate(opened(server, "openai-chat"), toy_choice_task(3), store=str(tmp_path / "s.db"))


def test_a_server_that_lists_fewer_tokens_is_asked_for_fewer(opened: Open) -> None:
    async def fault(request: Any, body: Json, number: int) -> Any:
        error = {"error": {"message": "top_logprobs must be less than or equal to 5", "param": "top_logprobs"}}
        return await answer(400, error)(request) if body.get("top_logprobs", 0) > 5 else None

    with FaultServer(fault=fault, spoil=listing(*TOPS)) as server:
        model = opened(server, "openai-chat", choices="top_logprobs")
        assert "loglikelihood" in model.capabilities.kinds
        (found,) = answers(model, [Loglikelihood("Q", " B")])
        assert [body["top_logprobs"] for body in server.seen] == [20, 5, 5]
    assert found.total == -0.6


@pytest.mark.parametrize("value", [0.5, math.nan, "-1", None])
def test_first_tokens_with_impossible_numbers_are_no_answers(opened: Open, value: Any) -> None:
    with FaultServer(spoil=listing(*TOPS)) as server:
        model = opened(server, "openai-chat", choices="top_logprobs", max_retries=1)
        assert "loglikelihood" in model.capabilities.kinds
        server.spoil = listing(("A", value), ("B", -1.0))
        (found,) = answers(model, [Loglikelihood("Q", " B")])
    assert isinstance(found, Failure)
