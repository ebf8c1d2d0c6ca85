"""Attention over packs: what transformers calls in place of its own, and the path of keys and values behind it.

Takes the queries, keys and values of a pack's rows; gives what each row sees along its own path. Registered with
transformers under one name, for attention and for masks; refuses every argument whose meaning it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from assay.models.engine.packs import BLOCK_ROWS, COMMON_PREFIX, Block, Pack, spread

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAME = "assay_tree"
# Arguments that change nothing here: what they say is in the masks, in the positions, or asks for extra outputs.
HARMLESS = frozenset(
    {"position_ids", "cache_position", "use_cache", "output_attentions", "output_router_logits", "output_hidden_states"}
)
# Scores that are kept at once where they are kept at all: 64 MB.
PLAIN_ELEMENTS = 1 << 24
# Most tokens that a path grows ahead of its need.
ROOM = 1024


# Number of the call, (keys, values) of the path, (keys, values) of the rows.
Tap = Callable[[int, "tuple[Tensor, Tensor]", "tuple[Tensor, Tensor]"], None]


class Unsupported(Exception):
    """The model asks attention for something that packs cannot give."""


@dataclass(slots=True)
class Path:
    """Keys and values of one path from the root, for every call of attention in a forward pass.

    Attributes:
        length: tokens on the path.
        keys: per call, a tensor (heads, capacity, width) whose first `length` entries count.
        values: the same for values.
    """

    length: int = 0
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def extend(self, kept: int, staged: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Cuts the path to `kept` tokens and puts new ones behind. When memory runs out, nothing has changed."""
        size = kept + staged[0][0].shape[1]
        if not self.keys:
            self.keys = [key.new_empty(key.shape[0], 0, key.shape[2]) for key, _ in staged]
            self.values = [value.new_empty(value.shape[0], 0, value.shape[2]) for _, value in staged]
        for stores in (self.keys, self.values):
            for call, store in enumerate(stores):
                stores[call] = _with_room(store, self.length, size)
        for call, (key, value) in enumerate(staged):
            self.keys[call][:, kept:size] = key
            self.values[call][:, kept:size] = value
        self.length = size

    def clear(self) -> None:
        """Forgets everything and gives its memory back."""
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
class Call:
    """One call of the attention kernel: some rows and their keys.

    Attributes:
        rows: the pack's rows that ask.
        remembered: which tokens of the path they look at.
        others: which rows of the pack they look at; None for exactly their own.
        bias: 0 where a row looks at a key and -inf where not; None when nothing is ruled out.
        is_causal: whether each row looks at its own and the rows before it, and at nothing else.
        is_split: whether the rows look at themselves causally, and at all keys named here, which are those of others.
    """

    rows: slice
    remembered: slice | Tensor
    others: Tensor | None
    bias: Tensor | None
    is_causal: bool
    is_split: bool = False


