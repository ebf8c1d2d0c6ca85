"""Clustered errors by hand, against statsmodels, and by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.clustered import (
    ClusteredEstimate,
    clustered_error,
    clustered_mean,
    clustered_ratio,
)
from assay.stats.means import mean_estimate, ratio_estimate, wilson_interval
from assay.stats.sign_flip import sign_flip_test


def cluster_sign_flip_p(values: list[float], clusters: list[Any], generator: np.random.Generator) -> float:
    """A cluster's documents turn together."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], values)
    return sign_flip_test(sums, None, generator).p


def test_a_clustered_error_by_hand() -> None:
    """Mean 1; residuals −1, −1 | 0, 2 | 0: sums −2, 2, 0. √(3/2 · 8)/5, and t with 2 degrees."""
    found = clustered_mean([0, 0, 1, 3, 1], ["x", "x", "y", "y", "z"])
    error = math.sqrt(12) / 5
    reach = scipy.stats.t.ppf(0.975, 2) * error
    ends = pytest.approx(1 - reach), pytest.approx(1 + reach)
    estimate = Estimate(1.0, pytest.approx(error), *ends, 5, "clustered-t", clusters=3)
    assert found == ClusteredEstimate(estimate, 3, True)


def test_the_clustered_error_is_statsmodels() -> None:
    models = pytest.importorskip("statsmodels.api")
    generator = np.random.default_rng(3)
    clusters = generator.integers(0, 40, 300)
    values = generator.normal(size=40)[clusters] + generator.normal(size=300)
    fit = models.OLS(values, np.ones(300)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "df_correction": False, "use_correction": False}
    )
    found = clustered_mean(values.tolist(), clusters.tolist())
    count = found.clusters
    assert found.estimate.stderr == pytest.approx(fit.bse[0] * math.sqrt(count / (count - 1)))
    assert not found.has_few_clusters


def test_clusters_of_one_document_are_not_clusters() -> None:
    values = [0.1, 0.5, 0.2, 0.9, 0.4]
    plain, clustered = mean_estimate(values), clustered_mean(values, range(5)).estimate
    assert (clustered.value, clustered.stderr) == pytest.approx((plain.value, plain.stderr))
    assert (clustered.low, clustered.high) == pytest.approx((plain.low, plain.high))


