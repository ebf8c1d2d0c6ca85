"""What models of transformers share, whatever their family: files, identity, training; and padded batches.

A family says how it is loaded and asked, and what it makes of lessons.
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
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.identity import digest
from assay.core.protocols import ModelFacts
from assay.core.training import FitListener, FitReport, FitSettings, TrainingExample
from assay.models.inference.batching import Batching, BatchLimit, automatic_limit
from assay.models.loading import checkpoint as checkpoints
from assay.models.loading.arguments import INT8_DYNAMIC, CausalArguments
from assay.models.loading.model_info import model_facts
from assay.models.loading.network import Network, choose_device
from assay.models.tokens.special_tokens import special_tokens
from assay.models.tokens.tokenization import Tokenizer
from assay.models.training.fit import fit
from assay.models.training.recipes import Parent, RecipeMaker

if TYPE_CHECKING:
    import torch


class TransformersModel(ABC):
    """A model of transformers.

    Args:
        arguments: the user's arguments.
        device: where to run; None for the best there is.
        limit: rows per batch; None for what fits and is fast.
    """

    def __init__(self, arguments: CausalArguments, device: str | None = None, limit: BatchLimit | None = None) -> None:
        self.arguments = arguments
        self.device = device
        self.limit = limit
        self._notices: dict[str, str] = {}
        # Counted when the weights are loaded; they may be gone when a report asks.
        self._parameters: int | None = None

    @cached_property
    def checkpoint(self) -> checkpoints.Checkpoint:
        """The folder and its small files; a Hub model is fetched here."""
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
        """What result files say of the model; needs no weights. None where transformers is not there to tell."""
        if find_spec("transformers") is None:
            return None
        key = digest([self.fingerprint.tokenizer, self.arguments.trust_remote_code, version("transformers")])
        tokens = special_tokens(key, lambda: self.tokenizer)
        return model_facts(self.checkpoint, self.arguments, tokens, self._parameters)

    @property
    @abstractmethod
    def _recipe(self) -> RecipeMaker:
        """Turns lessons into what the family learns from."""

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
            found, hint = f"found {self.arguments.quantize}", "Train it without; the result can be opened with quantize"
            raise ModelError(Fault("model_args.quantize", found, "a model that is not quantised to train", hint))
        own = self.fingerprint.digest
        parent = Parent(self.checkpoint, self.arguments, own, self.capabilities, self._recipe, self.device)
        return fit(parent, training_examples, validation, settings, folder, listener)

    @property
    def _depends_on_batches(self) -> bool:
        """Whether answers depend on what else is in a batch by more than rounding does in float32."""
        is_single = self.limit is not None and self.limit.rows == 1
        return self.arguments.quantize == INT8_DYNAMIC and not is_single

    def _note_batches(self, measured: str = "") -> None:
        self._notices["quantize"] = (
            f"quantize={INT8_DYNAMIC} rounds the inputs of each layer, so answers depend on the batch{measured}; "
            "for answers that do not: batch_size=1, or quantize=int8_weights"
        )

    def notices(self) -> Iterable[str]:
        """What the user should know after the model was loaded and asked."""
        return tuple(self._notices.values())


class HasBase(Protocol):
    """A network of a family, around the transformers model and its device."""

    @property
    def base(self) -> Network: ...


AnyNetwork = TypeVar("AnyNetwork", bound=HasBase)


class PaddedModel(TransformersModel, Generic[AnyNetwork]):
    """A model that is asked in padded batches. Its weights are loaded when it is first asked."""

    def __init__(self, arguments: CausalArguments, device: str | None = None, limit: BatchLimit | None = None) -> None:
        super().__init__(arguments, device, limit)
        self._network: AnyNetwork | None = None

    @abstractmethod
    def _load(self, device: torch.device) -> AnyNetwork:
        """The network with its weights."""

    def _loaded(self) -> AnyNetwork:
        """The network, loaded at first use."""
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
        self._notices["memory"] = f"memory ran out; batches were made smaller, down to {limit}"

    def close(self) -> None:
        """Lets go of the weights; asked again, they are loaded again."""
        self._network = None