@dataclass(slots=True)
class Reading:
    """A pack while it is read: the same for all layers, but for what each leaves behind.

    Attributes:
        pack: the rows.
        path: what is remembered.
        device: where tensors go.
        dtype: number format of the masks.
        shares: whether the pack's common prefix is attended to by all rows together.
        positions: the rows' positions.
        joining: rows that join the path after the pack.
        staged: keys and values that join the path after the pack, one pair per call of attention.
        tap: told at each call of attention (its number, the path's keys and values, the rows' keys and values).
        plans: calls by mask; the plain causal one under None.
    """

    pack: Pack
    path: Path
    device: torch.device
    dtype: torch.dtype
    shares: bool
    positions: Tensor
    joining: Tensor
    staged: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    tap: Tap | None = None
    plans: dict[int | None, list[Call]] = field(default_factory=dict)
    masks: list[Tensor] = field(default_factory=list)
    windows: dict[int, Tensor] = field(default_factory=dict)

    def calls(self, mask: Tensor | None) -> list[Call]:
        """The kernel calls under a mask over (rows, path + rows); None for plain causal attention."""
        name = None if mask is None else id(mask)
        if name not in self.plans:
            blocks = self.pack.blocks
            self.plans[name] = [self._call(block) if mask is None else self._limited(block, mask) for block in blocks]
            if mask is not None:
                self.masks.append(mask)  # keeps its id from being given to another
        return self.plans[name]

    @property
    def common(self) -> int:
        return self.pack.common if self.shares else 0

    def mask(self, rule: Callable[..., Any]) -> Tensor | None:
        """The rule over (rows, path + rows), asked about positions instead of places in the row."""
        return stricter_mask(rule, self.positions, self._key_positions())

    def attend(self, asked: Asked) -> Tensor:
        """Each row along its own path: block by block, and the common prefix for all rows together."""
        import torch

        query, key, value, kernel = asked.query, asked.key, asked.value, asked.kernel
        path_key, path_value = self._remembered(key, value)
        mask = self._windowed(asked.mask, asked.window)
        common = self.common if mask is None else 0
        # Zeros: a row after the pack's own may be there, which looks at nothing (see TreeReader.read).
        output = query.new_zeros(*query.shape[:-1], value.shape[-1])
        weight = None
        if asked.sinks is not None or common:
            # At least float32: the log of a sum loses too much in narrow formats.
            wide = torch.promote_types(query.dtype, torch.float32)
            weight = torch.zeros(query.shape[:-1], dtype=wide, device=query.device)
        for call in self.calls(mask):
            keys, values = _gather(path_key, key, call), _gather(path_value, value, call)
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
        if asked.sinks is not None and weight is not None:
            output = sunk(output, weight, asked.sinks)
        self._leave(key, value, path_key, path_value)
        return output

    def _leave(self, key: Tensor, value: Tensor, path_key: Tensor, path_value: Tensor) -> None:
        """Keeps what joins the path, and hands on what was asked for."""
        if self.tap is not None:
            self.tap(len(self.staged), (path_key, path_value), (key, value))
        self.staged.append((key[0].index_select(1, self.joining), value[0].index_select(1, self.joining)))

    def _remembered(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        length, call = self.path.length, len(self.staged)
        if not length:
            return key[:, :, :0], value[:, :, :0]
        return self.path.keys[call][None, :, :length], self.path.values[call][None, :, :length]

    def _key_positions(self) -> Tensor:
        import torch

        return torch.cat([torch.arange(self.path.length, device=self.device), self.positions])

    def _windowed(self, mask: Tensor | None, window: int | None) -> Tensor | None:
        """The mask, with a window that only the attention arguments tell of."""
        if mask is not None or window is None or int(self.positions.max()) < window:
            return mask
        if window not in self.windows:
            self.windows[window] = (self.positions[:, None] - self._key_positions()[None, :] < window)[None, None]
        return self.windows[window]

    def _call(self, block: Block) -> Call:
        common = self.common
        rows = slice(block.start, block.end)
        remembered = slice(common, block.kept)
        if block.allowed is None:
            before = block.kept - common + block.ancestor_count
            if not before:
                return Call(rows, remembered, None, None, True)
            if self.shares and (before >= COMMON_PREFIX or block.end - block.start > BLOCK_ROWS):
                return Call(rows, remembered, self._rows(block.ancestors), None, False, is_split=True)
        others = self._others(block) if block.ancestors else None
        return Call(rows, remembered, others, self._bias(_allowed(block, self.pack.common, common)), False)

    def _limited(self, block: Block, mask: Tensor) -> Call:
        """A block under a mask of the model's own, such as a window: keys that no row sees are left out."""
        import torch

        allowed = torch.from_numpy(_allowed(block, self.pack.common, 0)).to(self.device)
        others = self._others(block)
        columns = torch.cat([torch.arange(block.kept, device=self.device), others + self.path.length])
        allowed = allowed & mask[0, 0, block.start : block.end][:, columns]
        seen = allowed.any(dim=0)
        remembered = seen[: block.kept].nonzero().squeeze(-1)
        inside = seen[block.kept :]
        bias = self._bias(allowed[:, seen])
        return Call(slice(block.start, block.end), remembered, others[inside], bias, False)

    def _others(self, block: Block) -> Tensor:
        return self._rows((*block.ancestors, (block.start, block.end)))

    def _rows(self, ranges: Sequence[tuple[int, int]]) -> Tensor:
        import torch

        return torch.from_numpy(spread(ranges)).to(self.device)

    def _bias(self, allowed: Any) -> Tensor:
        import torch

        bias = torch.zeros(allowed.shape, dtype=self.dtype, device=self.device)
        ruled_out = ~torch.as_tensor(allowed, device=self.device)
        return bias.masked_fill_(ruled_out, -math.inf)[None, None]


def _allowed(block: Block, shared: int, common: int) -> Any:
    """Which row looks at which key, with the remembered tokens from `common` on."""
    rows = block.end - block.start
    before = block.kept - shared + block.ancestor_count
    allowed = block.allowed
    if allowed is None:
        allowed = np.tri(rows, before + rows, before, dtype=np.bool_)
    if shared > common:
        allowed = np.concatenate([np.ones((rows, shared - common), dtype=np.bool_), allowed], axis=1)
    return allowed


def stricter_mask(rule: Callable[..., Any], asking: Tensor, keys: Tensor) -> Tensor | None:
    """A model's own rule about positions, as a mask (1, 1, asking, keys); None where causality rules out as much."""
    import torch

    rows, columns = asking[None, None, :, None], keys[None, None, None, :]
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=asking.device)
    allowed: Tensor = rule(zero, zero, rows, columns).expand(1, 1, len(asking), len(keys))
    return None if bool((allowed | (columns > rows)).all()) else allowed


