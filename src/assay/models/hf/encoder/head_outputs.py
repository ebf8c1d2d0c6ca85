"""From a head's logits to answers: log-probabilities of labels and choices, and answer spans.

In: a request, its rows and their logits. Out: an output, or a failure if logits are not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.label_mapping import label_indices
from assay.core.requests import Classification, Rating, SpanExtraction
from assay.core.responses import Failure, LabelScores, Text
from assay.models.hf.encoder.head_encoding import HeadInput, HeadRequest, HeadRow
from assay.models.inference.likelihood import NOT_FINITE

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class HeadPredictor:
    """Converts the logits of one model into outputs.

    Attributes:
        labels: names of the outputs of a classification head.
        max_span: maximum answer span in tokens.
    """

    labels: tuple[str, ...]
    max_span: int

    def answer(self, request: HeadRequest, read: HeadInput, logits: Sequence[Tensor]) -> LabelScores | Text | Failure:
        """The head's output; `logits` belong to the request's rows, in order."""
        if not all(bool(table.isfinite().all()) for table in logits):
            return NOT_FINITE
        if isinstance(request, SpanExtraction):
            return span_text(request, read, logits, self.max_span)
        if isinstance(request, Rating):
            return Text(f"{float(logits[0][0]):.6f}", prompt_tokens=read.rows[0].length, truncated=read.truncated)
        if isinstance(request, Classification):
            places = label_indices(self.labels, request.labels) or ()
            return _scores([logits[0][place] for place in places], read)
        return _scores([table[0] for table in logits], read)


def _scores(logits: Sequence[Tensor], read: HeadInput) -> LabelScores:
    """Log-softmax over the requested labels or choices only."""
    import torch

    scores = tuple(torch.stack(list(logits)).log_softmax(dim=-1).tolist())
    return LabelScores(scores, max(row.length for row in read.rows), read.truncated)


@dataclass(frozen=True, slots=True)
class Span:
    """A span in a window: its score (start logit + end logit), and its first and last token."""

    score: float
    first: int
    last: int


def best_span(context: str, row: HeadRow, logits: Tensor, max_span: int) -> Span | None:
    """The highest-scoring span in a window, the first of equals; None if the window has no words.

    Whitespace-only tokens neither begin nor end a span, so that every span contains a word.
    """
    import torch

    outside = torch.tensor([not place or not context[slice(*place)].strip() for place in row.offsets])
    if bool(outside.all()):
        return None
    starts, ends = logits.masked_fill(outside, -torch.inf)
    # Row i contains the possible ends of a span that starts at token i.
    reach = torch.cat((ends, ends.new_full((max_span - 1,), -torch.inf))).unfold(0, max_span, 1)
    sums = starts.unsqueeze(1) + reach
    first, width = divmod(int(sums.argmax()), max_span)
    return Span(float(sums[first, width]), first, first + width)


def span_text(request: SpanExtraction, read: HeadInput, logits: Sequence[Tensor], max_span: int) -> Text | Failure:
    """The best span over all windows, or an empty text if "no answer" scores higher.

    The score of "no answer" is that of CLS as start and end, minimised over all windows: a context lacks the answer
    only if each of its windows does (Devlin et al. 2019, for SQuAD 2.0).
    """
    found = [best_span(request.context, row, table, max_span) for row, table in zip(read.rows, logits, strict=True)]
    spans = [(span, row) for span, row in zip(found, read.rows, strict=True) if span is not None]
    seen = sum(row.length for row in read.rows)
    nothing = Text("", prompt_tokens=seen, truncated=read.truncated)
    if not spans:
        return nothing if request.may_lack else Failure("empty", "the context has no words to answer with", False)
    best, row = max(spans, key=lambda entry: entry[0].score)
    null = min(float(table[:, row.null_token].sum()) for row, table in zip(read.rows, logits, strict=True))
    if request.may_lack and null > best.score:
        return nothing
    start, end = row.offsets[best.first], row.offsets[best.last]
    assert start is not None and end is not None  # best_span uses context tokens only
    text = request.context[start[0] : end[1]].strip()
    return Text(text, token_count=best.last - best.first + 1, prompt_tokens=seen, truncated=read.truncated)
