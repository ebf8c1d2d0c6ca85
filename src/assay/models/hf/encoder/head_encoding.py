"""Requests for heads as rows of tokens, the same when a model is asked and when it is trained.

Takes a `Classification`, `ChoiceSelection` or `SpanExtraction` and a tokenizer of transformers; gives the rows that an
encoder reads, with the tokenizer's own special tokens, and how many tokens had to be cut. Needs neither weights nor
torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.core.errors import Fault, ModelError
from assay.core.requests import ChoiceSelection, Classification, SpanExtraction

HeadRequest = Classification | ChoiceSelection | SpanExtraction

# Tokens of context that two neighbouring windows share, as in transformers' own examples of question answering.
STRIDE = 128
_SURROGATES = re.compile("[\ud800-\udfff]")


class PairTokenizer(Protocol):
    """What is used of a transformers tokenizer to encode texts and pairs of texts."""

    @property
    def is_fast(self) -> bool: ...

    @property
    def cls_token_id(self) -> int | None: ...

    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...

    def __call__(self, text: str, text_pair: str | None = None, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One row that an encoder reads.

    Attributes:
        ids: the tokens.
        type_ids: 0 for tokens of the first text, 1 for those of the second, where the tokenizer tells them apart.
        offsets: of a span request, where each token stands in the context, as (start, end) in characters; None for
            tokens outside of it. Empty for other requests.
        first_context_token: place of the first token of the context; the row's length where it holds none.
        null_token: place of the token that stands for "no answer": CLS, or the first where there is none.
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
    """All rows of a request: one, one per choice, or the windows over a context; and how many tokens were cut."""

    rows: tuple[HeadRow, ...]
    truncated: int = 0


def encode_head(tokenizer: PairTokenizer, request: HeadRequest, max_length: int) -> HeadInput:
    """The rows of a request, none longer than `max_length`.

    Raises:
        ModelError: where `max_length` leaves no room for text, and for a span when the tokenizer cannot tell where its
            tokens stand.
    """
    if max_length <= tokenizer.num_special_tokens_to_add(pair=True) + 1:
        found = f"{max_length} tokens leave no room for a pair of texts between the special tokens"
        raise ModelError(Fault("max_length", found))
    if isinstance(request, Classification):
        return _gather([_encode(tokenizer, request.first, request.second, max_length)])
    if isinstance(request, ChoiceSelection):
        return _gather([_encode_choice(tokenizer, request.question, choice, max_length) for choice in request.choices])
    return _encode_span(tokenizer, request, max_length)


def pad_rows(
    rows: Sequence[HeadRow], pad_id: int, takes_types: bool, pad_type_id: int = 0
) -> dict[str, list[list[int]]]:
    """Rows padded on the right to one length, under the names that models of transformers take them by."""
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
    """Lone surrogates, which tokenizers refuse, as U+FFFD; every character keeps its place."""
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
    """A text or a pair as a row, and the number of tokens that were cut to make it fit."""
    texts = clean_text(first), None if second is None else clean_text(second)
    # verbose=False: the tokenizer's own warning about long texts; what is cut is counted and shown by us.
    whole = tokenizer(*texts, return_token_type_ids=True, verbose=False)
    excess = len(whole["input_ids"]) - max_length
    if excess <= 0:
        return _row(whole), 0
    if rule == "only_first" and len(_bare_ids(tokenizer, texts[0])) <= excess:
        rule = "longest_first"  # the second alone is too long: cutting all of the first would not do
    cut = tokenizer(*texts, return_token_type_ids=True, verbose=False, truncation=rule, max_length=max_length)
    row = _row(cut)
    return row, len(whole["input_ids"]) - row.length


def _row(encoded: Mapping[str, Sequence[int]]) -> HeadRow:
    return HeadRow(tuple(encoded["input_ids"]), tuple(encoded["token_type_ids"]))


def _bare_ids(tokenizer: PairTokenizer, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _encode_span(tokenizer: PairTokenizer, request: SpanExtraction, max_length: int) -> HeadInput:
    """Windows over the context behind the question; where more than half the room would go to the question, it is cut.

    Neighbouring windows share tokens, so that an answer at the end of one is whole in the next.
    """
    if not tokenizer.is_fast:
        found = "the tokenizer does not say where its tokens stand in a text, so no span can be cut from it"
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
    """The beginning of a text that is at most so many tokens long."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    # A text cut between two tokens may be encoded with more: then less of it is kept.
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
