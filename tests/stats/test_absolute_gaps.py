"""Sums of gaps without their signs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from assay.stats.absolute_gaps import absolute_gaps_estimate


def test_gaps_without_their_signs_by_hand() -> None:
    """Parts 1, −1 and 1, 0 and −1, −2 over three documents: gaps 1/3 and −1, together 4/3."""
    parts = np.array([[1.0, -1.0], [1.0, 0.0], [-1.0, -2.0]])
    found = absolute_gaps_estimate(parts, np.ones(3), upper_bound=9)
    assert (found.value, found.n, found.method) == (pytest.approx(4 / 3), 3, "gap-bootstrap")
    weighed = absolute_gaps_estimate(parts, np.array([1.0, 0.0, 1.0]))
    assert weighed.value == pytest.approx(4 / 2)
    assert weighed.low is None  # a resample of the second document alone has no weight
    assert absolute_gaps_estimate(parts[:2], np.ones(2)).low is None
    assert absolute_gaps_estimate(parts, np.zeros(3)).value is None
    assert absolute_gaps_estimate(np.empty((0, 2)), np.empty(0)).n == 0


def test_gaps_that_are_noise_have_an_interval_that_holds_0() -> None:
    """Ten gaps of mean 0 on 100 documents: their sum is near 10 · .8/10 = .8, and percentiles would begin above 1."""
    generator = np.random.default_rng(3)
    found = [
        absolute_gaps_estimate(generator.normal(size=(100, 10)), np.ones(100), seed=k, upper_bound=9) for k in range(60)
    ]
    assert np.mean([estimate.value or 0 for estimate in found]) == pytest.approx(0.8, abs=0.1)
    assert np.mean([estimate.low == 0 for estimate in found]) >= 0.9


def test_gaps_far_from_0_are_bounded_on_either_side() -> None:
    """Two gaps of 1 and −2, noise of √2/10 along their signs: 3 ± .28 above, twice the mean noise and more below."""
    values = np.random.default_rng(4).normal([1.0, -2.0], 1.0, size=(100, 2))
    found = absolute_gaps_estimate(values, np.ones(100), upper_bound=9)
    assert found.value is not None and found.low is not None and found.high is not None
    assert found.high - found.value == pytest.approx(1.98 * math.sqrt(2) / 10, rel=0.2)
    assert 0.2 < found.value - found.low < 0.45


def test_gaps_of_copies_in_clusters_have_the_interval_of_one_of_each() -> None:
    values = np.random.default_rng(5).normal([0.5, 0.0], 1.0, size=(50, 2))
    once = absolute_gaps_estimate(values, np.ones(50))
    names = [place for place in range(50) for _ in range(2)]
    twice = absolute_gaps_estimate(np.repeat(values, 2, axis=0), np.ones(100), names)
    assert (twice.n, twice.clusters) == (100, 50)
    assert (twice.value, twice.low, twice.high) == pytest.approx((once.value, once.low, once.high))


def test_an_interval_ends_where_the_sum_of_gaps_does() -> None:
    assert absolute_gaps_estimate(np.array([[0.9, 0.0], [0.5, 0.0], [0.0, 0.9]]), np.ones(3)).high == 1.0


def test_gaps_of_few_documents_reach_as_far_as_students_interval() -> None:
    """One gap of eight documents: noise is that of a mean, whose interval is t of seven degrees wide, not 1.96."""
    values = scipy.stats.norm.ppf((np.arange(8) + 0.5) / 8) / 10 + 0.5
    found = absolute_gaps_estimate(values[:, None], np.ones(8))
    assert found.value is not None and found.low is not None and found.high is not None
    reach = scipy.stats.t.ppf(0.975, 7) * values.std(ddof=1) / math.sqrt(8)
    assert (found.value - found.low, found.high - found.value) == pytest.approx((reach, reach), rel=0.1)
