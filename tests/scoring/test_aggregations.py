"""Aggregations: documents' values in, estimates out; F1 and Matthews' correlation by their confusion matrices."""

from __future__ import annotations

import math
import random
import statistics
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.registry import METRICS, metric_definition
from assay.stats.means import wilson_interval

PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30)
MANY = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30)


def plain_f1(pairs: list[tuple[int, int]]) -> float:
    hits = sum(right == picked == 1 for right, picked in pairs)
    precise, found = sum(picked == 1 for _, picked in pairs), sum(right == 1 for right, _ in pairs)
    if not hits:
        return 0.0
    precision, recall = hits / precise, hits / found
    return 2 * precision * recall / (precision + recall)


def plain_matthews(pairs: list[tuple[int, int]]) -> float:
    """scikit-learn's way: covariances of the one-hot labels."""
    labels = sorted({label for pair in pairs for label in pair})
    n = len(pairs)

    def covariance(left: int, right: int) -> float:
        total = 0.0
        for label in labels:
            mean_left = sum(pair[left] == label for pair in pairs) / n
            mean_right = sum(pair[right] == label for pair in pairs) / n
            total += sum(((p[left] == label) - mean_left) * ((p[right] == label) - mean_right) for p in pairs)
        return total

    spread = covariance(0, 0) * covariance(1, 1)
    return covariance(0, 1) / math.sqrt(spread) if spread > 1e-12 else 0.0


@given(PAIRS)
def test_f1_is_that_of_the_confusion_matrix(pairs: list[tuple[int, int]]) -> None:
    assert AGGREGATIONS["f1"].estimate(pairs).value == pytest.approx(plain_f1(pairs), abs=1e-12)


@given(PAIRS | MANY)
def test_matthews_is_that_of_the_confusion_matrix(pairs: list[tuple[int, int]]) -> None:
    found = AGGREGATIONS["matthews_corrcoef"].estimate(pairs).value
    assert found == pytest.approx(plain_matthews(pairs), abs=1e-9)


def test_matthews_by_hand() -> None:
    """TP 6, TN 3, FP 1, FN 2."""
    pairs = [(1, 1)] * 6 + [(0, 0)] * 3 + [(0, 1)] + [(1, 0)] * 2
    assert AGGREGATIONS["matthews_corrcoef"].estimate(pairs).value == pytest.approx(16 / math.sqrt(7 * 8 * 4 * 5))
    assert AGGREGATIONS["f1"].estimate(pairs).value == pytest.approx(12 / 15)


@pytest.mark.parametrize(("name", "plain"), [("f1", plain_f1), ("matthews_corrcoef", plain_matthews)])
def test_their_errors_are_lm_evals_bootstrap(name: str, plain: object) -> None:
    assert callable(plain)
    pairs = [(1, 1), (1, 0), (0, 0), (0, 1), (1, 1), (0, 0), (1, 1)]
    generator = random.Random(0)
    replicates = [plain(generator.choices(pairs, k=len(pairs))) for _ in range(200)]
    assert AGGREGATIONS[name].lm_eval_stderr(pairs, 200) == pytest.approx(statistics.stdev(replicates), rel=1e-9)


def test_the_median_is_the_upper_middle_one() -> None:
    found = AGGREGATIONS["median"].estimate([5.0, 1.0, 9.0, 2.0])
    assert (found.value, found.method, found.n) == (5.0, "bootstrap", 4)


def test_nanmean_leaves_out_what_is_not_a_number() -> None:
    found = AGGREGATIONS["nanmean"].estimate([1.5, math.nan, 2.5])
    assert (found.value, found.n) == (2.0, 2)
    assert AGGREGATIONS["nanmean"].estimate([math.nan]).value is None


def test_nanmean_has_lm_evals_error() -> None:
    values, generator = [1.5, 2.5, 4.0, 0.5], random.Random(0)
    means = [statistics.fmean(generator.choices(values, k=4)) for _ in range(100)]
    assert AGGREGATIONS["nanmean"].lm_eval_stderr(values, 100) == pytest.approx(statistics.stdev(means))


def test_weighted_ones_are_ratios_of_sums() -> None:
    values = [(-10.0, 4), (-20.0, 6)]
    assert AGGREGATIONS["weighted_perplexity"].estimate(values).value == pytest.approx(math.exp(3))
    assert AGGREGATIONS["bits_per_byte"].estimate(values).value == pytest.approx(3 / math.log(2))