def test_equal_outcomes_have_wilsons_interval_of_their_clusters() -> None:
    found = clustered_mean([1.0] * 12, [place // 3 for place in range(12)])
    assert found.estimate == Estimate(1.0, 0.0, *wilson_interval(4, 4), 12, "wilson-clusters", clusters=4)


def test_clusters_that_balance_have_no_interval_of_width_zero() -> None:
    found = clustered_mean([0, 1, 1, 0, 0, 1], ["a", "a", "b", "b", "c", "c"])
    assert found.estimate == Estimate(0.5, 0.0, *wilson_interval(1.5, 3), 6, "wilson-clusters", clusters=3)


def test_an_interval_of_outcomes_stays_between_0_and_1() -> None:
    found = clustered_mean([1, 1, 1, 1, 0, 1], ["a", "a", "b", "b", "c", "c"]).estimate
    assert found.low is not None and found.high is not None and 0 < found.low < found.high < 1


def test_clustered_outcomes_have_wilsons_interval_of_what_they_are_worth() -> None:
    """1 1 | 0 0 | 1 0: error √3/6, as of (¼)/(3/36) = 3 outcomes; around ½ that is ½ ± ½·t/√(3 + t²), 2 degrees."""
    found = clustered_mean([1, 1, 0, 0, 1, 0], "aabbcc").estimate
    t = scipy.stats.t.ppf(0.975, 2)
    reach = t / math.sqrt(3 + t * t) / 2
    assert (found.stderr, found.low, found.high) == pytest.approx((math.sqrt(3) / 6, 0.5 - reach, 0.5 + reach))
    assert found.method == "clustered-wilson"


def test_no_document_and_one_cluster_have_no_error() -> None:
    assert clustered_mean([], []) == ClusteredEstimate(Estimate(None, None, None, None, 0, "clustered-t"), 0, True)
    assert clustered_mean([0, 1], ["a", "a"]).estimate == Estimate(0.5, None, None, None, 2, "clustered-t", clusters=1)
    one = clustered_mean([1, 1], ["a", "a"]).estimate
    assert one == Estimate(1.0, None, *wilson_interval(1, 1), 2, "wilson-clusters", clusters=1)


def test_two_clusters_that_are_alike_have_no_error() -> None:
    found = clustered_mean([0.3, 0.5, 0.5, 0.3], "aabb").estimate
    assert (found.value, found.stderr, found.low, found.high) == (0.4, None, None, None)


def test_a_clustered_ratio_by_hand() -> None:
    # Σa/Σb = 12/6 = 2; residuals 1, −1, −2, 2, summed in clusters 0 and 0, or −1 and 1.
    together = clustered_ratio([3.0, 1.0, 2.0, 6.0], [1.0, 1.0, 2.0, 2.0], "aabb").estimate
    assert (together.value, together.stderr, together.clusters) == (2.0, None, 2)
    apart = clustered_ratio([3.0, 1.0, 2.0, 6.0], [1.0, 1.0, 2.0, 2.0], "abab").estimate
    error = math.sqrt(2 * 2) / 6
    assert apart.stderr == pytest.approx(error)
    assert apart.high == pytest.approx(2 + scipy.stats.t.ppf(0.975, 1) * error)


def test_a_ratio_of_clusters_of_one_is_the_plain_one() -> None:
    top, bottom = [3.0, 1.0, 2.0, 5.0], [1.0, 1.0, 2.0, 2.0]
    plain, found = ratio_estimate(top, bottom), clustered_ratio(top, bottom, "abcd").estimate
    assert (found.value, found.stderr, found.low) == pytest.approx((plain.value, plain.stderr, plain.low))


def test_a_ratio_of_one_cluster_or_none_is_unsure() -> None:
    one = clustered_ratio([3.0, 1.0], [1.0, 1.0], "aa").estimate
    assert (one.value, one.stderr, one.low, one.clusters) == (2.0, None, None, 1)
    assert clustered_ratio([], [], "").estimate.value is None


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="clusters: 1 values"):
        clustered_mean([1.0, 0.0], ["a"])


def test_whole_clusters_are_flipped() -> None:
    """Sums 3, 3, −1 of three clusters: 5 is reached by +++… of 8 flips: ±(3+3±1), ±7 and ±5, four in all."""
    generator = np.random.default_rng(0)
    p = cluster_sign_flip_p([1, 2, 3, -2, 1], ["a", "a", "b", "c", "c"], generator)
    assert p == 4 / 8
    assert sign_flip_test(np.array([1.0, 2, 3, -2, 1]), None, generator).p != p


def test_flips_of_few_clusters_by_hand() -> None:
    found = cluster_sign_flip_p([1, 1, 0, 0, 0, -1], [0, 0, 1, 1, 2, 2], np.random.default_rng(0))
    assert found == 1.0  # sums 2, 0, −1: |1| is reached by every flip


def simulated(clusters: int, size: int, runs: int) -> tuple[float, float, float]:
    """Coverage of clustered and plain intervals of a mean of 0, and rejections by flips of whole clusters."""
    generator = np.random.default_rng(clusters)
    groups = np.repeat(np.arange(clusters), size).tolist()
    covered, plain, rejected = 0, 0, 0
    for _ in range(runs):
        values = (np.repeat(generator.normal(size=clusters), size) + generator.normal(size=clusters * size)).tolist()
        own, other = clustered_mean(values, groups).estimate, mean_estimate(values)
        covered += (own.low or 0) <= 0 <= (own.high or 0)
        plain += (other.low or 0) <= 0 <= (other.high or 0)
        rejected += cluster_sign_flip_p(values, groups, generator) <= 0.05
    return covered / runs, plain / runs, rejected / runs


def test_clustered_intervals_cover_where_plain_ones_do_not() -> None:
    """Ten clusters are enumerated, so that flips keep exactly 5 % (51 of 1,024); errors of 1 % with 400 runs."""
    covered, plain, rejected = simulated(10, 6, 400)
    assert covered == pytest.approx(0.95, abs=0.033)
    assert plain < 0.8
    assert rejected == pytest.approx(0.05, abs=0.033)


@pytest.mark.slow
def test_clustered_intervals_cover_at_length() -> None:
    covered, _, rejected = simulated(40, 8, 3000)
    assert covered == pytest.approx(0.95, abs=0.012)
    assert rejected == pytest.approx(0.05, abs=0.012)


def test_errors_on_arrays_are_those_of_lists() -> None:
    values, units = np.random.default_rng(1).normal(size=30), np.arange(30) // 4
    assert clustered_error(values, units) == pytest.approx(
        clustered_mean(values.tolist(), units.tolist()).estimate.stderr
    )
    assert clustered_error(np.ones(30), units) == 0.0 and clustered_error(values, np.zeros(30, int)) is None
