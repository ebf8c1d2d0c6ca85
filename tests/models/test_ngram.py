"""The byte n-gram: a proper probability model, exact in all three kinds of request."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood, Message, Request, RollingLoglikelihood, Sampling
from assay.core.responses import Failure, Logprob, Text
from assay.core.specs import ModelSettings
from assay.models.ngram import HIGHEST_ORDER, NgramModel, NgramTable, open_ngram, sharpened
from assay.testing import check_model

BUILT_IN = open_ngram({}, ModelSettings())
orders = st.integers(1, HIGHEST_ORDER)


def score(model: NgramModel, request: Request) -> Logprob:
    ((_, output),) = model.respond([request])
    assert isinstance(output, Logprob)
    return output


def generate(request: Generation, model: NgramModel = BUILT_IN) -> Text:
    ((_, output),) = model.respond([request])
    assert isinstance(output, Text)
    return output


def test_it_keeps_the_contract() -> None:
    check_model(BUILT_IN)
    check_model(NgramModel(b"", 1))


@given(st.binary(max_size=60), st.binary(max_size=12), orders)
def test_probabilities_of_all_bytes_sum_to_one(text: bytes, context: bytes, order: int) -> None:
    distribution = NgramTable(text, order).distribution(context)
    assert math.isclose(distribution.sum(), 1.0, rel_tol=1e-12)
    assert distribution.min() > 0


def test_every_context_of_the_built_in_text_has_a_proper_distribution() -> None:
    table = BUILT_IN.table
    assert all(math.isclose(table.distribution(context).sum(), 1.0, rel_tol=1e-12) for context in table.followers)


def test_the_formula_by_hand() -> None:
    # "abab": after a comes b twice, so P_1(b|a) = (2 + 1 · P_0(b)) / (2 + 1); P_0(b) = (2 + 2/256) / (4 + 2).
    unigram = (2 + 2 / 256) / 6
    output = score(NgramModel(b"abab", 2), Loglikelihood("a", "b"))
    assert math.isclose(output.total, math.log((2 + unigram) / 3), rel_tol=1e-12)
    assert output.is_greedy and output.token_count == 1


def test_a_context_never_seen_has_no_say() -> None:
    table = NgramTable(b"abcabc", 3)
    assert (table.distribution(b"zz") == table.distribution(b"")).all()
    assert (table.distribution(b"zb") == table.distribution(b"b")).all()


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), orders)
def test_parts_add_up_to_the_whole(prompt: str, first: str, second: str, order: int) -> None:
    model = NgramModel(b"the cat sat on the mat, the end", order)
    whole = score(model, Loglikelihood(prompt, first + second))
    parts = [score(model, Loglikelihood(prompt, first)), score(model, Loglikelihood(prompt + first, second))]
    assert math.isclose(whole.total, parts[0].total + parts[1].total, rel_tol=1e-9, abs_tol=1e-9)
    assert whole.is_greedy == all(part.is_greedy for part in parts)
    assert whole.token_count == sum(part.token_count for part in parts)


@given(st.text(max_size=40))
def test_rolling_is_the_likelihood_after_nothing(text: str) -> None:
    rolling, plain = score(BUILT_IN, RollingLoglikelihood(text)), score(BUILT_IN, Loglikelihood("", text))
    assert (rolling.total, rolling.token_count) == (plain.total, plain.token_count)


def test_without_a_prefix_the_first_byte_is_given_by_hand() -> None:
    # "abab": P_1(b|a) = (2 + P_0(b)) / 3 and P_1(a|b) = (1 + P_0(a)) / 2, with P_0 of both (2 + 2/256) / 6.
    unigram = (2 + 2 / 256) / 6
    output = score(NgramModel(b"abab", 2), RollingLoglikelihood("aba", stands_on_prefix=False))
    assert math.isclose(output.total, math.log((2 + unigram) / 3 * (1 + unigram) / 2), rel_tol=1e-12)
    assert (output.token_count, output.prompt_tokens, output.is_greedy) == (2, 1, True)


def test_without_a_prefix_a_single_byte_has_nothing_to_score() -> None:
    assert score(BUILT_IN, RollingLoglikelihood("a", stands_on_prefix=False)) == Logprob(0.0, 0, True, prompt_tokens=1)
    assert score(BUILT_IN, RollingLoglikelihood("", stands_on_prefix=False)) == Logprob(0.0, 0, True)


def test_english_is_likelier_than_noise() -> None:
    english = score(BUILT_IN, RollingLoglikelihood("The children walked slowly to the village."))
    noise = score(BUILT_IN, RollingLoglikelihood("eTh iclhndre kdlwae olyslw ot hte vgilealt."))
    assert english.total / english.token_count > noise.total / noise.token_count + 0.5


def test_greedy_text_is_greedy() -> None:
    text = generate(Generation("The wind ", max_tokens=20)).text
    assert score(BUILT_IN, Loglikelihood("The wind ", text)).is_greedy


def test_a_text_ends_before_the_first_stop_string() -> None:
    whole = generate(Generation("The ", max_tokens=60)).text
    place = whole.index("th")
    cut = generate(Generation("The ", stop=("zzz", "th", "h"), max_tokens=60))
    assert cut.finish_reason == "stop" and cut.text == whole[: min(place, whole.index("h"))]
    assert generate(Generation("The ", max_tokens=60)).finish_reason == "length"


def test_draws_are_their_own_streams_and_repeat() -> None:
    requests = [Generation("She ", max_tokens=20, sampling=Sampling(1.0, 3), draw=draw) for draw in range(6)]
    first = [output for _, output in BUILT_IN.respond(requests)]
    assert first == [generate(request) for request in requests]
    assert len({generate(request).text for request in requests}) == 6


def test_samples_follow_the_distribution() -> None:
    model, sampling = NgramModel(b"ab" * 50 + b"ac" * 50, 2), Sampling(1.0, 0)
    texts = [generate(Generation("a", max_tokens=1, sampling=sampling, draw=draw), model).text for draw in range(400)]
    assert 150 < texts.count("b") < 250


def test_top_k_and_top_p_keep_only_the_likeliest() -> None:
    distribution = numpy.array([0.5, 0.3, 0.15, 0.05])
    top_k = Generation("", sampling=Sampling(1.0, 0, (("top_k", 2),)))
    top_p = Generation("", sampling=Sampling(1.0, 0, (("top_p", 0.6),)))
    assert numpy.allclose(sharpened(distribution, top_k), [0.625, 0.375, 0, 0])
    assert numpy.allclose(sharpened(distribution, top_p), [0.625, 0.375, 0, 0])


def test_a_setting_it_cannot_honour_is_a_failure_not_a_guess() -> None:
    request = Generation("a", sampling=Sampling(0.0, None, (("num_beams", 4),)))
    ((_, answer),) = BUILT_IN.respond([request])
    assert isinstance(answer, Failure) and answer.kind == "unsupported" and "num_beams=4" in answer.message


def test_a_conversation_is_scored_too() -> None:
    chat = (Message("user", "Where is the basket?"),)
    as_text = "user: Where is the basket?\nassistant: "
    assert score(BUILT_IN, Loglikelihood(chat, "Gone.")) == score(BUILT_IN, Loglikelihood(as_text, "Gone."))


def test_the_fingerprint_covers_text_and_order() -> None:
    models = [NgramModel(b"one", 2), NgramModel(b"two", 2), NgramModel(b"one", 3)]
    assert len({model.fingerprint.digest for model in models}) == 3


def test_a_corpus_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_bytes(b"zzzz")
    model = open_ngram({"corpus": str(tmp_path / "corpus.txt"), "order": 2}, ModelSettings())
    assert generate(Generation("z", max_tokens=3), model).text == "zzz"


@pytest.mark.parametrize("args", [{"corpus": "/no/such/file"}, {"order": 0}, {"order": HIGHEST_ORDER + 1}])
def test_wrong_arguments_are_errors_for_people(args: dict[str, object]) -> None:
    with pytest.raises(ModelError, match="model_args"):
        open_ngram(args, ModelSettings())


def test_thousands_of_requests_a_second() -> None:
    requests = [Loglikelihood(f"Question {i}. Answer:", " a green house") for i in range(5000)]
    start = time.perf_counter()
    assert sum(1 for _ in BUILT_IN.respond(requests)) == 5000
    assert time.perf_counter() - start < 2.0
