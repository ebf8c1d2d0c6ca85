"""The finished model: the weights of the step that is kept, as a plain folder that `hf` opens.

Takes a checkpoint of the training; puts weights, configuration and tokenizer in place. Everything is written beside and
flushed first; `config.json`, without which nothing opens a folder, is moved last.
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
    """What a network is without its weights: its class, and its configuration as it was before training."""

    kind: Any
    config: Any


def architecture_of(module: Any) -> Architecture:
    """The shape of a network that has not been trained yet."""
    return Architecture(type(module), copy.deepcopy(module.config))


def restore(architecture: Architecture, load: Callable[[], LoadedNetwork], state: Path, settings: FitSettings) -> Any:
    """The network with the weights of a checkpoint; additions are merged into those of the parent."""
    return merge_adapter(load().module, state) if settings.method == LORA else reload(architecture, state)


def reload(architecture: Architecture, state: Path) -> Any:
    """The network with the weights of a checkpoint that holds all of them."""
    import torch

    options = {"dtype": torch.float32, "local_files_only": True}
    return architecture.kind.from_pretrained(str(state), config=copy.deepcopy(architecture.config), **options)


def save_model(module: Any, parent: Parent, folder: Path) -> None:
    """Saves a network and its tokenizer into a folder, which is a model's from the last move on."""
    partial = folder / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    module.save_pretrained(str(partial), safe_serialization=True)
    # What transformers writes there is the training's; the parent's own, if it has one, is kept as it is.
    (partial / GENERATION).unlink(missing_ok=True)
    _copy_files(parent, partial)
    for path in partial.iterdir():
        # safetensors lets nobody else read what it writes; the record's mode is what the user's files have.
        shutil.copymode(folder / FIT_FILE, path)
        _flush(path)
    names = sorted((path.name for path in partial.iterdir()), key=lambda name: (name == CONFIG, name))
    for name in names:
        os.replace(partial / name, folder / name)
    _flush(folder)
    partial.rmdir()


def _copy_files(parent: Parent, target: Path) -> None:
    """Small files of the parent, byte for byte: a tokenizer that is saved anew may not be quite the same."""
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
    """Has a file or a folder written to the disk itself."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
