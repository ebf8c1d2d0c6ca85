"""Tiled attention: small blocks divided into tiles of few rows, each with only the keys that its rows attend to.

Tiles are computed by the C kernels if available, else by batched kernel calls, one per tile width, so that neither
masked keys nor the number of calls cost much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from assay.models.engine.attention_kernel import Kernel, bias_of
from assay.models.engine.c_kernels import CKernels, Pair, TileTable, can_attend
from assay.models.engine.prefix_tree import IntArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Maximum rows of a tile, and the size from which it accepts no unrelated row.
TILE_ROWS, TILE_ENOUGH = 32, 16
# Maximum number of keys of a block that is tiled.
TILE_KEYS = 256
# Tile widths are multiples of WIDTH_STEP keys, for vector units; groups of fewer than LEAST_TILES use the next width.
WIDTH_STEP, LEAST_TILES = 16, 4


@dataclass(frozen=True, slots=True)
class SparseBlock:
    """A few rows and the keys that they attend to.

    Attributes:
        start: first row, counted in the pack.
        keys: indices into the path's tokens followed by the pack's rows.
        allowed: which row attends to which key.
    """

    start: int
    keys: IntArray
    allowed: npt.NDArray[np.bool_]

    def tiles(self) -> Iterator[SparseBlock]:
        """Divides the block into tiles, without the keys that none of a tile's rows attends to."""
        low = 0
        while low < len(self.allowed):
            high = self._end(low)
            rows = self.allowed[low:high]
            seen = rows.any(axis=0)
            yield SparseBlock(self.start + low, self.keys[seen], rows[:, seen])
            low = high

    def _end(self, low: int) -> int:
        """The end of a tile that begins at row `low`: when it is full, or before a row that attends to none of it."""
        rows = len(self.allowed)
        own = self.allowed.shape[1] - rows  # a block's own rows are its last keys
        for row in range(low + TILE_ENOUGH, min(low + TILE_ROWS, rows)):
            if not self.allowed[row, own + low : own + row].any():
                return row
        return min(low + TILE_ROWS, rows)


@dataclass(slots=True)
class Tiles:
    """The tiles of a pack under one mask.

    Attributes:
        sparse_blocks: the tiles.
        length: number of tokens on the path.
        dtype: data type of the masks.
        device: device of the tensors.
        c_kernels: used for supported dtypes; None for the torch kernel only.
    """

    sparse_blocks: Sequence[SparseBlock]
    length: int
    dtype: torch.dtype
    device: torch.device
    c_kernels: CKernels | None = None
    _table: TileTable | None = None
    _batches: Batches | None = None

    @property
    def count(self) -> int:
        """Number of rows covered by the tiles."""
        return sum(len(sparse_block.allowed) for sparse_block in self.sparse_blocks)

    def attend(
        self, kernel: Kernel, query: Tensor, own: Pair, path: Pair, output: Tensor, weight: Tensor | None
    ) -> None:
        """Computes attention of all tiles into `output`.

        Args:
            kernel: scale and soft cap.
            query: queries of all rows of the pack, (1, heads, rows, width).
            own: keys and values of the pack's rows.
            path: keys and values of the path.
            output: (rows, heads, width), filled in.
            weight: log-sum-exps (heads, rows), filled in; None if not needed.
        """
        if self.c_kernels is not None and kernel.softcap is None and can_attend(query, own, path, output, weight):
            if self._table is None:
                parts = zip(
                    *(
                        (sparse_block.start, sparse_block.keys, sparse_block.allowed)
                        for sparse_block in self.sparse_blocks
                    ),
                    strict=True,
                )
                self._table = TileTable(*parts)
            self.c_kernels.attend(
                self._table, query=query, own=own, path=path, output=output, weight=weight, scale=kernel.scale
            )
            return
        if self._batches is None:
            self._batches = batch_tiles(self.sparse_blocks, self.length, self.dtype, self.device)
        self._batches.attend(kernel, query, own, path, output, weight)


