"""Scoring by the tree: work done, and what memory errors, broken numbers and broken rows cost."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.core.responses import Failure, Logprob
from assay.models.engine.attention import PrefixCache
from assay.models.engine.backend_choice import EngineChoice
from assay.models.engine.engine import Engine
from assay.models.engine.flops import ComputeCounts, flop_rates
from assay.models.engine.forward import TreeReader, make_reader, using_attention
from assay.models.engine.tree_scoring import CONFIRMATIONS, LikelihoodTable, TreeScorer
from assay.models.engine.vocabulary_head import PrecomputedLogits
from assay.models.inference.batching import Batching, BatchLimit
from assay.models.loading.network import Network, wrap
from assay.models.tokens.encoding import Job
from assay.models.tokens.tokenization import EncodedText

Ask = Callable[..., dict[int, Any]]


def some_texts(count: int = 40, seed: int = 1, vocabulary: int = 60) -> list[EncodedText]:
    draw = random.Random(seed)
    stems = [tuple(draw.randrange(vocabulary) for _ in range(draw.randint(1, 30))) for _ in range(4)]
    rows = [
        (*draw.choice(stems), *(draw.randrange(vocabulary) for _ in range(draw.randint(1, 6)))) for _ in range(count)
    ]
    return [EncodedText(number, row, draw.randint(1, len(row) - 1)) for number, row in enumerate(rows)]


def prefixes(texts: Sequence[EncodedText]) -> int:
    return len({text.ids[:end] for text in texts for end in range(1, len(text.ids))})


def before_forward(reader: TreeReader, act: Callable[[Any], None]) -> None:
    """Has something done with the ids of every pack before it is forwarded."""
    base = reader.network.module.base_model
    base.register_forward_pre_hook(lambda _, args, given: act(given["input_ids"]), with_kwargs=True)


def check(found: dict[int, Any], expected: dict[int, Any]) -> None:
    for index, answer in found.items():
        assert isinstance(answer, Logprob), answer
        assert answer.total == pytest.approx(expected[index].total, abs=1e-4)
        assert replace(answer, total=0) == replace(expected[index], total=0)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 90))
def test_the_number_of_distinct_prefixes_is_forwarded(
    reader: TreeReader, ask: Ask, seed: int, count: int, size: int
) -> None:
    texts, amounts, rows = some_texts(count, seed, vocabulary=3), [], []
    hook = reader.network.module.base_model.register_forward_pre_hook(
        lambda _, args, given: rows.append(given["input_ids"].numel()), with_kwargs=True
    )
    ask(reader, texts, size, on_read=amounts.append)
    hook.remove()
    assert sum(rows) == sum(counts.tokens for counts in amounts) == prefixes(texts)
    assert max(rows) <= size


def test_equal_requests_are_forwarded_once(reader: TreeReader, ask: Ask) -> None:
    amounts: list[ComputeCounts] = []
    texts = [EncodedText(number, (1, 2, 3, 4), 2) for number in range(10_000)]
    found = ask(reader, texts, on_read=amounts.append)
    assert amounts == [ComputeCounts(3, 2, 6)] and len(found) == 10_000 and len(set(found.values())) == 1


def test_one_request_and_none(reader: TreeReader, ask: Ask) -> None:
    assert ask(reader, []) == {}
    assert isinstance(ask(reader, [EncodedText(7, (1, 2), 1)])[7], Logprob)


def test_rows_limit_the_sequences_of_a_pack(reader: TreeReader) -> None:
    sizes: list[int] = []
    before_forward(reader, lambda ids: sizes.append(ids.numel()))
    texts = [EncodedText(number, (number, 5, 2), 1) for number in range(7)]
    scorer = TreeScorer(reader, LikelihoodTable, Batching(BatchLimit(rows=3)), most_tokens=1000)
    with using_attention(reader.network):
        assert len(list(scorer.score(scorer.plan(texts)))) == 7
    assert sizes == [6, 6, 2]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")])
@pytest.mark.parametrize("most", [1, 7, 40])
def test_pack_that_does_not_fit_is_split(reader: TreeReader, ask: Ask, error: Exception, most: int) -> None:
    texts, shrunk, amounts = some_texts(), [], []
    expected = ask(reader, texts)

    def refuse(ids: Any) -> None:
        if ids.numel() > most:
            raise error

    before_forward(reader, refuse)
    check(ask(reader, texts, 64, on_shrink=shrunk.append, on_read=amounts.append), expected)
    assert sum(counts.tokens for counts in amounts) == prefixes(texts)
    assert shrunk[-1].tokens is not None and most // 2 <= shrunk[-1].tokens <= most


def test_memory_that_never_suffices_is_a_failure_of_every_text(reader: TreeReader, ask: Ask) -> None:
    def refuse(ids: Any) -> None:
        raise MemoryError

    before_forward(reader, refuse)
    found = ask(reader, some_texts())
    assert {answer.kind for answer in found.values()} == {"out_of_memory"}
    assert reader.path.length == 0 and not reader.path.keys


class TightPath(PrefixCache):
    """Remembers no more than some tokens at once when they come in large portions."""

    def extend(self, cached: int, staged: Any) -> None:
        if staged[0][0].shape[1] > 5:
            raise MemoryError
        super().extend(cached, staged)


def test_memory_error_while_the_path_grows_splits_the_pack(reader: TreeReader, ask: Ask) -> None:
    texts = some_texts()
    expected = ask(reader, texts)
    check(ask(replace(reader, path=TightPath()), texts), expected)


@pytest.mark.parametrize("limit", [1024, 8])
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_broken_numbers_stay_with_their_texts(reader: TreeReader, ask: Ask, limit: int, broken: float) -> None:
    texts = some_texts(60)
    expected = ask(reader, texts)
    bad = texts[0].inputs[-1]
    reader.network.module.base_model.embed_tokens.weight.data[bad] = broken
    found = ask(reader, texts, limit)
    hit = {text.index for text in texts if bad in text.inputs}
    assert 0 < len(hit) < 40 and {index for index, answer in found.items() if isinstance(answer, Failure)} == hit
    assert {found[index].kind for index in hit} == {"not_finite"}
    check({index: answer for index, answer in found.items() if index not in hit}, expected)


def test_many_broken_texts_do_not_condemn_the_rest(reader: TreeReader, ask: Ask) -> None:
    texts = [EncodedText(number, (number // 2, 5 + number % 2, number, 1), 1) for number in range(4 * CONFIRMATIONS)]
    expected = ask(reader, texts)
    reader.network.module.base_model.embed_tokens.weight.data[5] = math.nan
    reader.network.module.base_model.embed_tokens.weight.data[0] = math.nan
    found = ask(reader, texts)
    fine = {text.index: found[text.index] for text in texts if not {0, 5} & set(text.inputs)}
    assert len(fine) > CONFIRMATIONS
    check(fine, expected)


def test_model_that_is_broken_throughout_is_not_retried_forever(reader: TreeReader, ask: Ask) -> None:
    packs: list[int] = []
    before_forward(reader, lambda ids: packs.append(ids.numel()))
    reader.network.module.base_model.norm.weight.data.fill_(math.nan)
    found = ask(reader, some_texts(500))
    assert {answer.kind for answer in found.values()} == {"not_finite"}
    assert len(packs) < 40


@pytest.mark.parametrize("limit", [1024, 16, 1])
def test_error_costs_only_the_texts_that_raise_it(reader: TreeReader, ask: Ask, limit: int) -> None:
    texts = some_texts(60)
    expected = ask(reader, texts)
    bad = texts[0].inputs[-1]

    def refuse(ids: Any) -> None:
        if bool((ids == bad).any()):
            raise IndexError("index out of range in self")

    before_forward(reader, refuse)
    found = ask(reader, texts, limit)
    hit = {text.index for text in texts if bad in text.inputs}
    assert 0 < len(hit) < 40 and {index for index, answer in found.items() if isinstance(answer, Failure)} == hit
    assert {found[index].message for index in hit} == {"IndexError: index out of range in self"}
    check({index: answer for index, answer in found.items() if index not in hit}, expected)


def test_text_longer_than_the_positions_fails_alone(ask: Ask) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=16)
    reader = make_reader(wrap(GPT2LMHeadModel(config).eval(), torch.device("cpu")))
    texts = [EncodedText(number, tuple(range(length)), 1) for number, length in enumerate((5, 17, 18, 40))]
    found = ask(reader, [*texts, EncodedText(4, (9, 8, 7), 2)])
    assert [isinstance(found[number], Failure) for number in range(5)] == [False, False, True, True, False]


def test_logits_of_the_model_itself_give_the_same(reader: TreeReader, ask: Ask) -> None:
    texts = some_texts()
    check(ask(replace(reader, head=PrecomputedLogits(64)), texts, 24), ask(reader, texts))


def test_path_is_let_go_when_scoring_stops(reader: TreeReader, ask: Ask) -> None:
    ask(reader, some_texts(), 8)
    assert reader.path.length == 0 and not reader.path.keys and not reader.path.values


def test_weights_are_packed_where_many_full_packs_are_ahead(network: Network, reader: TreeReader, ask: Ask) -> None:
    texts = some_texts()
    expected = ask(reader, texts)
    engine = Engine(
        network, EngineChoice("tree", "a test", reader), flop_rates(network.module), limit=BatchLimit(tokens=16)
    )
    few = Job((), texts[:2], (), ())
    assert dict(engine.score(engine.begin(few, lambda _: None))).keys() == {0, 1}
    assert not any("forward" in vars(layer) for layer in network.module.modules())
    check(dict(engine.score(engine.begin(Job((), texts, (), ()), lambda _: None))), expected)
    changed = [layer for layer in network.module.modules() if "forward" in vars(layer)]
    assert len(changed) == 14  # all products of two layers
