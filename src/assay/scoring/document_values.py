"""Per-document metric values that a run records.

In: a task's result. Out: `DocumentValues` per metric and pipeline. Whole texts, as for BLEU, are not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.results import TaskResult
from assay.core.scores import CUSTOM, DocumentValues, Sample, Value
from assay.core.specs import Scoring
from assay.scoring.aggregate import aggregation_names, document_clusters
from assay.scoring.metrics import value_types
from assay.scoring.metrics.aggregations import AGGREGATIONS, CORPUS_METRICS

_PLAIN = {float, int, bool}
_LONGEST_LABEL = 200


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
    if aggregation == "matthews_corrcoef" and all(map(_is_labels, values)):
        return [tuple(value) for value in values]  # texts are numbered when both runs are compared, not before
    try:
        read = AGGREGATIONS[aggregation].read(values)
    except value_types.Unreadable:
        return None
    return read if isinstance(read, list) and all(map(_is_value, read)) else None


def _is_labels(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_LABEL


def _is_value(value: Any) -> bool:
    return type(value) in _PLAIN or (isinstance(value, tuple) and len(value) in (2, 3))
