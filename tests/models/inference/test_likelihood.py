"""Scoring with made-up logits: grouping, arithmetic, broken numbers. Real models are in test_causal.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from assay.core.responses import Failure, Logprob
from assay.models.inference.batching import Batching, BatchLimit
from assay.models.inference.likelihood import ELEMENTS_PER_CHUNK, group_rows, score_pairs, score_rolling
from assay.models.tokens.tokenization import EncodedText

VOCABULARY = 7


def made_up(rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Any:
    """Logits that depend on all ids up to a position."""
    import torch

    def line(row: Sequence[int], position: int) -> list[float]:
        seen = sum((place + 1) * token for place, token in enumerate(row[: position + 1]))
        return [math.sin(seen + 2.5 * token) * 3 for token in range(VOCABULARY)]

    return torch.tensor([[line(row, position) for position in positions] for row in rows])


def by_hand(text: EncodedText) -> float:
    total = 0.0
    for place in range(len(text.ids) - text.scored, len(text.ids)):
        line = made_up([text.ids], [place - 1])[0, 0].double().tolist()
        total += line[text.ids[place]] - math.log(math.fsum(math.exp(value) for value in line))
    return total


def score(
    texts: Sequence[EncodedText], rows: int = 4, logits_of: Any = made_up, arithmetic: str = "exact"
) -> dict[int, Any]:
    return dict(score_pairs(texts, logits_of, Batching(BatchLimit(rows=rows)), arithmetic))


def test_equal_inputs_share_a_row() -> None:
    texts = [EncodedText(0, (1, 2, 3), 1), EncodedText(1, (1, 2, 4), 1), EncodedText(2, (1, 2, 3), 1)]
    rows = group_rows([*texts, EncodedText(3, (1, 2, 3), 2), EncodedText(4, (1, 2, 3, 4), 1)])
    assert [(row.length, row.first, len(row.texts)) for row in rows] == [(3, 2, 1), (2, 0, 4)]


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_texts_split_at_different_points_are_each_right(rows: int) -> None:
    # lm-eval's logits cache scores the shorter of these at the wrong position (spec 17.4).
    texts = [EncodedText(number, (1, 5, 2, 3, 6), number + 1) for number in range(4)]
    texts += [EncodedText(4, (2, 2), 1), EncodedText(5, (1, 5, 2, 3, 0), 3)]
    results = score(texts, rows)
    for text in texts:
        assert results[text.index].total == pytest.approx(by_hand(text), abs=1e-6)
        assert results[text.index].token_count == text.scored


def test_greedy_means_every_token_is_likeliest() -> None:
    best = int(made_up([(1, 2)], [1])[0, 0].argmax())
    worst = int(made_up([(1, 2)], [1])[0, 0].argmin())
    results = score([EncodedText(0, (1, 2, best), 1), EncodedText(1, (1, 2, worst), 1)])
    assert results[0].is_greedy and not results[1].is_greedy


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("arithmetic", ["exact", "lm_eval"])
def test_broken_logits_are_a_failure_of_their_row_only(broken: float, arithmetic: str) -> None:
    def logits_of(rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Any:
        logits = made_up(rows, positions)
        for number, row in enumerate(rows):
            if row[0] == 3:
                logits[number, :, 6] = broken
        return logits

    results = score([EncodedText(0, (3, 2, 1), 1), EncodedText(1, (4, 2, 1), 1)], 2, logits_of, arithmetic)
    assert isinstance(results[0], Failure) and results[0].kind == "not_finite"
    assert isinstance(results[1], Logprob)


def test_ruled_out_tokens_are_not_a_fault() -> None:
    def logits_of(rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Any:
        logits = made_up(rows, positions)
        logits[..., 6] = -math.inf
        return logits

    results = score([EncodedText(0, (3, 2, 1), 1), EncodedText(1, (3, 2, 6), 1)], 2, logits_of)
    assert isinstance(results[0], Logprob) and isinstance(results[1], Failure)


def test_half_precision_logits_are_summed_exactly() -> None:
    import torch

    def logits_of(rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Any:
        return made_up(rows, positions).to(torch.bfloat16)

    text = EncodedText(0, (1, 5, 2, 3, 6), 4)
    wide = logits_of([text.inputs], range(4))[0].double().log_softmax(-1)
    expected = sum(float(wide[place, text.ids[place + 1]]) for place in range(4))
    assert score([text], 1, logits_of)[0].total == pytest.approx(expected, abs=1e-12)
    assert score([text], 1, logits_of, "lm_eval")[0].total != pytest.approx(expected, abs=1e-6)


def test_large_vocabularies_are_scored_in_chunks() -> None:
    import torch

    size = ELEMENTS_PER_CHUNK // 2  # two positions per chunk
    table = torch.randn(5, size, generator=torch.Generator().manual_seed(1))
    texts = [EncodedText(number, (1, 5, 2, 7, 6, 3), number) for number in (1, 3, 5)]
    results = score(texts, 4, lambda rows, positions: table[list(positions)].expand(len(rows), -1, -1))
    wide = table.double().log_softmax(-1)
    for text in texts:
        expected = sum(float(wide[place - 1, text.ids[place]]) for place in range(6 - text.scored, 6))
        assert results[text.index].total == pytest.approx(expected, abs=1e-9)


def test_rolling_adds_its_windows() -> None:
    windows = [EncodedText(9, (0, 1, 2, 3), 3, notes=("double_bos",)), EncodedText(9, (3, 4, 5), 2)]
    result = score_rolling(windows, made_up, Batching(BatchLimit(rows=2)))
    assert isinstance(result, Logprob)
    assert result.total == pytest.approx(sum(by_hand(window) for window in windows), abs=1e-6)
    assert (result.token_count, result.notes) == (5, ("double_bos",))


def test_text_without_tokens_is_certain() -> None:
    assert score_rolling([], made_up, Batching(BatchLimit(rows=2))) == Logprob(0.0, 0, True)


def test_memory_error_in_scoring_backs_off() -> None:
    shrunk: list[BatchLimit] = []

    def logits_of(rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Any:
        if len(rows) > 2:
            raise MemoryError
        return made_up(rows, positions)

    texts = [EncodedText(number, (number, 5, 2), 1) for number in range(6)]
    results = dict(score_pairs(texts, logits_of, Batching(BatchLimit(rows=6), shrunk.append)))
    assert results == score(texts) and shrunk == [BatchLimit(rows=3), BatchLimit(rows=1)]


def test_lm_evals_arithmetic_repeats_its_slip_with_equal_inputs() -> None:
    """Of two texts with one input, lm-eval reads the shorter one from where the longer one begins."""
    longer, shorter = EncodedText(0, (0, 1, 2, 3, 4), 3), EncodedText(1, (0, 1, 2, 3, 5), 1)
    exact, like = score([longer, shorter]), score([longer, shorter], arithmetic="lm_eval")
    assert like[0].total == pytest.approx(exact[0].total, abs=1e-5)
    assert exact[1].total == pytest.approx(by_hand(shorter))
    assert like[1].total == pytest.approx(by_hand(EncodedText(1, (0, 1, 5), 1)), abs=1e-5)
    assert like[1].is_greedy == exact[1].is_greedy
