"""Base classes of transformers models: checkpoint, fingerprint, training; prompts as tokens; padded batches.

A family adds how its weights are loaded, how it answers requests, and its training recipe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from assay.core.errors import Fault, ModelError
from assay.core.identity import Fingerprint, digest
from assay.core.protocols import Capabilities, ModelFacts, TokenCodec, TokenView
from assay.core.requests import Prompt, Request
from assay.core.training import FitListener, FitReport, FitSettings, TrainingExample
from assay.models.inference.batching import Batching, BatchLimit, automatic_limit
from assay.models.loading import checkpoint as checkpoints
from assay.models.loading.hf_arguments import INT8_DYNAMIC, CausalArguments
from assay.models.loading.model_info import model_facts
from assay.models.loading.network import Network, choose_device
from assay.models.tokens.codec import codec_of
from assay.models.tokens.encoding import Encoder, token_view
from assay.models.tokens.special_tokens import special_tokens
from assay.models.tokens.tokenization import Tokenizer
from assay.models.training.fit import fit
from assay.models.training.recipes import Parent, RecipeMaker

if TYPE_CHECKING:
    import torch


class TransformersModel(ABC):
    """A transformers model.

    Args:
        arguments: the model arguments.
        device: device to run on; None for the best available.
        limit: rows per batch; None to choose automatically.
    """

    def __init__(self, arguments: CausalArguments, device: str | None = None, limit: BatchLimit | None = None) -> None:
        self.arguments = arguments
        self.device = device
        self.limit = limit
        self._notices: dict[str, str] = {}
        # Counted when the weights are loaded; they may be released before a report needs the number.
        self._parameters: int | None = None

    @cached_property
    def checkpoint(self) -> checkpoints.Checkpoint:
        """The folder and its small files; downloads a Hub model."""
        return checkpoints.find_checkpoint(self.arguments)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return checkpoints.fingerprint(self.checkpoint, self.arguments)

    @cached_property
    def capabilities(self) -> Capabilities:
        return checkpoints.capabilities(self.checkpoint, self.arguments)

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; needs no weights."""

    def facts(self) -> ModelFacts | None:
        """Model facts for result files; needs no weights. None if transformers is not installed."""
        if find_spec("transformers") is None:
            return None
        key = digest([self.fingerprint.tokenizer, self.arguments.trust_remote_code, version("transformers")])
        tokens = special_tokens(key, lambda: self.tokenizer)
        return model_facts(self.checkpoint, self.arguments, tokens, self._parameters)

    @property
    @abstractmethod
    def _recipe(self) -> RecipeMaker:
        """Builds the family's training recipe from training examples."""

    def fit(
        self,
        training_examples: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        settings: FitSettings,
        folder: Path,
        listener: FitListener,
    ) -> FitReport:
        """Trains a copy of the model and saves it; see docs/finetuning.md."""
        if self.arguments.quantize is not None:
            found, hint = f"found {self.arguments.quantize}", "Train without quantize; the result can be opened with it"
            raise ModelError(Fault("model_args.quantize", found, "a model that is not quantised", hint))
        own = self.fingerprint.digest
        parent = Parent(self.checkpoint, self.arguments, own, self.capabilities, self._recipe, self.device)
        return fit(parent, training_examples, validation, settings, folder, listener)

    @property
    def _depends_on_batches(self) -> bool:
        """Whether answers depend on the batch by more than float32 rounding."""
        is_single = self.limit is not None and self.limit.rows == 1
        return self.arguments.quantize == INT8_DYNAMIC and not is_single

    def _note_batches(self, measured: str = "") -> None:
        self._notices["quantize"] = (
            f"quantize={INT8_DYNAMIC} rounds the inputs of each layer, so answers depend on the batch{measured}; "
            "for batch-independent answers use batch_size=1, or quantize=int8_weights"
        )

    def notices(self) -> Iterable[str]:
        """Notices for the user after the model has been loaded and run."""
        return tuple(self._notices.values())


class LanguageModel(TransformersModel):
    """A transformers model that continues prompts: a decoder or an encoder-decoder. Nothing here needs the weights."""

    @property
    @abstractmethod
    def _encoder(self) -> Encoder:
        """Encodes requests; needs the tokenizer, not the weights."""

    @property
    def tokenizer(self) -> Tokenizer:
        return self._encoder.rules.tokenizer

    def codec(self) -> TokenCodec:
        """The tokenizer and chat template for use beside the model."""
        return codec_of(self._encoder, shows_all=self.arguments.think_end_token is None)

    def render(self, prompt: Prompt) -> str | None:
        """The prompt as text, with the chat template applied."""
        return self._encoder.render(prompt)

    def view(self, request: Request) -> TokenView:
        """A request as token ids and pieces; the context of an encoder-decoder is what its encoder reads."""
        return token_view(self._encoder, request)


class HasBase(Protocol):
    """A family's network that wraps a transformers model and its device."""

    @property
    def base(self) -> Network: ...


AnyNetwork = TypeVar("AnyNetwork", bound=HasBase)


class PaddedModel(TransformersModel, Generic[AnyNetwork]):
    """A model that runs in padded batches. Its weights are loaded on first use."""

    def __init__(self, arguments: CausalArguments, device: str | None = None, limit: BatchLimit | None = None) -> None:
        super().__init__(arguments, device, limit)
        self._network: AnyNetwork | None = None

    @abstractmethod
    def _load(self, device: torch.device) -> AnyNetwork:
        """Loads the network."""

    def _loaded(self) -> AnyNetwork:
        """The network, loaded on first use."""
        if self._network is None:
            device, notice = choose_device(self.device)
            self._network = self._load(device)
            self._parameters = self._network.base.module.num_parameters()
            if notice:
                self._notices["device"] = notice
            if self._depends_on_batches:
                self._note_batches()
        return self._network

    def _batching(self, network: AnyNetwork, for_generation: bool = False) -> Batching:
        return Batching(self.limit or automatic_limit(network.base, for_generation), self._note_shrink)

    def _note_shrink(self, limit: BatchLimit) -> None:
        self._notices["memory"] = f"memory ran out; batches were reduced to {limit}"

    def close(self) -> None:
        """Releases the weights; the next request loads them again."""
        self._network = None
