"""From samples to the metrics of tasks and groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.core.errors import UserError
from assay.core.results import TaskResult
from assay.core.scores import Denominators, MetricResult, MetricValues, Sample
from assay.core.specs import (
    FilterSpec,
    GroupMetricSpec,
    GroupSpec,
    MetricSpec,
    PipelineSpec,
    Scoring,
    TaskCard,
)
from assay.scoring.aggregate import aggregate_groups, aggregate_task, leaf_tasks
from assay.scoring.metrics import value_types as reading
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


@pytest.mark.parametrize(("values", "ends"), [([0.0, 0.0], (None, None)), ([0.2, 0.9], (-3.9, 5.0))])
def test_small_values_of_a_metric_to_100_are_not_shares(values: list[float], ends: tuple[Any, Any]) -> None:
    own = [Sample(place, "strict", (), {"bleu_max": value}) for place, value in enumerate(values)]
    found = aggregate_task(Scoring("generate_until", (MetricSpec("bleu_max"),), TWO[:1]), own, 0)[0].estimate
    assert found.method == "t" and (found.low, found.high) == pytest.approx(ends, abs=0.1)


def test_a_task_file_may_change_direction_and_aggregation() -> None:
    spec = MetricSpec("exact_match", "median", higher_is_better=False)
    scoring = Scoring("generate_until", (spec,), TWO[:1])
    found = aggregate_task(scoring, samples("strict", [0.25, 0.5, 0.75, 1.0]), 0)[0]
    assert (found.estimate.value, found.higher_is_better, found.harness_stderr) == (0.75, False, None)


def test_no_samples_give_nulls_for_every_metric() -> None:
    found = aggregate_task(Scoring("generate_until", (MetricSpec("exact_match"),), TWO), [], 1000)
    assert [(m.filter, m.estimate.value, m.estimate.n) for m in found] == [("strict", None, 0), ("loose", None, 0)]


def held(*values: dict[str, Any]) -> list[Sample]:
    return [Sample(place, "none", (), own) for place, own in enumerate(values)]


def own_scoring(*metrics: MetricSpec) -> Scoring:
    return Scoring("generate_until", metrics, process=lambda fields, results: {})


def test_names_are_listed_ones_first_then_as_found() -> None:
    mixed = held({"x": 1, "late": 2.0, "acc": True}, {"acc": False, "new": 4})
    found = aggregate_task(own_scoring(MetricSpec("acc"), MetricSpec("late", "median", False)), mixed, 0)
    assert [(m.metric, m.estimate.value, m.estimate.n, m.higher_is_better) for m in found] == [
        ("acc", 0.5, 2, True),
        ("late", 2.0, 1, False),
        ("x", 1.0, 1, None),
        ("new", 4.0, 1, None),
    ]


def test_a_name_that_is_not_listed_has_the_mean_and_no_direction_even_if_it_is_known() -> None:
    found = aggregate_task(own_scoring(), held({"perplexity": 2.0}, {"perplexity": 4.0}), 0)[0]
    assert (found.estimate.value, found.higher_is_better) == (3.0, None)


def test_a_listed_metric_that_no_document_has_is_left_out() -> None:
    found = aggregate_task(own_scoring(MetricSpec("acc"), MetricSpec("f1")), held({"acc": 1.0}), 0)
    assert [m.metric for m in found] == ["acc"]


def test_names_of_one_metrics_making_are_reported_like_it() -> None:
    first, second = MetricValues(), MetricValues()
    first.add("pass_at_k", {"pass@1": 1.0, "pass@8": 3.0})
    first.add("other", {"o": 1.0})
    second.add("pass_at_k", {"pass@1": 5.0, "pass@8": 4.0})
    listed = (MetricSpec("pass_at_k", max, False), MetricSpec("other", "mean", True))
    found = aggregate_task(Scoring("generate_until", listed), held(first, second), 1000)
    assert [(m.metric, m.estimate.value, m.higher_is_better) for m in found] == [
        ("pass@1", 5.0, False),
        ("pass@8", 4.0, False),
        ("o", 1.0, True),
    ]


def test_a_tasks_own_aggregation_has_a_value_and_no_error_of_lm_evals() -> None:
    def spread(values: list[float]) -> Any:
        values.sort()
        return np.float32(values[-1] - values[0])

    found = aggregate_task(own_scoring(MetricSpec("m", spread)), held({"m": 3}, {"m": 1}), 1000)[0]
    assert (found.estimate.value, found.estimate.stderr, found.estimate.n) == (2.0, None, 2)
    assert (found.estimate.method, found.harness_stderr) == ("custom", None)
    assert type(found.estimate.value) is float


def test_an_aggregation_that_gives_no_number_is_named() -> None:
    def by_class(values: list[float]) -> dict[str, float]:
        return {"a": 1.0}

    with pytest.raises(UserError, match='task t, metric "m": its aggregation by_class returned {.a.: 1.0}; expected'):
        aggregate_task(own_scoring(MetricSpec("m", by_class)), held({"m": 1}), 0, "task t")


def test_an_aggregation_that_raises_is_the_users_error() -> None:
    def broken(values: list[float]) -> float:
        raise KeyError("label")

    with pytest.raises(UserError, match='metric "m": its aggregation broken raised KeyError: .label.') as caught:
        aggregate_task(own_scoring(MetricSpec("m", broken)), held({"m": 1}), 0)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("value", ["0.5", (0, 1), None, [1.0], {"a": 1}, np.zeros(2), 1j])
def test_the_mean_of_what_is_not_a_number_is_the_users_error(value: Any) -> None:
    with pytest.raises(UserError, match='task t, metric "m": the aggregation "mean" cannot use the value'):
        aggregate_task(own_scoring(MetricSpec("m")), held({"m": 1.0}, {"m": value}), 0, "task t")


def test_numbers_of_any_type_have_lm_evals_mean() -> None:
    """lm-eval 0.4.13: mean 1.3599999999999999, error 0.5124451190127582."""
    values = [True, 2, np.float64(0.1), np.int64(3), 0.7]
    found = aggregate_task(own_scoring(), held(*({"m": value} for value in values)), 1000)[0]
    assert found.estimate.value == pytest.approx(1.3599999999999999, abs=1e-12)
    assert found.harness_stderr == pytest.approx(0.5124451190127582, abs=1e-12)
    assert reading.as_number(np.bool_(True)) == reading.as_number(np.array([1.0])) == 1.0


def test_likelihood_needs_an_aggregation_of_the_task() -> None:
    pairs = held({"likelihood": (0, (-1.0, -2.0))}, {"likelihood": (1, (-3.0, -5.0))})
    with pytest.raises(UserError, match='metric "likelihood": the aggregation "mean" cannot use the value'):
        aggregate_task(Scoring("multiple_choice", (MetricSpec("likelihood"),)), pairs, 0)
    own = MetricSpec("likelihood", lambda items: sum(lls[gold] for gold, lls in items))
    assert aggregate_task(Scoring("multiple_choice", (own,)), pairs, 0)[0].estimate.value == -6.0


def test_f1_of_texts_is_the_users_error() -> None:
    """scikit-learn, and so lm-eval, has no label 1 among texts either."""
    with pytest.raises(UserError, match='metric "f1": the aggregation "f1" cannot use .*; expected a pair of numbers'):
        aggregate_task(Scoring("generate_until", (MetricSpec("f1"),)), held({"f1": ["1", "1"]}), 0)


def test_labels_of_two_kinds_are_the_users_error() -> None:
    with pytest.raises(UserError, match="expected a pair of labels, both numbers or both texts"):
        aggregate_task(Scoring("generate_until", (MetricSpec("mcc"),)), held({"mcc": ["a", 1]}), 0)


def test_metrics_named_like_corpus_scores_are_resampled_a_hundred_times_at_most() -> None:
    values = [{"bleu": value, "m": value} for value in (1.0, 2.0, 4.0, 8.0)]
    listed = (MetricSpec("bleu", "median"), MetricSpec("m", "median"))
    bleu, other = aggregate_task(own_scoring(*listed), held(*values), 1000)
    short = aggregate_task(own_scoring(*listed), held(*values), 100)[1]
    assert bleu.harness_stderr == short.harness_stderr != other.harness_stderr


def test_resamples_for_lm_evals_error_are_reported_with_the_metric_and_the_way_out() -> None:
    heard: list[tuple[str, int, int]] = []
    values = [{"f1": [1, place % 2]} for place in range(40)]
    aggregate_task(own_scoring(MetricSpec("f1")), held(*values), 2000, report=lambda *report: heard.append(report))
    name = "f1: resamples for lm-eval's standard error (none with --bootstrap_iters 0)"
    assert heard == [(name, 1000, 2000), (name, 2000, 2000)]


@pytest.mark.parametrize("iterations", [0, None])
def test_no_iterations_give_no_lm_eval_errors(iterations: int | None) -> None:
    found = aggregate_task(
        own_scoring(MetricSpec("b", "bleu")), held({"b": ["a b", "a b"]}, {"b": ["c", "d"]}), iterations
    )
    assert found[0].harness_stderr is None


SMALL, LARGE = task("small", [1, 0]), task("large", [1, 1, 1, 0, 1, 1, 1, 0])
OTHER = task("other", [0.0, 2.0, 4.0], metric="f1")


def group(*metrics: GroupMetricSpec, members: tuple[str, ...] = ("small", "large"), name: str = "g") -> GroupSpec:
    return GroupSpec(name, name, members, metrics)


def test_a_group_weighs_by_size_unless_set_otherwise() -> None:
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
    assert leaf_tasks("a", groups) == ("x", "y", "z")


def test_a_leaf_weighs_by_its_documents_also_where_some_lack_the_metric() -> None:
    """As lm-eval: the weights are sample_len, 4 and 2, and not the 1 and 2 documents that have the metric."""
    few = aggregate_task(own_scoring(), held({"all": 0, "acc": 1.0}, {"all": 0}, {"all": 0}, {"all": 0}), 0)
    leaf = replace(task("few", []), metrics=few)
    assert leaf.sample_len == 4
    found = aggregate_groups([group(GroupMetricSpec("acc"), members=("few", "small"))], [leaf, SMALL])[0]
    assert found.metrics[0].estimate.value == pytest.approx((4 * 1.0 + 2 * 0.5) / 6)
    assert found.sample_len == 6


def test_sample_len_is_the_largest_n() -> None:
    assert LARGE.sample_len == 8
