"""Aggregation of samples to estimates: per task and pipeline, then per group over its leaf tasks.

Also the values of single documents that a run records, so that runs can be compared; whole texts, as for BLEU, are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.metric_names import expanded_specs
from assay.core.protocols import ProgressCallback, ignore_progress
from assay.core.results import AnsweredDocument, GroupResult, Problem, TaskResult
from assay.core.scores import CUSTOM, DocumentValues, MetricResult, MetricValues, Sample, Value, sum_denominators
from assay.core.specs import GroupMetricSpec, GroupSpec, MetricSpec, Scoring
from assay.scoring.answer_counts import add_counts
from assay.scoring.failure_bounds import Leaf, group_bounds, task_bounds
from assay.scoring.metrics.aggregations import AGGREGATIONS, CORPUS_METRICS, MEAN_OF_POINTS
from assay.scoring.metrics.task_functions import custom_aggregation
from assay.scoring.metrics.value_types import Unreadable
from assay.scoring.problems import missing_members, problem_of
from assay.scoring.registry import METRICS, metric_definition
from assay.scoring.scorers.row_values import BY
from assay.scoring.task_code import task_code_error
from assay.stats.means import empty_estimate
from assay.stats.pooled import group_estimate, lm_eval_group_stderr

# lm-eval resamples metrics of these names, whatever their aggregation, at most this many times.
_SLOW_METRICS, _MOST_RESAMPLES = ("bleu", "chrf", "chrf++", "ter"), 100

# Interval methods that only means have.
_MEAN_METHODS = ("wilson", "wilson-t", "t", "clustered-wilson", "clustered-t", "wilson-clusters")

# Values that are recorded as they are, and the longest text that is recorded as a label.
_PLAIN = {float, int, bool}
_LONGEST_LABEL = 200


def aggregate_task(
    scoring: Scoring,
    samples: Sequence[Sample],
    bootstrap_iters: int | None,
    where: str = "",
    clusters: Mapping[int, str] | None = None,
    report: ProgressCallback = ignore_progress,
) -> tuple[MetricResult, ...]:
    """Estimates of every metric in the samples, under every pipeline; without samples, of every listed metric.

    Args:
        scoring: the task's scoring.
        samples: its scored documents.
        bootstrap_iters: resamples for lm-eval's standard errors; None or 0 for none.
        where: the task, for errors.
        clusters: document → its cluster; None if documents are independent.
        report: progress callback.
    """
    by_pipeline: dict[str, list[Sample]] = {pipeline.name: [] for pipeline in scoring.pipelines}
    for sample in samples:
        by_pipeline[sample.filter].append(sample)
    metrics = expanded_specs(scoring.metrics, where)
    resamples = _Resamples(bootstrap_iters or 0, report)
    is_open = scoring.process is not None or any(map(_may_give_others, metrics))
    return tuple(
        _metric_result(rule, name, own, resamples, where, _own_clusters(own, clusters))
        for name, own in by_pipeline.items()
        for rule in _rules(metrics, own if is_open else own[:1])
    )


def _may_give_others(spec: MetricSpec) -> bool:
    """Whether a metric may return values under other names: by category, task code, `evaluate`, few built-in ones."""
    is_foreign = spec.function is not None or spec.is_external or spec.name not in METRICS
    return is_foreign or spec.options.get(BY) is not None or metric_definition(spec.name).gives_many


@dataclass(frozen=True, slots=True)
class _Resamples:
    """lm-eval's resamples: their number, and the progress callback."""

    wanted: int
    report: ProgressCallback

    def of(self, metric: str) -> int:
        """Number of resamples for a metric."""
        return min(self.wanted, _MOST_RESAMPLES) if metric in _SLOW_METRICS else self.wanted

    def say(self, metric: str, what: str, done: int, total: int) -> None:
        self.report(f"{metric}: {what}", done, total)


@dataclass(frozen=True, slots=True)
class _ReportingRule:
    """Reporting rule of a metric.

    Attributes:
        name: its name.
        aggregation: a registered name, or the task's own function.
        higher_is_better: direction; None if undefined.
        is_points: whether its values are known to have another range than 0 to 1.
    """

    name: str
    aggregation: Any = "mean"
    higher_is_better: bool | None = None
    is_points: bool = False


