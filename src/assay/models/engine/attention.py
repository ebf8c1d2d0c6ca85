"""Attention over packed sequences, called by transformers in place of its own, with the KV cache of one path.

In: queries, keys and values of a pack's rows. Out: the attention output of each row along its own path in the prefix
tree. Registered with transformers for attention and masks; rejects unknown arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from assay.models.engine.attention_kernel import Kernel, KernelCall, apply_sinks, bias_of, merge
from assay.models.engine.c_kernels import CKernels
from assay.models.engine.packs import BLOCK_ROWS, COMMON_PREFIX, Block, Pack, concat_ranges
from assay.models.engine.tiles import TILE_KEYS, SparseBlock, Tiles

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAME = "assay_tree"
# Arguments without effect here: they are reflected in masks or positions, or request extra outputs. A sliding window
# counts only if the mask applies it: OLMoE configures one that its mask, and so a plain forward pass, ignores.
HARMLESS = frozenset(
    {
        *("position_ids", "cache_position", "use_cache", "sliding_window"),
        *("output_attentions", "output_router_logits", "output_hidden_states"),
    }
)
# Maximum number of spare tokens when the path cache grows.
ROOM = 1024


# Called with the number of the attention call, (keys, values) of the path, (keys, values) of the rows.
KeyValueHook = Callable[[int, "tuple[Tensor, Tensor]", "tuple[Tensor, Tensor]"], None]


class Unsupported(Exception):
    """The model requires something of attention that packed sequences do not support."""


@dataclass(slots=True)
class PrefixCache:
    """KV cache of one path from the root, for every attention call of a forward pass.

    Attributes:
        length: tokens on the path.
        keys: per call, a tensor (heads, capacity, width) whose first `length` entries are valid.
        values: the same for values.
    """

    length: int = 0
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def extend(self, cached: int, staged: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Truncates the path to `cached` tokens and appends new ones. On an out-of-memory error nothing has changed."""
        size = cached + staged[0][0].shape[1]
        if not self.keys:
            self.keys = [key.new_empty(key.shape[0], 0, key.shape[2]) for key, _ in staged]
            self.values = [value.new_empty(value.shape[0], 0, value.shape[2]) for _, value in staged]
        for stores in (self.keys, self.values):
            for call, store in enumerate(stores):
                stores[call] = _with_room(store, self.length, size)
        for call, (key, value) in enumerate(staged):
            self.keys[call][:, cached:size] = key
            self.values[call][:, cached:size] = value
        self.length = size

    def clear(self) -> None:
        """Empties the cache and frees its memory."""
        self.length = 0
        self.keys, self.values = [], []


