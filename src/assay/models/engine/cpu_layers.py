"""The same layers, faster on a CPU: weights packed for the number of rows at once, and products written in place.

Takes a transformers model; changes layers whose faster form gives the same numbers on a trial; can change them back.
Each form is found by its parts, not by the model's name; the probe in `choosing.py` then compares the whole model.
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

# Rows for which oneDNN's packed product is used: steps of writing. Fewer are faster by torch's own; more gain next to
# nothing, and it rounds a little worse, which scores should not pay for (docs/decisions/0010).
LEAST_ROWS, MOST_ROWS = 6, 128
# Largest difference of a faster form from the layer's own, beside numbers of about one.
SAME = 2e-5
TRIAL_ROWS = 8
FAST_MARK = "_assay_faster"
# Classes of the activation that the compiled loop has.
SILU = frozenset({"SiLU", "SiLUActivation"})

Layer = Callable[["Tensor"], "Tensor"]


@dataclass(slots=True)
class LayerPatches:
    """What was changed.

    Attributes:
        layers: layers with another `forward`.
        counts: how many of each kind.
    """

    layers: list[Any] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def change(self, layer: Any, kind: str, forward: Layer) -> None:
        layer.forward = forward
        self.layers.append(layer)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def undo(self) -> None:
        """Every layer is its own again."""
        for layer in self.layers:
            vars(layer).pop("forward", None)
        self.layers.clear()


def is_patchable(module: Any) -> bool:
    """Only models in float32 on a CPU have anything to gain."""
    import torch

    return bool(module.dtype == torch.float32 and module.device.type == "cpu")


def patch_layers(module: Any, c_kernels: CKernels | None = None) -> LayerPatches:
    """Changes what can be changed, with the help of compiled loops where there are any."""
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
    """Packs the weights of linear layers for steps of writing; nothing where they do not fit or torch cannot.

    Args:
        module: the model.
        room: bytes that the engine may hold.
    """
    return _pack(module, "step", TRIAL_ROWS, _for_decoding) if fits_packed(module, room) else LayerPatches()


def pack_for_scoring(module: Any, rows: int, room: int) -> LayerPatches:
    """Packs them for passes over exactly so many rows; rounding is that of the plain product (docs/decisions/0010)."""
    if not fits_packed(module, room):
        return LayerPatches()
    return _pack(module, "reading", rows, lambda layer: _for_rows(layer, rows))


def packed_bytes(module: Any) -> int:
    """What another copy of the weights of linear layers takes."""
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
    """Every layer of a model that is let go is its own again: a faster form and its layer hold each other."""
    for layer in module.modules():
        vars(layer).pop("forward", None)


def _pack(module: Any, kind: str, rows: int, form: Callable[[Any], Layer]) -> LayerPatches:
    import torch

    patches = LayerPatches()
    if not is_patchable(module):
        return patches
    is_same: dict[tuple[int, ...], bool] = {}  # layers of one shape take the same way through the product
    with torch.inference_mode():
        for layer in _linear_layers(module):
            try:
                forward = form(layer)
            except (AttributeError, RuntimeError):
                return patches  # this torch has no such operation, or not on this machine
            shape = (*layer.weight.shape, layer.bias is not None)
            if shape not in is_same:
                is_same[shape] = _is_same(layer, forward, rows)
            if is_same[shape]:
                patches.change(layer, kind, forward)
    return patches


def _for_decoding(layer: Any) -> Layer:
    """A linear layer whose weights lie as oneDNN's product wants them."""
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
    """A linear layer whose weights lie as MKL's product of so many rows would put them each time."""
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
    """down(act(gate(x)) * up(x)), with the product in place; by a compiled loop where the activation is SiLU."""
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
    """Division by the root mean square, in two passes instead of five; by a compiled loop where there is one."""
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
    """Whether a faster form gives what the layer itself gives, on random numbers."""
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
    """Rotary positions with half the passes, for the modelling code of this model's attention layers."""
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
    """transformers' `apply_rotary_pos_emb`, faster where no gradients are wanted; else its own."""
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
