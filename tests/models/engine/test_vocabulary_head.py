"""Log-probabilities in blocks of the vocabulary, against float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from assay.models.engine.vocabulary_head import (
    COLUMNS,
    ELEMENTS,
    OutputLayer,
    PrecomputedLogits,
    TokenLogprobs,
    find_output_layer,
    token_logprobs,
)
from assay.models.loading.network import Network


def values_of(logits: torch.Tensor, targets: list[int]) -> TokenLogprobs:
    """One target per line; the logits stay as they are."""
    which = torch.arange(len(targets))
    return token_logprobs(PrecomputedLogits(logits.shape[1]), logits.clone(), which, torch.tensor(targets))


def worst_error(logits: torch.Tensor) -> float:
    """Largest error of any token's value, in shares of max(1, |value|)."""
    lines, columns = logits.shape
    which = torch.arange(lines).repeat_interleave(columns)
    found = token_logprobs(
        PrecomputedLogits(columns), logits.clone(), which, torch.arange(columns).repeat(lines)
    ).values
    exact = logits.double().log_softmax(-1).flatten()
    return float(((found - exact).abs() / exact.abs().clamp(min=1.0)).max())


def drawn(lines: int, columns: int, scale: float, seed: int = 0) -> torch.Tensor:
    return torch.randn(lines, columns, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.mark.parametrize("columns", [1, 7, COLUMNS - 1, COLUMNS, COLUMNS + 1, 3 * COLUMNS + 77])
@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0, 3000.0])
def test_values_are_exact_to_float32(columns: int, scale: float) -> None:
    assert worst_error(drawn(3, columns, scale)) < 2e-7


@pytest.mark.parametrize("offset", [1e4, -1e4])
def test_values_are_exact_far_from_zero(offset: float) -> None:
    assert worst_error(drawn(2, 2 * COLUMNS + 5, 3.0) + offset) < 2e-7


def test_equal_logits_share_evenly() -> None:
    found = values_of(torch.full((2, 50_000), -3.25), [0, 49_999])
    assert found.values.tolist() == pytest.approx([-math.log(50_000)] * 2, abs=1e-7)


def test_one_dominating_token_is_certain() -> None:
    logits = torch.full((1, 2 * COLUMNS), -1e4)
    logits[0, COLUMNS + 3] = 1e4
    found = values_of(logits, [COLUMNS + 3])
    assert found.values.tolist() == [0.0] and found.is_best.tolist() == [True]
    assert values_of(logits, [0]).values.tolist() == [-2e4]


@pytest.mark.parametrize("places", [(3, 9), (5, COLUMNS + 1), (COLUMNS - 1, COLUMNS), (COLUMNS + 2, 2 * COLUMNS + 2)])
def test_of_equal_ones_the_first_is_likeliest(places: tuple[int, int]) -> None:
    logits = drawn(1, 3 * COLUMNS, 1.0)
    logits[0, list(places)] = 50.0
    assert int(logits.argmax()) == places[0]
    assert [values_of(logits, [place]).is_best.item() for place in (*places, 0)] == [True, False, False]


def test_ruled_out_tokens_are_not_a_fault() -> None:
    logits = drawn(1, 3 * COLUMNS, 1.0)
    logits[0, COLUMNS:] = -math.inf  # blocks with nothing in them
    exact = logits.double().log_softmax(-1)[0]
    assert values_of(logits, [7]).values.item() == pytest.approx(float(exact[7]), abs=2e-7)
    assert values_of(logits, [COLUMNS + 1]).values.item() == -math.inf


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, COLUMNS + 1])
def test_broken_logits_break_their_line_only(broken: float, place: int) -> None:
    logits = drawn(2, 2 * COLUMNS, 1.0)
    logits[0, place] = broken
    values = values_of(logits, [5, 5]).values
    assert not math.isfinite(values[0].item()) and math.isfinite(values[1].item())
    assert not math.isfinite(values_of(logits, [place, 5]).values[0].item())


def test_lines_are_taken_in_portions() -> None:
    lines = ELEMENTS // COLUMNS + 3  # more than one portion
    states, head = drawn(lines, 4, 1.0), OutputLayer(drawn(COLUMNS + 10, 4, 1.0, 1), drawn(1, COLUMNS + 10, 1.0, 2)[0])
    which = torch.tensor([0, 0, 5, lines - 4, lines - 3, lines - 1])
    targets = torch.tensor([1, COLUMNS + 9, 7, 0, COLUMNS, 3])
    exact = (states.double() @ head.weight.double().T + head.bias.double()).log_softmax(-1)  # type: ignore[union-attr]
    found = token_logprobs(head, states, which, targets)
    assert found.values.tolist() == pytest.approx(exact[which, targets].tolist(), abs=1e-5)
    assert found.is_best.tolist() == (exact.argmax(-1)[which] == targets).tolist()
    best = exact.argmax(-1)
    assert token_logprobs(head, states, torch.arange(lines), best).is_best.all()


def test_narrow_logits_are_summed_in_float32() -> None:
    narrow = drawn(2, 5000, 2.0).to(torch.bfloat16)
    exact = narrow.double().log_softmax(-1)
    assert values_of(narrow, [1, 2]).values.tolist() == pytest.approx(exact[[0, 1], [1, 2]].tolist(), abs=1e-6)


def test_only_a_plain_matrix_is_a_head(network: Network) -> None:
    head = find_output_layer(network.module)
    assert head is not None and head.weight is network.module.lm_head.weight and head.columns == 64

    class Scaled(torch.nn.Linear):
        def forward(self, given: Any) -> Any:
            return super().forward(given) * 2

    network.module.lm_head = Scaled(32, 64)
    assert find_output_layer(network.module) is None


def test_lm_evals_arithmetic_is_torchs_log_softmax() -> None:
    logits = drawn(3, COLUMNS + 9, 3.0)
    targets = torch.tensor([4, COLUMNS + 1, int(logits[2].argmax())])
    found = token_logprobs(PrecomputedLogits(COLUMNS + 9), logits.clone(), torch.arange(3), targets, "lm_eval")
    assert found.values.tolist() == logits.log_softmax(-1)[torch.arange(3), targets].double().tolist()
    assert found.is_best.tolist() == [False, False, True]
