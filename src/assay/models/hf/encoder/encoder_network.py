"""A loaded encoder with its head: rows of tokens in, logits out.

In: `HeadRow`s, or rows of ids for a masked language model. Out: logits, on the CPU except for masked language
models.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, TypeVar, cast

from assay.core.responses import Failure
from assay.models.hf.encoder.head_encoding import HeadRow, PairTokenizer, pad_rows
from assay.models.hf.encoder.heads import CHOICES, SPANS, HeadKind
from assay.models.inference.batching import Batching, run_batches
from assay.models.loading.checkpoint import Checkpoint
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.network import Network, load_module
from assay.models.runtime import quiet

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Padding changes their outputs: they mix tokens by more than masked attention (Fourier transforms, convolutions,
# pooling), or read the last position of a row, padded or not.
PADDING_SENSITIVE = ("canine", "convbert", "fnet", "funnel", "xlnet")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EncoderNetwork:
    """An encoder with a head, on its device.

    Attributes:
        base: the transformers model and its device.
        head: the kind of head.
        pad_id: the padding token.
        takes_types: whether it takes token type ids.
        may_pad: whether padding leaves the outputs of a row unchanged.
    """

    base: Network
    head: HeadKind
    pad_id: int
    takes_types: bool
    may_pad: bool = True

    def run(
        self,
        rows: Sequence[Item],
        length: Callable[[Item], int],
        batching: Batching,
        work: Callable[[Sequence[Item]], Result],
    ) -> Iterator[tuple[Sequence[Item], Result | Failure]]:
        """Processes rows sorted by length, batch by batch; batches of equal length if padding would change outputs."""
        groups = [rows] if self.may_pad else [list(group) for _, group in groupby(rows, length)]
        return chain.from_iterable(run_batches(group, length, batching, work) for group in groups)

    def read(self, rows: Sequence[HeadRow]) -> list[Tensor]:
        """Logits of each row in float64: one per label, one per choice, or (start, end) per token."""
        import torch

        output = self._forward(rows)
        if self.head is SPANS:
            table = torch.stack((output.start_logits, output.end_logits), dim=1)
            # `.cpu()` first: not every device has float64.
            return [line[:, : row.length] for line, row in zip(table.float().cpu().double(), rows, strict=True)]
        return list(output.logits.float().cpu().double())

    def logits_at(self, rows: Sequence[Sequence[int]], wanted: Sequence[tuple[int, int]]) -> Tensor:
        """Logits of a masked language model at (row, position) pairs, of shape (wanted, vocabulary)."""
        numbers, places = (list(part) for part in zip(*wanted, strict=True))
        is_kept = False

        def keep(_: Any, args: tuple[Tensor, ...]) -> tuple[Tensor]:
            nonlocal is_kept
            is_kept = True
            return (args[0][numbers, places].unsqueeze(0),)

        # Only the wanted states are projected to the vocabulary, which costs as much as a small encoder itself.
        last = self.base.module.get_output_embeddings()
        hook = None if last is None else last.register_forward_pre_hook(keep)
        try:
            logits = self._forward([HeadRow(tuple(ids), (0,) * len(ids)) for ids in rows]).logits
        finally:
            if hook is not None:
                hook.remove()
        # Some models use the weights of the last layer without calling it.
        return cast("Tensor", logits[0] if is_kept else logits[numbers, places])

    def _forward(self, rows: Sequence[HeadRow]) -> Any:
        import torch

        padded = pad_rows(rows, self.pad_id, self.takes_types)
        inputs = {name: torch.tensor(values, device=self.base.device) for name, values in padded.items()}
        if self.head is CHOICES:
            # The head scores each pair independently, so pairs of all questions share a batch.
            inputs = {name: values.unsqueeze(1) for name, values in inputs.items()}
        with quiet(), torch.inference_mode():
            return self.base.module(**inputs)


def load_encoder_network(
    checkpoint: Checkpoint, args: CausalArguments, device: torch.device, head: HeadKind, tokenizer: PairTokenizer
) -> EncoderNetwork:
    """Loads an encoder and its head onto a device; missing weights are an error."""
    module = load_module(checkpoint, args, device, (head.loader, f"a complete model with its {head.name}"))
    return wrap_encoder(module, module, device, head, tokenizer)


def wrap_encoder(
    module: Any, called: Any, device: torch.device, head: HeadKind, tokenizer: PairTokenizer
) -> EncoderNetwork:
    """Wraps a model that is already on its device; `called` is the callable used for forward passes, often the same."""
    input_rules = padding_id(module, tokenizer), takes_types(module, tokenizer)
    may_pad = getattr(module.config, "model_type", None) not in PADDING_SENSITIVE
    return EncoderNetwork(Network(called, device, {}, False), head, *input_rules, may_pad)


def padding_id(module: Any, tokenizer: PairTokenizer) -> int:
    """The padding token; the configuration's first: RoBERTa derives positions from it, BART finds the end by it."""
    stated = getattr(module.config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None)
    return next((entry for entry in stated if isinstance(entry, int)), 0)


def takes_types(module: Any, tokenizer: PairTokenizer) -> bool:
    """Whether a model takes token type ids: its tokenizer provides them, and it has more than one type."""
    name = "token_type_ids"
    uses_types = (
        name in getattr(tokenizer, "model_input_names", ()) and name in inspect.signature(module.forward).parameters
    )
    return uses_types and getattr(module.config, "type_vocab_size", 2) > 1
