"""Paired tests against published examples, hand counts, statsmodels and simulation."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.stats.paired import (
    CochranTest,
    ValueWithInterval,
    cochran_q,
    mcnemar_mid_p,
    mcnemar_p,
    mid_p_interval,
    newcombe_interval,
    outcome_interval,
    product_interval,
)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_p(0, 5) == pytest.approx(2 / 2**5)
    assert mcnemar_p(1, 9) == pytest.approx(2 * (1 + 10) / 2**10)
    assert mcnemar_p(4, 4) == 1.0


def test_mcnemar_of_published_tables() -> None:
    """Tubercle media of Armitage and Berry (12 against 2), complete response of Cavo et al. (6 against 16)."""
    assert mcnemar_p(12, 2) == pytest.approx(0.0129, abs=5e-5)
    assert mcnemar_p(6, 16) == pytest.approx(0.052479, abs=5e-7)


def test_mcnemar_without_discordance_is_one() -> None:
    assert mcnemar_p(0, 0) == 1.0


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_agrees_with_statsmodels(wins: int, losses: int) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    if wins + losses:
        expected = tables.mcnemar([[3, wins], [losses, 8]], exact=True).pvalue
        assert mcnemar_p(wins, losses) == pytest.approx(expected, rel=1e-9)


def test_mid_p_mcnemar_by_hand() -> None:
    """Half of the observed split off on either side: 2 · (1 + 10/2)/2¹⁰; an even split is not evidence."""
    assert mcnemar_mid_p(1, 9) == pytest.approx(2 * (1 + 5) / 2**10)
    assert mcnemar_mid_p(0, 5) == mcnemar_mid_p(5, 0) == pytest.approx(1 / 2**5)
    assert (mcnemar_mid_p(4, 4), mcnemar_mid_p(0, 0)) == (pytest.approx(1.0), 1.0)


def test_mid_p_mcnemar_of_published_tables() -> None:
    """Fagerland, Lydersen and Laake's formula: the exact p less the probability of the observed split."""
    for wins, losses in ((12, 2), (6, 16), (100, 140)):
        split = scipy.stats.binom.pmf(wins, wins + losses, 0.5)
        assert mcnemar_mid_p(wins, losses) == pytest.approx(mcnemar_p(wins, losses) - split)


def true_level(test: Callable[[int, int], float], n: int, discordance: float) -> float:
    """Probability to find a difference at 5 % where there is none, summed over all tables."""
    level = 0.0
    for count in range(n + 1):
        wins = np.arange(count + 1)
        found = np.array([test(int(w), count - int(w)) <= 0.05 for w in wins])
        level += scipy.stats.binom.pmf(count, n, discordance) * scipy.stats.binom.pmf(wins, count, 0.5)[found].sum()
    return float(level)


@pytest.mark.parametrize(("n", "discordance"), [(30, 0.5), (50, 0.2), (100, 0.1), (100, 0.3), (200, 0.05)])
def test_mid_p_mcnemar_errs_in_4_to_6_percent_from_ten_discordant_documents_on(n: int, discordance: float) -> None:
    assert 0.04 <= true_level(mcnemar_mid_p, n, discordance) <= 0.06


def test_exact_mcnemar_errs_far_more_rarely_than_it_says() -> None:
    assert true_level(mcnemar_p, 30, 0.3) == pytest.approx(0.0209, abs=5e-5)
    assert true_level(mcnemar_p, 100, 0.1) == pytest.approx(0.0220, abs=5e-5)
    assert true_level(mcnemar_mid_p, 30, 0.1) < 0.01  # three discordant documents cannot tell


