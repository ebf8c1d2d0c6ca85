"""Power, effect sizes: closed forms, statsmodels and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from assay.core.errors import DataError
from assay.stats.paired import mcnemar_mid_p, mcnemar_p
from assay.stats.power import (
    detectable_outcomes,
    documents_needed,
    min_documents,
    minimum_detectable_effect,
    odds_ratio,
    odds_ratio_interval,
    outcomes_needed,
)


@pytest.mark.parametrize(("n", "points"), [(100, 12.5), (200, 8.9), (500, 5.6), (1000, 4.0), (1319, 3.4), (14042, 1.1)])
def test_the_smallest_difference_seen_of_common_benchmarks(n: int, points: float) -> None:
    """(1.95996 + 0.84162) · √(.2/n), in points."""
    assert 100 * (minimum_detectable_effect(0.2, n) or 0) == pytest.approx(points, abs=0.06)


def test_the_documents_needed_are_those_with_which_the_effect_is_seen() -> None:
    assert documents_needed(0.05, 0.2) == math.ceil(2.8015852**2 * 0.2 / 0.0025)
    for n in (10, 137, 5000):
        effect = minimum_detectable_effect(0.3, n, power=0.9, alpha=0.01)
        assert effect is not None
        assert documents_needed(effect, 0.3, power=0.9, alpha=0.01) == n


def test_power_agrees_with_statsmodels() -> None:
    power = pytest.importorskip("statsmodels.stats.power")
    effect = minimum_detectable_effect(0.25, 400)
    assert effect is not None
    assert power.normal_power(effect / 0.5, 400, 0.05) == pytest.approx(0.8, abs=1e-6)


def test_no_documents_and_no_effect_have_no_answer() -> None:
    assert minimum_detectable_effect(0.2, 0) is None
    assert documents_needed(0.0, 0.2) is None
    assert documents_needed(0.1, 0.0) == 1


@pytest.mark.parametrize(
    ("variance", "power", "alpha"), [(-1, 0.8, 0.05), (math.nan, 0.8, 0.05), (1, 1, 0.05), (1, 0.8, 0)]
)
def test_what_cannot_be_is_refused(variance: float, power: float, alpha: float) -> None:
    with pytest.raises(DataError):
        minimum_detectable_effect(variance, 10, power, alpha)


def test_a_test_has_the_power_that_was_requested() -> None:
    n = documents_needed(0.1, 0.25)
    assert n is not None
    drawn = np.random.default_rng(1).normal(0.1, 0.5, size=(4000, n))
    p = scipy.stats.ttest_1samp(drawn, 0, axis=1).pvalue
    assert np.mean(p < 0.05) == pytest.approx(0.8, abs=0.02)


def test_odds_ratios_by_hand() -> None:
    """12 wins, 4 losses: three wins per loss; Clopper and Pearson's .4762 to .9273."""
    ends = scipy.stats.binomtest(12, 16).proportion_ci(0.95, method="exact")
    assert odds_ratio(12, 4) == 3.0
    expected = ends.low / (1 - ends.low), ends.high / (1 - ends.high)
    assert odds_ratio_interval(12, 4, 0.95) == pytest.approx(expected)


def test_odds_ratios_without_losses_and_without_either() -> None:
    assert (odds_ratio(5, 0), odds_ratio_interval(5, 0, 0.95)[1]) == (math.inf, math.inf)
    assert odds_ratio(0, 5) == 0.0 and odds_ratio(0, 0) is None


@pytest.mark.parametrize("is_mid_p", [False, True])
def test_the_interval_of_an_odds_ratio_leaves_1_out_exactly_when_mcnemar_rejects(is_mid_p: bool) -> None:
    test = mcnemar_mid_p if is_mid_p else mcnemar_p
    for wins in range(1, 25):
        for losses in range(25):
            low, high = odds_ratio_interval(wins, losses, 0.95, is_mid_p)
            assert (test(wins, losses) < 0.05) == (not low <= 1 <= high)


@pytest.mark.parametrize(
    "discordance,difference", [(0.5, 0.5), (0.9, 0.9), (0.3, 0.1), (0.1, 0.05), (0.4, 0.2), (0.008, 0.008)]
)
def test_mcnemar_has_the_power_that_was_requested(discordance: float, difference: float) -> None:
    """Summed over all tables: 79 % or more with the reported number of documents."""
    n = outcomes_needed(difference, discordance)
    assert n is not None
    share, found = (discordance + difference) / 2 / discordance, 0.0
    for count, weight in enumerate(scipy.stats.binom.pmf(np.arange(n + 1), n, discordance)):
        rarer = [few for few in range(count // 2 + 1) if mcnemar_p(few, count - few) < 0.05] if weight > 1e-9 else []
        if rarer:
            tails = scipy.stats.binom.cdf(max(rarer), count, share) + scipy.stats.binom.sf(
                count - max(rarer) - 1, count, share
            )
            found += weight * tails
    assert 0.785 < found < 0.91


def test_the_smallest_difference_of_outcomes_is_the_one_that_n_documents_show() -> None:
    least = detectable_outcomes(0.2, 500)
    assert least is not None and outcomes_needed(least, 0.2) == 500
    assert (outcomes_needed(least - 1e-3, 0.2) or 0) > 500
    assert detectable_outcomes(0.5, 5) is None
    assert (outcomes_needed(0.0, 0.2), outcomes_needed(-0.1, 0.2)) == (None, outcomes_needed(0.1, 0.2))


def test_five_documents_cannot_show_a_difference_and_six_can() -> None:
    assert 2 * 0.5**5 > 0.05 > 2 * 0.5**6
    assert [min_documents(alpha) for alpha in (0.05, 0.0625, 0.01)] == [6, 6, 8]
