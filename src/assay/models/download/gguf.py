"""Converts a GGUF file into a folder that transformers loads in well under a second.

Takes a GGUF file and an empty folder; fills the folder with float32 safetensors, tokenizer and config, and verifies
that logits (bit for bit) and token ids equal those of the GGUF file.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, TextIO

from assay.core.errors import Fault, ModelError, missing_extra, plain_reason
from assay.models.download.wheels import ProgressReport
from assay.models.runtime import release_memory, unlogged

# transformers cannot read GGUF without accelerate; checked up front rather than halfway through.
NEEDED_PACKAGES = ("torch", "transformers", "gguf", "accelerate")

# Letters, digits, spaces, line breaks, accents and a character outside the Basic Multilingual Plane.
PROBE_TEXT = "In 1987, Zoë paid 3.50 €  for\n\ttwo 🍐 pears.\n"
PROBE_LENGTH = 24

# "\rConverting tensors...:  34%|███▍      | 92/272 [00:00<00:01, 136.00it/s]" as tqdm writes it.
TQDM_BAR = re.compile(r"^\r?([^\r\n|]*?)[.: ]*\d+%\|.*\| *(\d+)/(\d+) \[[^\r\n]*$")


def require_packages(packages: tuple[str, ...] = NEEDED_PACKAGES) -> None:
    """Raises an error, before anything is downloaded, if a required package is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise missing_extra(package, "hf", "reading a GGUF model")


class BarReader(io.TextIOBase):
    """Replaces stderr while transformers works: its tqdm bars become progress reports.

    transformers creates the bars itself and has no callback. Everything else is passed through to the real stderr.
    """

    def __init__(self, stderr: TextIO, progress: ProgressReport) -> None:
        self.stderr = stderr
        self.progress = progress

    def write(self, text: str) -> int:
        bar = TQDM_BAR.match(text)
        if bar:
            self.progress(bar[1].lower(), int(bar[2]), int(bar[3]))
        elif text.strip(" \r\n\x1b[A"):  # bare line ends and cursor moves belong to the bars
            self.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        self.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        # rich looks for the file behind a proxy, tqdm for the encoding.
        return getattr(self.stderr, name)


@contextmanager
def bars_reported(progress: ProgressReport) -> Iterator[None]:
    """Reports tqdm bars on stderr to `progress` instead of showing them."""
    with redirect_stderr(BarReader(sys.stderr, progress)):
        yield


def convert(source: Path, destination: Path, progress: ProgressReport) -> None:
    """Writes the model of a GGUF file into an empty folder, in float32, and verifies the result."""
    require_packages()
    progress("reading the GGUF header", 0, None)
    with bars_reported(progress), unlogged():
        model, tokenizer = _read(source, progress)
        progress("saving float32 weights", 0, None)
        _save(model, tokenizer, destination)
        progress("checking the saved model", 0, None)
        check_same(model, tokenizer, destination)
    del model, tokenizer
    release_memory()  # a run may follow in this process


def _read(source: Path, progress: ProgressReport) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    try:
        model = AutoModelForCausalLM.from_pretrained(str(source.parent), dtype=torch.float32, **place)
        progress("reading the tokenizer", 0, None)
        tokenizer = AutoTokenizer.from_pretrained(str(source.parent), **place)
    except (ValueError, KeyError, NotImplementedError, RuntimeError) as error:
        advice = "Try a newer transformers, or a model in safetensors"
        found = f"transformers cannot read it: {plain_reason(error)}"
        raise ModelError(Fault(source.name, found, "a GGUF of a supported architecture", advice)) from error
    return model, tokenizer


def _save(model: Any, tokenizer: Any, destination: Path) -> None:
    """Saves both, after removing the quantisation attributes that make save_pretrained refuse."""
    model.hf_quantizer = None
    for owner, mark in (
        (model.config, "quantization_config"),
        (model, "is_quantized"),
        (model, "quantization_method"),
    ):
        if hasattr(owner, mark):
            delattr(owner, mark)
    try:
        model.save_pretrained(str(destination))
        tokenizer.save_pretrained(str(destination))
    except Exception as error:
        # safetensors has an error class of its own for a full disk.
        if "No space left" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(destination)) from error
        raise
    for path in destination.iterdir():
        path.chmod(0o644)  # safetensors writes 0600, but several users may share the cache


def check_same(model: Any, tokenizer: Any, folder: Path) -> None:
    """Raises an error unless the folder loads as the same model: logits, token ids, template, special tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    saved = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, local_files_only=True)
    saved_tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    differing = [
        name
        for name, before, after in (
            ("token ids", tokenizer(PROBE_TEXT)["input_ids"], saved_tokenizer(PROBE_TEXT)["input_ids"]),
            ("chat template", tokenizer.chat_template, saved_tokenizer.chat_template),
            ("special tokens", tokenizer.special_tokens_map, saved_tokenizer.special_tokens_map),
        )
        if before != after
    ]
    ids = (tokenizer(PROBE_TEXT)["input_ids"] or [0])[:PROBE_LENGTH]
    with torch.inference_mode():
        inputs = torch.tensor([ids])
        if not torch.equal(model(inputs).logits, saved(inputs).logits):
            differing.append("logits")
    if differing:
        advice = "This is a bug in the conversion: please report it with your transformers version"
        raise ModelError(Fault(str(folder), f"the saved model differs in: {', '.join(differing)}", next=advice))
