"""The dummy model: hashes in, the same bits out everywhere."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from assay.core.requests import Generation, Loglikelihood, Message, Request, RollingLoglikelihood, Sampling
from assay.core.responses import Logprob, Output, Text
from assay.models.dummy import LOWEST_PER_WORD, DummyModel
from assay.testing import check_model


def answer(request: Request, seed: int = 0) -> Output:
    ((_, output),) = DummyModel(seed).respond([request])
    assert isinstance(output, (Logprob, Text))
    return output


def test_it_keeps_the_contract() -> None:
    check_model(DummyModel(5))


def test_answers_are_frozen() -> None:
    # Golden values: a change here changes every stored answer, so VERSION must be raised with it.
    assert answer(Loglikelihood("The sky is", " blue")) == Logprob(-1.2967012653855052, 1, False)
    assert answer(RollingLoglikelihood("two words")) == Logprob(-3.4365014809491417, 2, True, windows=1)
    assert answer(Generation("Say something")) == Text("it", "eos", 1)


def test_without_a_prefix_the_first_word_is_given() -> None:
    bare, usual = (
        answer(RollingLoglikelihood("two words", stands_on_prefix=False)),
        answer(RollingLoglikelihood("two words")),
    )
    assert isinstance(bare, Logprob) and isinstance(usual, Logprob)
    assert (bare.token_count, bare.prompt_tokens) == (1, 1) and LOWEST_PER_WORD <= bare.total <= 0
    assert bare.total / bare.token_count != usual.total / usual.token_count
    assert answer(RollingLoglikelihood("one", stands_on_prefix=False)) == Logprob(0.0, 0, True, prompt_tokens=1)


def test_the_seed_changes_answers_and_fingerprint() -> None:
    request = Loglikelihood("a", "b")
    assert answer(request, 0) != answer(request, 1)
    assert DummyModel(0).fingerprint.digest != DummyModel(1).fingerprint.digest


def test_where_the_prompt_ends_counts() -> None:
    assert answer(Loglikelihood("a b", "c")) != answer(Loglikelihood("a ", "bc"))
    chat = (Message("user", "a b"),)
    assert answer(Loglikelihood(chat, "c")) != answer(Loglikelihood("a b", "c"))


@given(st.text(), st.text(), st.integers())
def test_totals_are_log_probabilities_of_a_plausible_size(prompt: str, continuation: str, seed: int) -> None:
    output = answer(Loglikelihood(prompt, continuation), seed)
    assert isinstance(output, Logprob)
    assert LOWEST_PER_WORD * output.token_count <= output.total <= 0
    assert output.token_count == max(1, len(continuation.split()))


@given(st.text(), st.integers(0, 30), st.lists(st.sampled_from(["the", " ", "e", "4", "####"]), max_size=2))
def test_limits_and_stop_strings_only_cut(prompt: str, limit: int, stop: list[str]) -> None:
    whole, cut = answer(Generation(prompt)), answer(Generation(prompt, tuple(stop), limit))
    assert isinstance(whole, Text) and isinstance(cut, Text)
    assert whole.text.startswith(cut.text)
    assert cut.token_count <= limit
    assert not any(string in cut.text for string in stop)


def test_finish_reasons_say_what_happened() -> None:
    whole = answer(Generation("Tell me"))
    assert isinstance(whole, Text) and whole.finish_reason == "eos" and whole.token_count > 1
    assert answer(Generation("Tell me", max_tokens=1)) == Text(whole.text.split()[0], "length", 1)
    assert answer(Generation("Tell me", stop=(" ",))) == Text(whole.text.split()[0], "stop", 1)


def test_draws_differ_when_sampled() -> None:
    sampling = Sampling(temperature=1.0, seed=1)
    texts = {answer(Generation("Tell me", sampling=sampling, draw=draw)) for draw in range(8)}
    assert len(texts) > 4


def test_lone_surrogates_are_answered() -> None:
    assert isinstance(answer(Loglikelihood("\ud800", "\udfff")), Logprob)


def test_choices_are_predicted_about_evenly() -> None:
    requests = [Loglikelihood(f"Question {i}", f" {letter}") for i in range(2000) for letter in "ABCD"]
    totals = [output.total for _, output in DummyModel().respond(requests) if isinstance(output, Logprob)]
    rows = [totals[start : start + 4] for start in range(0, len(totals), 4)]
    picked = [row.index(max(row)) for row in rows]
    assert all(400 < picked.count(place) < 600 for place in range(4))


def test_it_is_fast() -> None:
    requests = [Loglikelihood(f"Question {i}: what colour is the sky?\nAnswer:", " blue") for i in range(20_000)]
    start = time.perf_counter()
    assert sum(1 for _ in DummyModel().respond(requests)) == 20_000
    assert time.perf_counter() - start < 2.0  # 0.06 s when written; the rest is for a busy machine