class Entry(Protocol):
    """Rows while they are read: what answers the model's calls of attention."""

    def mask(self, rule: Callable[..., Any]) -> Tensor | None:
        """A layer type's rule (window, chunk, …) as a mask, where it rules out more than causality does; else None."""
        ...

    def attend(self, asked: Asked) -> Tensor:
        """What the rows see, in the shape of the queries."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of attention: tensors of shape (1, heads, rows, width) and what the layer wants done with them.

    Attributes:
        query: queries.
        key: keys of the same rows.
        value: values of the same rows.
        mask: what `Entry.mask` gave for this layer's type.
        kernel: scale and soft-capping.
        sinks: one weight per head that takes its share and gives nothing.
        window: most tokens a row looks back to, itself included.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    kernel: Kernel
    sinks: Tensor | None = None
    window: int | None = None


_ENTRY: ContextVar[Entry | None] = ContextVar("entry", default=None)


@contextmanager
def reading(entry: Entry) -> Iterator[None]:
    """Attention calls of the model are answered by this entry while it lasts."""
    token = _ENTRY.set(entry)
    try:
        yield
    finally:
        _ENTRY.reset(token)


def register() -> None:
    """Makes the attention and the masks known to transformers, under `NAME`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, make_mask)


def make_mask(*args: Any, mask_function: Callable[..., Any] | None = None, **options: Any) -> Tensor | None:
    """transformers' calling convention for masks; plain causality needs none."""
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
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' calling convention for attention."""
    _refuse(module, dropout, others)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    asked = Asked(query, key, value, attention_mask, Kernel(scale, softcap), s_aux, sliding_window)
    return _current().attend(asked).transpose(1, 2).contiguous(), None


def _current() -> Entry:
    entry = _ENTRY.get()
    if entry is None:
        raise Unsupported("attention was called outside of a pack")
    return entry


def _refuse(module: Any, dropout: float, others: dict[str, Any]) -> None:
    causal = others.pop("is_causal", None)
    if causal is False or getattr(module, "is_causal", True) is False:
        raise Unsupported("its attention is not causal")
    strange = sorted(name for name, value in others.items() if value is not None and name not in HARMLESS)
    if strange:
        raise Unsupported(f"its attention takes arguments not known here: {', '.join(strange)}")
    if dropout or module.training:
        raise Unsupported("it is in training mode")


