"""8-bit quantisation of the linear layers of a loaded model, in place, by torchao.

Takes a transformers model and the kind of quantisation. Embeddings and heads are not quantised.
"""

from __future__ import annotations

from typing import Any

from assay.core.errors import Fault, ModelError
from assay.models.loading.hf_arguments import INT8_DYNAMIC

# With a smaller share of weights in linear layers, a model would be quantised in name only.
_LEAST_SHARE = 0.5


def quantize(module: Any, kind: str | None) -> None:
    """Quantises every linear layer except those of the head; does nothing if `kind` is None.

    Args:
        module: the model, on its device.
        kind: `int8_dynamic`, which also quantises activations per token; or `int8_weights`.

    Raises:
        ModelError: if less than half of the model's weights are in linear layers.
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
    """The linear layers except those of the head."""
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
    """Whether a layer's weight is an ordinary tensor, which faster matrix products can use."""
    import torch

    return type(weight.data) is torch.Tensor


def rounds_inputs(module: Any) -> bool:
    """Whether layers quantise their inputs (`int8_dynamic`), so that last-bit differences change answers."""
    return any(getattr(part, "act_quant_kwargs", None) is not None for part in module.parameters())