@pytest.mark.parametrize(
    ("name", "least"), [("weighted_perplexity", 1.0), ("weighted_nats", 0.0), ("bits_per_byte", 0.0)]
)
def test_clusters_of_texts_leave_the_interval_where_a_score_can_be(name: str, least: float) -> None:
    values = [(-1.0, 4), (-2.0, 4), (-30.0, 6), (-20.0, 6)]
    found = AGGREGATIONS[name].clustered(values, "aabb")  # type: ignore[misc]
    assert (found.low, found.clusters) == (least, 2)
    densities = AGGREGATIONS[name].clustered([(1.0, 4), *values[1:]], "aabb")  # type: ignore[misc]
    assert densities.low is not None and densities.low < least


@pytest.mark.parametrize("name", ["weighted_perplexity", "bits_per_byte", "brier_score", "bypass"])
def test_some_have_no_error_in_lm_eval(name: str) -> None:
    assert AGGREGATIONS[name].lm_eval_stderr([(-1.0, 2), (-3.0, 4)], 1000) is None


def test_no_iterations_turn_every_error_off() -> None:
    assert AGGREGATIONS["mean"].lm_eval_stderr([0.0, 1.0], 100) == 0.5
    assert AGGREGATIONS["mean"].lm_eval_stderr([0.0, 1.0], 0) is None
    assert AGGREGATIONS["perplexity"].lm_eval_stderr([-1.0, -2.0], 0) is None


def test_unscored_answers_give_lm_evals_number() -> None:
    found = AGGREGATIONS["bypass"].estimate([None, None])
    assert (found.value, found.stderr, found.n) == (999.0, None, 2)


@pytest.mark.parametrize("name", sorted(set(AGGREGATIONS) - {"bypass"}))
def test_no_documents_give_no_number(name: str) -> None:
    nothing = AGGREGATIONS[name].read([])
    found = AGGREGATIONS[name].estimate(nothing)
    assert (found.value, found.n) == (None, 0)
    assert AGGREGATIONS[name].lm_eval_stderr(nothing, 1000) is None


def test_matthews_takes_texts_as_scikit_learn_does() -> None:
    from sklearn.metrics import matthews_corrcoef

    pairs = [("a", "a"), ("b", "c"), ("c", "c"), ("a", "b"), ("b", "b")]
    aggregation = AGGREGATIONS["matthews_corrcoef"]
    read = aggregation.read(pairs)
    expected = matthews_corrcoef([right for right, _ in pairs], [picked for _, picked in pairs])
    assert aggregation.estimate(read).value == pytest.approx(float(expected), abs=1e-12)
    # Probed from lm-eval 0.4.13.
    assert aggregation.estimate(read).value == pytest.approx(0.4375, abs=1e-12)
    assert aggregation.lm_eval_stderr(read, 200) == pytest.approx(0.3366048893305663, rel=1e-9)


def test_f1_has_lm_evals_number() -> None:
    found = AGGREGATIONS["f1"].estimate(AGGREGATIONS["f1"].read([(1, 1), (1, 0), (0, True), [1, 1]]))
    assert found.value == pytest.approx(0.6666666666666666, abs=1e-12)


def test_nanmean_has_lm_evals_numbers() -> None:
    read = AGGREGATIONS["nanmean"].read([1.5, math.nan, 2.5, 0.25])
    assert AGGREGATIONS["nanmean"].estimate(read).value == pytest.approx(1.4166666666666667, abs=1e-12)
    assert AGGREGATIONS["nanmean"].lm_eval_stderr(read, 200) == pytest.approx(0.6105845943857187, rel=1e-9)


def test_brier_reads_pairs_of_task_code() -> None:
    """lm-eval 0.4.13 gives 0.5299999999999999."""
    read = AGGREGATIONS["brier_score"].read([(0, [0.8, 0.2]), (1, (0.7, 0.3))])
    assert AGGREGATIONS["brier_score"].estimate(read).value == pytest.approx(0.53, abs=1e-12)


def test_brier_takes_documents_with_different_numbers_of_choices() -> None:
    assert AGGREGATIONS["brier_score"].read([(0, [0.8, 0.2]), (2, [0.0, 0.0, 1.0]), 0.5]) == pytest.approx(
        [0.08, 0.0, 0.5]
    )


def test_every_metric_has_a_known_aggregation() -> None:
    definitions = [metric_definition(name) for name in METRICS.table]
    assert [definition.name for definition in definitions] == list(METRICS.table)
    assert {definition.aggregation for definition in definitions} <= set(AGGREGATIONS)


