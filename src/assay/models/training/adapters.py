"""Which weights are trained: all of them, LoRA adapters, or the head only.

In: a loaded network and the settings. Out: the module that the Trainer trains, and after training the plain network
with the adapters merged into its weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.errors import Fault, ModelError, missing_extra
from assay.core.training import HEAD, LORA, FitSettings
from assay.models.training.recipes import LoadedNetwork


def adapt(loaded: LoadedNetwork, settings: FitSettings) -> Any:
    """The module to train, with everything else frozen.

    Raises:
        ModelError: if the head cannot be trained alone, or a LoRA target layer does not exist.
        MissingExtra: for LoRA without peft.
    """
    if settings.method == HEAD:
        return _head_only(loaded)
    return _with_additions(loaded, settings) if settings.method == LORA else loaded.module


def merge_adapter(module: Any, folder: Path) -> Any:
    """A network with the LoRA adapters of a checkpoint merged into its weights."""
    from peft import PeftModel

    return PeftModel.from_pretrained(module, str(folder)).merge_and_unload()


def require_peft() -> None:
    """Raises an error with the install command if peft is not installed."""
    try:
        __import__("peft")
    except ImportError:
        raise missing_extra("peft", "finetune", "method lora") from None


def _head_only(loaded: LoadedNetwork) -> Any:
    if loaded.is_tied or not loaded.heads:
        why = "is tied to the input embeddings" if loaded.is_tied else "cannot be identified"
        found = f'found "head", but the output layer of this model {why}: it cannot be trained alone'
        raise ModelError(Fault("method", found, "full or lora", "Set method=lora"))
    for name, parameter in loaded.module.named_parameters():
        parameter.requires_grad_(_is_within(name, loaded.heads))
    return loaded.module


def _is_within(name: str, layers: tuple[str, ...]) -> bool:
    return any(name == layer or name.startswith(f"{layer}.") for layer in layers)


def _with_additions(loaded: LoadedNetwork, settings: FitSettings) -> Any:
    require_peft()
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=list(settings.lora_targets) or default_lora_targets(loaded),
        # The output layer of a language model is frozen; a new head needs full training rather than adapters.
        modules_to_save=None if loaded.is_language_model else list(loaded.heads),
    )
    try:
        return get_peft_model(loaded.module, config)
    except ValueError as error:
        if not settings.lora_targets:
            raise
        found = f"found {', '.join(settings.lora_targets)}: {str(error).splitlines()[0]}"
        linear = sorted({name.rpartition(".")[2] for name in _linear_layers(loaded)})
        raise ModelError(Fault("lora_targets", found, "names of layers, such as " + ", ".join(linear))) from error


def default_lora_targets(loaded: LoadedNetwork) -> list[str]:
    """Default LoRA target layers: peft's choice for the architecture, else all linear layers of the body."""
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    names: list[str] = list(KNOWN.get(loaded.module.config.model_type, ()))
    layers = [name for name, _ in loaded.module.named_modules()]
    if names and all(any(layer.endswith(name) for layer in layers) for name in names):
        return names
    return _linear_layers(loaded)


def _linear_layers(loaded: LoadedNetwork) -> list[str]:
    """All linear layers outside the head."""
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    return [
        name
        for name, layer in loaded.module.named_modules()
        if isinstance(layer, (Linear, Conv1D)) and not _is_within(name, loaded.heads)
    ]
