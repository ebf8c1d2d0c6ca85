"""Intervals for proportions: closed forms, and coverage by exact enumeration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from assay.stats.means import exact_interval, wilson_interval

Interval = Callable[[int, int], tuple[float, float]]
GRID = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]


def coverages(interval: Interval, n: int, shares: list[float]) -> NDArray[np.float64]:
    """Probability that the interval holds the true share, summed over all numbers of successes."""
    successes = np.arange(n + 1)
    low, high = np.array([interval(int(k), n) for k in successes]).T
    weights = scipy.stats.binom.pmf(successes[:, None], n, np.array(shares))
    inside = (low[:, None] <= np.array(shares)) & (np.array(shares) <= high[:, None])
    return np.asarray((weights * inside).sum(axis=0))


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (3, 10), (950, 1000), (1, 1)])
def test_the_exact_interval_is_scipys(k: int, n: int) -> None:
    expected = scipy.stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    assert exact_interval(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_wilson_covers_95_percent_on_average(n: int) -> None:
    assert coverages(wilson_interval, n, GRID).mean() == pytest.approx(0.95, abs=0.01)


def test_wilson_misses_93_to_97_percent_at_two_points_of_thirty_documents() -> None:
    """.9742 at p = .1 and .9298 at p = .3: the set of 31 outcomes is too coarse."""
    assert coverages(wilson_interval, 30, [0.1, 0.3]) == pytest.approx([0.9742, 0.9298], abs=5e-5)
    assert coverages(wilson_interval, 100, GRID).min() >= 0.93
    assert coverages(wilson_interval, 1000, GRID).min() >= 0.94


def test_wilson_of_thirty_documents_covers_92_percent_at_least_between_them() -> None:
    found = coverages(wilson_interval, 30, np.linspace(0.02, 0.98, 1921).tolist())
    assert (found.min(), found.max()) == pytest.approx((0.9164, 0.98), abs=5e-4)


@pytest.mark.parametrize("n", [5, 30, 100])
def test_the_exact_interval_never_covers_less_than_it_says(n: int) -> None:
    assert coverages(exact_interval, n, np.linspace(0.005, 0.995, 199).tolist()).min() >= 0.95


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_stated_intervals_cover_in_simulated_evaluations(n: int) -> None:
    """2,000 evaluations per share; the band is widened by three simulation errors, 3 · √(.95 · .05 / 2000)."""
    generator, slack = np.random.default_rng(n), 0.0147
    ends = np.array([wilson_interval(k, n) for k in range(n + 1)])
    hits = []
    for share in GRID:
        drawn = ends[generator.binomial(n, share, size=2000)]
        hits.append(np.mean((drawn[:, 0] <= share) & (share <= drawn[:, 1])))
    assert 0.93 - slack <= min(hits) and max(hits) <= 0.97 + slack
    assert np.mean(hits) == pytest.approx(0.95, abs=0.015)
