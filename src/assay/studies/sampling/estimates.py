"""What a random sample tells of the documents that it leaves out: of the whole task, and beside a reference run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assay.core.results import TaskResult
from assay.core.scores import MetricResult
from assay.core.subsampling import AdditionalEstimate, ReferenceValues, SubsampleResult, SubsamplingOptions
from assay.run.build import BuiltTask
from assay.run.score import without_score
from assay.scoring.aggregate import mean_metrics
from assay.scoring.problems import problem_of
from assay.stats.sampling import difference_estimate, finite_estimate
from assay.store.store import Store
from assay.studies.sampling.references import check_documents, load_references

REFERENCE = "--reference"


def sample_references(store: Store, run: str, built: Sequence[BuiltTask]) -> dict[str, ReferenceValues]:
    """The reference of every task, which asked about all of its documents."""
    found = load_references(store, run, [item.task for item in built], REFERENCE)
    for item in built:
        check_documents(found[item.task.card.name], item.task.documents(), REFERENCE, is_whole=True)
    return found


def with_subsample_estimates(
    built: Sequence[BuiltTask],
    results: Sequence[TaskResult],
    sparing: SubsamplingOptions,
    references: Mapping[str, ReferenceValues],
) -> tuple[TaskResult, ...]:
    """The results of a run that asked a random part of the documents, with what else that tells."""
    found = []
    for item, result in zip(built, results, strict=True):
        try:
            found.append(_with_subsample(item, result, sparing, references.get(result.name)))
        except Exception as error:  # a value of task code that no estimate takes costs this task alone
            found.append(without_score(result, problem_of(error, f"task {result.name}")))
    return tuple(found)


def _with_subsample(
    built: BuiltTask, result: TaskResult, sparing: SubsamplingOptions, reference: ReferenceValues | None
) -> TaskResult:
    counts = result.denominators
    if counts.total == counts.available and not sparing.may_stop_early:
        return result
    whole: list[AdditionalEstimate] = []
    differences: list[AdditionalEstimate] = []
    # After stopping, what was asked is no random sample of a fixed size; nor is it without those that failed.
    metrics = () if sparing.may_stop_early else mean_metrics(built.task.scoring, result.metrics)
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
    subsample = SubsampleResult(counts.total, counts.available, sparing.seed, tuple(whole), tuple(differences), run)
    return replace(result, subsample=subsample)


def _values(result: TaskResult, metric: MetricResult) -> Iterator[tuple[int, float]]:
    for sample in result.samples:
        value = sample.values.get(metric.metric)
        if sample.filter == metric.filter and isinstance(value, (int, float)):
            yield sample.document_id, float(value)
