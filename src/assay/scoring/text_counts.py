"""Counts behind every perplexity: documents, windows, tokens, words and bytes.

In: answered documents of a task and their samples. Out: counts over the scored documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from assay.core.requests import RollingLoglikelihood
from assay.core.responses import Logprob
from assay.core.results import AnsweredDocument
from assay.core.scores import Sample, TextCounts
from assay.scoring.scorers.text_likelihood import LikelihoodView, per_byte, per_word

_BY_WORDS, _BY_BYTES = ("word_perplexity",), ("byte_perplexity", "bits_per_byte")


def text_counts(kind: str, answered: Sequence[AnsweredDocument], samples: Sequence[Sample]) -> TextCounts | None:
    """The counts of a task that scores whole texts; None for other tasks."""
    if kind != "loglikelihood_rolling":
        return None
    values = {sample.document_id: sample.values for sample in reversed(samples)}
    found = [_document(item, values.get(item.document.id, {})) for item in answered if _is_scored(item)]
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


def _is_scored(item: AnsweredDocument) -> bool:
    request = item.instance.requests[0] if item.instance.requests else None
    return isinstance(request, RollingLoglikelihood) and all(isinstance(output, Logprob) for output in item.outputs)


def _document(item: AnsweredDocument, values: dict[str, Any]) -> TextCounts:
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
