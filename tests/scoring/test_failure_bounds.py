"""Bounds over failed documents: tasks, groups, differences; known ranges and unknown ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from assay.core.results import TaskResult
from assay.core.scores import Denominators, FailureBounds, MetricResult, Sample
from assay.core.specs import GroupMetricSpec, GroupSpec, MetricSpec, Scoring, TaskCard
from assay.scoring.aggregate import aggregate_groups, aggregate_task
from assay.scoring.failure_bounds import difference_bounds, with_bounds
from assay.stats.means import mean_estimate


def bounded(spec: MetricSpec, values: list[object], failed: int, process: bool = False) -> FailureBounds | None:
    scoring = Scoring("generate_until", (spec,), process=(lambda fields, results: {}) if process else None)
    samples = [Sample(place, "none", (), {spec.name: value}) for place, value in enumerate(values)]
    (found,) = with_bounds(scoring, aggregate_task(scoring, samples, 0), samples, failed)
    return found.bounds


@pytest.mark.parametrize("name", ["acc", "exact_match", "squad_f1", "rougeL", "pass@1", "choice_mass"])
def test_shares_are_bounded_by_all_wrong_and_all_right(name: str) -> None:
    assert bounded(MetricSpec(name), [1.0, 1.0], 3) == FailureBounds(3, 0.4, 1.0)


@pytest.mark.parametrize("name", ["log_loss", "choice_margin"])
def test_what_has_no_range_has_no_bounds(name: str) -> None:
    assert bounded(MetricSpec(name), [0.25, 0.5], 1) == FailureBounds(1)


def test_a_median_is_not_bounded_as_a_mean() -> None:
    assert bounded(MetricSpec("acc", "median"), [0.0, 1.0, 1.0], 1) == FailureBounds(1)


def test_metrics_of_a_tasks_own_have_no_known_range() -> None:
    own = MetricSpec("own", function=lambda **_: 1.0)
    assert bounded(own, [1.0], 1) == FailureBounds(1)
    assert bounded(MetricSpec("own"), [1.0], 1, process=True) == FailureBounds(1)


def test_a_known_name_with_values_outside_of_its_range_is_not_trusted() -> None:
    assert bounded(MetricSpec("acc"), [100.0, 0.0], 1, process=True) == FailureBounds(1)
    assert bounded(MetricSpec("acc"), [1.0, 0.0], 2, process=True) == FailureBounds(2, 0.25, 0.75)


def leaf(name: str, values: list[float], failed: int) -> TaskResult:
    spec = Scoring("multiple_choice", (MetricSpec("acc"),))
    samples = [Sample(place, "none", (), {"acc": value}) for place, value in enumerate(values)]
    metrics = with_bounds(spec, aggregate_task(spec, samples, 0), samples, failed)
    size = len(values) + failed
    card = TaskCard(name, 1, name, "multiple_choice", 0, {}, "test")
    return TaskResult(card, metrics, Denominators(size, size, len(values), failed), "", "", samples=samples)


def group(leaves: list[TaskResult], by_size: bool) -> MetricResult:
    spec = GroupSpec("g", "g", tuple(task.name for task in leaves), (GroupMetricSpec("acc", weight_by_size=by_size),))
    (found,) = aggregate_groups([spec], leaves)
    return found.metrics[0]


def test_a_group_counts_failed_documents_of_all_its_tasks() -> None:
    leaves = [leaf("a", [1.0, 1.0], 2), leaf("b", [0.0] * 6, 0)]
    assert group(leaves, True).bounds == FailureBounds(2, 0.2, 0.4)
    assert group(leaves, False).bounds == FailureBounds(2, 0.25, 0.5)
    assert group([leaves[1]], True).bounds is None


def test_a_task_of_which_all_failed_is_in_the_groups_bounds() -> None:
    found = group([leaf("a", [1.0], 0), leaf("b", [], 3)], False)
    assert (found.estimate.value, found.bounds) == (1.0, FailureBounds(3, 0.5, 1.0))


def test_differences_are_bounded_by_every_way_to_fill_the_gaps() -> None:
    first: Mapping[int, float] = {0: 1.0, 1: 0.0, 2: 1.0}
    second: Mapping[int, float] = {0: 1.0, 1: 1.0, 3: 0.0}  # 2 failed there, 3 in the first, 4 in both
    ways = []
    for a3, a4, b2, b4 in itertools.product((0.0, 1.0), repeat=4):
        one, other = {**first, 3: a3, 4: a4}, {**second, 2: b2, 4: b4}
        ways.append(mean_estimate([other[place] - one[place] for place in range(5)]).value)
    low, high = difference_bounds(first, second, (2, 2)) or (9.0, 9.0)
    assert (low, high) == (pytest.approx(min(ways)), pytest.approx(max(ways)))


def test_gaps_that_are_not_failures_leave_differences_without_bounds() -> None:
    assert difference_bounds({0: 1.0, 1: 1.0}, {0: 1.0}, (0, 0)) is None
    assert difference_bounds({}, {}, (0, 0)) is None
