"""Counts and rates reported beside a task's scores: unparsed and truncated answers, draws, and sizes of texts.

In: answered documents of a task and their samples. Out: rates with intervals, and counts, over the scored documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.core.requests import Generation, Instance, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Text
from assay.core.results import AnsweredDocument
from assay.core.scores import DrawCounts, MetricResult, Sample, TextCounts
from assay.scoring.document_scorer import DocumentScorer
from assay.scoring.scorers.generated_answer import STRIPS
from assay.scoring.scorers.text_likelihood import LikelihoodView, per_byte, per_word
from assay.stats.means import empty_estimate, mean_estimate

NO_ANSWER, TRUNCATED = "no_answer", "truncated"
_GENERATED, _WHOLE_TEXT = "generate_until", "loglikelihood_rolling"
_WRITTEN = (_GENERATED, "rotated_answer")
_EXACT = "exact_match"
_WHOLE_TASK = "none"
_BY_WORDS, _BY_BYTES = ("word_perplexity",), ("byte_perplexity", "bits_per_byte")


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


def draw_counts(answered: Sequence[AnsweredDocument], samples: Sequence[Sample]) -> DrawCounts | None:
    """Counts of a task's draws; None if each question has one draw."""
    most = max((item.instance.draws for item in answered), default=1)
    if most < 2:
        return None
    unparsed: Counter[str] = Counter()
    for sample in samples:
        if sample.draws:
            unparsed[sample.filter] += sample.draws.count(None)
    failed = sum(isinstance(output, Failure) for item in answered for output in item.outputs)
    return DrawCounts(most, sum(len(item.outputs) for item in answered), failed, dict(unparsed))


def text_counts(kind: str, answered: Sequence[AnsweredDocument], samples: Sequence[Sample]) -> TextCounts | None:
    """The counts behind the perplexities of a task that scores whole texts; None for other tasks."""
    if kind != _WHOLE_TEXT:
        return None
    values = {sample.document_id: sample.values for sample in reversed(samples)}
    found = [_counts_of(item, values.get(item.document.id, {})) for item in answered if _is_scored_text(item)]
    return add_counts(found)


def add_counts(counts: Iterable[TextCounts]) -> TextCounts:
    """The sum; windows are unknown if those of any part are."""
    parts = list(counts)
    windows = [part.windows for part in parts]
    known = [count for count in windows if count is not None]
    return TextCounts(
        documents=sum(part.documents for part in parts),
        windows=sum(known) if len(known) == len(windows) else None,
        tokens=sum(part.tokens for part in parts),
        words=sum(part.words for part in parts),
        bytes=sum(part.bytes for part in parts),
    )


def _is_scored_text(item: AnsweredDocument) -> bool:
    request = item.instance.requests[0] if item.instance.requests else None
    return isinstance(request, RollingLoglikelihood) and all(isinstance(output, Logprob) for output in item.outputs)


def _counts_of(item: AnsweredDocument, values: dict[str, Any]) -> TextCounts:
    output = item.outputs[0]
    assert isinstance(output, Logprob)
    view = LikelihoodView(output, str(item.instance.target))
    return TextCounts(
        documents=1,
        windows=output.windows if output.token_count else 0,
        tokens=output.token_count,
        words=_weight(values, _BY_WORDS, per_word(view, {})[1]),
        bytes=_weight(values, _BY_BYTES, per_byte(view, {})[1]),
    )


def _weight(values: dict[str, Any], names: Sequence[str], usual: int) -> int:
    """The denominator that a metric used: task code may count words and bytes of another text than the model reads."""
    for name in names:
        value = values.get(name)
        if isinstance(value, (list, tuple)) and len(value) == 2:
            return int(value[1])
    return usual
