"""One task in several prompts: the numbers over them, by hand."""

from __future__ import annotations

import math

import pytest

from assay.core.prompt_axes import PromptAxis


def axis(**scores: float | None) -> PromptAxis:
    return PromptAxis("t", "acc", "none", scores, dict.fromkeys(scores, 10), dict.fromkeys(scores, 0))


def test_the_numbers_over_prompts() -> None:
    found = axis(a=0.2, b=0.5, c=0.8)
    assert found.mean == pytest.approx(0.5)
    assert found.deviation == pytest.approx(0.3)  # √((0.09 + 0 + 0.09) / 2)
    assert found.spread == pytest.approx(0.6)
    assert (found.lowest, found.highest) == ("a", "c")


def test_prompts_without_a_score_count_in_no_number() -> None:
    found = axis(a=None, b=0.5, c=math.nan)
    assert (found.mean, found.spread, found.deviation) == (0.5, 0.0, None)
    assert found.to_json()["prompts"] == 1 and found.to_json()["scores"]["a"] is None


def test_without_any_score_nothing_is_told() -> None:
    found = axis(a=None)
    message = found.to_json()
    keys = ("mean", "min", "max", "spread", "standard_deviation", "lowest", "highest")
    assert [message[key] for key in keys] == [None] * 7
