"""Training recipe of an encoder-decoder: the encoder reads the prompt, the decoder learns the continuation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.models.hf.seq2seq.seq2seq_network import KIND, start_token
from assay.models.training.lm_recipes import TextRecipe, TokenSequence
from assay.models.training.recipes import IGNORED, unwrap_peft

if TYPE_CHECKING:
    from torch import Tensor


class Seq2SeqRecipe(TextRecipe):
    """Training recipe of an encoder-decoder; only the decoder's tokens count in the loss."""

    kind = KIND
    is_seq2seq = True

    def collate(self, rows: Sequence[TokenSequence]) -> dict[str, Tensor]:
        import torch

        contexts = [row.ids[: -row.scored] for row in rows]
        targets = [row.ids[-row.scored :] for row in rows]
        wide, long = max(map(len, contexts)), max(map(len, targets))
        labels = [[IGNORED, *target, *[IGNORED] * (long - len(target))] for target in targets]
        return {
            "input_ids": torch.tensor([[*ids, *[0] * (wide - len(ids))] for ids in contexts]),
            "attention_mask": torch.tensor([[*[1] * len(ids), *[0] * (wide - len(ids))] for ids in contexts]),
            "labels": torch.tensor(labels),
        }

    def logits(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        # The decoder input is the start token and all labels but the last; a decoder does not attend to padding after
        # them.
        read = batch["labels"][:, :-1].clamp(min=0)
        read[:, 0] = start_token(unwrap_peft(module), str(self.parent.checkpoint.folder))
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        found: Tensor = module(**inputs, decoder_input_ids=read, use_cache=False).logits
        return found