def _rules(listed: Sequence[MetricSpec], samples: Sequence[Sample]) -> list[_ReportingRule]:
    """The reporting rules: listed metrics first, then names that only task code returns.

    Such a name is reported like the metric that returned it; a name from the task's own scoring has the mean and no
    direction.
    """
    rules = {spec.name: _rule(spec) for spec in listed}
    if not samples:
        return list(rules.values())
    names: dict[str, None] = {}
    sources: dict[str, str] = {}
    for sample in samples:
        names.update(dict.fromkeys(sample.values))
        if isinstance(sample.values, MetricValues) and sample.values.sources:
            sources.update(sample.values.sources)
    found = [rule for name, rule in rules.items() if name in names]
    for name in names:
        if name not in rules:
            source = rules.get(sources.get(name, ""))
            found.append(_ReportingRule(name) if source is None else replace(source, name=name))
    return found


def _rule(spec: MetricSpec) -> _ReportingRule:
    """The task file's settings, else the registered metric's, else the mean without a direction."""
    definition = metric_definition(spec.name) if spec.name in METRICS else None
    aggregation, direction = spec.aggregation, spec.higher_is_better
    if definition is not None:
        is_usual = aggregation is None or (definition.over_draws and aggregation == "mean")
        aggregation = definition.aggregation if is_usual else aggregation
        direction = definition.higher_is_better if direction is None else direction
    is_points = definition is not None and definition.span not in (None, (0.0, 1.0))
    return _ReportingRule(spec.name, aggregation or "mean", direction, is_points and aggregation == "mean")


def directions(scoring: Scoring, results: Sequence[MetricResult]) -> dict[str, bool | None]:
    """Direction of each metric (higher is better), listed by the task or returned by a listed one."""
    listed = {spec.name: _rule(spec).higher_is_better for spec in expanded_specs(scoring.metrics)}
    given = {result.metric: result.higher_is_better for result in results if result.higher_is_better is not None}
    return {**given, **listed}


def aggregation_names(scoring: Scoring, results: Sequence[MetricResult]) -> dict[str, str]:
    """The aggregation of each reported metric, by name; `custom` for the task's own function.

    A name that only task code returns counts as a mean if its interval is that of a mean.
    """
    listed = {spec.name: _rule(spec).aggregation for spec in scoring.metrics}
    found = {}
    for result in results:
        is_mean = result.estimate.method in _MEAN_METHODS
        name = listed.get(result.metric, "mean" if is_mean else CUSTOM)
        found[result.metric] = CUSTOM if callable(name) else str(name)
    return found


def document_clusters(answered: Sequence[AnsweredDocument]) -> dict[int, str] | None:
    """Document → its cluster; None if documents are independent."""
    if not answered or answered[0].instance.cluster is None:
        return None
    return {item.document.id: item.instance.cluster or "" for item in answered}


def _own_clusters(samples: Sequence[Sample], clusters: Mapping[int, str] | None) -> list[str] | None:
    return None if clusters is None else [clusters[sample.document_id] for sample in samples]


def mean_metrics(scoring: Scoring, results: Sequence[MetricResult]) -> list[MetricResult]:
    """The metrics whose score is a mean over documents, according to the task's scoring."""
    rules = {spec.name: _rule(spec).aggregation for spec in scoring.metrics}
    unlisted = "mean" if scoring.process is not None else None
    return [result for result in results if rules.get(result.metric, unlisted) == "mean"]


def first_mean_metric(scoring: Scoring) -> tuple[str, bool | None] | None:
    """The first listed metric whose score is a mean over documents, with its direction."""
    rules = map(_rule, scoring.metrics)
    return next(((rule.name, rule.higher_is_better) for rule in rules if rule.aggregation == "mean"), None)


def _metric_result(
    rule: _ReportingRule,
    pipeline: str,
    samples: Sequence[Sample],
    resamples: _Resamples,
    where: str,
    clusters: Sequence[str] | None = None,
) -> MetricResult:
    name, own = rule.name, rule.aggregation
    aggregation = custom_aggregation(own) if callable(own) else MEAN_OF_POINTS if rule.is_points else AGGREGATIONS[own]
    # A document for which the task's own scoring omitted this metric does not count for it.
    values = [sample.values[name] for sample in samples if name in sample.values]
    location = f'{where}, metric "{name}"' if where else f'metric "{name}"'
    try:
        read = aggregation.read(values)
        stderr = aggregation.lm_eval_stderr(read, resamples.of(name), partial(resamples.say, name))
        if clusters is None or aggregation.clustered is None:
            estimate = aggregation.estimate(read)
        else:
            those = [own for own, sample in zip(clusters, samples, strict=True) if name in sample.values]
            estimate = aggregation.clustered(read, those)
    except Unreadable as error:
        raise _unreadable(location, own, error) from error
    except (Exception, SystemExit) as error:  # task code may raise anything
        if not callable(own):
            raise
        raise task_code_error(location, f"its aggregation {_name(own)}", error) from error
    return MetricResult(name, pipeline, estimate, rule.higher_is_better, stderr)