def plain_ece(pairs: list[tuple[float, float]]) -> float:
    """Guo et al. 2017: over ten bins of equal width, |accuracy - mean confidence|, weighed by their documents."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for probability, hit in pairs:
        bins.setdefault(min(int(probability * 10), 9), []).append((probability, hit))
    gaps = [(len(found), *map(statistics.fmean, zip(*found, strict=True))) for found in bins.values()]
    return sum(count * abs(probability - hit) for count, probability, hit in gaps) / len(pairs)


CONFIDENCES = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=40)


@given(CONFIDENCES)
def test_calibration_error_is_that_of_its_bins(pairs: list[tuple[float, float]]) -> None:
    assert AGGREGATIONS["ece"].estimate(pairs).value == pytest.approx(plain_ece(pairs), abs=1e-12)


def test_calibration_error_of_known_cases() -> None:
    ece = AGGREGATIONS["ece"]
    assert ece.estimate([(0.75, 1.0)] * 3 + [(0.75, 0.0)]).value == 0.0
    assert ece.estimate([(1.0, 0.0)] * 4).value == 1.0
    assert ece.estimate([]).value is None and ece.lm_eval_stderr([(1.0, 0.0)] * 4, 1000) is None


@given(MANY)
def test_position_bias_is_the_distance_of_histograms(pairs: list[tuple[int, int]]) -> None:
    n, labels = len(pairs), {label for pair in pairs for label in pair}
    plain = sum(abs(sum(r == x for r, _ in pairs) - sum(p == x for _, p in pairs)) for x in labels) / (2 * n)
    assert AGGREGATIONS["position_bias"].estimate(pairs).value == pytest.approx(plain, abs=1e-12)


def test_a_mean_of_known_values_counts_only_them() -> None:
    found = AGGREGATIONS["mean_of_known"].estimate(AGGREGATIONS["mean_of_known"].read([1.0, None, 3.0]))
    assert (found.value, found.n) == (2.0, 2)


def test_every_aggregation_with_an_error_uses_clusters() -> None:
    without = [name for name, aggregation in AGGREGATIONS.items() if aggregation.clustered is None]
    assert without == ["bypass"]


def test_draws_of_clustered_documents_have_the_clustered_error() -> None:
    """Values 1 1 | 0 0 | .5 .5 and one without enough draws: residual sums 1, −1, 0; √(3/2 · 2)/6."""
    assert AGGREGATIONS["draws"].clustered is not None
    found = AGGREGATIONS["draws"].clustered([1.0, 1.0, 0.0, 0.0, 0.5, 0.5, math.nan], list("aabbccd"))
    assert (found.value, found.n, found.clusters) == (0.5, 6, 3)
    assert found.stderr == pytest.approx(math.sqrt(3) / 6)


@pytest.mark.parametrize("name", ["f1", "matthews_corrcoef"])
@given(pairs=MANY, times=st.integers(1, 20))
def test_pairs_that_repeat_are_counted_to_the_same_value(name: str, pairs: list[tuple[int, int]], times: int) -> None:
    estimate = AGGREGATIONS[name].estimate
    assert estimate(pairs * times).value == pytest.approx(estimate(pairs).value, abs=1e-12)


def test_counted_pairs_have_the_error_of_resampled_ones() -> None:
    import numpy as np

    from assay.scoring.metrics.resampled import estimate, f1_rows, matthews_rows
    from assay.stats.bootstrap import percentile_estimate

    generator = np.random.default_rng(3)
    right = generator.integers(0, 2, 400)
    pairs = np.stack([right, np.where(generator.random(400) < 0.8, right, 1 - right)], axis=1).astype(np.float64)
    for name, rows in (("f1", f1_rows), ("matthews", matthews_rows)):
        counted, resampled = estimate(pairs.tolist(), name), percentile_estimate(pairs, rows)
        assert counted.value == resampled.value and counted.stderr == pytest.approx(resampled.stderr, rel=0.08)
        assert (counted.low, counted.high) == pytest.approx((resampled.low, resampled.high), abs=0.01)


def test_many_labels_take_no_longer_than_few() -> None:
    """Texts that a model wrote are as many labels; 20,000 documents × 2,000 in seconds."""
    import numpy as np
    from sklearn.metrics import matthews_corrcoef

    pairs = np.random.default_rng(4).integers(0, 500, (20_000, 2)).astype(np.float64)
    began = time.process_time()
    found = AGGREGATIONS["matthews_corrcoef"].estimate(pairs.tolist())
    assert time.process_time() - began < 10
    assert found.value == pytest.approx(matthews_corrcoef(*pairs.T))


@pytest.mark.parametrize("name", ["median", "f1"])
def test_lm_evals_errors_take_bounded_memory(name: str) -> None:
    """A thousand resamples of 20,000 documents would fill 160 MB."""
    values = [0.0, 1.0] * 10_000 if name == "median" else [(0.0, 1.0), (1.0, 1.0)] * 10_000
    tracemalloc.start()
    AGGREGATIONS[name].lm_eval_stderr(values, 1000)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["f1", "matthews", "median"])
@pytest.mark.parametrize(("n", "labels"), [(40, 2), (300, 2), (301, 3), (900, 10), (60, 9)])
def test_lm_evals_errors_have_the_very_digits_of_plain_resampling(name: str, n: int, labels: int) -> None:
    """Counts of distinct pairs, and ranks, give every bit that resampled documents give."""
    import numpy as np

    from assay.scoring.metrics.resampled import STATISTICS, lm_eval_stderr
    from assay.stats import lm_eval_bootstrap as lm_eval_bootstrap

    drawn = np.random.default_rng(n).integers(0, labels, (n, 2)).astype(np.float64)
    values = drawn[:, 0] / 7 if name == "median" else drawn
    found = lm_eval_stderr(values.tolist(), name, 3000, lambda *report: None)
    assert found == lm_eval_bootstrap.lm_eval_stderr(values, STATISTICS[name], 3000) is not None


@pytest.mark.parametrize("name", ["f1", "matthews_corrcoef"])
def test_lm_evals_errors_cost_little_more_than_their_draws(name: str) -> None:
    """Of 100,000 documents, Matthews' error took ten times as long as drawing them: seven minutes."""
    import numpy as np

    n, iterations = 20_000, 1000
    pairs = np.random.default_rng(4).integers(0, 2, (n, 2)).tolist()
    began = time.process_time()
    for _ in range(10):
        np.random.RandomState(1).random_sample((iterations // 10, n))
    drawn = time.process_time()
    AGGREGATIONS[name].lm_eval_stderr(pairs, iterations)
    assert time.process_time() - drawn < 4 * (drawn - began)


TWO_THOUSAND_TIMES = ("f1", "matthews_corrcoef", "median", "ece", "ece_adaptive", "position_bias")


@pytest.mark.slow
@pytest.mark.parametrize("is_clustered", [False, True])
@pytest.mark.parametrize("name", [*TWO_THOUSAND_TIMES, "auroc", "aurc", "cohen_kappa"])
def test_a_hundred_thousand_documents_are_resampled_in_seconds(name: str, is_clustered: bool) -> None:
    """Under 5 s of processor time for a thousand resamples, and for the metrics that need no resampling."""
    import numpy as np

    generator = np.random.default_rng(4)
    sure, hit = generator.random(100_000), generator.integers(0, 2, 100_000)
    first = hit if name in ("f1", "matthews_corrcoef", "cohen_kappa", "position_bias") else sure
    values = sure.tolist() if name == "median" else list(zip(first.tolist(), hit.tolist(), strict=True))
    clusters = [str(place // 5) for place in range(100_000)]
    aggregation = AGGREGATIONS[name]
    assert aggregation.clustered is not None
    began = time.process_time()
    found = aggregation.clustered(values, clusters) if is_clustered else aggregation.estimate(values)
    is_resampled = is_clustered or name not in ("f1", "matthews_corrcoef", "median")
    most = 10 if is_resampled and name in TWO_THOUSAND_TIMES else 5
    assert found.n == 100_000 and time.process_time() - began < most


def test_share_of_parts_is_a_ratio_of_sums() -> None:
    aggregation = AGGREGATIONS["share_of_parts"]
    values = [(1.0, 2.0), (3.0, 3.0), (0.0, 1.0)]
    assert aggregation.estimate(aggregation.read(values)).value == pytest.approx(4 / 6)
    assert aggregation.clustered is not None
    assert aggregation.clustered(aggregation.read(values), ["a", "a", "b"]).value == pytest.approx(4 / 6)
    assert aggregation.lm_eval_stderr(values, 100) is None


def test_a_share_of_parts_stays_within_0_and_1() -> None:
    aggregation = AGGREGATIONS["share_of_parts"]
    values = aggregation.read([(0.0, 1.0), (2.0, 2.0), (1.0, 3.0), (0.0, 1.0)])
    assert aggregation.clustered is not None
    for found in (aggregation.estimate(values), aggregation.clustered(values, ["a", "a", "b", "c"])):
        assert found.stderr and found.low is not None and found.high is not None
        assert 0 < found.low < 3 / 7 < found.high < 1


@pytest.mark.parametrize("followed", [0.0, 2.0])
def test_a_share_of_equal_parts_has_the_interval_of_equal_outcomes(followed: float) -> None:
    aggregation = AGGREGATIONS["share_of_parts"]
    found = aggregation.estimate(aggregation.read([(followed, 2.0)] * 5))
    assert (found.low, found.high) == wilson_interval(5 * followed / 2, 5) and found.stderr == 0
