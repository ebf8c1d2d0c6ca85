"""Encoded requests for encoder heads, the same for inference and training.

In: a `Classification`, `ChoiceSelection` or `SpanExtraction` and a transformers tokenizer. Out: rows of token ids
with the tokenizer's own special tokens, and the number of truncated tokens. Needs neither weights nor torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.core.errors import Fault, ModelError
from assay.core.requests import ChoiceSelection, Classification, Rating, SpanExtraction

HeadRequest = Classification | ChoiceSelection | SpanExtraction | Rating

# Context tokens shared by neighbouring windows, as in transformers' question-answering examples.
STRIDE = 128
_SURROGATES = re.compile("[\ud800-\udfff]")


class PairTokenizer(Protocol):
    """The interface used of a transformers tokenizer to encode texts and pairs of texts."""

    @property
    def is_fast(self) -> bool: ...

    @property
    def cls_token_id(self) -> int | None: ...

    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...

    def __call__(self, text: str, text_pair: str | None = None, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One input row of an encoder.

    Attributes:
        ids: token ids.
        type_ids: 0 for tokens of the first text, 1 for the second, if the tokenizer distinguishes them.
        offsets: for a span request, the (start, end) characters of each token in the context; None for tokens outside
            it. Empty for other requests.
        first_context_token: position of the first context token; the row's length if there is none.
        null_token: position of the token for "no answer": CLS, or the first token if there is no CLS.
    """

    ids: tuple[int, ...]
    type_ids: tuple[int, ...]
    offsets: tuple[tuple[int, int] | None, ...] = ()
    first_context_token: int = 0
    null_token: int = 0

    @property
    def length(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class HeadInput:
    """All rows of a request: one, one per choice, or the windows over a context; and the number of truncated tokens."""

    rows: tuple[HeadRow, ...]
    truncated: int = 0


def encode_head(tokenizer: PairTokenizer, request: HeadRequest, max_length: int) -> HeadInput:
    """The rows of a request, at most `max_length` tokens each.

    Raises:
        ModelError: if `max_length` leaves no room for text, or a span is requested and the tokenizer has no offsets.
    """
    if max_length <= tokenizer.num_special_tokens_to_add(pair=True) + 1:
        found = f"{max_length} tokens leave no room for a pair of texts between the special tokens"
        raise ModelError(Fault("max_length", found))
    if isinstance(request, (Classification, Rating)):
        return _gather([_encode(tokenizer, request.first, request.second, max_length)])
    if isinstance(request, ChoiceSelection):
        return _gather([_encode_choice(tokenizer, request.question, choice, max_length) for choice in request.choices])
    return _encode_span(tokenizer, request, max_length)


def pad_rows(
    rows: Sequence[HeadRow], pad_id: int, takes_types: bool, pad_type_id: int = 0
) -> dict[str, list[list[int]]]:
    """Rows padded on the right to equal length, under transformers' input names."""
    longest = max(row.length for row in rows)
    gaps = [longest - row.length for row in rows]
    pairs = list(zip(rows, gaps, strict=True))
    padded = {
        "input_ids": [[*row.ids, *[pad_id] * gap] for row, gap in pairs],
        "attention_mask": [[*[1] * row.length, *[0] * gap] for row, gap in pairs],
    }
    if takes_types:
        padded["token_type_ids"] = [[*row.type_ids, *[pad_type_id] * gap] for row, gap in pairs]
    return padded


def clean_text(text: str) -> str:
    """Replaces lone surrogates, which tokenizers reject, by U+FFFD; character offsets do not change."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _gather(parts: Sequence[tuple[HeadRow, int]]) -> HeadInput:
    return HeadInput(tuple(row for row, _ in parts), sum(cut for _, cut in parts))


def _encode_choice(tokenizer: PairTokenizer, question: str, choice: str, max_length: int) -> tuple[HeadRow, int]:
    if not question:
        return _encode(tokenizer, choice, None, max_length)
    return _encode(tokenizer, question, choice, max_length, "only_first")


def _encode(
    tokenizer: PairTokenizer, first: str, second: str | None, max_length: int, rule: str = "longest_first"
) -> tuple[HeadRow, int]:
    """A text or a pair as a row, and the number of truncated tokens."""
    texts = clean_text(first), None if second is None else clean_text(second)
    # verbose=False silences the warning about long texts; truncation is counted and reported elsewhere.
    whole = tokenizer(*texts, return_token_type_ids=True, verbose=False)
    excess = len(whole["input_ids"]) - max_length
    if excess <= 0:
        return _row(whole), 0
    if rule == "only_first" and len(_bare_ids(tokenizer, texts[0])) <= excess:
        rule = "longest_first"  # the second alone is too long: truncating only the first is not enough
    cut = tokenizer(*texts, return_token_type_ids=True, verbose=False, truncation=rule, max_length=max_length)
    row = _row(cut)
    return row, len(whole["input_ids"]) - row.length


def _row(encoded: Mapping[str, Sequence[int]]) -> HeadRow:
    return HeadRow(tuple(encoded["input_ids"]), tuple(encoded["token_type_ids"]))


def _bare_ids(tokenizer: PairTokenizer, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _encode_span(tokenizer: PairTokenizer, request: SpanExtraction, max_length: int) -> HeadInput:
    """Windows over the context after the question, which is truncated if it takes more than half of the row.

    Neighbouring windows overlap, so that an answer at the end of one is complete in the next.
    """
    if not tokenizer.is_fast:
        found = "the tokenizer does not report character offsets, so answer spans cannot be extracted"
        raise ModelError(Fault("span request", found, "a fast tokenizer (tokenizer.json)"))
    question, context = clean_text(request.question), clean_text(request.context)
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    question_length = len(_bare_ids(tokenizer, question))
    if question_length > room // 2 and question_length + len(_bare_ids(tokenizer, context)) > room:
        question = _shortened(tokenizer, question, room // 2)
    cut_length = len(_bare_ids(tokenizer, question))
    encoded = tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=max_length,
        stride=min(STRIDE, (room - cut_length) // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
        verbose=False,
    )
    rows = tuple(_window(tokenizer, encoded, number) for number in range(len(encoded["input_ids"])))
    return HeadInput(rows, question_length - cut_length)


def _shortened(tokenizer: PairTokenizer, text: str, most: int) -> str:
    """The longest prefix of a text with at most `most` tokens."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    # A text cut between two tokens may encode to more tokens; then try a shorter prefix.
    for count in range(most, 0, -1):
        short = text[: offsets[count - 1][1]]
        if len(_bare_ids(tokenizer, short)) <= most:
            return short
    return ""


def _window(tokenizer: PairTokenizer, encoded: Any, number: int) -> HeadRow:
    ids = tuple(encoded["input_ids"][number])
    in_context = [sequence == 1 for sequence in encoded.sequence_ids(number)]
    places = zip(encoded["offset_mapping"][number], in_context, strict=True)
    return HeadRow(
        ids,
        tuple(encoded["token_type_ids"][number]),
        tuple((start, end) if inside else None for (start, end), inside in places),
        in_context.index(True) if True in in_context else len(ids),
        ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0,
    )