def _with_room(store: Tensor, length: int, size: int) -> Tensor:
    capacity = store.shape[1]
    if capacity >= size:
        return store
    grown = store.new_empty(store.shape[0], max(size, min(2 * capacity, size + ROOM)), store.shape[2])
    grown[:, :length] = store[:, :length]
    return grown


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The attention plan of a pack: tiles, separate kernel calls, or both."""

    tiles: Tiles | None
    calls: Sequence[KernelCall]


@dataclass(slots=True)
class PackAttention:
    """Attention of one pack during its forward pass; shared by all layers except for the staged keys and values.

    Attributes:
        pack: the rows.
        path: the KV cache.
        device: device of the tensors.
        dtype: data type of the masks.
        shares: whether all rows attend to the pack's common prefix together, and small blocks are tiled.
        positions: positions of the rows.
        joining: rows that join the path after the pack.
        staged: keys and values that join the path after the pack, one pair per attention call.
        key_value_hook: called at each attention call (its number, the path's keys and values, the rows' keys and
            values).
        c_kernels: compute tiles, if available.
        plans: tiles and kernel calls by mask; None is the key for plain causal attention.
        masks: masks in use, so that their ids stay unique.
    """

    pack: Pack
    path: PrefixCache
    device: torch.device
    dtype: torch.dtype
    shares: bool
    positions: Tensor
    joining: Tensor
    staged: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    key_value_hook: KeyValueHook | None = None
    c_kernels: CKernels | None = None
    plans: dict[int | None, AttentionPlan] = field(default_factory=dict)
    masks: list[Tensor] = field(default_factory=list)

    def plan(self, mask: Tensor | None) -> AttentionPlan:
        """The kernel calls under a mask over (rows, path + rows); None for plain causal attention."""
        name = None if mask is None else id(mask)
        if name not in self.plans:
            self.plans[name] = self._plan(mask)
            if mask is not None:
                self.masks.append(mask)  # keeps the object alive, so that its id is not reused
        return self.plans[name]

    def _plan(self, mask: Tensor | None) -> AttentionPlan:
        sparse_blocks: list[SparseBlock] = []
        calls: list[KernelCall] = []
        for block in self.pack.blocks:
            if self.shares and self._key_count(block, mask) <= TILE_KEYS:
                sparse_blocks.extend(self._sparse_block(block, mask).tiles())
            else:
                calls.append(self._call(block) if mask is None else self._limited(block, mask))
        tiles = (
            Tiles(sparse_blocks, self.path.length, self.dtype, self.device, self.c_kernels) if sparse_blocks else None
        )
        return AttentionPlan(tiles, calls)

    @property
    def common(self) -> int:
        return self.pack.common if self.shares else 0

    def mask(self, rule: Callable[..., Any]) -> Tensor | None:
        """The mask over (rows, path + rows), from a rule about positions rather than indices in the row."""
        return stricter_mask(rule, self.positions, self._key_positions())

    def attend(self, inputs: AttentionInputs) -> Tensor:
        """Attention of each row along its own path: tiles, blocks, and the common prefix for all rows at once."""
        import torch

        query, key, value, kernel = inputs.query, inputs.key, inputs.value, inputs.kernel
        path_key, path_value = self._cached(key, value)
        mask = inputs.mask
        common = self.common if mask is None else 0
        weight = None
        if inputs.sinks is not None or common:
            # At least float32: log-sum-exps lose too much in 16-bit types.
            wide = torch.promote_types(query.dtype, torch.float32)
            weight = torch.zeros(query.shape[:-1], dtype=wide, device=query.device)
        plan = self.plan(mask)
        output = self._tiled(plan.tiles, inputs, (path_key, path_value), weight)
        for call in plan.calls:
            keys, values = call.gather(path_key, key), call.gather(path_value, value)
            rows = query[:, :, call.rows]
            if weight is None and not call.is_split:
                output[:, :, call.rows] = kernel.output(rows, keys, values, call.bias, call.is_causal)
                continue
            found = kernel(rows, keys, values, call.bias, call.is_causal)
            if call.is_split:
                own = kernel(rows, key[:, :, call.rows], value[:, :, call.rows], None, True)
                found = merge(*own, *found)
            output[:, :, call.rows] = found[0]
            if weight is not None:
                weight[:, :, call.rows] = found[1]
        if common and weight is not None:
            shared = kernel(query, path_key[:, :, :common], path_value[:, :, :common], None, False)
            output, weight = merge(output, weight, *shared)
        if inputs.sinks is not None and weight is not None:
            output = apply_sinks(output, weight, inputs.sinks)
        self._leave(key, value, path_key, path_value)
        return output

    def _tiled(
        self, tiles: Tiles | None, inputs: AttentionInputs, path: tuple[Tensor, Tensor], weight: Tensor | None
    ) -> Tensor:
        """Output of the tiled rows, with space for the others, rows outermost in memory; fills in log-sum-exps."""
        query = inputs.query
        heads, count = query.shape[1:3]
        is_whole = tiles is not None and tiles.count == count
        # Zeros: there may be one more row than the pack has, which attends to nothing (see TreeReader.read).
        output = (query.new_empty if is_whole else query.new_zeros)(count, heads, inputs.value.shape[-1])
        if tiles is not None:
            known = None if weight is None else weight[0]
            tiles.attend(inputs.kernel, query, (inputs.key, inputs.value), path, output, known)
        return output[None].transpose(1, 2)

    def _leave(self, key: Tensor, value: Tensor, path_key: Tensor, path_value: Tensor) -> None:
        """Stages the keys and values that join the path, and calls the hook."""
        if self.key_value_hook is not None:
            self.key_value_hook(len(self.staged), (path_key, path_value), (key, value))
        # Rows are the outer dimension in memory; selecting along heads would copy all of them.
        key, value = (part[0].transpose(0, 1).index_select(0, self.joining) for part in (key, value))
        self.staged.append((key.transpose(0, 1), value.transpose(0, 1)))

    def _cached(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        length, call = self.path.length, len(self.staged)
        if not length:
            return key[:, :, :0], value[:, :, :0]
        return self.path.keys[call][None, :, :length], self.path.values[call][None, :, :length]

    def _key_positions(self) -> Tensor:
        import torch

        return torch.cat([torch.arange(self.path.length, device=self.device), self.positions])

    def _call(self, block: Block) -> KernelCall:
        common = self.common
        rows = slice(block.start, block.end)
        cached = slice(common, block.cached)
        if block.allowed is None:
            before = block.cached - common + block.ancestor_count
            if not before:
                return KernelCall(rows, cached, None, None, True)
            if self.shares and (before >= COMMON_PREFIX or block.end - block.start > BLOCK_ROWS):
                return KernelCall(rows, cached, self._rows(block.ancestors), None, False, is_split=True)
        others = self._others(block) if block.ancestors else None
        return KernelCall(rows, cached, others, self._bias(_allowed(block, self.pack.common, common)), False)

    def _key_count(self, block: Block, mask: Tensor | None) -> int:
        common = self.common if mask is None else 0
        return block.cached - common + block.ancestor_count + block.end - block.start

    def _sparse_block(self, block: Block, mask: Tensor | None) -> SparseBlock:
        """Rows and keys of a block, for tiling."""
        import torch

        length, common = self.path.length, self.common if mask is None else 0
        rows = concat_ranges((*block.ancestors, (block.start, block.end)))
        keys = np.concatenate([np.arange(common, block.cached), rows + length])
        allowed = _allowed(block, self.pack.common, common)
        if mask is not None:
            columns = torch.from_numpy(keys).to(self.device)
            allowed = allowed & mask[0, 0, block.start : block.end][:, columns].cpu().numpy()
        return SparseBlock(block.start, keys, allowed)

    def _limited(self, block: Block, mask: Tensor) -> KernelCall:
        """A block under the model's own mask, such as a sliding window; omits keys that no row attends to."""
        import torch

        sparse_block = self._sparse_block(block, mask)
        seen = sparse_block.allowed.any(axis=0)
        keys = torch.from_numpy(sparse_block.keys[seen]).to(self.device)
        is_known = keys < self.path.length
        rows = slice(block.start, block.end)
        others = keys[~is_known] - self.path.length
        return KernelCall(rows, keys[is_known], others, self._bias(sparse_block.allowed[:, seen]), False)

    def _others(self, block: Block) -> Tensor:
        return self._rows((*block.ancestors, (block.start, block.end)))

    def _rows(self, ranges: Sequence[tuple[int, int]]) -> Tensor:
        import torch

        return torch.from_numpy(concat_ranges(ranges)).to(self.device)

    def _bias(self, allowed: Any) -> Tensor:
        return bias_of(allowed, self.dtype, self.device)[None, None]


