"""The `hf` model: any causal language model that transformers loads, from a folder or the Hub.

Takes lm-eval's model arguments; gives a model that satisfies `Model`, `Tokenizes` and `Advises`. Opening
reads nothing but a folder's names; what the model is, is read from small files; weights load when asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.protocols import TokenView
from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Output
from assay.core.specs import ModelSettings
from assay.models import checkpoints, hub
from assay.models.advice import missing_bos
from assay.models.batches import Batching, BatchLimit, read_batch_size
from assay.models.causal_arguments import CausalArguments, read_causal_arguments
from assay.models.chat import ChatRenderer
from assay.models.encoding import Encoder
from assay.models.generation import Writer, write_texts
from assay.models.likelihood import score_pairs, score_rolling
from assay.models.network import (
    Network,
    automatic_limit,
    choose_device,
    load_network,
    load_tokenizer,
    require_transformers,
    token_rules,
)
from assay.models.tokens import EncodedPrompt, EncodedText, Refused, show_pieces

Answer = tuple[int, Output | Failure]


def open_causal(args: Mapping[str, Any], settings: ModelSettings) -> CausalModel:
    """Opens a causal model; loads nothing yet.

    Args:
        args: lm-eval's model arguments, see `CausalArguments`.
        settings: device and batch size, which the arguments may override.

    Raises:
        ModelError: for unknown or wrong arguments, and for a folder that is no model's.
    """
    arguments = read_causal_arguments(args)
    asked = arguments.batch_size or str(settings.batch_size)
    limit = read_batch_size(asked)
    folder = hub.local_folder(arguments.pretrained, arguments.subfolder)
    if folder is not None:
        checkpoints.check_folder(folder, arguments)
    if arguments.tokenizer is not None:
        hub.local_folder(arguments.tokenizer)
    return CausalModel(arguments, arguments.device or settings.device, limit)


class CausalModel:
    """A causal language model of transformers.

    Args:
        arguments: the user's arguments.
        device: where to run; None for the best there is.
        limit: rows per batch; None for a token budget of the device.
    """

    def __init__(self, arguments: CausalArguments, device: str | None = None, limit: BatchLimit | None = None) -> None:
        self.arguments = arguments
        self.device = device
        self.limit = limit
        self._network: Network | None = None
        self._limits: dict[str, BatchLimit] = {}
        self._notices: dict[str, str] = {}

    @cached_property
    def checkpoint(self) -> checkpoints.Checkpoint:
        """The folder and its small files; a Hub model is fetched here."""
        args = self.arguments
        folder = hub.local_folder(args.pretrained, args.subfolder)
        weights = [args.gguf_file] if args.gguf_file else ["*.safetensors", "*.bin"]
        code = ["*.py"] if args.trust_remote_code else []
        place = (
            hub.Place(folder) if folder else hub.fetch(args.pretrained, args.revision, weights, code, args.subfolder)
        )
        tokenizer_folder = place.folder
        if args.tokenizer is not None:
            tokenizer_folder = hub.local_folder(args.tokenizer) or hub.fetch(args.tokenizer, None, [], code).folder
        return checkpoints.read_checkpoint(place.folder, tokenizer_folder, place.revision, args)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return checkpoints.fingerprint(self.checkpoint, self.arguments)

    @cached_property
    def capabilities(self) -> Capabilities:
        return checkpoints.capabilities(self.checkpoint, self.arguments)

    @cached_property
    def _encoder(self) -> Encoder:
        """Turns requests into ids; needs the tokenizer, not the weights."""
        tokenizer = load_tokenizer(self.checkpoint, self.arguments)
        rules = token_rules(tokenizer, checkpoints.max_length(self.checkpoint, self.arguments), self.arguments)
        renderer = ChatRenderer(tokenizer, self.arguments.template_options)
        return Encoder(rules, renderer, self.arguments.max_gen_toks)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Scores continuations, then whole texts, then writes; each kind is batched by itself."""
        if not self.capabilities.kinds:
            yield from ((place, self._refusal()) for place in range(len(requests)))
            return
        numbered = list(enumerate(requests))
        pairs = [(place, request) for place, request in numbered if isinstance(request, Loglikelihood)]
        texts = [(place, request) for place, request in numbered if isinstance(request, RollingLoglikelihood)]
        prompts = [(place, request) for place, request in numbered if isinstance(request, Generation)]
        if pairs:
            yield from self._score_pairs(pairs)
        if texts:
            yield from self._score_texts(texts)
        if prompts:
            yield from self._write(prompts)

    def _score_pairs(self, requests: Sequence[tuple[int, Loglikelihood]]) -> Iterator[Answer]:
        ready: list[EncodedText] = []
        for encoded in self._encoder.pairs(requests):
            if isinstance(encoded, Refused):
                yield encoded.index, encoded.failure
            else:
                ready.append(encoded)
        if ready:
            network = self._loaded()
            yield from score_pairs(ready, network.logits, self._batching("loglikelihood"), self.arguments.arithmetic)

    def _score_texts(self, requests: Sequence[tuple[int, RollingLoglikelihood]]) -> Iterator[Answer]:
        for place, windows in self._encoder.rolling(requests):
            if isinstance(windows, Refused):
                yield place, windows.failure
                continue
            batching = self._batching(RollingLoglikelihood.kind)
            yield place, score_rolling(windows, self._loaded().logits, batching, self.arguments.arithmetic)

    def _write(self, requests: Sequence[tuple[int, Generation]]) -> Iterator[Answer]:
        ready: list[EncodedPrompt] = []
        for encoded in self._encoder.prompts(requests):
            if isinstance(encoded, Refused):
                yield encoded.index, encoded.failure
            else:
                ready.append(encoded)
        if ready:
            writer = Writer(self._loaded(), self._encoder.rules.tokenizer, self.arguments.think_end_token)
            yield from write_texts(ready, writer, self._batching(Generation.kind))

    def _loaded(self) -> Network:
        """The network, loaded at first use."""
        if self._network is None:
            require_transformers(f'loading "{self.arguments.pretrained}"')
            device, notice = choose_device(self.device)
            self._network = load_network(self.checkpoint, self.arguments, device)
            for topic, text in (
                ("device", notice),
                ("bos", missing_bos(self._encoder.rules, self._network.logits)),
            ):
                if text:
                    self._notices[topic] = text
        return self._network

    def _batching(self, kind: str) -> Batching:
        """The batch limit of a request kind, as small as it had to become so far."""
        if kind not in self._limits:
            self._limits[kind] = self.limit or automatic_limit(self._loaded(), kind == Generation.kind)

        def remember(limit: BatchLimit) -> None:
            self._limits[kind] = limit
            self._notices[f"memory {kind}"] = f"memory ran out; {kind} batches were reduced to {limit}"

        return Batching(self._limits[kind], remember)

    def _refusal(self) -> Failure:
        name, kind = self.arguments.pretrained, self.capabilities.family
        message = f'"{name}" is an {kind} model; hf answers with causal language models only'
        return Failure("unsupported", message, retryable=False)

    def view(self, request: Request) -> TokenView:
        """A request as the model sees it; needs no weights."""
        seen = self._encoder.view(request)
        if isinstance(seen, Refused):
            raise ModelError(Fault(f"{request.kind} request", seen.failure.message))
        tokenizer = self._encoder.rules.tokenizer
        context, scored, truncated, text = seen
        return TokenView(
            context, scored, show_pieces(tokenizer, context), show_pieces(tokenizer, scored), truncated, text
        )

    def count_tokens(self, requests: Sequence[Request]) -> int:
        """Tokens read for all requests without any sharing; needs no weights."""
        return self._encoder.count(requests)

    def notices(self) -> Iterable[str]:
        """What the user should know after the model was loaded and asked."""
        return tuple(self._notices.values())

    def close(self) -> None:
        """Lets go of the weights; asked again, they are loaded again."""
        self._network = None
