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

from assay.core.errors import DataError
from assay.stats.equivalence import equivalence, non_inferiority, score_interval, score_statistic


def outcomes(both: int, wins: int, losses: int, neither: int) -> tuple[list[float], list[float]]:
    """Two systems' 0/1 values with these counts."""
    return (
        [1.0] * (both + wins) + [0.0] * (losses + neither),
        [1.0] * both + [0.0] * wins + [1.0] * losses + [0.0] * neither,
    )


def test_measurements_are_tested_as_by_statsmodels() -> None:
    weights = pytest.importorskip("statsmodels.stats.weightstats")
    generator = np.random.default_rng(0)
    a = generator.normal(size=60)
    b = a + generator.normal(0.02, 0.2, 60)
    expected, *_ = weights.ttost_paired(a, b, -0.1, 0.1)
    found = equivalence(a.tolist(), b.tolist(), 0.1)
    assert found.p == pytest.approx(expected)
    ends = scipy.stats.ttest_rel(a, b).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    one_sided = scipy.stats.ttest_1samp(a - b + 0.1, 0, alternative="greater")
    assert non_inferiority(a.tolist(), b.tolist(), 0.1).p == pytest.approx(one_sided.pvalue)


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
    for table in [(300, 10, 12, 100), (300, 30, 12, 100), (20, 1, 1, 20), (50, 0, 0, 50)]:
        for margin in (0.02, 0.04, 0.08):
            found = equivalence(*outcomes(*table), margin)
            assert found.method == "score" and found.low is not None and found.high is not None
            assert found.holds == (-margin <= found.low and found.high <= margin)
            assert non_inferiority(*outcomes(*table), margin).holds == (-margin <= found.low)


def test_few_documents_show_no_equivalence() -> None:
    assert equivalence([], [], 0.1).p is None
    one = equivalence([1], [0], 0.1)
    assert (one.holds, one.p, one.difference) == (False, None, 1.0)
    assert not equivalence([1, 0], [1, 0], 0.1).holds


def test_equal_differences_fall_back_on_their_signs() -> None:
    same = [0.3, 0.7, 0.5, 0.9]
    assert (equivalence(same, same, 0.1).p, equivalence(same, same, 0.1).method) == (1 / 16, "sign")
    assert equivalence(same * 2, same * 2, 0.1).holds
    assert equivalence([value + 0.5 for value in same], same, 0.1).p == 1.0


@pytest.mark.parametrize("margin", [0.0, -0.1, math.nan, math.inf])
def test_a_margin_is_needed(margin: float) -> None:
    with pytest.raises(DataError, match="margin"):
        equivalence([1, 0], [1, 1], margin)


def test_a_margin_of_one_or_more_always_holds_for_outcomes() -> None:
    assert equivalence([1, 1, 1], [0, 0, 0], 1.5).p == 0.0


def test_systems_a_margin_apart_pass_in_no_more_than_5_percent() -> None:
    """True difference .06 = margin, 20 % discordant, 300 documents; also 90 % coverage of the interval."""
    drawn = np.random.default_rng(2).multinomial(300, [0.5, 0.13, 0.07, 0.3], size=2000)
    tests = {}
    for wins, losses in {(int(row[1]), int(row[2])) for row in drawn}:
        tests[wins, losses] = equivalence(*outcomes(150, wins, losses, 150 - wins - losses), 0.06)
    found = [tests[int(row[1]), int(row[2])] for row in drawn]
    assert np.mean([item.holds for item in found]) <= 0.05 + 0.015
    covered = [item.low <= 0.06 <= item.high for item in found if item.low is not None and item.high is not None]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)
