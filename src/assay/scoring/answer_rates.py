"""Rates of unparsed and truncated generated answers, reported beside the scores.

In: answered documents and their samples. Out: rates with intervals, over the scored documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.requests import Generation, Instance
from assay.core.responses import Failure, Text
from assay.core.results import AnsweredDocument
from assay.core.scores import MetricResult, Sample
from assay.scoring.document_scorer import DocumentScorer
from assay.scoring.scorers.generated_answer import STRIPS
from assay.stats.means import empty_estimate, mean_estimate

NO_ANSWER, TRUNCATED = "no_answer", "truncated"
_GENERATED = "generate_until"
_WRITTEN = (_GENERATED, "rotated_answer")
_EXACT = "exact_match"
_WHOLE_TASK = "none"


def answer_rates(
    kind: str,
    scorer: DocumentScorer,
    answered: Sequence[AnsweredDocument],
    samples: Sequence[Sample],
    clusters: Mapping[int, str] | None = None,
) -> tuple[MetricResult, ...]:
    """The rates of a task with generated answers; none for other tasks.

    A document with several draws counts by the share of its draws.

    Args:
        kind: the task's output type.
        scorer: its scoring.
        answered: its documents with their answers.
        samples: its scored documents.
        clusters: document → its cluster; None if documents are independent.
    """
    if kind != _GENERATED and not any(_may_write(item) for item in answered):
        return ()
    scored = [item for item in answered if not any(isinstance(output, Failure) for output in item.outputs)]
    rates = [
        _rate(NO_ANSWER, pipeline, _no_answers(scorer, samples, pipeline), clusters)
        for pipeline in scorer.extracting_pipelines
    ]
    cut_off = {item.document.id: truncated_share(item) for item in scored}
    return (*rates, _rate(TRUNCATED, _WHOLE_TASK, cut_off, clusters))


def _no_answers(scorer: DocumentScorer, samples: Sequence[Sample], pipeline: str) -> dict[int, float]:
    own = [sample for sample in samples if sample.filter == pipeline]
    return {sample.document_id: no_answer_share(scorer, sample) for sample in own}


def _may_write(item: AnsweredDocument) -> bool:
    """Whether a document requests generated text; a task written as a Python class may do so whatever its kind."""
    return any(type(request) is Generation for request in item.instance.requests)


def no_answer_share(scorer: DocumentScorer, sample: Sample) -> float:
    """Share of a document's draws without an answer."""
    draws = [draw for question in sample.extractions for draw in question]
    if not draws:
        return float(scorer.is_unparsed(sample))
    return sum(draw.answer is None for draw in draws) / len(draws)


def truncated_share(item: AnsweredDocument) -> float:
    """Share of a document's texts that reached the token limit."""
    texts = [output for output in item.outputs if isinstance(output, Text)]
    return sum(text.is_cut_off for text in texts) / len(texts) if texts else 0.0


def misses_by_space(scorer: DocumentScorer, instance: Instance, sample: Sample) -> bool:
    """Whether `exact_match` would be higher without white space around an answer."""
    if scorer.shape not in _WRITTEN or sample.values.get(_EXACT) in (None, 1.0):
        return False
    for bound_metric in scorer.bound_metrics:
        if bound_metric.spec.name == _EXACT and not bound_metric.is_task_code:
            view = scorer.view(instance, sample.filtered)
            return bool(bound_metric.value(view, {**bound_metric.spec.options, STRIPS: True}) > sample.values[_EXACT])
    return False


def _rate(name: str, pipeline: str, shares: Mapping[int, float], clusters: Mapping[int, str] | None) -> MetricResult:
    values = list(shares.values())
    if clusters is not None and values:
        from assay.stats.clustered import clustered_mean  # few tasks have clusters

        estimate = clustered_mean(values, [clusters[document_id] for document_id in shares]).estimate
    else:
        estimate = mean_estimate(values) if values else empty_estimate("wilson")
    return MetricResult(name, pipeline, estimate, higher_is_better=False)