def _gather(path: Tensor, rows: Tensor, call: Call) -> Tensor:
    import torch

    parts = []
    if isinstance(call.remembered, slice):
        if call.remembered.stop > call.remembered.start:
            parts.append(path[:, :, call.remembered])
    elif len(call.remembered):
        parts.append(path.index_select(2, call.remembered))
    if call.others is None:
        parts.append(rows[:, :, call.rows])
    elif len(call.others):
        parts.append(rows.index_select(2, call.others))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Softmax attention that also gives the log of each row's summed weights, by which results merge."""

    scale: float
    softcap: float | None = None

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool
    ) -> tuple[Tensor, Tensor]:
        import torch

        if self.softcap is None and query.device.type == "cpu" and query.shape[-1] == value.shape[-1]:
            flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            found = flash(query, key, value, 0.0, is_causal, attn_mask=bias, scale=self.scale)
            return found[0], found[1]
        return self.plain(query, key, value, bias, is_causal)

    def scores(self, products: Tensor) -> Tensor:
        """Products of queries and keys, scaled and capped, in float32 at the least."""
        import torch

        scores = products.to(torch.promote_types(products.dtype, torch.float32)) * self.scale
        return scores if self.softcap is None else torch.tanh(scores / self.softcap) * self.softcap

    def output(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool) -> Tensor:
        """The result alone, where nothing is to be merged: torch chooses the kernel on devices other than the CPU."""
        if self.softcap is not None or query.device.type == "cpu":
            return self(query, key, value, bias, is_causal)[0]
        return self.by_torch(query, key, value, bias, is_causal)

    def by_torch(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool) -> Tensor:
        """By the kernel that torch chooses; knows no soft-capping."""
        import torch

        groups = query.shape[1] // key.shape[1]
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, is_causal=is_causal, scale=self.scale, enable_gqa=groups > 1
        )

    def plain(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool
    ) -> tuple[Tensor, Tensor]:
        """The same in plain operations, for any device and for soft-capped scores; a portion of the rows at a time."""
        import torch

        rows, keys = query.shape[2], key.shape[2]
        if is_causal:
            ruled_out = torch.ones(rows, keys, dtype=torch.bool, device=query.device).triu(1)
            bias = torch.zeros(rows, keys, device=query.device).masked_fill_(ruled_out, -math.inf)[None, None]
        step = max(PLAIN_ELEMENTS // (query.shape[0] * query.shape[1] * keys), 1)
        parts = []
        for low in range(0, rows, step):
            some = None if bias is None else bias[:, :, low : low + step]
            parts.append(self._portion(query[:, :, low : low + step], key, value, some))
        if len(parts) == 1:
            return parts[0]
        return torch.cat([part[0] for part in parts], dim=2), torch.cat([part[1] for part in parts], dim=2)

    def _portion(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch

        heads, kept = query.shape[1], key.shape[1]
        grouped = query.reshape(query.shape[0], kept, heads // kept, *query.shape[2:])
        scores = self.scores(grouped @ key.unsqueeze(2).transpose(-1, -2))
        if bias is not None:
            scores = scores + bias.unsqueeze(2)
        weight = scores.logsumexp(dim=-1)
        shares = torch.exp(scores - weight.unsqueeze(-1)).to(value.dtype)
        output = shares @ value.unsqueeze(2)
        return output.reshape(*query.shape[:-1], value.shape[-1]), weight.reshape(query.shape[:-1])


def merge(left: Tensor, left_weight: Tensor, right: Tensor, right_weight: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys as one, from the log of each set's summed weights."""
    import torch

    share = torch.sigmoid(right_weight - left_weight).unsqueeze(-1).to(left.dtype)
    return torch.lerp(left, right, share), torch.logaddexp(left_weight, right_weight)


def sunk(output: Tensor, weight: Tensor, sinks: Tensor) -> Tensor:
    """The result beside sinks: each is a key of its own with no value, which takes its share of the weight."""
    import torch

    return output * torch.sigmoid(weight - sinks.to(weight.dtype).view(1, -1, 1)).unsqueeze(-1).to(output.dtype)
