"""Resampling: intervals and tests of resampled documents, pairs and clusters."""

from __future__ import annotations

import math
import statistics
import time
import tracemalloc
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.bootstrap import (
    Resampling,
    Seed,
    Statistic,
    bootstrap_statistic,
    cluster_bootstrap,
    expanded_tails,
    median_estimate,
    percentile_estimate,
    replicate_test,
    spread,
)
from assay.stats.clustered import clustered_mean

Floats = NDArray[np.float64]


def means(values: Floats) -> Floats:
    return np.asarray(values.mean(axis=1))


def bootstrap_test(
    values: Floats, statistic: Statistic, how: Resampling, clusters: Sequence[Hashable] | None = None
) -> tuple[Estimate, float | None]:
    """The test of a statistic that is 0 where nothing differs, by resampled documents or clusters."""
    seen: list[Floats] = []

    def watched(rows: Floats) -> Floats:
        seen.append(statistic(rows))
        return seen[-1]

    if clusters is None:
        found = bootstrap_statistic(values, watched, how)
    else:
        found = cluster_bootstrap(values, clusters, watched, how)
    if found.value is None:
        return found, None
    # The first call is the statistic of the data itself.
    return replicate_test(found.value, np.concatenate([np.empty(0), *seen[1:]]), found.n, found.clusters, how.level)


def test_our_interval_agrees_with_the_closed_form() -> None:
    values = np.random.default_rng(1).normal(3, 2, 400)
    found = percentile_estimate(values, means)
    assert found.value == pytest.approx(values.mean())
    assert found.stderr == pytest.approx(values.std(ddof=1) / 20, rel=0.06)
    assert (found.low, found.high) == pytest.approx((values.mean() - 0.196, values.mean() + 0.196), abs=0.03)


def test_our_interval_is_the_same_every_time_and_another_for_another_seed() -> None:
    values = np.arange(20.0)
    assert percentile_estimate(values, means) == percentile_estimate(values, means)
    assert percentile_estimate(values, means, seed=1) != percentile_estimate(values, means)


def test_one_value_has_no_bootstrap_error_and_none_has_no_value() -> None:
    assert percentile_estimate(np.array([2.0]), means) == Estimate(2.0, None, None, None, 1, "bootstrap")
    assert percentile_estimate(np.array([]), means) == Estimate(None, None, None, None, 0, "bootstrap")


def test_intervals_agree_with_scipy() -> None:
    """A skewed law; scipy draws other numbers, so the ends agree within a tenth."""
    values = np.random.default_rng(1).exponential(size=60)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    width = expected.high - expected.low
    found = bootstrap_statistic(values, means, Resampling(replicates=20_000))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.03 * width)


def test_both_systems_are_resampled_on_the_same_documents() -> None:
    """Their values side by side. scipy's paired bootstrap of the same statistic has the same error."""
    generator = np.random.default_rng(5)
    a = generator.random(70)
    b = a + generator.normal(0.05, 0.2, 70)
    expected = scipy.stats.bootstrap(
        (a, b), lambda x, y, axis: np.median(x, axis=axis) - np.median(y, axis=axis), paired=True, n_resamples=5000,
        method="percentile", rng=np.random.default_rng(6),
    )  # fmt: skip

    def gaps(rows: Floats) -> Floats:
        return np.asarray(np.median(rows[..., 0], axis=1) - np.median(rows[..., 1], axis=1))

    found, _ = bootstrap_test(np.stack([a, b], axis=1), gaps, Resampling(replicates=5000))
    assert found.stderr == pytest.approx(expected.standard_error, rel=0.06)
    same, _ = bootstrap_test(np.stack([a, a + 0.1], axis=1), gaps, Resampling())
    assert (same.value, same.low, same.high) == pytest.approx((-0.1, -0.1, -0.1))


