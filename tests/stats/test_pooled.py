"""Scores of groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.scores import Estimate
from assay.stats.means import mean_estimate, wilson_interval
from assay.stats.pooled import group_estimate, lm_eval_group_stderr


def test_the_pooled_errors_are_lm_evals() -> None:
    assert lm_eval_group_stderr([0.1, 0.2], [10, 30], True) == pytest.approx(0.15325417483795722, abs=1e-12)
    assert lm_eval_group_stderr([0.1, 0.2], [10, 30], False) == pytest.approx(0.1118033988749895, abs=1e-12)


@pytest.mark.parametrize("by_size", [True, False])
def test_a_leaf_without_an_error_leaves_the_group_without_one(by_size: bool) -> None:
    assert lm_eval_group_stderr([0.1, None], [10, 30], by_size) is None
    assert lm_eval_group_stderr([], [], by_size) is None


def test_leaves_of_one_document_have_no_pooled_error() -> None:
    assert lm_eval_group_stderr([0.1, 0.1], [1, 1], True) is None


def leaf(value: float, stderr: float = 0.1, n: int = 10) -> Estimate:
    return Estimate(value, stderr, value - 2 * stderr, value + 2 * stderr, n, "t")


def test_leaves_count_by_size_or_once() -> None:
    leaves = [leaf(0.2), leaf(0.8)]
    assert group_estimate(leaves, [10, 30], True).value == pytest.approx(0.65)
    assert group_estimate(leaves, [10, 30], False).value == pytest.approx(0.5)
    assert group_estimate(leaves, [10, 30], False).n == 40


def test_errors_combine_with_the_weights_of_the_mean() -> None:
    found = group_estimate([leaf(0.2, 0.1), leaf(0.8, 0.2)], [10, 30], True)
    error = math.sqrt(0.025**2 + 0.15**2)
    assert found.stderr == pytest.approx(error)
    assert (found.low, found.high) == pytest.approx((0.65 - 2 * error, 0.65 + 2 * error))
    assert found.method == "mover"


@given(st.integers(1, 200), st.integers(0, 200))
def test_a_group_of_one_leaf_is_that_leaf(n: int, hits: int) -> None:
    own = mean_estimate([1.0] * min(hits, n) + [0.0] * (n - min(hits, n)))
    found = group_estimate([own], [n], True)
    assert found.value == pytest.approx(own.value)
    assert (found.low, found.high) == pytest.approx((own.low, own.high))
    assert found.stderr == (None if n == 1 else pytest.approx(own.stderr))


def test_leaves_that_are_all_right_still_have_a_width() -> None:
    found = group_estimate([mean_estimate([1.0] * 20)] * 2, [20, 20], True)
    below = 1 - wilson_interval(20, 20)[0]
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1 - math.sqrt(0.5) * below)


def test_the_interval_of_a_group_covers() -> None:
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(400):
        leaves = [mean_estimate(rng.binomial(1, p, 40).astype(float)) for p in (0.05, 0.5, 0.9)]
        found = group_estimate(leaves, [40, 40, 40], False)
        hits += found.low <= (0.05 + 0.5 + 0.9) / 3 <= found.high
    assert 0.92 < hits / 400 < 0.99


def test_a_leaf_of_unknown_error_leaves_the_value_alone() -> None:
    found = group_estimate([leaf(0.2), Estimate(1.0, None, None, None, 1, "t")], [9, 1], True)
    assert found == Estimate(pytest.approx(0.28), None, None, None, 10, "group")


def test_no_leaf_gives_nulls() -> None:
    assert group_estimate([], [], True) == Estimate(None, None, None, None, 0, "group")


def test_hopeless_perplexities_do_not_overflow() -> None:
    found = group_estimate([leaf(1e200, 1e190), leaf(5.0)], [10, 10], True)
    assert found.value == pytest.approx(5e199)
    assert found.stderr == pytest.approx(5e189)


def test_leaves_of_the_same_documents_err_together() -> None:
    """Three prompts of one task carry no more information than one; another task has independent errors."""
    prompts = [leaf(0.5, 0.1)] * 3
    found = group_estimate(prompts, [10] * 3, False, ["t"] * 3)
    assert (found.stderr, found.low) == pytest.approx((0.1, 0.3))
    found = group_estimate([*prompts, leaf(0.5, 0.1)], [10] * 4, False, ["t", "t", "t", "u"])
    assert found.stderr == pytest.approx(math.hypot(0.075, 0.025))
