"""Differences that the bench must see."""

from __future__ import annotations

from typing import Any

from bench.engine.agreement import compare


def scored(*totals: float, tokens: int = 1) -> list[dict[str, Any]]:
    return [{"total": total, "tokens": tokens, "is_greedy": False} for total in totals]


def test_the_tolerance_grows_with_the_scored_tokens() -> None:
    near, far = scored(-10.0), scored(-10.0001)
    assert compare([0], near, far).beyond == 1
    assert compare([0], scored(-10.0, tokens=10), far).is_same


def test_nan_is_a_disagreement() -> None:
    assert compare([0], scored(float("nan")), scored(-1.0)).beyond == 1


def test_another_choice_is_named_with_its_lead() -> None:
    found = compare([7, 7], scored(-1.0, -2.0, tokens=10**6), scored(-2.0, -1.5))
    assert found.beyond == 0
    assert found.choices == ("document 7: choice 0 (lm-eval: 1), ahead by 1",)


def test_choices_are_compared_within_their_document() -> None:
    assert compare([0, 1], scored(-1.0, -2.0), scored(-1.0, -2.0)).is_same


def test_another_greedy_flag_is_a_difference() -> None:
    other = [{"total": -1.0, "is_greedy": True}]
    assert compare([0], scored(-1.0), other).greedy == 1


def test_a_rolling_answer_without_a_flag_is_compared_by_its_total() -> None:
    assert compare([0], scored(-1.0), [{"total": -1.0}]).is_same


def test_texts_are_shown_from_where_they_part() -> None:
    (line,) = compare([3], [{"text": "the same, then a", "tokens": 4}], [{"text": "the same, then b"}]).texts
    assert line == "document 3: from character 15 'ame, then a', lm-eval 'ame, then b'"
