"""No, one and two documents: unknown values are null, never zero or an interval of width 0."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.results import TaskResult
from assay.core.scores import Denominators, Estimate, Sample, sum_denominators
from assay.core.specs import GroupMetricSpec, GroupSpec, MetricSpec, Scoring, TaskCard
from assay.scoring.aggregate import aggregate_groups, aggregate_task
from assay.stats.means import wilson_interval

NULLS = (None, None, None)


def task(metric: str, aggregation: str, values: list[Any], name: str = "few", clusters: str = "") -> TaskResult:
    scoring = Scoring("generate_until", (MetricSpec(metric, aggregation),))
    samples = [Sample(place, "none", (), {metric: value}) for place, value in enumerate(values)]
    own = dict(enumerate(clusters)) if clusters else None
    card = TaskCard(name, 1, name, "generate_until", 0, {}, "")
    metrics = aggregate_task(scoring, samples, 100, "few", own)
    counts = Denominators(9, len(values) + 1, len(values), 1, 0, {"none": len(values)})
    return TaskResult(card, metrics, counts, "", "", samples=samples)


def estimate(metric: str, aggregation: str, values: list[Any], clusters: str = "") -> Estimate:
    return task(metric, aggregation, values, clusters=clusters).metrics[0].estimate


def unsure(found: Estimate) -> tuple[float | None, float | None, float | None]:
    return found.stderr, found.low, found.high


@pytest.mark.parametrize(
    ("metric", "aggregation"),
    [
        *(("x", "mean"), ("x", "median"), ("x", "perplexity"), ("x", "weighted_perplexity"), ("x", "bits_per_byte")),
        *(("x", "f1"), ("x", "matthews_corrcoef"), ("bleu", "bleu"), ("x", "nanmean")),
    ],
)
@pytest.mark.parametrize("clusters", [False, True])
def test_no_documents_give_no_value(metric: str, aggregation: str, clusters: bool) -> None:
    if aggregation == "bleu":
        pytest.importorskip("sacrebleu")
    scoring = Scoring("generate_until", (MetricSpec(metric, aggregation),))
    (found,) = aggregate_task(scoring, [], 100, "few", {} if clusters else None)
    assert (found.estimate.value, *unsure(found.estimate), found.estimate.n) == (None, *NULLS, 0)
    assert found.harness_stderr is None


def test_one_outcome_has_wilsons_interval_and_no_error() -> None:
    found = estimate("acc", "mean", [1.0])
    low = 1 / (1 + 1.959963984540054**2)
    assert unsure(found) == (None, pytest.approx(low), 1.0)


def test_one_measurement_has_neither_error_nor_interval() -> None:
    assert unsure(estimate("x", "mean", [0.3])) == NULLS
    assert unsure(estimate("x", "perplexity", [-2.0])) == NULLS
    assert unsure(estimate("x", "weighted_perplexity", [(-2.0, 3)])) == NULLS


def test_two_outcomes_have_wilsons_interval() -> None:
    found = estimate("acc", "mean", [1.0, 1.0])
    assert (found.low, found.high) == pytest.approx(wilson_interval(2, 2))
    assert found.low is not None and found.low < 0.4


def test_two_measurements_have_students_interval_of_one_degree() -> None:
    # Values 2 and 4: error 1, t of one degree 12.706.
    assert unsure(estimate("x", "mean", [2, 4])) == pytest.approx((1.0, 3 - 12.7062, 3 + 12.7062), abs=1e-4)


def test_two_measurements_from_0_to_1_have_an_interval_from_0_to_1() -> None:
    # Values 0.2 and 0.4: error 0.1, as of .3 · .7/.1² = 21 outcomes; Wilson's with 12.706 for 1.96.
    assert unsure(estimate("x", "mean", [0.2, 0.4])) == pytest.approx((0.1, 0.01098, 0.94297), abs=1e-4)


@pytest.mark.parametrize("times", [1, 2, 50])
def test_equal_measurements_show_nothing_of_their_spread(times: int) -> None:
    assert unsure(estimate("x", "mean", [0.3, 0.3] * times)) == NULLS
    assert unsure(estimate("x", "weighted_perplexity", [(-2.0, 1), (-4.0, 2)] * times)) == NULLS
    assert unsure(task("x", "mean", [0.3, 0.3] * times, clusters="ab" * times).metrics[0].estimate) == NULLS
    assert unsure(task("x", "perplexity", [-0.3, -0.3] * times, clusters="ab" * times).metrics[0].estimate) == NULLS
    assert task("x", "mean", [0.3, 0.3] * times).metrics[0].harness_stderr == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("count", [1, 2])
def test_corpus_metrics_need_three_documents(count: int) -> None:
    pytest.importorskip("sacrebleu")
    said = [(["the cat sat on the mat"], "the cat sat on a mat"), (["a dog ran off"], "a dog ran")]
    found = estimate("bleu", "bleu", said[:count])
    assert found.value is not None
    assert (*unsure(found), found.n) == (*NULLS, count)


@pytest.mark.parametrize("count", [1, 2])
def test_resampled_metrics_need_three_documents(count: int) -> None:
    assert unsure(estimate("x", "median", [1.0, 2.0][:count])) == NULLS
    assert unsure(estimate("x", "f1", [(1, 1), (0, 1)][:count])) == NULLS
    assert unsure(estimate("x", "median", [1.0, 2.0, 4.0])) != NULLS


@pytest.mark.parametrize(("clusters", "count"), [("aaa", 1), ("aab", 2)])
def test_resampled_metrics_need_three_clusters(clusters: str, count: int) -> None:
    found = estimate("x", "median", [1.0, 2.0, 3.0], clusters)
    assert (*unsure(found), found.n, found.clusters) == (*NULLS, 3, count)


def test_a_group_is_as_unsure_as_its_leaves() -> None:
    leaves = [task("x", "mean", [0.2, 0.4], "one"), task("x", "mean", [0.5], "two"), task("x", "mean", [], "none")]
    group = GroupSpec("all", "all", ("one", "two", "none"), (GroupMetricSpec("x"),))
    (found,) = aggregate_groups([group], leaves)
    assert (found.metrics[0].estimate.value, found.metrics[0].estimate.n) == (pytest.approx(1.1 / 3), 3)
    assert unsure(found.metrics[0].estimate) == NULLS


def test_a_group_without_documents_has_no_value() -> None:
    group = GroupSpec("all", "all", ("none",), (GroupMetricSpec("x"),))
    (found,) = aggregate_groups([group], [task("x", "mean", [], "none")])
    assert (found.metrics[0].estimate.value, *unsure(found.metrics[0].estimate)) == (None, *NULLS)


def test_a_group_carries_the_counts_of_its_leaves() -> None:
    leaves = [task("x", "mean", [0.2, 0.4], "one"), task("x", "mean", [0.5], "two")]
    group = GroupSpec("all", "all", ("one", "two"), (GroupMetricSpec("x"),))
    (found,) = aggregate_groups([group], leaves)
    expected = Denominators(18, 5, 3, 2, 0, {"none": 3})
    assert found.denominators == expected == sum_denominators([leaf.denominators for leaf in leaves])


@pytest.mark.parametrize("aggregation", ["f1", "matthews_corrcoef", "cohen_kappa"])
def test_a_resampled_score_that_is_perfect_is_not_certain(aggregation: str) -> None:
    found = estimate("x", aggregation, [(1, 1), (0, 0)] * 10)
    assert found.value == 1.0 and unsure(found)[1:] == (None, None)


def test_constant_predictions_leave_the_correlation_unsure() -> None:
    assert unsure(estimate("x", "matthews_corrcoef", [(1, 1), (0, 1), (1, 1), (0, 1)])) == NULLS
