"""pass@k and related metrics: every set of k draws counted, known examples, simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.stats.pass_at_k import (
    draws_estimate,
    g_pass_at_k,
    majority_at_k,
    mean_at_k,
    pass_at_k,
    pass_hat_k,
)


def stream() -> np.random.Generator:
    return np.random.default_rng(1)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_passes_are_shares_of_all_sets_of_k_draws(marks: list[bool], k: int, share: float) -> None:
    n, right = len(marks), sum(marks)
    if k > n:
        assert (pass_at_k(n, right, k), pass_hat_k(n, right, k), g_pass_at_k(n, right, k, share)) == (None, None, None)
        return
    sets = [sum(chosen) for chosen in combinations(marks, k)]
    assert pass_at_k(n, right, k) == pytest.approx(np.mean([hits > 0 for hits in sets]))
    assert pass_hat_k(n, right, k) == pytest.approx(np.mean([hits == k for hits in sets]))
    expected = np.mean([hits >= max(1, share * k) for hits in sets])
    assert g_pass_at_k(n, right, k, share) == pytest.approx(expected)


def test_g_pass_is_the_hypergeometric_tail() -> None:
    assert g_pass_at_k(40, 25, 10, 0.6) == pytest.approx(scipy.stats.hypergeom.sf(5, 40, 25, 10))
    # In floats .07 · 100 is more than 7.
    assert g_pass_at_k(200, 20, 100, 0.07) == pytest.approx(scipy.stats.hypergeom.sf(6, 200, 20, 100))


def test_passes_of_many_draws_stay_exact() -> None:
    assert pass_at_k(1000, 1, 500) == pytest.approx(0.5)
    assert pass_hat_k(1000, 999, 500) == pytest.approx(0.5)
    assert pass_at_k(5, 0, 5) == 0.0


def test_too_few_draws_never_pass() -> None:
    assert pass_at_k(4, 4, 5) is None
    assert mean_at_k([1.0, 1.0], 3) is None
    assert majority_at_k(["a"], [True], 2, stream()) is None


@pytest.mark.parametrize(("n", "right", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_counts_that_cannot_be_are_refused(n: int, right: int, k: int) -> None:
    with pytest.raises(DataError):
        pass_at_k(n, right, k)


def test_the_mean_of_k_draws_is_expected_to_be_that_of_all() -> None:
    assert mean_at_k([1.0, 0.0, 0.5, 0.5], 2) == 0.5


def counted_majority(answers: list[str | None], right: str, k: int) -> float:
    """Every set of k draws, ties shared."""
    shares = []
    for chosen in combinations(answers, k):
        votes = [vote for vote in chosen if vote is not None]
        top = max((votes.count(vote) for vote in votes), default=0)
        winners = {vote for vote in votes if votes.count(vote) == top}
        shares.append((right in winners) / len(winners) if winners else 0.0)
    return float(np.mean(shares))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9), st.integers(1, 9))
def test_majorities_are_counted_over_all_sets_of_k_draws(answers: list[str | None], k: int) -> None:
    found = majority_at_k(answers, [answer == "a" for answer in answers], k, stream())
    if k > len(answers):
        assert found is None
    else:
        assert found == pytest.approx(counted_majority(answers, "a", k))


def test_several_right_answers_share_their_wins() -> None:
    """Draws 1, 1.0-like texts and a wrong one: all three tie, two of them right."""
    assert majority_at_k(["1/2", "0.5", "3"], [True, True, False], 3, stream()) == pytest.approx(2 / 3)


def test_majorities_of_many_draws_are_drawn_and_agree_with_counting() -> None:
    answers = ["a"] * 20 + ["b"] * 18 + ["c"] * 10 + [None] * 12
    right = [answer == "a" for answer in answers]
    exact = majority_at_k(answers, right, 40, stream())
    many = majority_at_k(answers * 8, right * 8, 40, stream())
    assert exact is not None and many is not None
    assert many == majority_at_k(answers * 8, right * 8, 40, stream())
    law = np.random.default_rng(2).multivariate_hypergeometric([160, 144, 80, 96], 40, size=200_000)[:, :3]
    tops = law == law.max(axis=1, keepdims=True)
    assert many == pytest.approx(np.mean(tops[:, 0] / tops.sum(axis=1)), abs=0.02)


def test_where_no_draw_votes_the_majority_is_wrong() -> None:
    assert majority_at_k([None, None], [False, False], 2, stream()) == 0.0
    assert majority_at_k([None] * 400, [False] * 400, 300, stream()) == 0.0
    lone = majority_at_k(["a", *[None] * 399], [True, *[False] * 399], 100, stream())
    assert lone == pytest.approx(0.25, abs=0.015)  # drawn with one set in four


def test_an_answer_is_right_or_wrong() -> None:
    with pytest.raises(DataError, match="both right and wrong"):
        majority_at_k(["a", "a"], [True, False], 1, stream())
    with pytest.raises(DataError, match="one mark"):
        majority_at_k(["a", "a"], [True], 1, stream())


def test_documents_with_too_few_draws_are_left_out_and_counted() -> None:
    found = draws_estimate([0.5, None, 1.0, 0.0])
    assert (found.estimate.value, found.estimate.n, found.left_out) == (0.5, 3, 1)
    assert found.estimate.stderr == pytest.approx(0.5 / math.sqrt(3))
    assert draws_estimate([None]).estimate.value is None


def test_the_estimate_of_pass_at_k_has_no_bias_and_its_error_is_right() -> None:
    """Chances from a uniform law: pass@3 is 1 − E(1−p)³ = 3/4 exactly.

    The values are skewed (−1.2), so that Student's interval of 100 of them covers 94.5 % (20,000 runs), not 95 %; the
    tolerance is four simulation errors of 2,000 runs.
    """
    generator = np.random.default_rng(4)
    table = {c: pass_at_k(8, c, 3) for c in range(9)}
    found = []
    for _ in range(2000):
        right = generator.binomial(8, generator.random(100))
        found.append(draws_estimate([table[int(c)] for c in right]).estimate)
    values = [item.value or 0.0 for item in found]
    assert np.mean(values) == pytest.approx(0.75, abs=0.003)
    assert np.mean([item.stderr or 0.0 for item in found]) == pytest.approx(np.std(values), rel=0.07)
    covered = [(item.low or 0.0) <= 0.75 <= (item.high or 0.0) for item in found]
    assert np.mean(covered) == pytest.approx(0.945, abs=0.02)