@pytest.mark.parametrize("sizes", [[5] * 40, [1, 9] * 20])
def test_whole_clusters_are_resampled(sizes: list[int]) -> None:
    """The error is the clustered one, twice that of single documents."""
    generator = np.random.default_rng(6)
    clusters = np.repeat(np.arange(40), sizes).tolist()
    values = np.repeat(generator.normal(size=40), sizes) + generator.normal(scale=0.3, size=200)
    found = cluster_bootstrap(values, clusters, means, Resampling())
    expected = clustered_mean(values.tolist(), clusters).estimate.stderr
    assert found.stderr == pytest.approx(expected, rel=0.08)
    assert found.stderr > 1.7 * (percentile_estimate(values, means).stderr or 0)
    assert (found.n, found.method) == (200, "cluster-bootstrap")


def test_many_clusters_are_resampled_in_seconds_and_few_in_bounded_memory() -> None:
    """20,000 clusters of five documents; and three of 30,000, whose resampled places would fill half a gigabyte."""
    values = np.random.default_rng(8).random(100_000)
    began = time.process_time()
    cluster_bootstrap(values, (np.arange(100_000) // 5).tolist(), means, Resampling(replicates=500))
    assert time.process_time() - began < 5
    tracemalloc.start()
    cluster_bootstrap(values[:90_000], (np.arange(90_000) // 30_000).tolist(), means, Resampling(replicates=700))
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize("n", [3, 4, 40, 41])
@pytest.mark.parametrize("is_upper", [True, False])
def test_medians_need_no_resampling(n: int, is_upper: bool) -> None:
    values = np.random.default_rng(n).normal(size=n)
    resampled = bootstrap_statistic(
        values, lambda rows: np.sort(rows, axis=1)[:, n // 2] if is_upper else np.median(rows, axis=1), Resampling(1)
    )
    found = median_estimate(values, is_upper)
    assert found.value == resampled.value and found.stderr == pytest.approx(resampled.stderr, rel=0.1)
    assert (found.low, found.high) == pytest.approx((resampled.low, resampled.high), abs=0.25)


def test_one_cluster_has_no_error_and_lists_must_match() -> None:
    assert cluster_bootstrap(np.ones(3), ["a"] * 3, means, Resampling()).stderr is None
    with pytest.raises(DataError, match="clusters"):
        cluster_bootstrap(np.ones(3), ["a"], means, Resampling())


@pytest.mark.parametrize(("one", "other"), [(1, 2), (b"a", b"b"), (b"", b"\0"), ((1, 2), (2, 1))])
def test_a_seed_may_be_numbers_or_bytes(one: Seed, other: Seed) -> None:
    values = np.random.default_rng(7).random(30)
    found = [bootstrap_statistic(values, means, Resampling(seed=seed)) for seed in (one, one, other)]
    assert found[0] == found[1] != found[2]


def test_equal_values_have_an_interval_without_width() -> None:
    found = percentile_estimate(np.full(9, 0.5), means)
    assert (found.low, found.high, found.stderr) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize(("share", "is_defined"), [(0.03, True), (0.07, False)])
def test_a_statistic_that_many_replicates_lack_has_no_interval(share: float, is_defined: bool) -> None:
    """One rule for all: up to one resample in twenty may be without."""
    generator = np.random.default_rng(0)

    def often(values: Floats) -> Floats:
        found = values.mean(axis=1)
        return np.asarray(np.where(generator.random(len(found)) < share, np.nan, found) if len(found) > 1 else found)

    values = generator.random(50)
    found = bootstrap_statistic(values, often, Resampling())
    assert found.value == pytest.approx(values.mean()) and (found.low is not None) == is_defined


def test_a_statistic_that_one_replicate_has_infinite_has_no_interval() -> None:
    values = np.array([math.inf, *np.arange(20.0)])
    found = percentile_estimate(values, lambda rows: np.sort(rows, axis=1)[:, 17])
    assert (found.value, found.stderr, found.low) == (17.0, None, None)


def test_a_hundred_thousand_documents_take_seconds() -> None:
    """1,000 resamples in under 5 s of processor time, and within bounded memory."""
    values = np.random.default_rng(8).random(100_000)
    began = time.process_time()
    found = bootstrap_statistic(values, means, Resampling(replicates=1000))
    assert time.process_time() - began < 5
    assert found.stderr == pytest.approx(values.std() / math.sqrt(100_000), rel=0.1)


def of_three(p: float) -> float:
    """The p of three units: the share of replicates, in Student's law of two degrees, 1 − t/√(2 + t²)."""
    t = math.sqrt(2 / 3) * -statistics.NormalDist().inv_cdf(p / 2)
    return 1 - t / math.sqrt(2 + t * t)


def test_the_bootstrap_p_counts_replicates_on_the_rarer_side() -> None:
    above = np.array([1.0, 2.0, 3.0])
    found, p = bootstrap_test(above, means, Resampling(0, 999))
    assert found.value == pytest.approx(2.0) and p == pytest.approx(of_three(2 / 1000))
    assert bootstrap_test(np.zeros(5), means, Resampling(0, 999))[1] == 1.0
    # A resample is not above 0 when it has −1 twice (6 of 27) or three times (1 of 27): twice that share.
    assert bootstrap_test(np.array([-1.0, 2.0, 2.0]), means, Resampling(0, 20_000))[1] == pytest.approx(
        of_three(14 / 27), abs=0.02
    )


@pytest.mark.parametrize("n", [5, 30, 2000])
def test_percentiles_of_normal_means_are_as_wide_as_students_interval(n: int) -> None:
    """Replicates of a mean spread by √((n−1)/n) · s/√n: that many times the normal quantile must be t · s/√n."""
    low, high = expanded_tails(n)
    reach = math.sqrt((n - 1) / n) * scipy.stats.norm.ppf(high)
    assert (low + high, reach) == pytest.approx((1.0, scipy.stats.t.ppf(0.975, n - 1)))


def test_the_bootstrap_p_falls_below_the_level_where_the_interval_leaves_0_out() -> None:
    generator = np.random.default_rng(11)
    for _ in range(200):
        found, p = bootstrap_test(generator.normal(0.6, 1, size=12), means, Resampling(1, 999))
        assert found.low is not None and found.high is not None and p is not None
        assert (p < 0.05) == (found.low > 0 or found.high < 0) or p == pytest.approx(0.05, abs=0.005)


def test_the_bootstrap_p_has_nulls_where_nothing_can_be_said() -> None:
    assert bootstrap_test(np.empty(0), means, Resampling())[1] is None
    assert bootstrap_test(np.ones(2), means, Resampling())[1] is None
    undefined = bootstrap_test(np.arange(4.0), lambda rows: np.where((rows > 0).all(axis=1), np.nan, 1.0), Resampling())
    assert undefined[1] is None


def test_the_bootstrap_p_resamples_whole_clusters() -> None:
    values, clusters = np.array([1.0, 1.0, 1.0, -1.0, -1.0]), ["x", "x", "x", "y", "z"]
    # Three clusters: a resample is below 0 when none of the three is x, 8 in 27.
    found, p = bootstrap_test(values, means, Resampling(0, 20_000), clusters)
    assert found.method == "cluster-bootstrap" and p == pytest.approx(of_three(16 / 27), abs=0.02)


def test_the_bootstrap_test_keeps_its_level() -> None:
    generator = np.random.default_rng(3)
    tests = [bootstrap_test(generator.normal(size=50), means, Resampling(k, 400))[1] for k in range(800)]
    rate = sum(p is not None and p < 0.05 for p in tests) / len(tests)
    assert 0.03 < rate < 0.08


def test_a_score_that_no_resample_changes_has_no_interval() -> None:
    assert spread(Estimate(1.0, 0.0, 1.0, 1.0, 9, "bootstrap")) == Estimate(1.0, None, None, None, 9, "bootstrap")
    usual = Estimate(0.5, 0.1, 0.4, 0.6, 9, "bootstrap")
    assert spread(usual) == usual