@pytest.mark.parametrize(
    ("table", "low", "high", "rounding"),
    [
        ((59, 6, 16, 80), -0.1186, -0.0046, 5e-5),  # Cavo et al., in Fagerland, Lydersen and Laake (2017), chapter 8
        ((36, 12, 2, 0), 0.0569, 0.3404, 5e-5),  # Newcombe (1998), negative correlation; quoted from memory
        ((14, 5, 0, 22), 0.011, 0.226, 5e-4),  # Altman et al. (2000), table 6.2; the ends quoted from memory
    ],
)
def test_newcombe_of_published_tables(
    table: tuple[int, int, int, int], low: float, high: float, rounding: float
) -> None:
    both, wins, losses, _ = table
    assert newcombe_interval(both, wins, losses, sum(table)) == pytest.approx((low, high), abs=rounding)


def test_newcombe_covers_in_simulation() -> None:
    """Shares of the four cells .5, .2, .1, .2; the true difference is .1."""
    draws = np.random.default_rng(4).multinomial(80, [0.5, 0.2, 0.1, 0.2], size=2000)
    ends = [newcombe_interval(int(both), int(wins), int(losses), 80) for both, wins, losses, _ in draws]
    assert np.mean([low <= 0.1 <= high for low, high in ends]) == pytest.approx(0.955, abs=0.015)


