"""Writes a T5 with random weights (2 + 2 layers, 128 wide) and the word pieces of all-MiniLM-L6-v2.

python docs/studies/random_t5.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from assay.models.download.named import NAMED_MODELS, locate


def main(folder: Path) -> None:
    """Makes the model; the same one every time."""
    tokenizer = AutoTokenizer.from_pretrained(locate(NAMED_MODELS["minilm"]))
    # [SEP], which ends every text, is the word for an end here too.
    tokenizer.add_special_tokens({"eos_token": "[SEP]"})
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.1,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
