"""Faster CPU forms of layers: packed weights, fused norms, gated MLPs in place, rotary embeddings with fewer passes.

Takes a transformers model; patches layers whose faster form gives the same results in a trial, and can undo the
patches. Layers are recognised by their structure, not by model name; `backend_choice.py` then compares the whole model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from assay.models.engine.c_kernels import CKernels, are_contiguous_float32, can_rotate
from assay.models.engine.memory import PACKED_PART
from assay.models.loading.quantization import is_plain

if TYPE_CHECKING:
    from torch import Tensor

# Numbers of rows for which oneDNN's packed product is used, in decode steps. For fewer rows torch is faster; for more
# the gain is negligible, and oneDNN rounds slightly worse, which scores should not pay for (docs/decisions/0010).
LEAST_ROWS, MOST_ROWS = 6, 128
# Allowed difference of a faster form from the layer's own, for values of about one.
SAME = 2e-5
TRIAL_ROWS = 8
FAST_MARK = "_assay_faster"
# Activation classes that the C kernel implements.
SILU = frozenset({"SiLU", "SiLUActivation"})

Layer = Callable[["Tensor"], "Tensor"]


@dataclass(slots=True)
class LayerPatches:
    """Patched layers.

    Attributes:
        layers: layers with a replaced `forward`.
        counts: number of each kind.
    """

    layers: list[Any] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def change(self, layer: Any, kind: str, forward: Layer) -> None:
        layer.forward = forward
        self.layers.append(layer)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def undo(self) -> None:
        """Restores the original `forward` of every layer."""
        for layer in self.layers:
            vars(layer).pop("forward", None)
        self.layers.clear()


def is_patchable(module: Any) -> bool:
    """Whether the model is in float32 on a CPU, where patches help."""
    import torch

    return bool(module.dtype == torch.float32 and module.device.type == "cpu")


def patch_layers(module: Any, c_kernels: CKernels | None = None) -> LayerPatches:
    """Patches all supported layers, with C kernels if available."""
    import torch

    patches = LayerPatches()
    if not is_patchable(module):
        return patches
    with torch.inference_mode():
        for layer in module.modules():
            for kind, form in (("gated", _gated), ("norm", _norm)):
                forward = form(layer, c_kernels)
                if forward is not None and _is_same(layer, forward):
                    patches.change(layer, kind, forward)
        _faster_rotation(module, c_kernels)
    return patches


def pack_for_decoding(module: Any, room: int) -> LayerPatches:
    """Packs the weights of linear layers for decode steps; does nothing if they do not fit or torch cannot.

    Args:
        module: the model.
        room: memory budget in bytes.
    """
    return _pack(module, "step", TRIAL_ROWS, _for_decoding) if fits_packed(module, room) else LayerPatches()


def pack_for_scoring(
    module: Any, rows: int, room: int, packed: Callable[[Any, int], Layer] | None = None
) -> LayerPatches:
    """Packs the weights for passes over exactly `rows` rows; rounds like the plain product (docs/decisions/0010).

    Args:
        module: the model.
        rows: rows of a pass.
        room: memory budget in bytes.
        packed: makes the packed form of a layer; MKL's if None.
    """
    if not fits_packed(module, room):
        return LayerPatches()
    make = _for_rows if packed is None else packed
    return _pack(module, "reading", rows, lambda layer: make(layer, rows))


def packed_bytes(module: Any) -> int:
    """Size in bytes of a packed copy of the linear layers' weights."""
    return sum(layer.weight.numel() * layer.weight.itemsize for layer in _linear_layers(module))


def fits_packed(module: Any, room: int) -> bool:
    return packed_bytes(module) <= PACKED_PART * room


def _linear_layers(module: Any) -> list[Any]:
    import torch

    head = module.get_output_embeddings()
    return [
        layer
        for layer in module.modules()
        if type(layer) is torch.nn.Linear and layer is not head and is_plain(layer.weight)
    ]


def undo_all(module: Any) -> None:
    """Restores all layers of a model before it is released: a patch and its layer reference each other."""
    for layer in module.modules():
        vars(layer).pop("forward", None)


def _pack(module: Any, kind: str, rows: int, form: Callable[[Any], Layer]) -> LayerPatches:
    import torch

    patches = LayerPatches()
    if not is_patchable(module):
        return patches
    is_same: dict[tuple[int, ...], bool] = {}  # layers of one shape use the same kernel
    with torch.inference_mode():
        for layer in _linear_layers(module):
            try:
                forward = form(layer)
            except (AttributeError, RuntimeError):
                return patches  # not available in this torch or on this machine
            shape = (*layer.weight.shape, layer.bias is not None)
            if shape not in is_same:
                is_same[shape] = _is_same(layer, forward, rows)
            if is_same[shape]:
                patches.change(layer, kind, forward)
    return patches


def _for_decoding(layer: Any) -> Layer:
    """A linear layer with weights packed for oneDNN."""
    import torch

    plain, width = layer.forward, layer.weight.shape[1]
    packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
    multiply = torch.ops.mkldnn._linear_pointwise

    def forward(given: Tensor) -> Tensor:
        if not LEAST_ROWS * width <= given.numel() <= MOST_ROWS * width or torch.is_grad_enabled():
            return cast("Tensor", plain(given))
        return cast("Tensor", multiply(given, packed, layer.bias, "none", [], ""))

    return forward