def _allowed(block: Block, shared: int, common: int) -> Any:
    """Which row attends to which key, with the cached tokens from `common` on."""
    rows = block.end - block.start
    before = block.cached - shared + block.ancestor_count
    allowed = block.allowed
    if allowed is None:
        allowed = np.tri(rows, before + rows, before, dtype=np.bool_)
    if shared > common:
        allowed = np.concatenate([np.ones((rows, shared - common), dtype=np.bool_), allowed], axis=1)
    return allowed


def stricter_mask(rule: Callable[..., Any], queries: Tensor, keys: Tensor) -> Tensor | None:
    """A model's own mask rule over positions, of shape (1, 1, queries, keys); None if it equals causal masking."""
    import torch

    rows, columns = queries[None, None, :, None], keys[None, None, None, :]
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=queries.device)
    allowed: Tensor = rule(zero, zero, rows, columns).expand(1, 1, len(queries), len(keys))
    return None if bool((allowed | (columns > rows)).all()) else allowed


class AttentionContext(Protocol):
    """Computes the attention calls of a forward pass."""

    def mask(self, rule: Callable[..., Any]) -> Tensor | None:
        """A layer type's rule (window, chunk, …) as a mask, if it is stricter than causal masking; else None."""
        ...

    def attend(self, inputs: AttentionInputs) -> Tensor:
        """Attention output, in the shape of the queries."""
        ...


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """Inputs of one attention call: tensors of shape (1, heads, rows, width) and the layer's options.

    Attributes:
        query: queries.
        key: keys of the same rows.
        value: values of the same rows.
        mask: the result of `AttentionContext.mask` for this layer type.
        kernel: scale and soft cap.
        sinks: attention sinks, one logit per head.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    kernel: Kernel
    sinks: Tensor | None = None


_CONTEXT: ContextVar[AttentionContext | None] = ContextVar("entry", default=None)


@contextmanager
def answering_attention(entry: AttentionContext) -> Iterator[None]:
    """Routes the model's attention calls to this context."""
    token = _CONTEXT.set(entry)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def register() -> None:
    """Registers attention and masks with transformers under `NAME`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, make_mask)


def make_mask(*args: Any, mask_function: Callable[..., Any] | None = None, **options: Any) -> Tensor | None:
    """transformers' mask interface; plain causal attention needs no mask."""
    if mask_function is None or getattr(mask_function, "__name__", "") == "causal_mask_function":
        return None
    return _current().mask(mask_function)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface."""
    _refuse(module, dropout, others)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    inputs = AttentionInputs(query, key, value, attention_mask, Kernel(scale, softcap), s_aux)
    return _current().attend(inputs).transpose(1, 2).contiguous(), None


def _current() -> AttentionContext:
    entry = _CONTEXT.get()
    if entry is None:
        raise Unsupported("attention was called outside a packed forward pass")
    return entry


def _refuse(module: Any, dropout: float, others: dict[str, Any]) -> None:
    causal = others.pop("is_causal", None)
    if causal is False or getattr(module, "is_causal", True) is False:
        raise Unsupported("its attention is not causal")
    strange = sorted(name for name, value in others.items() if value is not None and name not in HARMLESS)
    if strange:
        raise Unsupported(f"its attention takes unsupported arguments: {', '.join(strange)}")
    if dropout or module.training:
        raise Unsupported("it is in training mode")
