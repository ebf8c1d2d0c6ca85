"""Encoders of `hf`, such as BERT and RoBERTa; their head determines which requests they answer.

In: the same arguments as for decoders. Out: a `Model` that also satisfies `ExposesTokens`, `ReportsNotices`,
`ReportsExecution` and `Trainable`. An encoder without a head answers no requests, but can be trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from assay.core.errors import Fault, ModelError
from assay.core.identity import Fingerprint
from assay.core.protocols import Capabilities, TokenView
from assay.core.requests import HEAD_KINDS, Request
from assay.core.responses import Failure, unsupported
from assay.models.hf.encoder.encoder_network import EncoderNetwork, load_encoder_network
from assay.models.hf.encoder.head_encoding import PairTokenizer
from assay.models.hf.encoder.head_examples import head_recipe
from assay.models.hf.encoder.head_inference import REQUESTS_PER_CHUNK, Answer, HeadEncoder, PendingRequest, run_head
from assay.models.hf.encoder.head_outputs import HeadPredictor
from assay.models.hf.encoder.heads import MASKED, MAX_SPAN, HeadKind, check_head, find_head, head_labels, head_settings
from assay.models.hf.encoder.masked_encoding import MaskedEncoder, MaskedText, make_masked_encoder, mask_id
from assay.models.hf.encoder.masked_lm import score_masked
from assay.models.hf.transformers_model import PaddedModel
from assay.models.loading import checkpoint as checkpoints
from assay.models.loading.tokenizer import load_tokenizer
from assay.models.tokens.tokenization import Refused, Tokenizer, show_pieces
from assay.models.training.recipes import RecipeMaker

if TYPE_CHECKING:
    import torch


class EncoderModel(PaddedModel[EncoderNetwork]):
    """A transformers encoder, with or without a head."""

    @cached_property
    def checkpoint(self) -> checkpoints.Checkpoint:
        """The folder and its small files; downloads a Hub model."""
        found = checkpoints.find_checkpoint(self.arguments)
        check_head(find_head(found.config), found.config, self.arguments)
        return found

    @cached_property
    def head(self) -> HeadKind | None:
        """The encoder's head; None if it has none."""
        return find_head(self.checkpoint.config)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        own = checkpoints.fingerprint(self.checkpoint, self.arguments)
        return replace(own, settings={**own.settings, **head_settings(self.checkpoint.config, self.arguments)})

    @cached_property
    def capabilities(self) -> Capabilities:
        return replace(
            checkpoints.capabilities(self.checkpoint, self.arguments),
            kinds=frozenset() if self.head is None else self.head.kinds,
            learns=frozenset(HEAD_KINDS),
            labels=head_labels(self.checkpoint.config, self.arguments),
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; needs no weights."""
        return load_tokenizer(self.checkpoint, self.arguments)

    @property
    def max_length(self) -> int:
        """Maximum sequence length in tokens."""
        return checkpoints.max_length(self.checkpoint, self.arguments)

    @cached_property
    def _head_encoder(self) -> HeadEncoder:
        assert self.head is not None
        tokenizer = cast(PairTokenizer, self.tokenizer)
        return HeadEncoder(tokenizer, self.max_length, self.head, self.capabilities.labels)

    @cached_property
    def _masked_encoder(self) -> MaskedEncoder:
        return make_masked_encoder(self.tokenizer, self.max_length, self.arguments)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answers the request kinds of the head; rejects others without loading the weights."""
        supported = [
            (index, request) for index, request in enumerate(requests) if request.kind in self.capabilities.kinds
        ]
        others = {*range(len(requests))} - {index for index, _ in supported}
        yield from ((index, unsupported(requests[index].kind)) for index in sorted(others))
        for start in range(0, len(supported), REQUESTS_PER_CHUNK):
            chunk = supported[start : start + REQUESTS_PER_CHUNK]
            yield from self._score(chunk) if self.head is MASKED else self._run_head(chunk)

    def _run_head(self, requests: Sequence[tuple[int, Request]]) -> Iterator[Answer]:
        pending: list[PendingRequest] = []
        for index, request in requests:
            encoded = self._head_encoder.encode(request)
            if isinstance(encoded, Failure):
                yield index, encoded
            else:
                pending.append(PendingRequest(index, *encoded))
        if pending:
            network, reader = (
                self._loaded(),
                HeadPredictor(self.capabilities.labels, self.arguments.max_span or MAX_SPAN),
            )
            yield from run_head(pending, network, reader, self._batching(network))

    def _score(self, requests: Sequence[tuple[int, Request]]) -> Iterator[Answer]:
        texts: list[MaskedText] = []
        for entry in self._masked_encoder.encode([request for _, request in requests]):
            if isinstance(entry, Refused):
                yield requests[entry.index][0], entry.failure
            else:
                texts.append(replace(entry, index=requests[entry.index][0]))
        if texts:
            network = self._loaded()
            yield from score_masked(texts, network, mask_id(self.tokenizer, self.arguments), self._batching(network))

    def _load(self, device: torch.device) -> EncoderNetwork:
        assert self.head is not None
        tokenizer = cast(PairTokenizer, self.tokenizer)
        return load_encoder_network(self.checkpoint, self.arguments, device, self.head, tokenizer)

    @property
    def _recipe(self) -> RecipeMaker:
        """Builds the recipe for the head that the training examples need."""
        return partial(head_recipe, cast(PairTokenizer, self.tokenizer))

    def view(self, request: Request) -> TokenView:
        """A request as token ids and pieces; needs no weights.

        For a head, the context is all rows one after another. For a masked language model, the masked tokens are the
        continuation, and the tokens before them the context.
        """
        if request.kind not in self.capabilities.kinds:
            raise ModelError(Fault(f"{request.kind} request", unsupported(request.kind).message))
        if self.head is MASKED:
            return self._masked_view(request)
        encoded = self._head_encoder.encode(request)
        if isinstance(encoded, Failure):
            raise ModelError(Fault(f"{request.kind} request", encoded.message))
        pending, read = encoded
        ids = tuple(token for row in read.rows for token in row.ids)
        return TokenView(ids, (), show_pieces(self.tokenizer, ids), (), read.truncated, pending.text)

    def _masked_view(self, request: Request) -> TokenView:
        (entry,) = self._masked_encoder.encode([request])
        if isinstance(entry, Refused):
            raise ModelError(Fault(f"{request.kind} request", entry.failure.message))
        scored = [(window.ids, indices[0]) for window in entry.windows for indices in window.masked]
        first = entry.windows[0] if entry.windows else None
        context = () if first is None else first.ids[: first.masked[0][0]]
        continuation = tuple(ids[index] for ids, index in scored)
        pieces = show_pieces(self.tokenizer, context), show_pieces(self.tokenizer, continuation)
        return TokenView(context, continuation, *pieces, entry.truncated, self._masked_encoder.given_text(request))

    def description(self) -> Mapping[str, Any]:
        """Execution report, for the record; empty before the weights are loaded."""
        if self._network is None:
            return {}
        return {"engine": "padded", "why": f"an encoder with a {self._network.head.name}"}
