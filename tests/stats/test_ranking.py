"""Win rates, shared ranks and letters by hand."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.matrices import WinRate
from assay.stats.ranking import letters, macro_test, ranks, win_rates


def test_win_rates_by_hand() -> None:
    """First column: a beats both, b and c tie: 1, 0.25, 0.25. Second: b beats a; c has no score there."""
    columns = [{"a": 0.9, "b": 0.5, "c": 0.5}, {"a": 0.1, "b": 0.2}]
    assert win_rates("abc", columns) == {"a": WinRate(0.5, 2), "b": WinRate(0.625, 2), "c": WinRate(0.25, 1)}


def test_a_column_of_one_model_says_nothing() -> None:
    assert win_rates("ab", [{"a": 0.9}]) == {"a": WinRate(None, 0), "b": WinRate(None, 0)}


def test_models_that_are_not_told_apart_share_a_rank() -> None:
    assert ranks("abc", {("a", "c")}) == {"a": 1, "b": 1, "c": 2}
    assert ranks("abc", {("a", "b"), ("a", "c")}) == {"a": 1, "b": 2, "c": 2}
    assert ranks("abc", set()) == {"a": 1, "b": 1, "c": 1}


def test_letters_show_a_model_between_two_others() -> None:
    assert letters("abc", [("a", "c")]) == {"a": "a", "b": "ab", "c": "b"}
    assert letters("abc", []) == {"a": "a", "b": "a", "c": "a"}
    assert letters("abc", [("a", "b"), ("a", "c"), ("b", "c")]) == {"a": "a", "b": "b", "c": "c"}


@given(st.sets(st.sampled_from(list(combinations("abcdef", 2)))))
def test_two_models_share_a_letter_exactly_when_they_are_not_told_apart(separated: set[tuple[str, str]]) -> None:
    found = letters("abcdef", separated)
    shared = {pair for pair in combinations("abcdef", 2) if set(found[pair[0]]) & set(found[pair[1]])}
    assert shared == set(combinations("abcdef", 2)) - separated


def test_columns_count_once_whatever_their_size() -> None:
    """One document won by 1, four of which one is lost by 1: (1 − 1/4) / 2. Of 4 flips, all but none are as far:
    sums ±0.5 ±0.125 are 0.625 and 0.375 in size, two each, so both signs of both are at least 0.375."""
    difference, p = macro_test([[1.0], [0.0, -1.0, 0.0, 0.0]], seed=1)
    assert (difference, p) == (pytest.approx(0.375), 1.0)


def test_six_wins_without_a_loss_are_beyond_chance() -> None:
    assert macro_test([[1.0] * 3, [1.0] * 3], seed=1) == (pytest.approx(1.0), pytest.approx(2 / 64))


def test_no_documents_tell_nothing() -> None:
    assert macro_test([[], []], seed=1) == (None, 1.0)
