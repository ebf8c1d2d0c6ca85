"""Equivalence within a margin: statsmodels, a likelihood maximised by search, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.stats.equivalence import Tails, measurement_tails, outcome_tails, score_interval, score_statistic


def not_within(found: Tails | None, margin: float) -> float:
    """The p of two one-sided tests: that the true difference is the margin or more, on either side."""
    assert found is not None
    return max(found.is_higher(-margin), found.is_lower(margin))


def test_measurements_are_tested_as_by_statsmodels() -> None:
    weights = pytest.importorskip("statsmodels.stats.weightstats")
    generator = np.random.default_rng(0)
    a = generator.normal(size=60)
    b = a + generator.normal(0.02, 0.2, 60)
    expected, *_ = weights.ttost_paired(a, b, -0.1, 0.1)
    found = measurement_tails((a - b).mean(), (a - b).std(ddof=1) / math.sqrt(60), 60)
    assert found is not None and not_within(found, 0.1) == pytest.approx(expected)
    ends = scipy.stats.ttest_rel(a, b).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    one_sided = scipy.stats.ttest_1samp(a - b + 0.1, 0, alternative="greater")
    assert found.is_higher(-0.1) == pytest.approx(one_sided.pvalue)


@pytest.mark.parametrize(
    ("wins", "losses", "n", "delta"), [(6, 16, 161, -0.1), (12, 2, 50, 0.05), (5, 0, 41, 0.2), (0, 0, 30, 0.1)]
)
def test_the_score_statistic_uses_the_most_likely_shares(wins: int, losses: int, n: int, delta: float) -> None:
    """The share q of losses under delta, found by search instead of the quadratic formula."""

    def unlikelihood(q: float) -> float:
        return -float(
            scipy.special.xlogy(wins, q + delta)
            + scipy.special.xlogy(losses, q)
            + scipy.special.xlogy(n - wins - losses, 1 - 2 * q - delta)
        )

    ends = (max(0.0, -delta), (1 - delta) / 2)
    q = scipy.optimize.minimize_scalar(unlikelihood, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
    expected = (wins - losses - n * delta) / math.sqrt(n * (2 * q + delta - delta**2))
    assert score_statistic(wins, losses, n, delta) == pytest.approx(expected, rel=1e-4)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
def test_the_score_interval_ends_where_the_statistic_is_the_quantile(wins: int, losses: int, rest: int) -> None:
    n = wins + losses + rest
    if n == 0:
        return
    low, high = score_interval(wins, losses, n, 0.9)
    assert -1 <= low <= (wins - losses) / n <= high <= 1
    if low > -1 + 1e-9:
        assert score_statistic(wins, losses, n, low) == pytest.approx(1.6448536, abs=1e-4)
    if high < 1 - 1e-9:
        assert score_statistic(wins, losses, n, high) == pytest.approx(-1.6448536, abs=1e-4)
    back = score_interval(losses, wins, n, 0.9)
    assert back == pytest.approx((-high, -low), abs=1e-8)


def test_without_discordance_the_interval_is_that_of_the_rule() -> None:
    """No discordant document: z²/(n + z²) on either side, by solving Tango's equation by hand."""
    z = 1.959963985
    assert score_interval(0, 0, 50) == pytest.approx((-z * z / (50 + z * z), z * z / (50 + z * z)))


def test_outcomes_are_equivalent_exactly_when_the_interval_lies_inside() -> None:
    for wins, losses, n in [(10, 12, 422), (30, 12, 442), (1, 1, 42), (0, 0, 100)]:
        found = outcome_tails(wins, losses, n)
        assert found is not None and found.method == "score"
        for margin in (0.02, 0.04, 0.08):
            assert (not_within(found, margin) <= 0.05) == (-margin <= found.low and found.high <= margin)
            assert (found.is_higher(-margin) <= 0.05) == (-margin <= found.low)


def test_few_documents_show_no_equivalence() -> None:
    assert outcome_tails(0, 0, 0) is None and outcome_tails(1, 0, 1) is None
    assert measurement_tails(0.3, 0.0, 1) is None
    assert not_within(outcome_tails(0, 0, 2), 0.1) > 0.05


def test_equal_differences_fall_back_on_their_signs() -> None:
    """Were the median beyond the margin, each of four documents would lie inside by a chance of ½ at most: 1/16."""
    found = measurement_tails(0.02, 0.0, 4)
    assert found is not None and found.method == "sign"
    assert [found.is_higher(true) for true in (-0.1, 0.5)] == [found.is_lower(-true) for true in (-0.1, 0.5)]
    assert (found.is_higher(-0.1), found.is_higher(0.5)) == (1 / 16, 1.0)
    assert not_within(measurement_tails(0.0, 0.0, 8), 0.1) == 1 / 256
    assert not_within(measurement_tails(0.5, 0.0, 4), 0.1) == 1.0


def test_a_margin_of_one_or_more_always_holds_for_outcomes() -> None:
    assert not_within(outcome_tails(3, 0, 3), 1.5) == 0.0


def test_systems_a_margin_apart_pass_in_no_more_than_5_percent() -> None:
    """True difference .06 = margin, 20 % discordant, 300 documents; also 90 % coverage of the interval."""
    drawn = np.random.default_rng(2).multinomial(300, [0.5, 0.13, 0.07, 0.3], size=2000)
    tests = {}
    for wins, losses in {(int(row[1]), int(row[2])) for row in drawn}:
        tests[wins, losses] = outcome_tails(wins, losses, 300)
    found = [tests[int(row[1]), int(row[2])] for row in drawn]
    assert np.mean([not_within(item, 0.06) <= 0.05 for item in found]) <= 0.05 + 0.015
    covered = [item.low <= 0.06 <= item.high for item in found if item is not None]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)
