"""A loaded encoder: rows of tokens in, what its head says of each row out.

Takes `HeadRow`s, or bare rows of ids for a masked language model; gives logits, on the CPU where they are few.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from assay.models.causal_arguments import CausalArguments
from assay.models.checkpoints import Checkpoint
from assay.models.encoder_heads import CHOICES, SPANS, Head
from assay.models.head_encoding import HeadRow, PairTokenizer, pad_rows
from assay.models.network import Network, load_module, quiet

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class EncoderNetwork:
    """An encoder with a head, on its device.

    Attributes:
        base: the transformers model and its device.
        head: which head it has.
        pad_id: the token that fills short rows.
        takes_types: whether it is told which text of a pair a token is from.
    """

    base: Network
    head: Head
    pad_id: int
    takes_types: bool

    def read(self, rows: Sequence[HeadRow]) -> list[Tensor]:
        """Logits of each row in float64: of every label, of the one choice, or of (start, end) at every token."""
        import torch

        output = self._forward(rows)
        if self.head is SPANS:
            table = torch.stack((output.start_logits, output.end_logits), dim=1)
            # `.cpu()` first: not every device has float64.
            return [line[:, : row.length] for line, row in zip(table.float().cpu().double(), rows, strict=True)]
        return list(output.logits.float().cpu().double())

    def hidden_logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Logits of shape (rows, tokens, vocabulary)."""
        return cast("Tensor", self._forward([HeadRow(tuple(ids), (0,) * len(ids)) for ids in rows]).logits)

    def _forward(self, rows: Sequence[HeadRow]) -> Any:
        import torch

        padded = pad_rows(rows, self.pad_id, self.takes_types)
        inputs = {name: torch.tensor(values, device=self.base.device) for name, values in padded.items()}
        if self.head is CHOICES:
            # The head gives each pair one number by itself, so pairs of all questions go side by side.
            inputs = {name: values.unsqueeze(1) for name, values in inputs.items()}
        with quiet(), torch.inference_mode():
            return self.base.module(**inputs)


def load_encoder_network(
    checkpoint: Checkpoint, args: CausalArguments, device: torch.device, head: Head, tokenizer: PairTokenizer
) -> EncoderNetwork:
    """Loads the weights of an encoder and its head onto a device; weights that are not there are an error."""
    module = load_module(checkpoint, args, device, (head.loader, f"a complete model with its {head.name}"))
    told = padding_id(module, tokenizer), takes_types(module, tokenizer)
    return EncoderNetwork(Network(module, device, {}, False), head, *told)


def padding_id(module: Any, tokenizer: PairTokenizer) -> int:
    """The token that fills short rows; the configuration's first: RoBERTa counts positions, BART finds ends by it."""
    stated = getattr(module.config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None)
    return next((entry for entry in stated if isinstance(entry, int)), 0)


def takes_types(module: Any, tokenizer: PairTokenizer) -> bool:
    """Whether a model is told which text a token is from: its tokenizer says so, and it has types to tell apart."""
    name = "token_type_ids"
    is_told = (
        name in getattr(tokenizer, "model_input_names", ()) and name in inspect.signature(module.forward).parameters
    )
    return is_told and getattr(module.config, "type_vocab_size", 2) > 1
