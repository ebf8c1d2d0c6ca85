"""Group scores from task results: values by hand, what is missing, bounds over failed documents."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from assay.core.results import Problem, TaskResult
from assay.core.score_terms import BEST, CHANCE, MICRO, CombinedTerm, GroupScore, Normalisation, ScoreTerm, TaskTerm
from assay.core.scores import Denominators, Estimate, FailureBounds, MetricResult
from assay.core.specs import GroupMetricSpec, GroupSpec, TaskCard
from assay.core.task_variants import TaskVariant
from assay.scoring.aggregate import aggregate_groups

SAME = Normalisation(0.0)


def metric(name: str, value: float | None, n: int = 100, pipeline: str = "none", **more: Any) -> MetricResult:
    error = None if value is None else math.sqrt(max(value * (1 - value), 0.0) / n)
    ends = (None, None) if value is None or error is None else (value - 2 * error, value + 2 * error)
    return MetricResult(name, pipeline, Estimate(value, error, *ends, n=n, method="t"), True, **more)


def task(name: str, *metrics: MetricResult, failed: int = 0, problem: str = "", **facts: Any) -> TaskResult:
    own, _, _ = name.partition("@")
    card = TaskCard(name, 1, name, "multiple_choice", 0, {}, "test", variant=TaskVariant(own), facts=facts)
    n = max((item.estimate.n for item in metrics), default=0)
    found = Problem(()) if problem else None
    return TaskResult(card, metrics, Denominators(n + failed, n + failed, n, failed), "", "", problem=found)


def scored(term: CombinedTerm, *tasks: TaskResult, **group: Any) -> tuple[MetricResult, Problem | None]:
    spec = GroupSpec("g", "g", tuple(item.name for item in tasks), scores=(GroupScore("score", term),), **group)
    (result,) = aggregate_groups([spec], tasks)
    return result.metrics[0], result.problem


def value(term: CombinedTerm, *tasks: TaskResult) -> float:
    found, problem = scored(term, *tasks)
    assert problem is None and found.estimate.value is not None
    return found.estimate.value


def mean(*parts: ScoreTerm, **more: Any) -> CombinedTerm:
    return CombinedTerm("g", parts, **more)


def test_several_metrics_of_a_task_are_averaged_first() -> None:
    cb = task("cb", metric("acc", 0.8, 56), metric("f1", 0.6, 56))
    copa = task("copa", metric("acc", 0.5))
    found, _ = scored(mean(TaskTerm("cb", ("acc", "f1")), TaskTerm("copa", ("acc",)), scale=100), cb, copa)
    assert found.estimate.value == pytest.approx(100 * ((0.8 + 0.6) / 2 + 0.5) / 2)
    errors = [float(item.estimate.stderr or 0) for item in (*cb.metrics, *copa.metrics)]
    # The two metrics share their documents: their errors add up.
    assert found.estimate.stderr == pytest.approx(100 * math.hypot((errors[0] + errors[1]) / 2, errors[2]) / 2)
    assert (found.estimate.n, found.filter, found.higher_is_better) == (156, "none", True)
    assert found.harness_stderr == found.estimate.stderr


def test_macro_of_a_group_counts_tasks_and_micro_documents() -> None:
    tasks = [task("a", metric("acc", 0.9, 300)), task("b", metric("acc", 0.5, 100)), task("c", metric("acc", 0.2))]
    inner = [TaskTerm("a", ("acc",)), TaskTerm("b", ("acc",))]
    macro = mean(CombinedTerm("ab", tuple(inner)), TaskTerm("c", ("acc",)))
    micro = mean(CombinedTerm("ab", tuple(inner), MICRO), TaskTerm("c", ("acc",)))
    assert value(macro, *tasks) == pytest.approx((0.7 + 0.2) / 2)
    assert value(micro, *tasks) == pytest.approx((0.8 + 0.2) / 2)
    assert value(mean(*inner, TaskTerm("c", ("acc",)), how=MICRO), *tasks) == pytest.approx((270 + 50 + 20) / 500)


def test_tasks_are_normalised_one_by_one_and_pooled_documents_together() -> None:
    tasks = [task("a", metric("acc", 0.2)), task("b", metric("acc", 0.5))]
    rule = Normalisation(0.25)
    each = mean(TaskTerm("a", ("acc",), normalisation=rule), TaskTerm("b", ("acc",), normalisation=rule))
    together = mean(TaskTerm("a", ("acc",)), TaskTerm("b", ("acc",)), how=MICRO, normalisation=rule)
    assert value(each, *tasks) == pytest.approx((0 + 0.25 / 0.75) / 2)
    assert value(together, *tasks) == pytest.approx((0.35 - 0.25) / 0.75)


def test_chance_is_the_cards_for_the_primary_metric() -> None:
    known = task("a", metric("acc", 0.6), primary="acc", chance=0.5)
    term = TaskTerm("a", ("acc",), normalisation=Normalisation(CHANCE))
    assert value(mean(term), known) == pytest.approx(0.2)
    _, problem = scored(mean(term), task("a", metric("acc", 0.6), primary="f1", chance=0.5))
    assert problem is not None and "the score of guessing on a is unknown: state the floor as a number" in problem.text


def test_a_task_without_a_stated_metric_counts_by_its_primary_one() -> None:
    found = task("a", metric("acc", 0.2), metric("exact_match", 0.7, pipeline="strict"), primary="exact_match,strict")
    assert value(mean(TaskTerm("a")), found) == pytest.approx(0.7)
    _, problem = scored(mean(TaskTerm("a")), task("a", metric("acc", 0.2)))
    assert problem is not None and "a has no card that names its primary metric" in problem.text


def test_a_filter_chooses_the_pipeline() -> None:
    found = task("a", metric("em", 0.2, pipeline="strict"), metric("em", 0.4, pipeline="loose"))
    assert value(mean(TaskTerm("a", ("em",))), found) == pytest.approx(0.2)
    assert value(mean(TaskTerm("a", ("em",), "loose")), found) == pytest.approx(0.4)
    _, problem = scored(mean(TaskTerm("a", ("em",), "lose")), found)
    assert problem is not None and "a does not report em after the filter lose" in problem.text


def test_the_best_variant_counts_with_its_own_error() -> None:
    variants = task("a@mcf", metric("acc", 0.3)), task("a@cf", metric("acc_norm", 0.45))
    best = CombinedTerm("a", (TaskTerm("a@mcf", ("acc",)), TaskTerm("a@cf", ("acc_norm",))), BEST)
    found, _ = scored(mean(best), *variants)
    assert found.estimate.value == pytest.approx(0.45)
    assert found.estimate.stderr == pytest.approx(variants[1].metrics[0].estimate.stderr)
    assert found.estimate.n == 100  # both variants have the same documents


def test_variants_of_a_task_share_their_documents() -> None:
    tasks = task("a@x", metric("acc", 0.5)), task("a@y", metric("acc", 0.5))
    found, _ = scored(mean(TaskTerm("a@x", ("acc",)), TaskTerm("a@y", ("acc",))), *tasks)
    assert found.estimate.stderr == pytest.approx(0.05) and found.estimate.n == 100


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        (task("b", problem="x"), "b could not be scored"),
        (task("b", metric("f1", 0.5)), "b does not report acc (it reports f1)"),
        (task("b", metric("acc", None, 0)), "b has no value of acc"),
        (task("b", metric("acc", math.inf)), "b has no value of acc"),
    ],
)
def test_a_member_without_a_value_leaves_the_score_empty(lacking: TaskResult, reason: str) -> None:
    term = mean(TaskTerm("a", ("acc",)), TaskTerm("b", ("acc",)))
    found, problem = scored(term, task("a", metric("acc", 0.5)), lacking)
    assert found.estimate.value is None and found.estimate.n == 0
    assert problem is not None and f'group g: no score "score": {reason}' in problem.text


def test_only_tasks_of_the_score_matter_for_it() -> None:
    other = task("z", problem="x")
    spec = {"metrics": (GroupMetricSpec("acc"),)}
    found, problem = scored(mean(TaskTerm("a", ("acc",))), task("a", metric("acc", 0.5)), other, **spec)
    assert found.estimate.value == pytest.approx(0.5)
    assert problem is not None and "z could not be scored" in problem.text  # why the group's mean is empty


def test_recorded_answers_without_scores_are_no_problem() -> None:
    bypass = task("a", metric("bypass", 999.0))
    spec = GroupSpec("g", "g", ("a",), scores=(GroupScore("score", mean(TaskTerm("a", ("acc",)))),))
    (result,) = aggregate_groups([spec], [bypass])
    assert (result.metrics, result.problem) == ((), None)


def test_failed_documents_give_bounds() -> None:
    bounds = FailureBounds(100, 0.3, 0.8)
    a = task("a", metric("acc", 0.6, bounds=bounds), failed=100)
    b = task("b", metric("acc", 0.5))
    rule = Normalisation(0.4)
    term = mean(TaskTerm("a", ("acc",), normalisation=rule), TaskTerm("b", ("acc",), normalisation=rule), scale=100)
    found, _ = scored(term, a, b)
    assert found.bounds is not None and found.bounds.failed == 100
    assert found.bounds.low == pytest.approx(100 * (0 + 0.1 / 0.6) / 2)
    assert found.bounds.high == pytest.approx(100 * (0.4 / 0.6 + 0.1 / 0.6) / 2)


def test_directions_that_differ_give_none() -> None:
    down = replace(metric("ppl", 0.4), higher_is_better=False)
    found, _ = scored(
        mean(TaskTerm("a"), TaskTerm("b")), task("a", metric("acc", 0.5), primary="acc"), task("b", down, primary="ppl")
    )
    assert found.higher_is_better is None


# Scores of known suites on made-up results.


def test_open_llm_leaderboard_2_by_hand() -> None:
    """Normalised: IFEval 30, BBH mean of (0.5−1/2)/(1/2) and (0.4−0.25)/0.75, MuSR, GPQA below its floor, …"""
    tasks = [
        task("ifeval", metric("prompt", 0.25), metric("inst", 0.35)),
        task("bbh_a", metric("acc_norm", 0.5), primary="acc_norm", chance=0.5),
        task("bbh_b", metric("acc_norm", 0.4), primary="acc_norm", chance=0.25),
        task("math", metric("em", 0.1)),
        task("gpqa", metric("acc_norm", 0.24)),
        task("mmlu_pro", metric("acc", 0.19)),
    ]
    chance = Normalisation(CHANCE)
    bbh = tuple(TaskTerm(name, ("acc_norm",), normalisation=chance) for name in ("bbh_a", "bbh_b"))
    term = mean(
        TaskTerm("ifeval", ("prompt", "inst"), normalisation=SAME),
        CombinedTerm("bbh", bbh),
        TaskTerm("math", ("em",), normalisation=SAME),
        TaskTerm("gpqa", ("acc_norm",), normalisation=Normalisation(0.25)),
        TaskTerm("mmlu_pro", ("acc",), normalisation=Normalisation(0.1)),
        scale=100,
    )
    assert value(term, *tasks) == pytest.approx((30 + (0 + 20) / 2 + 10 + 0 + 10) / 5)
