"""Records a store with the code on PYTHONPATH: every run of commands.json, its result files, and the tiny model.

    PYTHONPATH=CHECKOUT/src python make.py FOLDER

FOLDER is made anew; it gets tasks/, tiny/, store.db, results/NAME/ and comparison.json. The run "interrupted" is ended
by Ctrl-C after its first responses.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ANSWERED = 15  # responses of the interrupted run


def save_tiny(folder: Path) -> None:
    """A Llama of 12,000 random weights with a byte-level tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate(["<s>", "</s>", *alphabet])}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=256, bos_token_id=0, eos_token_id=1, initializer_range=0.4, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def run(name: str, command: Sequence[str]) -> int:
    from assay.cli.main import main

    files = ["--include_path", "tasks", "--store", "store.db", "--output_path", f"results/{name}", "--log_samples"]
    return main(["run", *command, *files])


def interrupt(command: Sequence[str]) -> None:
    """Runs with a model that is stopped by Ctrl-C after its first responses."""
    from assay.models.dummy import DummyModel

    whole = DummyModel.respond

    def stopped(self: DummyModel, requests: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        yield from islice(whole(self, requests), ANSWERED)
        raise KeyboardInterrupt

    DummyModel.respond = stopped  # type: ignore[method-assign]
    try:
        code = run("interrupted", command)
    finally:
        DummyModel.respond = whole  # type: ignore[method-assign]
    assert code == 130, code


def compare(path: str) -> int:
    """The oldest two runs, compared in every metric."""
    from assay.cli.main import main
    from assay.store.store import Store

    with Store("store.db") as store:
        *_, second, first = (record.id for record in store.runs.all())
    settings = ["--metric", "all", "--picks", "--flips", "2", "--format", "json", "--output_path", path]
    return main(["compare", first, second, "--store", "store.db", *settings])


def record(folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copytree(HERE / "tasks", folder / "tasks")
    os.chdir(folder)
    if (HERE / "tiny").is_dir():
        shutil.copytree(HERE / "tiny", "tiny")
    else:
        save_tiny(Path("tiny"))
    for name, command in json.loads((HERE / "commands.json").read_text(encoding="utf-8")).items():
        if name == "interrupted":
            interrupt(command)
        else:
            assert run(name, command) == 0, name
    assert compare("comparison.json") == 0


if __name__ == "__main__":
    record(Path(sys.argv[1]).absolute())
