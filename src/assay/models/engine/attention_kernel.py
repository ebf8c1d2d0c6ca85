"""Softmax attention that also returns log-sum-exps, by which results over several sets of keys are merged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Attention scores held at once by the plain implementation: 64 MB.
PLAIN_ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Kernel:
    """Softmax attention that also returns the log-sum-exp of each row."""

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
        """Query-key products, scaled and soft-capped, in float32 or wider."""
        import torch

        scores = products.to(torch.promote_types(products.dtype, torch.float32)) * self.scale
        return scores if self.softcap is None else torch.tanh(scores / self.softcap) * self.softcap

    def output(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool) -> Tensor:
        """The output without the log-sum-exp; off the CPU, torch chooses the kernel."""
        if self.softcap is not None or query.device.type == "cpu":
            return self(query, key, value, bias, is_causal)[0]
        return self.by_torch(query, key, value, bias, is_causal)

    def by_torch(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool) -> Tensor:
        """Output of torch's `scaled_dot_product_attention`; no soft cap."""
        import torch

        groups = query.shape[1] // key.shape[1]
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, is_causal=is_causal, scale=self.scale, enable_gqa=groups > 1
        )

    def plain(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool
    ) -> tuple[Tensor, Tensor]:
        """Plain implementation for any device and for soft-capped scores, in chunks of rows."""
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

        heads, kv_heads = query.shape[1], key.shape[1]
        grouped = query.reshape(query.shape[0], kv_heads, heads // kv_heads, *query.shape[2:])
        scores = self.scores(grouped @ key.unsqueeze(2).transpose(-1, -2))
        if bias is not None:
            scores = scores + bias.unsqueeze(2)
        weight = scores.logsumexp(dim=-1)
        shares = torch.exp(scores - weight.unsqueeze(-1)).to(value.dtype)
        output = shares @ value.unsqueeze(2)
        return output.reshape(*query.shape[:-1], value.shape[-1]), weight.reshape(query.shape[:-1])


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of the attention kernel: some rows of a pack and their keys.

    Attributes:
        rows: the query rows.
        cached: tokens of the path that they attend to.
        others: rows of the pack that they attend to; None for exactly their own.
        bias: 0 where a row attends to a key, -inf where not; None if nothing is masked.
        is_causal: whether each row attends to itself and earlier rows of the block only.
        is_split: whether causal attention over the block's own rows is computed separately and merged.
    """

    rows: slice
    cached: slice | Tensor
    others: Tensor | None
    bias: Tensor | None
    is_causal: bool
    is_split: bool = False

    def gather(self, path: Tensor, rows: Tensor) -> Tensor:
        """The keys (or values) of the call, gathered from the path and the pack's rows."""
        import torch

        parts = []
        if isinstance(self.cached, slice):
            if self.cached.stop > self.cached.start:
                parts.append(path[:, :, self.cached])
        elif len(self.cached):
            parts.append(path.index_select(2, self.cached))
        if self.others is None:
            parts.append(rows[:, :, self.rows])
        elif len(self.others):
            parts.append(rows.index_select(2, self.others))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def bias_of(allowed: npt.NDArray[np.bool_], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask: 0 where a row attends to a key, -inf where not."""
    import torch

    ruled_out = torch.from_numpy(~allowed).to(device)
    return torch.zeros(allowed.shape, dtype=dtype, device=device).masked_fill_(ruled_out, -math.inf)


def merge(left: Tensor, left_weight: Tensor, right: Tensor, right_weight: Tensor) -> tuple[Tensor, Tensor]:
    """Merges attention over two sets of keys, weighted by their log-sum-exps."""
    import torch

    share = torch.sigmoid(right_weight - left_weight).unsqueeze(-1).to(left.dtype)
    return torch.lerp(left, right, share), torch.logaddexp(left_weight, right_weight)


def apply_sinks(output: Tensor, weight: Tensor, sinks: Tensor) -> Tensor:
    """Applies attention sinks: keys without values that take a share of the softmax."""
    import torch

    return output * torch.sigmoid(weight - sinks.to(weight.dtype).view(1, -1, 1)).unsqueeze(-1).to(output.dtype)
