"""Means, proportions and ratios against closed forms, scipy and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.core.scores import Estimate
from assay.stats.means import (
    bits_estimate,
    mean_estimate,
    normal_quantile,
    perplexity_estimate,
    ratio_estimate,
    ratio_perplexity_estimate,
    t_quantile,
    wilson_interval,
)

NUMBERS = st.floats(-1e3, 1e3)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(counts: tuple[int, int]) -> None:
    successes, n = counts
    expected = scipy.stats.binomtest(successes, n).proportion_ci(0.95, "wilson")
    assert wilson_interval(successes, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_takes_another_level() -> None:
    expected = scipy.stats.binomtest(7, 30).proportion_ci(0.8, "wilson")
    assert wilson_interval(7, 30, 0.8) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.97])
def test_wilson_covers_as_often_as_it_says(p: float) -> None:
    """Exact coverage at n = 50 by summing the binomial; the normal interval has 64 % at p = 0.02."""
    n = 50
    inside = [k for k in range(n + 1) if wilson_interval(k, n)[0] <= p <= wilson_interval(k, n)[1]]
    assert 0.91 < scipy.stats.binom.pmf(inside, n, p).sum() < 0.985


def test_wilson_covers_in_simulation() -> None:
    draws = np.random.default_rng(5).binomial(120, 0.3, size=2000)
    ends = [wilson_interval(float(k), 120) for k in draws]
    assert np.mean([low <= 0.3 <= high for low, high in ends]) == pytest.approx(0.95, abs=0.015)


def test_quantiles_agree_with_scipy() -> None:
    assert normal_quantile() == pytest.approx(scipy.stats.norm.ppf(0.975), abs=1e-12)
    assert t_quantile(4) == pytest.approx(scipy.stats.t.ppf(0.975, 4), abs=1e-10)


@given(st.lists(NUMBERS, min_size=2, max_size=40).filter(lambda values: np.std(values) > 1e-3))
def test_a_mean_has_students_interval(values: list[float]) -> None:
    values = [value + 2e3 for value in values]  # beyond 0 to 1, where shares lie
    found = mean_estimate([*values, 0.5])
    error = scipy.stats.sem([*values, 0.5])
    low, high = scipy.stats.t.interval(0.95, len(values), np.mean([*values, 0.5]), error)
    assert (found.value, found.stderr) == pytest.approx((np.mean([*values, 0.5]), error), abs=1e-9)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)
    assert (found.method, found.n) == ("t", len(values) + 1)


def test_zeros_and_ones_are_a_proportion() -> None:
    found = mean_estimate([0, 1, 1, 0, 1])
    assert (found.value, found.method, found.n) == (0.6, "wilson", 5)
    assert (found.low, found.high) == wilson_interval(3, 5)


@pytest.mark.parametrize("values", [[0.2, 0.4], [0.0] * 9 + [0.7], [0.5, 1.0, 0.25, 1.0, 1.0]])
def test_values_from_0_to_1_have_wilsons_interval_of_as_many_outcomes_as_have_their_error(values: list[float]) -> None:
    """By statsmodels, which takes a broken number of outcomes, at the level whose normal quantile is Student's."""
    proportions = pytest.importorskip("statsmodels.stats.proportion")
    found, mean = mean_estimate(values), float(np.mean(values))
    worth = mean * (1 - mean) / scipy.stats.sem(values) ** 2
    alpha = 2 * scipy.stats.norm.sf(scipy.stats.t.ppf(0.975, len(values) - 1))
    assert (found.low, found.high) == pytest.approx(
        proportions.proportion_confint(mean * worth, worth, alpha, method="wilson")
    )
    assert found.method == "wilson-t"


def test_a_mean_that_rounds_to_the_end_is_not_a_crash() -> None:
    found = mean_estimate([1.0, 1.0, 1.0, 1 - 1e-16])
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_the_mean_error_is_lm_evals() -> None:
    assert mean_estimate([0, 1, 1, 0, 1]).stderr == pytest.approx(0.24494897427831783, abs=1e-15)


def test_all_right_is_not_certainty() -> None:
    found = mean_estimate([1.0] * 20)
    assert found.low is not None and 0.8 < found.low < 0.9
    assert (found.value, found.high) == (1.0, 1.0)


EMPTY = [
    mean_estimate([]),
    perplexity_estimate([]),
    ratio_estimate([], []),
    ratio_perplexity_estimate([], []),
    bits_estimate([], []),
    ratio_estimate([1.0], [0.0]),
]


@pytest.mark.parametrize("found", EMPTY, ids=range(len(EMPTY)))
def test_nothing_gives_nulls_never_a_zero(found: Estimate) -> None:
    assert (found.value, found.stderr, found.low, found.high, found.n) == (None, None, None, None, 0)


def test_one_value_has_no_error() -> None:
    assert mean_estimate([0.7]) == Estimate(0.7, None, None, None, 1, "t")
    assert ratio_estimate([3.0], [4.0]) == Estimate(0.75, None, None, None, 1, "delta")
    assert perplexity_estimate([-2.0]) == Estimate(math.exp(2), None, None, None, 1, "log-t")
    assert bits_estimate([-2.0], [1]) == Estimate(2 / math.log(2), None, None, None, 1, "delta")