def _for_rows(layer: Any, rows: int) -> Layer:
    """A linear layer with weights packed for MKL's product over `rows` rows."""
    import torch

    plain, width = layer.forward, layer.weight.shape[1]
    weight = layer.weight.detach()
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)
    multiply = torch.ops.mkl._mkl_linear

    def forward(given: Tensor) -> Tensor:
        if given.numel() != rows * width or torch.is_grad_enabled():
            return cast("Tensor", plain(given))
        return cast("Tensor", multiply(given, packed, weight, layer.bias, rows))

    return forward


def _gated(layer: Any, c_kernels: CKernels | None) -> Layer | None:
    """down(act(gate(x)) * up(x)) with the product in place; a C kernel if the activation is SiLU."""
    names = ("gate_proj", "up_proj", "down_proj", "act_fn")
    if not all(callable(getattr(layer, name, None)) for name in names):
        return None
    plain = type(layer).forward.__get__(layer)
    gate, up, down, act = (cast(Layer, getattr(layer, name)) for name in names)
    is_silu = type(act).__name__ in SILU

    def forward(given: Tensor) -> Tensor:
        import torch

        if torch.is_grad_enabled():
            return cast("Tensor", plain(given))
        first, second = gate(given), up(given)
        if c_kernels is not None and is_silu and are_contiguous_float32(first, second):
            return down(c_kernels.gate_up(first, second))
        return down(act(first).mul_(second))

    return forward


def _norm(layer: Any, c_kernels: CKernels | None) -> Layer | None:
    """RMS norm in two passes over memory instead of five; a C kernel if available."""
    import torch

    weight = getattr(layer, "weight", None)
    small = getattr(layer, "variance_epsilon", getattr(layer, "eps", None))
    if not type(layer).__name__.endswith("RMSNorm") or not isinstance(weight, torch.Tensor) or weight.ndim != 1:
        return None
    if not isinstance(small, float):
        return None
    plain, width = type(layer).forward.__get__(layer), weight.shape[0]

    def forward(given: Tensor) -> Tensor:
        if torch.is_grad_enabled() or given.shape[-1] != width:
            result: Tensor = plain(given)
            return result
        if c_kernels is not None and are_contiguous_float32(given, weight):
            return c_kernels.norm(given, weight, small)
        size = torch.linalg.vector_norm(given, dim=-1, keepdim=True)
        scaled: Tensor = given * size.square_().div_(width).add_(small).rsqrt_()
        return scaled.mul_(weight)

    return forward


def _is_same(layer: Any, forward: Layer, rows: int = TRIAL_ROWS) -> bool:
    """Whether a faster form agrees with the layer on random inputs."""
    import torch

    width = _width(layer)
    if width is None:
        return False
    given = torch.randn(1, rows, width, generator=torch.Generator().manual_seed(0))
    try:
        own, other = type(layer).forward(layer, given.clone()), forward(given.clone())
    except (RuntimeError, TypeError):
        return False
    if not isinstance(own, torch.Tensor) or own.shape != other.shape:
        return False
    return bool((own - other).abs().max() <= SAME * max(1.0, float(own.abs().max())))


def _width(layer: Any) -> int | None:
    gate = getattr(layer, "gate_proj", layer)
    width = getattr(gate, "in_features", None) if gate is not layer else layer.weight.shape[-1]
    return int(width) if width is not None else None


def _faster_rotation(module: Any, c_kernels: CKernels | None) -> None:
    """Replaces `apply_rotary_pos_emb` in the modelling code of this model by a version with half the passes."""
    import torch

    for name in sorted({type(layer).__module__ for layer in module.modules()}):
        code = sys.modules.get(name)
        own = getattr(code, "apply_rotary_pos_emb", None)
        if own is None or hasattr(own, FAST_MARK):
            continue
        draw = torch.Generator().manual_seed(0)
        query, key = (torch.randn(1, heads, TRIAL_ROWS, 16, generator=draw) for heads in (4, 2))
        cos, sin = (torch.randn(1, TRIAL_ROWS, 8, generator=draw).repeat(1, 1, 2) for _ in range(2))
        faster = rotation(own, c_kernels)
        try:
            pairs = zip(own(query, key, cos, sin), faster(query, key, cos, sin), strict=True)
            if all(float((left - right).abs().max()) <= SAME for left, right in pairs):
                code.apply_rotary_pos_emb = faster  # type: ignore[union-attr]
        except (RuntimeError, TypeError, ValueError):
            continue


def rotation(own: Callable[..., Any], c_kernels: CKernels | None = None) -> Callable[..., Any]:
    """A faster `apply_rotary_pos_emb` for inference; falls back to the original when gradients are needed."""
    import torch

    def rotated(given: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if c_kernels is not None and can_rotate(given, cos, sin):
            return c_kernels.rotate(given, cos, sin)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        half = given.shape[-1] // 2
        result = given * cos
        result[..., :half].addcmul_(given[..., half:], sin[..., :half], value=-1)
        result[..., half:].addcmul_(given[..., :half], sin[..., half:])
        return result

    def apply(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *rest: Any, **options: Any) -> Any:
        plain = torch.is_grad_enabled() or bool(rest) or bool(options) or cos.ndim != 3 or cos.dtype != q.dtype
        if plain or q.dtype != torch.float32 or cos.shape[-1] != q.shape[-1] or q.device.type != "cpu":
            return own(q, k, cos, sin, *rest, **options)
        return rotated(q, cos, sin), rotated(k, cos, sin)

    setattr(apply, FAST_MARK, own)
    return apply