def _unreadable(where: str, aggregation: Any, error: Unreadable) -> UserError:
    shown = repr(error.value)
    shown = shown if len(shown) <= 200 else shown[:200] + "…"
    if callable(aggregation):
        return UserError(Fault(where, f"its aggregation {_name(aggregation)} returned {shown}", error.expected))
    return UserError(
        Fault(
            where,
            f'the aggregation "{aggregation}" cannot use the value {shown} of a document',
            error.expected,
            "Choose another aggregation for the metric, or fix the code that computes its values",
        )
    )


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", repr(function)))


def leaf_tasks(group: str, groups: Mapping[str, GroupSpec]) -> tuple[str, ...]:
    """Names of all tasks below a group, without duplicates, in order."""
    found: dict[str, None] = {}
    for member in groups[group].members:
        for leaf in leaf_tasks(member, groups) if member in groups else (member,):
            found[leaf] = None
    return tuple(found)


def aggregate_groups(groups: Sequence[GroupSpec], tasks: Sequence[TaskResult]) -> tuple[GroupResult, ...]:
    """Scores of every group, over its leaf tasks and never over subgroups' metrics.

    A group with a task that could not be scored has no value; a group that cannot be aggregated has a problem.
    """
    by_name = {group.name: group for group in groups}
    by_task = {task.name: task for task in tasks}
    found = []
    for group in groups:
        leaves = leaf_tasks(group.name, by_name)
        results = [by_task[leaf] for leaf in leaves]
        try:
            result = _group_result(group, leaves, results)
            found.append(result if not group.scores else _with_scores(result, by_task))
        except Exception as error:  # values of task code may be valid for a task and not for its group
            counts = sum_denominators([task.denominators for task in results])
            problem = problem_of(error, f"group {group.name}")
            found.append(GroupResult(group, leaves, (), 0, denominators=counts, problem=problem))
    return tuple(found)


def _group_result(group: GroupSpec, leaves: tuple[str, ...], results: Sequence[TaskResult]) -> GroupResult:
    metrics = tuple(result for spec in group.metrics for result in _group_metrics(spec, results))
    scored = [task for task in results if task.metrics or task.problem is None]
    if group.is_pooled:
        metrics = _pooled_metrics(group.name, scored)
    problem = None
    if len(scored) < len(results) and (group.metrics or group.is_pooled):
        lost = [task.name for task in results if not task.metrics and task.problem is not None]
        problem = missing_members(group.name, lost)
        metrics = tuple(map(_without_value, metrics))
    counts = [task.texts for task in scored if task.texts is not None] if group.is_pooled else []
    texts = add_counts(counts) if counts and problem is None else None
    size, counts_of_all = (
        sum(task.sample_len for task in results),
        sum_denominators([task.denominators for task in results]),
    )
    return GroupResult(
        spec=group,
        leaves=leaves,
        metrics=metrics,
        sample_len=size,
        texts=texts,
        denominators=counts_of_all,
        problem=problem,
    )


def _with_scores(result: GroupResult, tasks: Mapping[str, TaskResult]) -> GroupResult:
    """A group's result with the scores that its authors define; a score without a value has a problem."""
    from assay.scoring.group_scores import group_score, only_records  # most groups have none

    group = result.spec
    found = [group_score(group.name, score, tasks) for score in group.scores if not only_records(score, tasks)]
    problems = [problem for problem in (result.problem, *(item.problem for item in found)) if problem is not None]
    faults = tuple(dict.fromkeys(fault for problem in problems for fault in problem.faults))
    return replace(
        result,
        metrics=(*(item.metric for item in found), *result.metrics),
        problem=Problem(faults) if faults else None,
    )


def _without_value(metric: MetricResult) -> MetricResult:
    return replace(metric, estimate=empty_estimate(metric.estimate.method), harness_stderr=None, bounds=None)


def _pooled_metrics(name: str, tasks: Sequence[TaskResult]) -> tuple[MetricResult, ...]:
    """The first leaf's metrics, computed over the documents of all leaves. Unregistered metrics stay with the leaves.

    A ratio of sums, such as a perplexity, is then that of all texts together, which no mean over leaves gives.
    """
    found = []
    failed = sum(task.denominators.failed for task in tasks)
    for reported in tasks[0].metrics if tasks else ():
        if reported.metric in METRICS:
            own = [sample for task in tasks for sample in task.samples if sample.filter == reported.filter]
            clusters = _pooled_clusters(tasks, reported.filter)
            rule, where = _rule(MetricSpec(reported.metric)), f"group {name}"
            result = _metric_result(rule, reported.filter, own, _Resamples(0, ignore_progress), where, clusters)
            # Only perplexities are pooled, which have no upper bound.
            bounds = task_bounds(result.estimate, None, failed) if failed else None
            found.append(replace(result, bounds=bounds))
    return tuple(found)


