"""From samples to estimates: per task and pipeline, then per group over its leaf tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.results import GroupResult, TaskResult
from assay.core.scores import MetricResult, Sample
from assay.core.specs import GroupMetricSpec, GroupSpec, MetricSpec, Scoring
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.registry import metric_definition
from assay.stats.pooled import group_estimate, harness_group_stderr


def aggregate_task(scoring: Scoring, samples: Sequence[Sample], bootstrap_iters: int) -> tuple[MetricResult, ...]:
    """Every metric under every pipeline."""
    by_pipeline: dict[str, list[Sample]] = {pipeline.name: [] for pipeline in scoring.pipelines}
    for sample in samples:
        by_pipeline[sample.filter].append(sample)
    return tuple(
        _metric_result(spec, name, own, bootstrap_iters)
        for name, own in by_pipeline.items()
        for spec in scoring.metrics
    )


def _metric_result(spec: MetricSpec, pipeline: str, samples: Sequence[Sample], iterations: int) -> MetricResult:
    definition = metric_definition(spec.name)
    aggregation = AGGREGATIONS[spec.aggregation or definition.aggregation]
    values = [sample.values[spec.name] for sample in samples]
    direction = definition.higher_is_better if spec.higher_is_better is None else spec.higher_is_better
    stderr = aggregation.harness_stderr(values, iterations)
    return MetricResult(spec.name, pipeline, aggregation.estimate(values), direction, stderr)


def leaves_of(group: str, groups: Mapping[str, GroupSpec]) -> tuple[str, ...]:
    """Names of all tasks below a group, each once, in order."""
    found: dict[str, None] = {}
    for member in groups[group].members:
        for leaf in leaves_of(member, groups) if member in groups else (member,):
            found[leaf] = None
    return tuple(found)


def aggregate_groups(groups: Sequence[GroupSpec], tasks: Sequence[TaskResult]) -> tuple[GroupResult, ...]:
    """Every group's own scores, over its leaf tasks and never over subgroups' scores."""
    by_name = {group.name: group for group in groups}
    by_task = {task.name: task for task in tasks}
    found = []
    for group in groups:
        leaves = leaves_of(group.name, by_name)
        results = [by_task[leaf] for leaf in leaves]
        metrics = tuple(result for spec in group.metrics for result in _group_metrics(spec, results))
        found.append(GroupResult(group, leaves, metrics, sum(task.sample_len for task in results)))
    return tuple(found)


def _group_metrics(spec: GroupMetricSpec, tasks: Sequence[TaskResult]) -> list[MetricResult]:
    found = {metric.filter for task in tasks for metric in task.metrics if metric.metric == spec.metric}
    wanted = sorted(found) if spec.filters is None else [name for name in spec.filters if name in found]
    return [_group_metric(spec, name, tasks) for name in wanted]


def _group_metric(spec: GroupMetricSpec, pipeline: str, tasks: Sequence[TaskResult]) -> MetricResult:
    leaves = [
        metric
        for task in tasks
        for metric in task.metrics
        if metric.metric == spec.metric and metric.filter == pipeline and metric.estimate.value is not None
    ]
    sizes = [metric.estimate.n for metric in leaves]
    directions = {metric.higher_is_better for metric in leaves}
    return MetricResult(
        spec.metric,
        pipeline,
        group_estimate([metric.estimate for metric in leaves], sizes, spec.weight_by_size),
        directions.pop() if len(directions) == 1 else None,
        harness_group_stderr([metric.harness_stderr for metric in leaves], sizes, spec.weight_by_size),
    )
