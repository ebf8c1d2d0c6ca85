"""Estimates for all documents of a task from a random subsample, alone and with a reference run as control variate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assay.core.protocols import Task
from assay.core.results import TaskResult
from assay.core.scores import MetricResult
from assay.core.specs import SubsamplingOptions
from assay.run.build import BuiltTask, selected_documents
from assay.run.score import without_score
from assay.run.session import Session
from assay.scoring.aggregate import mean_metrics
from assay.scoring.problems import problem_of
from assay.stats.sampling import difference_estimate, finite_estimate
from assay.studies.sampling.references import check_documents, load_references
from assay.studies.sampling.subsample_values import AdditionalEstimate, ReferenceValues, SubsampleResult

REFERENCE = "--reference"


def sample_references(session: Session, run: str, tasks: Sequence[Task]) -> dict[str, ReferenceValues]:
    """The values of the reference run for every task; it must have evaluated all documents."""
    for task in tasks:
        selected_documents(task, session.spec)  # raises for a task whose documents are unusable
    found = load_references(session.store, run, tasks, REFERENCE)
    for task in tasks:
        check_documents(found[task.card.name], task.documents(), REFERENCE, is_whole=True)
    return found


def with_subsample_estimates(
    built: Sequence[BuiltTask],
    results: Sequence[TaskResult],
    subsampling: SubsamplingOptions,
    references: Mapping[str, ReferenceValues],
) -> tuple[TaskResult, ...]:
    """The results of a run on a random part of the documents, with estimates for all of them."""
    found = []
    for item, result in zip(built, results, strict=True):
        try:
            found.append(_with_subsample(item, result, subsampling, references.get(result.name)))
        except Exception as error:  # a value of task code that cannot be estimated affects this task only
            found.append(without_score(result, problem_of(error, f"task {result.name}")))
    return tuple(found)


def _with_subsample(
    built: BuiltTask, result: TaskResult, subsampling: SubsamplingOptions, reference: ReferenceValues | None
) -> TaskResult:
    counts = result.denominators
    if counts.total == counts.available and not subsampling.may_stop_early:
        return result
    whole: list[AdditionalEstimate] = []
    differences: list[AdditionalEstimate] = []
    # After stopping early the documents are not a random sample of a fixed size; nor are they if some failed.
    metrics = () if subsampling.may_stop_early else mean_metrics(built.task.scoring, result.metrics)
    for metric in metrics:
        values = dict(_values(result, metric))
        if len(values) < counts.total:
            continue
        estimate = finite_estimate(list(values.values()), counts.available)
        whole.append(AdditionalEstimate(metric.metric, metric.filter, estimate))
        theirs = {} if reference is None else reference.values.get((metric.metric, metric.filter), {})
        if len(theirs) == counts.available:
            full = [theirs[index] for index in range(counts.available)]
            differences.append(AdditionalEstimate(metric.metric, metric.filter, difference_estimate(full, values)))
    run = None if reference is None else reference.run
    subsample = SubsampleResult(counts.total, counts.available, subsampling.seed, tuple(whole), tuple(differences), run)
    return with_subsample(result, subsample)


def with_subsample(result: TaskResult, subsample: SubsampleResult) -> TaskResult:
    """A task's result with the estimates from the random sample of its documents."""
    return replace(result, additions={**result.additions, "spared": subsample})


def _values(result: TaskResult, metric: MetricResult) -> Iterator[tuple[int, float]]:
    for sample in result.samples:
        value = sample.values.get(metric.metric)
        if sample.filter == metric.filter and isinstance(value, (int, float)):
            yield sample.document_id, float(value)