def _pooled_clusters(tasks: Sequence[TaskResult], pipeline: str) -> list[str] | None:
    """The clusters of all leaves' documents, distinct between leaves; None if no leaf has any."""
    by_task = [document_clusters(task.answered) for task in tasks]
    if all(clusters is None for clusters in by_task):
        return None
    return [
        f"{task.name} {sample.document_id if clusters is None else clusters[sample.document_id]}"
        for task, clusters in zip(tasks, by_task, strict=True)
        for sample in task.samples
        if sample.filter == pipeline
    ]


def _group_metrics(spec: GroupMetricSpec, tasks: Sequence[TaskResult]) -> list[MetricResult]:
    found = {metric.filter for task in tasks for metric in task.metrics if metric.metric == spec.metric}
    wanted = sorted(found) if spec.filters is None else [name for name in spec.filters if name in found]
    return [_group_metric(spec, name, tasks) for name in wanted]


def _group_metric(spec: GroupMetricSpec, pipeline: str, tasks: Sequence[TaskResult]) -> MetricResult:
    every = [
        (task, metric)
        for task in tasks
        for metric in task.metrics
        if metric.metric == spec.metric and metric.filter == pipeline
    ]
    leaves = [(task, metric) for task, metric in every if metric.estimate.value is not None]
    # lm-eval weights a leaf by its documents, also if some of them have no value of this metric.
    sizes = [task.sample_len for task, _ in leaves]
    directions = {metric.higher_is_better for _, metric in leaves}
    families = [task.card.family for task, _ in leaves]
    return MetricResult(
        spec.metric,
        pipeline,
        group_estimate([metric.estimate for _, metric in leaves], sizes, spec.weight_by_size, families),
        directions.pop() if len(directions) == 1 else None,
        lm_eval_group_stderr([metric.harness_stderr for _, metric in leaves], sizes, spec.weight_by_size),
        group_bounds(
            (Leaf(metric, task.sample_len, task.denominators.failed) for task, metric in every), spec.weight_by_size
        ),
    )


def document_values(scoring: Scoring, result: TaskResult, with_texts: bool = False) -> list[DocumentValues]:
    """The document values of every metric.

    Args:
        scoring: the task's scoring.
        result: its scored documents.
        with_texts: whether to include the texts of corpus metrics.
    """
    names, clusters = aggregation_names(scoring, result.metrics), document_clusters(result.answered)
    by_pipeline: dict[str, list[Sample]] = {}
    for sample in result.samples:
        by_pipeline.setdefault(sample.filter, []).append(sample)
    found = []
    for metric in result.metrics:
        own = [sample for sample in by_pipeline.get(metric.filter, ()) if metric.metric in sample.values]
        aggregation = names[metric.metric]
        values = _readable([sample.values[metric.metric] for sample in own], aggregation, with_texts)
        if values is not None:
            document_ids = [sample.document_id for sample in own]
            own_clusters = None if clusters is None else [clusters[document_id] for document_id in document_ids]
            found.append(
                DocumentValues(
                    task=result.name,
                    metric=metric.metric,
                    filter=metric.filter,
                    aggregation=aggregation,
                    documents=document_ids,
                    values=values,
                    clusters=own_clusters,
                )
            )
    return found


def _readable(values: list[Any], aggregation: str, with_texts: bool) -> Sequence[Value] | None:
    """The values as numbers or pairs; None if they are neither."""
    if set(map(type, values)) <= _PLAIN:
        return values
    if aggregation in CORPUS_METRICS:
        return values if with_texts else None
    if aggregation == CUSTOM or aggregation not in AGGREGATIONS:
        return None
    if aggregation in ("matthews_corrcoef", "macro_f1") and all(map(_is_labels, values)):
        return [tuple(value) for value in values]  # texts are numbered when both runs are compared, not before
    try:
        read = AGGREGATIONS[aggregation].read(values)
    except Unreadable:
        return None
    return read if isinstance(read, list) and all(map(_is_value, read)) else None


def _is_labels(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_LABEL


def _is_value(value: Any) -> bool:
    return type(value) in _PLAIN or (isinstance(value, tuple) and len(value) in (2, 3))