@dataclass(frozen=True, slots=True)
class Batches:
    """Tiles as batches for the torch kernel, one per width.

    Attributes:
        rows: the rows of all tiles; a smaller tile repeats its last row.
        keys: the keys of all tiles among the pack's rows, tile by tile; a narrower tile repeats its first key.
        cached_positions: entries of `keys` that are tokens of the path instead.
        cached: these tokens.
        biases: additive masks of shape (tiles, 1, rows, width), one per batch.
    """

    rows: Tensor
    keys: Tensor
    cached_positions: Tensor
    cached: Tensor
    biases: tuple[Tensor, ...]

    def attend(
        self,
        kernel: Kernel,
        query: Tensor,
        own: Pair,
        path: Pair,
        output: Tensor,
        weight: Tensor | None,
    ) -> None:
        """As in `Tiles.attend`."""
        queries = query[0].transpose(0, 1).index_select(0, self.rows)
        keys, values = (self._gather(there, here) for there, here in zip(path, own, strict=True))
        row, key = 0, 0
        for bias in self.biases:
            count, _, height, width = bias.shape
            next_row, next_key = row + count * height, key + count * width
            some = [
                part.view(count, -1, *part.shape[1:]).transpose(1, 2)
                for part in (queries[row:next_row], keys[key:next_key], values[key:next_key])
            ]
            rows = self.rows[row:next_row]
            if weight is None:
                found = kernel.output(some[0], some[1], some[2], bias, False)
            else:
                found, weights = kernel(some[0], some[1], some[2], bias, False)
                weight[:, rows] = weights.transpose(0, 1).reshape(len(weight), -1)
            # Repeated rows are written several times with equal values.
            output[rows] = found.transpose(1, 2).reshape(len(rows), *output.shape[1:])
            row, key = next_row, next_key

    def _gather(self, path: Tensor, rows: Tensor) -> Tensor:
        found = rows[0].transpose(0, 1).index_select(0, self.keys)
        if len(self.cached_positions):
            found[self.cached_positions] = path[0].index_select(1, self.cached).transpose(0, 1)
        return found


def batch_tiles(sparse_blocks: Sequence[SparseBlock], length: int, dtype: torch.dtype, device: torch.device) -> Batches:
    """Groups tiles into batches for the torch kernel.

    Args:
        sparse_blocks: the tiles.
        length: number of tokens on the path.
        dtype: data type of the masks.
        device: device of the tensors.
    """
    import torch

    sparse_blocks = sorted(sparse_blocks, key=lambda sparse_block: (len(sparse_block.keys), sparse_block.start))
    rows = max(len(sparse_block.allowed) for sparse_block in sparse_blocks)
    biases: list[Tensor] = []
    all_rows, all_keys = [], []
    for group, width in _widths(sparse_blocks):
        allowed = np.zeros((len(group), 1, rows, width), dtype=np.bool_)
        for number, sparse_block in enumerate(group):
            count, size = sparse_block.allowed.shape
            all_rows.append(sparse_block.start + np.minimum(np.arange(rows), count - 1))
            all_keys.append(sparse_block.keys[np.where(np.arange(width) < size, np.arange(width), 0)])
            allowed[number, 0, :count, :size] = sparse_block.allowed
            allowed[number, 0, count:] = allowed[number, 0, count - 1]
        biases.append(bias_of(allowed, dtype, device))
    keys = np.concatenate(all_keys)
    is_known = keys < length
    return Batches(
        rows=torch.from_numpy(np.concatenate(all_rows)).to(device),
        keys=torch.from_numpy(np.where(is_known, 0, keys - length)).to(device),
        cached_positions=torch.from_numpy(is_known.nonzero()[0]).to(device),
        cached=torch.from_numpy(keys[is_known]).to(device),
        biases=tuple(biases),
    )


def _widths(sparse_blocks: Sequence[SparseBlock]) -> Iterator[tuple[Sequence[SparseBlock], int]]:
    """Groups tiles, sorted by width, into batches of about equal width; small groups join the next width."""
    widths = [-(-len(sparse_block.keys) // WIDTH_STEP) * WIDTH_STEP for sparse_block in sparse_blocks]
    low = 0
    while low < len(sparse_blocks):
        high = low + 1
        while high < len(sparse_blocks) and (widths[high] == widths[high - 1] or high - low < LEAST_TILES):
            high += 1
        if len(sparse_blocks) - high < LEAST_TILES:
            high = len(sparse_blocks)
        yield sparse_blocks[low:high], widths[high - 1]
        low = high
