"""From samples to the metrics of tasks and groups."""

from __future__ import annotations

import pytest

from assay.core.results import TaskResult
from assay.core.scores import Denominators, MetricResult, Sample
from assay.core.specs import (
    FilterSpec,
    GroupMetricSpec,
    GroupSpec,
    MetricSpec,
    PipelineSpec,
    Scoring,
    TaskCard,
)
from assay.scoring.aggregate import aggregate_groups, aggregate_task, leaves_of
from assay.stats.means import mean_estimate

TWO = (PipelineSpec("strict", (FilterSpec("take_first"),)), PipelineSpec("loose", (FilterSpec("take_first"),)))


def samples(pipeline: str, values: list[float]) -> list[Sample]:
    return [Sample(place, pipeline, (), {"exact_match": value}) for place, value in enumerate(values)]


def task(
    name: str, values: list[float], metric: str = "acc", up: bool | None = True, pipeline: str = "none"
) -> TaskResult:
    estimate = mean_estimate(values)
    own = (MetricResult(metric, pipeline, estimate, up, estimate.stderr),)
    card = TaskCard(name, 1, name, "multiple_choice", 0, {}, "test")
    return TaskResult(card, own, Denominators(len(values), len(values), len(values)), "", "")


def test_each_pipeline_has_its_own_numbers() -> None:
    scoring = Scoring("generate_until", (MetricSpec("exact_match"),), TWO)
    mixed = samples("strict", [0, 0, 1, 1]) + samples("loose", [1, 1, 1, 0])
    found = aggregate_task(scoring, mixed, 1000)
    assert [(m.metric, m.filter, m.estimate.value) for m in found] == [
        ("exact_match", "strict", 0.5),
        ("exact_match", "loose", 0.75),
    ]
    assert found[0].harness_stderr == pytest.approx(0.28867513459481287)
    assert found[0].higher_is_better is True


def test_a_task_file_may_change_direction_and_aggregation() -> None:
    spec = MetricSpec("exact_match", "median", higher_is_better=False)
    scoring = Scoring("generate_until", (spec,), TWO[:1])
    found = aggregate_task(scoring, samples("strict", [0.25, 0.5, 0.75, 1.0]), 0)[0]
    assert (found.estimate.value, found.higher_is_better, found.harness_stderr) == (0.75, False, None)


def test_no_samples_give_nulls_for_every_metric() -> None:
    found = aggregate_task(Scoring("generate_until", (MetricSpec("exact_match"),), TWO), [], 1000)
    assert [(m.filter, m.estimate.value, m.estimate.n) for m in found] == [("strict", None, 0), ("loose", None, 0)]


SMALL, LARGE = task("small", [1, 0]), task("large", [1, 1, 1, 0, 1, 1, 1, 0])
OTHER = task("other", [0.0, 2.0, 4.0], metric="f1")


def group(*metrics: GroupMetricSpec, members: tuple[str, ...] = ("small", "large"), name: str = "g") -> GroupSpec:
    return GroupSpec(name, name, members, metrics)


def test_a_group_weighs_by_size_unless_told_otherwise() -> None:
    by_size, once = GroupMetricSpec("acc"), GroupMetricSpec("acc", weight_by_size=False)
    assert aggregate_groups([group(by_size)], [SMALL, LARGE])[0].metrics[0].estimate.value == pytest.approx(0.7)
    assert aggregate_groups([group(once)], [SMALL, LARGE])[0].metrics[0].estimate.value == pytest.approx(0.625)


def test_a_groups_lm_eval_error_is_the_pooled_one() -> None:
    found = aggregate_groups([group(GroupMetricSpec("acc"))], [SMALL, LARGE])[0].metrics[0]
    one, two = (m.metrics[0].harness_stderr for m in (SMALL, LARGE))
    assert one is not None and two is not None
    assert found.harness_stderr == pytest.approx(((1 * 2 * one**2 + 7 * 8 * two**2) / 8 / 10) ** 0.5)


def test_a_leaf_without_the_metric_is_left_out() -> None:
    groups = [group(GroupMetricSpec("acc"), members=("small", "other"))]
    found = aggregate_groups(groups, [SMALL, OTHER])[0]
    assert (found.metrics[0].estimate.value, found.metrics[0].estimate.n) == (0.5, 2)
    assert found.sample_len == 5


def test_a_metric_that_no_leaf_has_gives_no_row() -> None:
    assert aggregate_groups([group(GroupMetricSpec("bleu"))], [SMALL, LARGE])[0].metrics == ()


def test_a_leaf_without_documents_does_not_count() -> None:
    found = aggregate_groups([group(GroupMetricSpec("acc", weight_by_size=False))], [SMALL, task("large", [])])
    assert found[0].metrics[0].estimate.value == 0.5


def test_only_leaves_without_documents_give_nulls() -> None:
    found = aggregate_groups([group(GroupMetricSpec("acc"))], [task("small", []), task("large", [])])[0].metrics[0]
    assert (found.estimate.value, found.harness_stderr, found.higher_is_better) == (None, None, None)


def test_leaves_that_disagree_have_no_direction() -> None:
    found = aggregate_groups([group(GroupMetricSpec("acc"))], [SMALL, task("large", [1, 0], up=False)])
    assert found[0].metrics[0].higher_is_better is None


def test_pipelines_are_sorted_or_chosen() -> None:
    leaves = [task("small", [1, 0], pipeline="b"), task("large", [1, 1], pipeline="a")]
    all_of_them = aggregate_groups([group(GroupMetricSpec("acc"))], leaves)[0].metrics
    assert [(m.filter, m.estimate.value) for m in all_of_them] == [("a", 1.0), ("b", 0.5)]
    chosen = aggregate_groups([group(GroupMetricSpec("acc", filters=("b", "c")))], leaves)[0].metrics
    assert [m.filter for m in chosen] == ["b"]


def test_a_group_of_groups_counts_leaves_once_and_never_subgroups() -> None:
    inner = group(GroupMetricSpec("acc"), name="inner")
    outer = group(GroupMetricSpec("acc"), members=("inner", "small", "third"), name="outer")
    found = aggregate_groups([inner, outer], [SMALL, LARGE, task("third", [0, 0])])[1]
    assert found.leaves == ("small", "large", "third")
    assert found.metrics[0].estimate.value == pytest.approx(7 / 12)
    assert found.sample_len == 12


def test_leaves_come_in_order() -> None:
    groups = {"a": GroupSpec("a", "a", ("x", "b", "y")), "b": GroupSpec("b", "b", ("y", "z"))}
    assert leaves_of("a", groups) == ("x", "y", "z")


def test_sample_len_is_the_largest_n() -> None:
    assert LARGE.sample_len == 8
