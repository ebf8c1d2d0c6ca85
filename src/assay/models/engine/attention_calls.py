"""One call of the attention kernel for a large block of rows: which rows of a pack ask, and which keys they look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class KernelCall:
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
    cached: slice | Tensor
    others: Tensor | None
    bias: Tensor | None
    is_causal: bool
    is_split: bool = False

    def gather(self, path: Tensor, rows: Tensor) -> Tensor:
        """The keys (or values) of the call, out of those of the path and of the pack's rows."""
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
