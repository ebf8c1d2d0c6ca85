"""Inference with an encoder head: rows of all requests, longest first, equal rows once.

In: requests by index. Out: each answer when its last row has been computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from assay.core.label_mapping import label_indices, unknown_labels_message
from assay.core.requests import ChoiceSelection, Classification, Rating, Request, SpanExtraction
from assay.core.responses import Failure, Output, unsupported
from assay.models.hf.encoder.encoder_network import EncoderNetwork
from assay.models.hf.encoder.head_encoding import HeadInput, HeadRequest, HeadRow, PairTokenizer, encode_head
from assay.models.hf.encoder.head_outputs import HeadPredictor
from assay.models.hf.encoder.heads import HeadKind
from assay.models.inference.batching import Batching, attempt

if TYPE_CHECKING:
    from torch import Tensor

# Requests encoded together: enough to sort by length, few enough for memory and early answers.
REQUESTS_PER_CHUNK = 1024

Answer = tuple[int, Output | Failure]
RowKey = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True)
class PendingRequest:
    """A request, its rows, and the logits computed so far."""

    index: int
    request: HeadRequest
    read: HeadInput
    logits: dict[int, Tensor] = field(default_factory=dict)


@dataclass(slots=True)
class SharedRow:
    """A distinct row and the requests that use it, each with the row's number in that request."""

    row: HeadRow
    users: list[tuple[PendingRequest, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeadEncoder:
    """Encodes requests for the head of one model.

    Attributes:
        tokenizer: the tokenizer.
        max_length: maximum sequence length in tokens.
        head: the kind of head.
        labels: names of the outputs of a classification head.
    """

    tokenizer: PairTokenizer
    max_length: int
    head: HeadKind
    labels: tuple[str, ...]

    def encode(self, request: Request) -> tuple[HeadRequest, HeadInput] | Failure:
        """The rows of a request that this head can answer."""
        if (
            not isinstance(request, (Classification, ChoiceSelection, SpanExtraction, Rating))
            or request.kind not in self.head.kinds
        ):
            return unsupported(request.kind)
        if isinstance(request, Classification) and label_indices(self.labels, request.labels) is None:
            return Failure("unsupported", unknown_labels_message(self.labels, request.labels), retryable=False)
        if isinstance(request, ChoiceSelection) and not request.choices:
            return Failure("empty", "there are no choices", retryable=False)
        read = attempt(partial(encode_head, self.tokenizer, request, self.max_length))
        return read if isinstance(read, Failure) else (request, read)


def share_rows(pending: Sequence[PendingRequest]) -> list[SharedRow]:
    """Every distinct row, longest first; ties by ids, so the order of requests has no effect."""
    found: dict[RowKey, SharedRow] = {}
    for entry in pending:
        for number, row in enumerate(entry.read.rows):
            found.setdefault((row.ids, row.type_ids), SharedRow(row)).users.append((entry, number))
    return sorted(found.values(), key=lambda shared: (-shared.row.length, shared.row.ids, shared.row.type_ids))


def run_head(
    pending: Sequence[PendingRequest], network: EncoderNetwork, reader: HeadPredictor, batching: Batching
) -> Iterator[Answer]:
    """Answers as they complete; a failed row fails the requests that need it."""
    failed: set[int] = set()

    def work(batch: Sequence[SharedRow]) -> list[Tensor]:
        return network.read([shared.row for shared in batch])

    for batch, result in network.run(share_rows(pending), lambda shared: shared.row.length, batching, work):
        if isinstance(result, Failure):
            indices = {entry.index for shared in batch for entry, _ in shared.users} - failed
            failed |= indices
            yield from ((index, result) for index in sorted(indices))
            continue
        for shared, table in zip(batch, result, strict=True):
            yield from _complete(shared, table, reader)


def _complete(shared: SharedRow, table: Tensor, reader: HeadPredictor) -> Iterator[Answer]:
    """Answers to requests for which this was the last row."""
    for entry, number in shared.users:
        entry.logits[number] = table
        if len(entry.logits) == len(entry.read.rows):
            logits = [entry.logits[index] for index in range(len(entry.read.rows))]
            yield entry.index, reader.answer(entry.request, entry.read, logits)
