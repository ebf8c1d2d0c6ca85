"""Correlations against scipy, and p-values of few pairs by hand."""

from __future__ import annotations

import math
import sys

import pytest
import scipy.stats

from assay.core.errors import DataError
from assay.stats.correlation import Correlation, kendall, spearman

LONG = [0.31, 0.52, 0.47, 0.80, 0.66, 0.12, 0.90, 0.43, 0.71, 0.58]
OTHER = [0.25, 0.60, 0.41, 0.62, 0.70, 0.20, 0.85, 0.30, 0.88, 0.55]


def test_many_pairs_agree_with_scipy() -> None:
    rho, tau = scipy.stats.spearmanr(LONG, OTHER), scipy.stats.kendalltau(LONG, OTHER)
    assert spearman(LONG, OTHER) == Correlation(pytest.approx(rho.statistic), pytest.approx(rho.pvalue), 10, "t")
    assert kendall(LONG, OTHER) == Correlation(pytest.approx(tau.statistic), pytest.approx(tau.pvalue), 10, "exact")


def test_ties_among_many_pairs_agree_with_scipy() -> None:
    tied = [round(value, 1) for value in LONG]
    tau = scipy.stats.kendalltau(tied, OTHER)
    assert kendall(tied, OTHER) == Correlation(pytest.approx(tau.statistic), pytest.approx(tau.pvalue), 10, "normal")


def test_a_perfect_order_of_three_is_as_extreme_as_one_in_three() -> None:
    """Of the six orders two are perfect: the same and the opposite."""
    assert spearman([1, 2, 3], [10, 20, 30]) == Correlation(pytest.approx(1.0), pytest.approx(2 / 6), 3, "permutation")
    assert kendall([1, 2, 3], [10, 20, 30]) == Correlation(pytest.approx(1.0), pytest.approx(2 / 6), 3, "exact")


def test_one_swap_among_four_by_hand() -> None:
    """ρ = 1 − 6·2/(4·15) = 0.8; |ρ| ≥ 0.8 has 1 + 3 orders at each end of 24. τ = (5 − 1)/6, also 1 + 3 at each end."""
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]) == Correlation(
        pytest.approx(0.8), pytest.approx(8 / 24), 4, "permutation"
    )
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == Correlation(pytest.approx(4 / 6), pytest.approx(8 / 24), 4, "exact")


def test_a_tie_among_three_by_hand() -> None:
    """Pairs: one tie in the first list, two in order. τ-b = 2/√(2·3); 4 of 6 orders keep the tied pair's sum at ±2."""
    found = kendall([1, 1, 2], [1, 2, 3])
    assert found == Correlation(pytest.approx(2 / 6**0.5), pytest.approx(4 / 6), 3, "permutation")


@pytest.mark.parametrize("pairs", [([], []), ([1.0, 2.0], [1.0, 2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])])
def test_too_few_or_constant_values_say_nothing(pairs: tuple[list[float], list[float]]) -> None:
    nothing = Correlation(None, None, len(pairs[0]), "none")
    assert (spearman(*pairs), kendall(*pairs)) == (nothing, nothing)


def test_lists_of_different_length_are_an_error() -> None:
    with pytest.raises(DataError, match="lists of 3 and 2 values"):
        spearman([1, 2, 3], [1, 2])


def test_values_that_are_no_numbers_are_an_error() -> None:
    """A NaN would be the largest rank, and its p would be 0."""
    for measure in (spearman, kendall):
        with pytest.raises(DataError, match="not finite numbers"):
            measure([1, 2, float("nan")], [1, 2, 3])


@pytest.mark.parametrize("n", [8, 10, 40])
def test_no_p_is_below_the_share_of_the_two_perfect_orders(n: int) -> None:
    """Student's t of a perfect ρ is infinite, and its tail 0."""
    assert spearman(range(n), range(n)).p == pytest.approx(2 / math.factorial(n), rel=1e-9)


def test_no_p_is_0_however_many_pairs() -> None:
    """The share of the perfect orders of 700 is too small for a float, and so is the tail of τ of 1."""
    assert spearman(range(700), range(700)).p == kendall(range(700), range(700)).p == sys.float_info.min
