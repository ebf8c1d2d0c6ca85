"""The options of training: one row for each setting of `core.training.FIT_KEYS`, and training settings from a file.

Defaults in help texts are those of `FitSettings` and `FitSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.training import DIRECTIONS, FINETUNE, FIT_KEYS, METHODS, MIXES, FitSettings, FitSpec, parse_fit_spec
from assay.options.option import VALUE, Option, field_default
from assay.options.table import TRAINING

# Name → what the value is, what stands for it, and the default in words where it depends on something.
_ROWS = {
    "epochs": ("passes over the training examples", "N", ""),
    "max_steps": ("maximum number of optimizer steps", "N", "as many as the epochs have"),
    "learning_rate": ("peak learning rate", "RATE", "depends on the method"),
    "warmup": ("fraction of steps with linear warmup", "FRACTION", ""),
    "schedule": ("learning-rate schedule after warmup: linear (to zero) or constant", "NAME", ""),
    "weight_decay": ("weight decay of AdamW", "X", ""),
    "train_batch_size": ("training examples per forward pass", "N", ""),
    "accumulation": ("gradient accumulation: forward passes per step", "N", ""),
    "train_seed": ("seed of shuffling, dropout, new heads and the holdout", "N", ""),
    "holdout": ("fraction held out for validation where a task has no validation split", "FRACTION", ""),
    "validation_metric": (
        f"metric that selects the checkpoint: {', '.join(DIRECTIONS)}",
        "NAME",
        "the tasks' first metric",
    ),
    "patience": ("validations without improvement before training stops early", "N", "no early stopping"),
    "check_every": ("steps between validations and checkpoints", "N", "once per epoch"),
    "train_max_length": ("maximum tokens per training example", "N", "the model's maximum length"),
    "lora_rank": ("LoRA rank", "N", ""),
    "lora_alpha": ("LoRA alpha", "X", ""),
    "lora_dropout": ("LoRA dropout", "FRACTION", ""),
    "lora_targets": ("modules to adapt with LoRA, joined with +", "NAMES", "the family's usual ones"),
    "mix": (f"mixture of several tasks: {MIXES[0]}, or {MIXES[1]} (smaller tasks repeated)", "NAME", ""),
    "train_limit": ("random sample of N training examples per task", "N", "all"),
    "check_limit": ("random sample of N validation examples per task", "N", "all"),
}


@cache
def training_options() -> dict[str, Option]:
    """The rows by name."""
    return {
        name: Option(text, TRAINING, metavar, words or _default(name), takes=VALUE)
        for name, (text, metavar, words) in _ROWS.items()
    }


def _default(name: str) -> str:
    field = FIT_KEYS[name][0]
    owner = FitSpec if field in ("mix", "limit", "check_limit") else FitSettings
    value = field_default(owner, field)
    return f"{value:g}" if isinstance(value, float) else str(value)


def training_settings(
    given: str | Path | Mapping[str, Any] | None, flag: str = f"--{FINETUNE}"
) -> dict[str, Any] | None:
    """Settings of training by the names of `FIT_KEYS`: a method, a YAML file, or the settings themselves.

    Args:
        given: `lora`, `recipe.yaml`, or a mapping; None for no training.
        flag: the option that names a file, for errors.
    """
    if given is None or isinstance(given, Mapping):
        return None if given is None else dict(given)
    text = str(given)
    if not text.endswith((".yaml", ".yml")):
        if text not in METHODS:
            raise UserError(Fault(flag, f'is "{text}"', f"one of {', '.join(METHODS)}, or a YAML file"))
        return {FINETUNE: text}
    from assay.tasks.lm_eval.file.yaml_reader import read_task_file, references

    file = read_task_file(Path(text).expanduser())
    settings = {FINETUNE: METHODS[0], **{_name(key): value for key, value in file.data.items()}}
    code = [Fault(file.where(*path), f'"{word}" is code', "values only") for path, word in references(dict(file.data))]
    if code:
        raise UserError(*code)
    parse_fit_spec(settings, text)
    return settings


def _name(key: Any) -> str:
    """A key of a file as the name of a setting; `method` is what `assay finetune` calls the method."""
    name = str(key).replace("-", "_")
    return FINETUNE if name == "method" else name
