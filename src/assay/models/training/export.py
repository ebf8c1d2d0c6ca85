"""Exports the best checkpoint as a plain model folder that `hf` opens.

Takes a training checkpoint; writes weights, configuration and tokenizer. Everything is written to a temporary folder
and flushed first; `config.json`, which every opener requires, is moved last.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.training import LORA, FitSettings
from assay.models.loading.checkpoint import FIT_FILE, TOKENIZER_FILES, Checkpoint
from assay.models.loading.tokenizer import load_tokenizer
from assay.models.training.adapters import merge_adapter
from assay.models.training.recipes import LoadedNetwork, Parent

PARTIAL = ".partial-model"
CONFIG = "config.json"
GENERATION = "generation_config.json"


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network without its weights: its class, and its configuration before training."""

    kind: Any
    config: Any


def architecture_of(module: Any) -> Architecture:
    """The architecture of a network; call it before training."""
    return Architecture(type(module), copy.deepcopy(module.config))


def restore(architecture: Architecture, load: Callable[[], LoadedNetwork], state: Path, settings: FitSettings) -> Any:
    """The network with the weights of a checkpoint; LoRA adapters are merged into the parent's weights."""
    return merge_adapter(load().module, state) if settings.method == LORA else reload(architecture, state)


def reload(architecture: Architecture, state: Path) -> Any:
    """The network with the weights of a full checkpoint."""
    import torch

    options = {"dtype": torch.float32, "local_files_only": True}
    return architecture.kind.from_pretrained(str(state), config=copy.deepcopy(architecture.config), **options)


def save_model(module: Any, parent: Parent, folder: Path) -> None:
    """Saves a network and its tokenizer into a folder; the last move makes it a complete model folder."""
    partial = folder / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    module.save_pretrained(str(partial), safe_serialization=True)
    # transformers writes the generation settings used for training; the parent's own are copied instead.
    (partial / GENERATION).unlink(missing_ok=True)
    _copy_files(parent, partial)
    for path in partial.iterdir():
        # safetensors writes files only the owner can read; use the file mode of the record instead.
        shutil.copymode(folder / FIT_FILE, path)
        _flush(path)
    names = sorted((path.name for path in partial.iterdir()), key=lambda name: (name == CONFIG, name))
    for name in names:
        os.replace(partial / name, folder / name)
    _flush(folder)
    partial.rmdir()


def _copy_files(parent: Parent, target: Path) -> None:
    """Copies the parent's small files byte for byte: re-saving a tokenizer may change it."""
    checkpoint = parent.checkpoint
    tokenizer_names = [*TOKENIZER_FILES, "chat_template.jinja", *_names(checkpoint, "*.tiktoken")]
    copied = [_copy(checkpoint.tokenizer_folder / name, target) for name in dict.fromkeys(tokenizer_names)]
    if not any(copied):
        load_tokenizer(checkpoint, parent.arguments).save_pretrained(str(target))  # type: ignore[attr-defined]
    _copy(checkpoint.folder / GENERATION, target)
    for path in checkpoint.folder.glob("*.py") if parent.arguments.trust_remote_code else ():
        _copy(path, target)


def _names(checkpoint: Checkpoint, pattern: str) -> list[str]:
    return sorted(path.name for path in checkpoint.tokenizer_folder.glob(pattern))


def _copy(path: Path, folder: Path) -> bool:
    if not path.is_file():
        return False
    shutil.copyfile(path, folder / path.name)
    return True


def _flush(path: Path) -> None:
    """Flushes a file or a folder to disk (fsync)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
