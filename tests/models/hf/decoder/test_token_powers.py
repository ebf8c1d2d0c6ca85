"""Scores of single tokens, and generation from token ids: against a forward pass, in the tree and in padded batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import ContinuesTokens, ProvidesCodec, ScoresTokens, TokenPrompt, TokenRow, TokenScores
from assay.core.requests import Generation, Loglikelihood, Sampling
from assay.core.responses import Failure, Logprob, Text

ROWS = [
    TokenRow((0, 70, 71, 72), 3, 2, follows=True, ranked=True),
    TokenRow((0, 70, 71, 90), 1, 1),
    TokenRow((0, 70, 71, 72), 3, 5),
    TokenRow((5,), 0, 3, follows=True),
    TokenRow((0, 70), 0),
]


@pytest.fixture(params=["tree", "padded"])
def model(request: pytest.FixtureRequest, llama: Path, opened: Callable[..., Any]) -> Any:
    return opened(llama, engine=request.param)


def table_of(model: Any, ids: Sequence[int]) -> Any:
    """Log-probabilities of every next token after every prefix."""
    import torch

    logits = model._loaded().network.logits([ids], list(range(len(ids))))
    return torch.log_softmax(logits.double(), dim=-1)[0]


def test_rows_get_what_they_ask_for(model: Any) -> None:
    found: dict[int, TokenScores] = dict(model.score_tokens(ROWS))
    assert sorted(found) == [0, 1, 2, 3, 4]
    for index, row in enumerate(ROWS):
        scores, table = found[index], table_of(model, row.ids)
        first = len(row.ids) - row.scored
        values = [float(table[place - 1, row.ids[place]]) for place in range(first, len(row.ids))]
        best = table[first - 1 : len(row.ids) - (0 if row.follows else 1)].topk(row.top, dim=-1)
        assert scores.logprobs == pytest.approx(values, abs=1e-5)
        assert [list(ids) for ids in scores.top_ids] == best.indices.tolist()
        assert [pytest.approx(own, abs=1e-5) for own in best.values.tolist()] == list(map(list, scores.top_logprobs))
        ranks = [
            int((table[place - 1] > table[place - 1, row.ids[place]]).sum()) + 1 for place in range(first, len(row.ids))
        ]
        assert list(scores.ranks) == (ranks if row.ranked else [])


def test_equal_tokens_have_equal_numbers(model: Any) -> None:
    scores = dict(model.score_tokens([TokenRow((0, 70, 71, 72), 3, 320)]))[0]
    for place, token in enumerate((70, 71, 72)):
        assert scores.top_logprobs[place][scores.top_ids[place].index(token)] == scores.logprobs[place]


def test_the_sum_is_the_log_likelihood(model: Any) -> None:
    codec = model.codec()
    context, whole = codec.encode("The answer is"), codec.encode("The answer is four.")
    scores = dict(model.score_tokens([TokenRow(whole, len(whole) - len(context))]))[0]
    (answer,) = dict(model.respond([Loglikelihood("The answer is", " four.")])).values()
    assert isinstance(answer, Logprob) and sum(scores.logprobs) == pytest.approx(answer.total, abs=1e-5)


def test_a_row_beyond_the_models_length_fails_alone(model: Any) -> None:
    most = model.capabilities.max_tokens
    rows = [TokenRow((3,) * (most + 1), 1), TokenRow((3,) * (most + 1), 1, follows=True), TokenRow((3, 4), 1)]
    found = dict(model.score_tokens(rows))
    assert isinstance(found[0], TokenScores) and isinstance(found[2], TokenScores)
    assert isinstance(found[1], Failure) and found[1].kind == "too_long"


def test_prompts_of_ids_are_continued_like_their_texts(model: Any) -> None:
    text, sampling = "Once upon a time", Sampling(0.9, 4)
    requests = [Generation(text, (), 9), Generation(text, ("a",), 9), Generation(text, (), 9, sampling, 1)]
    ids, seen = model.codec().encode(text), {}

    def on_tokens(index: int, now: Sequence[int]) -> None:
        before = seen.get(index, ())
        assert tuple(now[: len(before)]) == before, "tokens of another answer"
        seen[index] = tuple(now)

    prompts = [TokenPrompt(ids, request) for request in requests]
    found = dict(model.continue_tokens(prompts, on_tokens))
    assert found == dict(model.respond(requests))
    for index, answer in found.items():
        assert isinstance(answer, Text) and len(seen[index]) == answer.token_count


def test_a_limit_of_no_tokens_needs_no_pass(model: Any) -> None:
    ((_, answer),) = model.continue_tokens([TokenPrompt((0, 5), Generation("", (), 0))], lambda index, ids: None)
    assert answer.text == "" and answer.finish_reason == "length"


def test_a_generation_can_be_given_up(model: Any) -> None:
    class Enough(BaseException):
        pass

    def stop(index: int, ids: Sequence[int]) -> None:
        raise Enough

    with pytest.raises(Enough):
        list(model.continue_tokens([TokenPrompt((0, 5), Generation("", (), 9))], stop))
    assert isinstance(dict(model.respond([Generation("a", (), 3)]))[0], Text)


def test_the_powers_are_declared(model: Any, bart: Path, opened: Callable[..., Any]) -> None:
    assert isinstance(model, ScoresTokens) and isinstance(model, ContinuesTokens) and isinstance(model, ProvidesCodec)
    other = opened(bart)
    assert isinstance(other, ProvidesCodec) and not isinstance(other, ScoresTokens)


def test_a_codec_has_its_own_tokenizer(model: Any) -> None:
    codec = model.codec()
    assert codec.rules.tokenizer is not model.tokenizer
    assert codec.decode(codec.encode("The sky", special=False)) == "The sky"
    assert codec.special == {"bos_token": 0, "eos_token": 1, "pad_token": None} and codec.vocabulary == 320