def test_one_proportion_has_an_interval_but_no_error() -> None:
    found = mean_estimate([1])
    assert (found.value, found.stderr, found.high) == (1.0, None, 1.0)
    assert found.low == pytest.approx(0.2065, abs=1e-4)


def test_two_values_have_a_wide_interval() -> None:
    found = mean_estimate([0.0, 3.0])
    assert (found.value, found.stderr) == pytest.approx((1.5, 1.5))
    assert found.high == pytest.approx(1.5 + 12.706204736 * 1.5, abs=1e-6)


def test_perplexity_is_the_exponential_of_the_mean() -> None:
    found, inner = perplexity_estimate([-2.0, -2.4, -3.1]), mean_estimate([2.0, 2.4, 3.1])
    assert None not in (inner.value, inner.stderr, inner.low, inner.high)
    assert found.value == pytest.approx(math.exp(2.5))
    assert found.stderr == pytest.approx(math.exp(2.5) * inner.stderr)
    assert (found.low, found.high) == pytest.approx((math.exp(inner.low), math.exp(inner.high)))


def test_log_probabilities_of_one_and_zero_are_no_proportion() -> None:
    assert perplexity_estimate([-1.0, 0.0, -1.0]).method == "log-t"


def test_a_hopeless_likelihood_is_infinite_not_a_crash() -> None:
    found = perplexity_estimate([-1e5, -1e5])
    assert (found.value, found.stderr) == (math.inf, None)
    assert ratio_perplexity_estimate([-5e3, -6e3], [1, 1]) == Estimate(math.inf, None, None, None, 2, "log-delta")


def test_an_infinite_value_has_neither_error_nor_interval() -> None:
    logs = [-math.inf, -1.0, -2.0]
    for found in (
        mean_estimate([math.inf, 1.0, 2.0]),
        perplexity_estimate(logs),
        ratio_perplexity_estimate(logs, [1, 2, 3]),
        bits_estimate(logs, [1, 2, 3]),
    ):
        assert (found.value, found.stderr, found.low, found.high, found.n) == (math.inf, None, None, None, 3)


@pytest.mark.parametrize("values", [[math.inf, -math.inf, 1.0], [math.nan, 1.0, 2.0]])
def test_an_undefined_mean_is_null(values: list[float]) -> None:
    for found in (mean_estimate(values), perplexity_estimate(values), bits_estimate(values, [1, 1, 1])):
        assert (found.value, found.stderr, found.low, found.n) == (None, None, None, 3)


def test_no_interval_says_that_a_text_may_be_likelier_than_1() -> None:
    logs, weights = [-1.0, -30.0], [10, 12]
    assert (perplexity_estimate(logs).low, ratio_perplexity_estimate(logs, weights).low) == (1.0, 1.0)
    assert bits_estimate(logs, weights).low == 0.0
    densities = bits_estimate([1.0, -30.0], weights)  # logarithms of densities may be above 0
    assert densities.low is not None and densities.low < 0


def test_a_ratio_of_equal_weights_is_the_mean() -> None:
    ratio, mean = ratio_estimate([2.0, 5.0, 9.5], [1, 1, 1]), mean_estimate([2.0, 5.0, 9.5])
    assert (ratio.value, ratio.stderr) == pytest.approx((mean.value, mean.stderr))
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high))


def test_the_delta_method_agrees_with_a_bootstrap() -> None:
    rng = np.random.default_rng(3)
    weights = rng.integers(5, 60, 300)
    totals = -2.5 * weights + rng.normal(0, 12, 300)
    places = rng.integers(0, 300, size=(4000, 300))
    resampled = totals[places].sum(axis=1) / weights[places].sum(axis=1)
    assert ratio_estimate(totals, weights).stderr == pytest.approx(np.std(resampled, ddof=1), rel=0.05)


def test_per_word_perplexity_and_bits_are_one_ratio_in_two_dresses() -> None:
    totals, weights = [-12.0, -30.0, -7.0], [5, 11, 2]
    ratio, bits = ratio_estimate(totals, weights), bits_estimate(totals, weights)
    found = ratio_perplexity_estimate(totals, weights)
    assert found.value == pytest.approx(math.exp(49 / 18))
    assert (found.low, found.high) == pytest.approx((math.exp(-ratio.high), math.exp(-ratio.low)))
    assert bits.value == pytest.approx(49 / 18 / math.log(2))
    assert bits.stderr == pytest.approx(ratio.stderr / math.log(2))
    assert bits.low < bits.value < bits.high


@pytest.mark.parametrize("scale", [1e160, 1e307])
def test_values_whose_squares_or_sums_are_beyond_all_numbers(scale: float) -> None:
    small, large = mean_estimate([1.0, 4.0, 7.0, 9.0]), mean_estimate([scale, 4 * scale, 7 * scale, 9 * scale])
    assert (large.value, large.stderr) == (pytest.approx(small.value * scale), pytest.approx(small.stderr * scale))
