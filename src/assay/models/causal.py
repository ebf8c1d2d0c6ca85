"""Decoders of the `hf` model: any causal language model that transformers loads, from a folder or the Hub.

Takes lm-eval's model arguments; gives a `Model` that also satisfies `Tokenizes`, `Measures`, `Advises`,
`Describes` and `Trainable`.
Opening reads nothing but a folder's names; what the model is, is read from small files; weights load when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.fitting import FitListener, FitReport, FitSettings, Lesson
from assay.core.protocols import Progress, TokenView, Workload
from assay.core.requests import Request
from assay.core.responses import Failure, Output
from assay.core.specs import ModelSettings
from assay.models import checkpoints, hub
from assay.models.advice import missing_bos
from assay.models.batches import BatchLimit, read_batch_size
from assay.models.causal_arguments import AUTO, CausalArguments, read_causal_arguments
from assay.models.encoding import Encoder, make_encoder, token_view
from assay.models.engine.account import Meter, rates_of
from assay.models.engine.choosing import choose
from assay.models.engine.engine import Engine
from assay.models.engine.forecast import forecast
from assay.models.fitting.courses import Parent
from assay.models.fitting.fit import fit
from assay.models.fitting.texts import text_course
from assay.models.generation import Writer
from assay.models.network import (
    choose_device,
    load_network,
    require_transformers,
)

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
    return CausalModel(arguments, arguments.device or settings.device, limit, arguments.engine or settings.engine)


class CausalModel:
    """A causal language model of transformers.

    Args:
        arguments: the user's arguments.
        device: where to run; None for the best there is.
        limit: rows per batch; None for what fits and is fast.
        engine: `auto`, `tree` or `padded`.
    """

    def __init__(
        self,
        arguments: CausalArguments,
        device: str | None = None,
        limit: BatchLimit | None = None,
        engine: str = AUTO,
    ) -> None:
        self.arguments = arguments
        self.device = device
        self.limit = limit
        self.engine = engine
        self._engine: Engine | None = None
        self._listener: Callable[[Progress], None] = lambda _: None
        self._notices: dict[str, str] = {}

    @cached_property
    def checkpoint(self) -> checkpoints.Checkpoint:
        """The folder and its small files; a Hub model is fetched here."""
        return checkpoints.find_checkpoint(self.arguments)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return checkpoints.fingerprint(self.checkpoint, self.arguments)

    @cached_property
    def capabilities(self) -> Capabilities:
        able = checkpoints.capabilities(self.checkpoint, self.arguments)
        return able if able.family == "causal" else replace(able, kinds=frozenset(), learns=frozenset())

    @cached_property
    def _encoder(self) -> Encoder:
        """Turns requests into ids; needs the tokenizer, not the weights."""
        return make_encoder(Encoder, self.checkpoint, self.arguments)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Scores continuations and whole texts together, then writes."""
        if not self.capabilities.kinds:
            yield from ((place, self._refusal()) for place in range(len(requests)))
            return
        job = self._encoder.encode(requests)
        yield from job.refused
        if not job.texts and not job.pages and not job.prompts:
            return
        engine = self._loaded()
        yield from job.collect(engine.score(engine.begin(job, self._listener)))
        if job.prompts:
            writer = Writer(engine.network, self._encoder.rules.tokenizer, self.arguments.think_end_token)
            yield from engine.write(job.prompts, writer)

    def _loaded(self) -> Engine:
        """The network, loaded and tried at first use."""
        if self._engine is None:
            require_transformers(f'loading "{self.arguments.pretrained}"')
            device, notice = choose_device(self.device)
            network = load_network(self.checkpoint, self.arguments, device)
            choice = choose(network, self.engine, self.arguments.arithmetic, self._encoder.rules.max_length)
            for topic, text in (("device", notice), ("bos", missing_bos(self._encoder.rules, network.logits))):
                if text:
                    self._notices[topic] = text
            self._engine = Engine(
                network,
                choice,
                rates_of(network.module),
                self.arguments.arithmetic,
                self.limit,
                self._notices.__setitem__,
            )
        return self._engine

    def _refusal(self) -> Failure:
        name, kind = self.arguments.pretrained, self.capabilities.family
        message = f'"{name}" is an {kind} model; a causal language model is needed here'
        return Failure("unsupported", message, retryable=False)

    def fit(
        self,
        lessons: Sequence[Lesson],
        checks: Sequence[Lesson],
        settings: FitSettings,
        folder: Path,
        listener: FitListener,
    ) -> FitReport:
        """Trains a copy of the model and saves it; see docs/finetuning.md."""
        course = partial(text_course, self._encoder)
        digest = self.fingerprint.digest
        parent = Parent(self.checkpoint, self.arguments, digest, self.capabilities, course, self.device)
        return fit(parent, lessons, checks, settings, folder, listener)

    def view(self, request: Request) -> TokenView:
        """A request as the model sees it; needs no weights."""
        return token_view(self._encoder, request)

    def workload(self, requests: Sequence[Request]) -> Workload:
        """What these requests would take; needs no weights."""
        return forecast(self._encoder.encode(requests), self.checkpoint, self.arguments, self.device)

    def watch(self, listener: Callable[[Progress], None]) -> None:
        """Has a listener told of progress during `respond`; the first report comes when the weights are loaded."""
        self._listener = listener

    @property
    def account(self) -> Meter | None:
        """What the last `respond` has cost; None before the first."""
        return None if self._engine is None else self._engine.meter

    def description(self) -> Mapping[str, Any]:
        """How the model was asked in the last `respond`; nothing before the weights were loaded."""
        return {} if self._engine is None else self._engine.description()

    def notices(self) -> Iterable[str]:
        """What the user should know after the model was loaded and asked."""
        return tuple(self._notices.values())

    def close(self) -> None:
        """Lets go of the weights; asked again, they are loaded again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
