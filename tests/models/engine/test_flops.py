"""Reading is counted by its definition, and progress never runs ahead of the work."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.protocols import Progress
from assay.models.engine.flops import (
    ComputeCounts,
    FlopRates,
    Meter,
    flop_rates,
    pack_counts,
    tree_counts,
    unshared_counts,
)
from assay.models.engine.packs import make_pack
from assay.models.engine.prefix_tree import build_tree
from assay.models.loading.network import Network
from assay.models.tokens.tokenization import EncodedText

RATES = FlopRates(10.0, 3.0, 1.0)


def some_texts(seed: int) -> list[EncodedText]:
    draw = random.Random(seed)
    rows = [tuple(draw.randrange(2) for _ in range(draw.randint(2, 9))) for _ in range(draw.randint(1, 9))]
    return [EncodedText(number, row, draw.randint(1, len(row) - 1)) for number, row in enumerate(rows)]


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_packs_add_up_to_the_tree(seed: int, size: int) -> None:
    texts = some_texts(seed)
    tree = build_tree(texts)
    prefixes = {text.ids[:end] for text in texts for end in range(1, len(text.ids))}
    scored_prefixes = {text.ids[:end] for text in texts for end in range(len(text.ids) - text.scored, len(text.ids))}
    assert tree_counts(tree) == ComputeCounts(len(prefixes), len(scored_prefixes), sum(len(one) for one in prefixes))
    total = ComputeCounts()
    for low in range(0, len(tree), size):
        total = total + pack_counts(make_pack(tree, low, min(low + size, len(tree))).positions, 0)
    assert (total.tokens, total.pairs) == (len(prefixes), sum(len(one) for one in prefixes))


def test_alone_counts_every_text_in_full() -> None:
    texts = [EncodedText(0, (1, 2, 3, 4), 2), EncodedText(1, (1, 2, 3, 4), 1)]
    assert unshared_counts(texts) == ComputeCounts(6, 3, 12)
    assert unshared_counts([]) == ComputeCounts()


def test_rates_are_counted_from_the_matrices(network: Network) -> None:
    rates = flop_rates(network.module)
    layer = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 48
    assert rates == FlopRates(2.0 * 2 * layer, 2.0 * 32 * 64, 4.0 * 2 * 4 * 8)


def test_progress_ends_at_the_whole_work() -> None:
    reported: list[Progress] = []
    meter = Meter(RATES, reported.append, planned=ComputeCounts(100, 10, 500))
    meter.report_progress()
    for _ in range(4):
        meter.read(ComputeCounts(25, 2, 125))
    meter.read(ComputeCounts(0, 2, 0))
    assert [entry.tokens for entry in reported] == [0, 25, 50, 75, 100, 100]
    assert reported[-1].done == reported[-1].total == RATES.operations(meter.planned)


def test_answers_that_end_early_bring_the_end_nearer() -> None:
    meter = Meter(RATES, most=1000)
    before = meter.expected
    meter.write(10)
    meter.end(10, 500)
    assert meter.expected < before and meter.expected >= meter.generated
    meter.end(0, 500)
    assert meter.expected == pytest.approx(10)
