"""Notices for documents that share a text, or its id, and were counted as independent.

Takes the results of tasks; gives a notice where the clustered standard error would be clearly larger.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from assay.core.results import TaskResult
from assay.core.scores import Estimate, MetricResult
from assay.tasks.clusters import group_value, shared_column

# Means of documents, whose error clusters change.
_METHODS = ("wilson", "wilson-t", "t")
# With some hundred clusters, smaller ratios occur by chance.
_LARGER = 1.2


def shared_text_notices(results: Sequence[TaskResult]) -> list[str]:
    """One notice per task at most: variants of a task have the same documents."""
    reported: dict[str, str | None] = {}
    for result in results:
        family = result.card.family
        if reported.get(family) is None:
            reported[family] = _notice(result)
    return [notice for notice in reported.values() if notice is not None]


def _notice(result: TaskResult) -> str | None:
    if any(metric.estimate.clusters is not None for metric in result.metrics):
        return None
    metric = next((item for item in result.metrics if _has_error(item)), None)
    column = shared_column([item.document for item in result.answered]) if metric is not None else None
    if metric is None or column is None:
        return None
    found, own = _clustered(result, metric, column), metric.estimate.stderr or 0.0
    if found is None or found.stderr is None or found.stderr < _LARGER * own:
        return None
    reported = f'{found.n:,} documents share {found.clusters:,} values of the column "{column}"'
    errors = f"the standard error of {metric.metric} is {found.stderr:.4f} clustered by it instead of {own:.4f}"
    if result.subsample is not None and result.subsample.stop is not None:  # its rules ignore clusters
        way_out = f"the anytime-valid interval ignores clusters, too; use --sample N with --cluster {column} instead"
        return f"{result.name}: {reported}; {errors}; {way_out}"
    return f"{result.name}: {reported}; {errors}: use --cluster {column}, or --cluster auto"


def _has_error(metric: MetricResult) -> bool:
    return metric.estimate.method in _METHODS and bool(metric.estimate.stderr)


def _clustered(result: TaskResult, metric: MetricResult, column: str) -> Estimate | None:
    """The metric with the error by the texts of a column; None where documents have no plain number."""
    from assay.stats.clustered import clustered_mean  # most runs have no use for it

    texts: dict[int, Hashable] = {}
    for document in (item.document for item in result.answered):
        value = group_value(document.fields.get(column))
        texts[document.id] = ("alone", document.id) if value is None else value
    own = [sample for sample in result.samples if sample.filter == metric.filter and metric.metric in sample.values]
    values = [sample.values[metric.metric] for sample in own]
    if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
        return None
    return clustered_mean(values, [texts[sample.document_id] for sample in own]).estimate
