"""Models behind HTTP give the exact numbers of the server's model, in every dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.requests import Generation, Loglikelihood, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Text
from assay.testing import check_model
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, greedy, ids_of, text_of, total

Open = Callable[..., Any]


@pytest.mark.parametrize("kind", ["openai", "vllm", "llamacpp"])
def test_every_dialect_gives_the_exact_log_likelihood(opened: Open, kind: str) -> None:
    with FaultServer(kind) as server:
        model = opened(server)
        assert model.fingerprint.settings["likelihood"] == kind
        (found,) = answers(model, [Loglikelihood("The river is", " wide")])
    assert isinstance(found, Logprob)
    assert found.total == pytest.approx(total(ids_of("The river is wide", True), 5), abs=1e-9)
    assert (found.token_count, found.prompt_tokens, found.is_greedy) == (5, 13, False)


@pytest.mark.parametrize("kind", ["openai", "vllm", "llamacpp"])
def test_a_greedy_continuation_is_recognised(opened: Open, kind: str) -> None:
    context = "The river is"
    likely = text_of(greedy(ids_of(context, True), 3))
    with FaultServer(kind) as server:
        found = answers(opened(server), [Loglikelihood(context, likely), Loglikelihood(context, likely[:-1] + "\x01")])
    assert [answer.is_greedy for answer in found] == [True, False]


@pytest.mark.parametrize("kind", ["openai", "vllm", "llamacpp"])
def test_the_contract_of_models_is_kept(opened: Open, kind: str) -> None:
    with FaultServer(kind, max_length=256) as server:
        check_model(opened(server))


def test_a_rolling_text_is_read_in_the_windows_of_other_models(opened: Open) -> None:
    text = "It snowed all night, and in the morning the gate would not open. " * 3
    with FaultServer("vllm", max_length=34) as server:
        (found,) = answers(opened(server), [RollingLoglikelihood(text)])
    ids = ids_of(text, True)
    assert isinstance(found, Logprob) and found.windows is not None and found.windows > 5
    # The scripted model sees two tokens, so windows change nothing but the first tokens of each.
    assert (found.token_count, found.prompt_tokens) == (len(ids), 1)


def test_the_windows_are_those_of_the_length_that_is_asked_for(opened: Open) -> None:
    text = "It snowed all night, and in the morning the gate would not open."
    with FaultServer("vllm", max_length=200) as server:
        (short,) = answers(opened(server, max_length=20), [RollingLoglikelihood(text)])
        (long,) = answers(opened(server), [RollingLoglikelihood(text)])
    assert (short.windows, long.windows) == (4, 1)


def test_long_contexts_are_cut_on_the_left_and_counted(opened: Open) -> None:
    with FaultServer("vllm", max_length=34) as server:
        (found,) = answers(opened(server), [Loglikelihood("word " * 40, "end")])
        assert len(server.seen[-1]["prompt"]) == 33  # one token of room for the answer
    assert found.truncated > 0 and found.token_count == 4


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
def test_generated_texts_end_before_the_stop_string(opened: Open, kind: str) -> None:
    whole = text_of(greedy(ids_of("Once", True), 12))
    request = Generation("Once", stop=("", whole[4]), max_tokens=12)
    with FaultServer(kind) as server:
        (found,) = answers(opened(server), [request])
        assert server.seen[-1]["prompt"] == ids_of("Once", True)
    assert found == Text(whole.split(whole[4])[0], "stop", 1, 5)


def test_draws_have_seeds_of_their_own_and_greedy_requests_none(opened: Open) -> None:
    from assay.core.requests import Sampling

    sampled = [Generation("Once", max_tokens=2, sampling=Sampling(1.0, 3), draw=draw) for draw in (0, 1)]
    with FaultServer() as server:
        answers(opened(server, num_concurrent=1), [*sampled, Generation("Once", max_tokens=2)])
        seeds = [body.get("seed") for body in server.seen[-3:]]
    assert None not in seeds[:2] and seeds[0] != seeds[1] and seeds[2] is None


def test_an_option_that_the_server_does_not_have_is_a_failure_and_not_ignored(opened: Open) -> None:
    from assay.core.requests import Sampling

    request = Generation("Once", max_tokens=2, sampling=Sampling(options=(("num_beams", 4),)))
    with FaultServer() as server:
        (found,) = answers(opened(server), [request])
    assert isinstance(found, Failure) and found.kind == "unsupported" and "num_beams=4" in found.message


def test_without_a_tokenizer_texts_are_generated_and_not_scored(opened: Open) -> None:
    with FaultServer(tokenizes=False) as server:
        model = opened(server)
        assert model.capabilities.kinds == {"generation"} and "tokenizer=FOLDER" in model.capabilities.refusal
        (found,) = answers(model, [Generation("Once", max_tokens=3)])
        assert server.seen[-1]["prompt"] == "Once" and found.text == text_of(greedy(ids_of("Once", True), 3))


def test_opening_a_model_sends_nothing(opened: Open) -> None:
    with FaultServer() as server:
        opened(server)
        assert (server.seen, server.keys) == ([], set())


def test_the_identity_is_that_of_server_model_and_outcome_of_the_probe(opened: Open) -> None:
    with FaultServer() as server, FaultServer() as other:
        digests = {
            opened(server).fingerprint.digest,
            opened(server, num_concurrent=3, timeout=9).fingerprint.digest,
            opened(other).fingerprint.digest,
            opened(server, max_gen_toks=9).fingerprint.digest,
        }
    assert len(digests) == 3


def test_answers_arrive_while_another_request_hangs(opened: Open) -> None:
    from tests.models.http.faults import hang

    async def fault(request: Any, body: Any, number: int) -> Any:
        return await hang(request) if body.get("prompt") == ids_of("slow", True) else None

    requests = [Generation(word, max_tokens=1) for word in ("slow", "a", "b", "c")]
    with FaultServer(fault=fault) as server:
        stream = opened(server).respond(requests)
        assert {next(stream)[0] for _ in range(3)} == {1, 2, 3}
        stream.close()
