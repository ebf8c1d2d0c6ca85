"""A loaded encoder-decoder: encodes contexts once, then decodes rows from the encoder states.

In: contexts and rows of ids. Out: encoder states, logits, and inputs for transformers' `generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, cast

from assay.core.errors import Fault, ModelError
from assay.models.inference.generation import TextGenerator
from assay.models.loading.checkpoint import Checkpoint
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.network import Network, load_module, wrap
from assay.models.runtime import quiet
from assay.models.tokens.tokenization import EncodedPrompt

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KIND = ("AutoModelForSeq2SeqLM", "a complete encoder-decoder with its language-model head")


@dataclass(frozen=True, slots=True)
class Memory:
    """Encoder states of some contexts; padded on the right.

    Attributes:
        contexts: ids of the contexts.
        ids: the same, padded.
        mask: 1 for ids, 0 for padding.
        states: encoder states of shape (contexts, tokens, width).
    """

    contexts: Sequence[tuple[int, ...]]
    ids: Tensor
    mask: Tensor
    states: Tensor

    def rows(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, mask and states of chosen contexts, cut to the longest of them."""
        width = max(len(self.contexts[number]) for number in numbers)
        chosen = list(numbers)
        return self.ids[chosen, :width], self.mask[chosen, :width], self.states[chosen, :width]


@dataclass(frozen=True, slots=True)
class Seq2SeqNetwork:
    """An encoder-decoder on its device.

    Attributes:
        base: the transformers model and its device.
        start_id: the decoder start token.
    """

    base: Network
    start_id: int

    def encode(self, contexts: Sequence[tuple[int, ...]]) -> Memory:
        """Encodes some contexts."""
        import torch

        longest = max(len(context) for context in contexts)
        padded = [[*context, *[0] * (longest - len(context))] for context in contexts]
        mask_rows = [[*[1] * len(context), *[0] * (longest - len(context))] for context in contexts]
        ids, mask = (torch.tensor(rows, device=self.base.device) for rows in (padded, mask_rows))
        with quiet(), torch.inference_mode():
            states = self.base.module.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return Memory(contexts, ids, mask, states)

    def logits(self, memory: Memory, rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Tensor:
        """Logits of shape (rows, positions, vocabulary).

        Args:
            memory: the encoder states.
            rows: the number of a context in `memory`, then the decoder input; short rows are padded on the right,
                which a decoder does not attend to.
            positions: positions in these rows, so counted from 1.
        """
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        longest = max(len(row) for row in rows)
        read = [[*row[1:], *[0] * (longest - len(row))] for row in rows]
        wanted = torch.tensor([position - 1 for position in positions], device=self.base.device)
        _, mask, states = memory.rows([row[0] for row in rows])
        with quiet(), torch.inference_mode():
            output = self.base.module(
                encoder_outputs=BaseModelOutput(last_hidden_state=cast(Any, states)),
                attention_mask=mask,
                decoder_input_ids=torch.tensor(read, device=self.base.device),
                **self.base.forward_options,
            )
        return cast("Tensor", output.logits[:, wanted])


@dataclass(frozen=True, slots=True)
class Seq2SeqGenerator(TextGenerator):
    """A loaded encoder-decoder that generates from contexts that are already encoded."""

    _: KW_ONLY
    memory: Memory

    def inputs(self, batch: Sequence[EncodedPrompt]) -> tuple[dict[str, Any], int]:
        from transformers.modeling_outputs import BaseModelOutput

        ids, mask, states = self.memory.rows([self.memory.contexts.index(prompt.ids) for prompt in batch])
        # The ids are for settings that depend on the prompt, such as encoder_repetition_penalty.
        read = BaseModelOutput(last_hidden_state=cast(Any, states))
        return {"input_ids": ids, "attention_mask": mask, "encoder_outputs": read}, 1


def load_seq2seq_network(checkpoint: Checkpoint, args: CausalArguments, device: torch.device) -> Seq2SeqNetwork:
    """Loads the weights of an encoder-decoder onto a device."""
    module = load_module(checkpoint, args, device, KIND)
    return Seq2SeqNetwork(wrap(module, device), start_token(module, str(checkpoint.folder)))


def start_token(module: Any, where: str) -> int:
    """The decoder start token of a model."""
    stated = (
        getattr(module.config, "decoder_start_token_id", None),
        module.generation_config.decoder_start_token_id,
        module.generation_config.bos_token_id,
    )
    start = next((entry for entry in stated if isinstance(entry, int)), None)
    if start is None:
        found = "its configuration has no decoder start token"
        hint = "Add decoder_start_token_id to its config.json"
        raise ModelError(Fault(where, found, "a decoder_start_token_id", hint))
    return start
