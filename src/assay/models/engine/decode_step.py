"""One decode step: attention of one new token per slot over the shared prefix and the slot's own KV cache.

In: queries, keys and values of the new tokens. Out: the attention output of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.models.engine.attention import AttentionInputs, PrefixCache, stricter_mask

if TYPE_CHECKING:
    import torch
    from torch import Tensor


# Spare tokens when the slots' cache grows.
SPARE = 64


@dataclass(slots=True)
class SlotCache:
    """KV cache of all slots: the shared prefix once, then the tokens of each slot.

    Attributes:
        path: cache of the shared prefix; its first `prefix` tokens do not change during generation.
        prefix: number of tokens shared by all rows.
        slots: maximum number of rows.
        room: maximum number of tokens per slot.
        keys: per attention call, a tensor (slots, heads, capacity, width); it grows with the rows.
        values: the same for values.
    """

    path: PrefixCache
    prefix: int
    slots: int
    room: int
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def fill(self, slot: int, call: int, parts: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Fills a slot with the tokens after the prefix: pairs of keys and values (heads, tokens, width), in order."""
        if call == len(self.keys):
            self.keys.append(_empty(parts[0][0], self.slots))
            self.values.append(_empty(parts[0][1], self.slots))
        count = sum(key.shape[1] for key, _ in parts)
        self._widen(call, count)
        start = 0
        for key, value in parts:
            end = start + key.shape[1]
            self.keys[call][slot, :, start:end] = key
            self.values[call][slot, :, start:end] = value
            start = end

    def reserve(self, count: int) -> None:
        """Ensures capacity for `count` tokens in every slot."""
        for call in range(len(self.keys)):
            self._widen(call, count)

    def width(self, longest: int) -> int:
        """How many of a slot's tokens a step attends to, if `longest` of them are the most that a row has."""
        return self.keys[0].shape[2] if _is_packed(self.keys[0]) else longest

    def _widen(self, call: int, count: int) -> None:
        capacity = self.keys[call].shape[2]
        if count <= capacity:
            return
        more = 0 if _is_packed(self.keys[call]) else capacity // 2
        wanted = min(max(count + SPARE, capacity + more), max(self.room, count))
        for stores in (self.keys, self.values):
            store = stores[call]
            # Zeros, because unwritten entries must not be NaN: 0 × NaN is NaN.
            wider = store.new_zeros(store.shape[0], store.shape[1], wanted, store.shape[3])
            wider[:, :, :capacity] = store
            stores[call] = wider

    def move(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` tokens of one slot to another."""
        for stores in (self.keys, self.values):
            for store in stores:
                store[target, :, :length] = store[source, :, :length]


def _is_packed(store: Tensor) -> bool:
    """Whether a step attends to the whole cache, masked, and the cache therefore grows in small steps.

    On a CPU, PyTorch multiplies a slice of a tensor of 16-bit numbers several times slower than the whole.
    """
    return store.device.type == "cpu" and store.element_size() < 4


def _empty(like: Tensor, slots: int) -> Tensor:
    return like.new_empty(slots, like.shape[0], 0, like.shape[-1])


@dataclass(slots=True)
class DecodeStep:
    """Attention context of one decode step.

    Attributes:
        cache: KV cache of the slots.
        positions: the position of each row's new token.
        width: number of own tokens to attend to, at least those of the longest row, the new one included.
        dtype: data type of the biases.
        biases: additive masks by mask; None is the key for plain causal attention.
        masks: masks in use, so that their ids stay unique.
        calls: number of attention calls so far.
    """

    cache: SlotCache
    positions: Tensor
    width: int
    dtype: torch.dtype
    biases: dict[int | None, Tensor] = field(default_factory=dict)
    masks: list[Tensor] = field(default_factory=list)
    calls: int = 0

    def mask(self, rule: Callable[..., Any]) -> Tensor | None:
        """The mask over (rows, prefix + own tokens): a row's own token i has position prefix + i."""
        return stricter_mask(rule, self.positions, self._key_positions())

    def attend(self, inputs: AttentionInputs) -> Tensor:
        """Attention of all rows at once, in one softmax over prefix and own tokens."""
        import torch

        cache, count, call = self.cache, len(self.positions), self.calls
        self.calls += 1
        rows = torch.arange(count, device=self.positions.device)
        cache.keys[call][rows, :, self.positions - cache.prefix] = inputs.key[0].transpose(0, 1)
        cache.values[call][rows, :, self.positions - cache.prefix] = inputs.value[0].transpose(0, 1)
        keys, values = cache.keys[call][:count, :, : self.width], cache.values[call][:count, :, : self.width]
        heads = keys.shape[1]
        query = inputs.query[0].transpose(0, 1).reshape(count, heads, -1, inputs.query.shape[-1])
        own = query @ keys.transpose(-1, -2)
        shared = None
        if cache.prefix:
            by_head = query.transpose(0, 1).reshape(heads, -1, query.shape[-1])
            prefix = by_head @ cache.path.keys[call][:, : cache.prefix].transpose(-1, -2)
            shared = prefix.view(heads, count, -1, cache.prefix).transpose(0, 1)
        shares = self._shares(inputs, own if shared is None else torch.cat([shared, own], dim=-1)).to(values.dtype)
        output = shares[..., cache.prefix : cache.prefix + self.width] @ values
        if cache.prefix:
            by_head = shares[..., : cache.prefix].transpose(0, 1).reshape(heads, -1, cache.prefix)
            seen = by_head @ cache.path.values[call][:, : cache.prefix]
            output = output + seen.view(heads, count, -1, seen.shape[-1]).transpose(0, 1)
        return output.reshape(1, count, -1, output.shape[-1]).transpose(1, 2)

    def _shares(self, inputs: AttentionInputs, scores: Tensor) -> Tensor:
        """Softmax over the allowed tokens and the head's sink, which the caller drops."""
        import torch

        scores = inputs.kernel.scores(scores) + self._bias(inputs.mask)
        if inputs.sinks is not None:
            sinks = inputs.sinks.to(scores.dtype).view(1, scores.shape[1], -1, 1).expand(len(scores), -1, -1, 1)
            scores = torch.cat([scores, sinks], dim=-1)
        return scores.softmax(dim=-1)

    def _bias(self, mask: Tensor | None) -> Tensor:
        name = None if mask is None else id(mask)
        if name not in self.biases:
            keys = self._key_positions()
            allowed = keys[None, :] <= self.positions[:, None]
            if mask is not None:
                allowed = allowed & mask[0, 0]
                self.masks.append(mask)  # keeps the object alive, so that its id is not reused
            bias = self.positions.new_zeros(allowed.shape, dtype=self.dtype)
            self.biases[name] = bias.masked_fill_(~allowed, -math.inf)[:, None, None]
        return self.biases[name]

    def _key_positions(self) -> Tensor:
        import torch

        return torch.arange(self.cache.prefix + self.width, device=self.positions.device)
