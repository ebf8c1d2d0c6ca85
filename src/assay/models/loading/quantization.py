"""Weights in 8 bits: the linear layers of a loaded model are quantised in place, by torchao.

Takes a transformers model and the user's wish. Embeddings and the head, whatever it was trained for, stay as they are.
"""

from __future__ import annotations

from typing import Any

from assay.core.errors import Fault, ModelError
from assay.models.loading.arguments import INT8_DYNAMIC

# A model with less of its weights in linear layers would be called quantised and hardly be so.
_LEAST_SHARE = 0.5


def quantize(module: Any, kind: str | None) -> None:
    """Quantises every linear layer below the head; nothing where no kind is asked for.

    Args:
        module: the model, on its device.
        kind: `int8_dynamic`, which also rounds what goes into a layer, token by token; or `int8_weights`.

    Raises:
        ModelError: for a model whose weights are not mostly in layers that can be quantised.
    """
    if kind is None:
        return
    chosen = {id(layer) for layer in _layers(module)}
    from torchao import quantization

    config = (
        quantization.Int8DynamicActivationInt8WeightConfig()
        if kind == INT8_DYNAMIC
        else quantization.Int8WeightOnlyConfig()
    )
    quantization.quantize_(module, config, filter_fn=lambda layer, _: id(layer) in chosen)


def _layers(module: Any) -> list[Any]:
    """The linear layers, without those of the head."""
    import torch

    body, head = module.base_model, module.get_output_embeddings()
    layers = [layer for layer in body.modules() if isinstance(layer, torch.nn.Linear) and layer is not head]
    embeddings = {id(layer.weight) for layer in body.modules() if isinstance(layer, torch.nn.Embedding)}
    if head is not None:
        embeddings.add(id(head.weight))
    sizes = [part.numel() for part in body.parameters() if part.dim() > 1 and id(part) not in embeddings]
    share = sum(layer.weight.numel() for layer in layers) / max(1, sum(sizes))
    if share < _LEAST_SHARE:
        held = f"{share:.0%} of the weights in linear layers" if layers else "no linear layers"
        found, expected = f"{held} in a {type(module).__name__}", "a model whose weights are mostly in linear layers"
        raise ModelError(Fault("model_args.quantize", found, expected, "Leave quantize out"))
    return layers


def is_plain(weight: Any) -> bool:
    """Whether a layer's weight holds numbers as they are, so that faster products may read them."""
    import torch

    return type(weight.data) is torch.Tensor


def rounds_inputs(module: Any) -> bool:
    """Whether layers round what goes into them (`int8_dynamic`), so that the last bit of a number moves answers."""
    return any(getattr(part, "act_quant_kwargs", None) is not None for part in module.parameters())
