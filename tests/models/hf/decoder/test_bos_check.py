"""The check for a missing BOS token, with made-up logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from assay.models.hf.decoder.bos_check import SAMPLE_TEXT, missing_bos
from assay.models.tokens.tokenization import TokenRules

BOS, VOCABULARY = 0, 320


class Reader:
    """Knows the sample by heart, but only after a BOS; else its confidence is the given one."""

    def __init__(self, tokenizer: Any, doubt: float) -> None:
        self.ids = tokenizer([SAMPLE_TEXT], add_special_tokens=False)["input_ids"][0]
        self.doubt = doubt
        self.calls = 0

    def __call__(self, rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Any:
        import torch

        self.calls += 1
        (row,) = rows
        has_bos = row[0] == BOS
        logits = torch.zeros(1, len(positions), VOCABULARY)
        for column, position in enumerate(positions):
            following = self.ids[position if has_bos else position + 1]
            logits[0, column, following] = 8.0 if has_bos else 8.0 - self.doubt
        return logits


def test_missing_bos_is_reported_with_both_perplexities(tokenizers: dict[bool, Any]) -> None:
    rules = TokenRules(tokenizers[False], 2048, prefix_id=BOS)
    notice = missing_bos(rules, Reader(tokenizers[False], doubt=8.0))
    assert notice is not None and "320.0 without, 1.1 with it. Set add_bos_token=true" in notice


def test_a_small_gap_is_not_reported(tokenizers: dict[bool, Any]) -> None:
    rules = TokenRules(tokenizers[False], 2048, prefix_id=BOS)
    assert missing_bos(rules, Reader(tokenizers[False], doubt=0.5)) is None


@pytest.mark.parametrize(("adds_bos", "asked"), [(True, None), (False, False), (False, True)])
def test_nothing_is_measured_when_it_is_settled(
    tokenizers: dict[bool, Any], adds_bos: bool, asked: bool | None
) -> None:
    reader = Reader(tokenizers[adds_bos], doubt=8.0)
    assert missing_bos(TokenRules(tokenizers[adds_bos], 2048, asked, BOS), reader) is None and reader.calls == 0


def test_short_models_are_measured_too(tokenizers: dict[bool, Any]) -> None:
    rules = TokenRules(tokenizers[False], 16, prefix_id=BOS)
    assert missing_bos(rules, Reader(tokenizers[False], doubt=8.0)) is not None