def test_cochran_by_hand() -> None:
    """Columns 3, 1, 1 right of 4; rows 2, 2, 1, 0: Q = 2 (3 · 11 − 25) / (3 · 5 − 9) = 8/3."""
    found = cochran_q([[1, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    assert (found.q, found.degrees, found.n) == (pytest.approx(8 / 3), 2, 4)
    assert found.p == pytest.approx(math.exp(-4 / 3))  # chi-square with 2 degrees has the tail exp(−q/2)


@given(st.integers(2, 6).flatmap(lambda k: st.lists(st.lists(st.integers(0, 1), min_size=k, max_size=k), min_size=1)))
def test_cochran_agrees_with_statsmodels(documents: list[list[int]]) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    found = cochran_q([list(column) for column in zip(*documents, strict=True)])
    if any(0 < sum(document) < len(document) for document in documents):
        expected = tables.cochrans_q(np.array(documents))
        assert (found.q, found.p) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)
    else:
        assert (found.q, found.p) == (0.0, 1.0)


def test_cochran_of_nothing_to_compare() -> None:
    assert cochran_q([]) == CochranTest(None, 0, None, 0)
    assert cochran_q([[1, 0]]) == CochranTest(None, 0, None, 2)
    assert cochran_q([[], []]) == CochranTest(None, 1, None, 0)


def test_cochran_wants_outcomes_of_the_same_documents() -> None:
    with pytest.raises(DataError, match="method 2: values other than 0 and 1"):
        cochran_q([[1, 0], [0.5, 0]])
    with pytest.raises(DataError, match="method 2: 1 values; expected 2"):
        cochran_q([[1, 0], [1]])


def test_no_p_of_mcnemar_is_0() -> None:
    """1,100 wins without a loss: 2 in 2^1100, which is too small for a float."""
    assert mcnemar_p(0, 1100) == mcnemar_mid_p(1100, 0) == sys.float_info.min


ALPHAS = (0.3, 0.1, 0.05, 0.01, 0.001)


@pytest.mark.parametrize("is_mid_p", [False, True])
def test_the_interval_of_outcomes_leaves_0_out_exactly_when_mcnemar_rejects(is_mid_p: bool) -> None:
    """Every table of up to 20 documents, at five levels."""
    test = mcnemar_mid_p if is_mid_p else mcnemar_p
    for n in range(2, 21):
        for wins in range(n + 1):
            for losses in range(n + 1 - wins):
                for alpha in ALPHAS:
                    low, high = outcome_interval(wins, losses, n, 1 - alpha, is_mid_p)
                    assert -1 <= low <= (wins - losses) / n <= high <= 1 and low < high
                    assert (test(wins, losses) < alpha) == (not low <= 0 <= high), (n, wins, losses, alpha)


def test_eleven_flips_against_three_are_not_significant_and_their_interval_contains_0() -> None:
    """p = 0.057, where Newcombe's interval was from +0.6 to +15.2 points, on 100 documents."""
    assert newcombe_interval(40, 11, 3, 100)[0] > 0 and mcnemar_p(11, 3) == pytest.approx(0.0574, abs=5e-5)
    assert outcome_interval(11, 3, 100) == pytest.approx((-0.0030, 0.1527), abs=5e-5)
    assert outcome_interval(3, 11, 100) == pytest.approx((-0.1527, 0.0030), abs=5e-5)
    assert outcome_interval(11, 3, 100, is_mid_p=True)[0] > 0 and mcnemar_mid_p(11, 3) < 0.05


def test_outcomes_that_differ_one_way_only_have_the_exact_interval_of_a_share_above() -> None:
    """20 wins of 100 without a loss: Clopper and Pearson's upper end of 20 in 100."""
    low, high = outcome_interval(20, 0, 100)
    assert high == pytest.approx(scipy.stats.binomtest(20, 100).proportion_ci(0.95, method="exact").high)
    assert 0.1 < low < 0.2
    assert outcome_interval(0, 0, 100)[1] == pytest.approx(1 - 0.025 ** (1 / 100))


def exact_coverage(n: int, shares: tuple[float, float], level: float, is_mid_p: bool = False) -> float:
    """The probability that the interval holds the difference of these shares of wins and of losses, over all tables."""
    wins, losses = shares
    found = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            weight = float(scipy.stats.multinomial.pmf([b, c, n - b - c], n, [wins, losses, 1 - wins - losses]))
            if weight > 1e-9:
                low, high = outcome_interval(b, c, n, level, is_mid_p)
                found += weight * (low - 1e-12 <= wins - losses <= high + 1e-12)
    return found


@pytest.mark.parametrize("shares", [(0.05, 0.05), (0.1, 0.02), (0.25, 0.25), (0.4, 0.1), (0.3, 0.0), (0.46, 0.04)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_of_outcomes_covers_at_its_level(shares: tuple[float, float], level: float) -> None:
    assert exact_coverage(30, shares, level) >= level


@pytest.mark.parametrize(("level", "least"), [(0.95, 0.95), (0.99, 0.988), (0.999, 0.998)])
@pytest.mark.parametrize("shares", [(0.98, 0.005), (0.9, 0.05)])
def test_runs_that_differ_nearly_everywhere_are_covered_too(
    shares: tuple[float, float], level: float, least: float
) -> None:
    """The end away from 0 does not stop short of 1, as squares of two reaches do: that covered 95 % at any level."""
    assert exact_coverage(30, shares, level) >= least
    assert outcome_interval(28, 1, 30, 1 - 1e-9)[1] == pytest.approx(1, abs=1e-4)


@given(st.integers(0, 30), st.integers(1, 30))
def test_the_mid_p_interval_ends_where_half_of_the_observed_count_makes_the_tail(successes: int, n: int) -> None:
    successes = min(successes, n)
    low, high = mid_p_interval(successes, n, 0.9)
    law = scipy.stats.binom
    if successes:
        assert law.sf(successes, n, low) + law.pmf(successes, n, low) / 2 == pytest.approx(0.05)
    if successes < n:
        assert law.cdf(successes - 1, n, high) + law.pmf(successes, n, high) / 2 == pytest.approx(0.05)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 2))
def test_a_product_holds_0_where_its_factor_does(
    value: float, below: float, above: float, scale: float, down: float, up: float
) -> None:
    factor = ValueWithInterval(value, value - below, value + above)
    low, high = product_interval(factor, ValueWithInterval(scale, scale * (1 - 0.99 * down), scale + up))
    assert low - 1e-12 <= value * scale <= high + 1e-12
    if min(abs(factor.low), abs(factor.high)) > 1e-9:
        assert (low <= 0 <= high) == (factor.low <= 0 <= factor.high)
