"""Packed sequences: slices of a prefix tree that are forwarded as one row without padding.

In: a tree and a range of rows. Out: a pack, divided into blocks of rows with the keys that they attend to.
Independent of torch; the layout is the same for every layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assay.models.engine.prefix_tree import IntArray, PrefixTree, SegmentPiece, pieces

# Maximum rows of a block of several pieces: small enough that masked pairs cost little, large enough for few calls. A
# single piece needs no mask and is one block of any length.
BLOCK_ROWS = 192
# A block with this many rows accepts no unrelated piece.
FULL_ENOUGH = 48
# Minimum length of a prefix that all rows of a pack attend to together.
COMMON_PREFIX = 64


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a pack and the keys that they attend to.

    The keys are, in this order: cached tokens from the end of the pack's common prefix up to `cached`, the rows
    `ancestors` of the pack, and the block's own rows.

    Attributes:
        start: first row, counted in the pack.
        end: row after the last.
        cached: maximum number of cached tokens that the rows attend to.
        ancestors: ranges of rows of the pack.
        allowed: which row attends to which key; None if row i attends to all keys but the block's rows after i.
    """

    start: int
    end: int
    cached: int
    ancestors: tuple[tuple[int, int], ...]
    allowed: npt.NDArray[np.bool_] | None

    @property
    def ancestor_count(self) -> int:
        return sum(high - low for low, high in self.ancestors)


@dataclass(frozen=True, slots=True)
class Pack:
    """Rows `low` to `high` of a tree, forwarded together.

    Attributes:
        low: first row.
        high: row after the last.
        tokens: their ids.
        positions: their positions.
        common: number of cached tokens that all rows attend to.
        blocks: the rows, divided into blocks.
        pieces: the rows, divided by sequence.
        cached: number of cached tokens that stay on the path after this pack.
        path: rows of the pack that join the path, in order.
    """

    low: int
    high: int
    tokens: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int64]
    common: int
    blocks: tuple[Block, ...]
    pieces: tuple[SegmentPiece, ...]
    cached: int
    path: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return self.high - self.low


def concat_ranges(ranges: Sequence[tuple[int, int]]) -> IntArray:
    """The concatenation of integer ranges."""
    return np.concatenate([np.arange(*bounds) for bounds in ranges]) if ranges else np.zeros(0, dtype=np.int64)


def make_pack(tree: PrefixTree, low: int, high: int) -> Pack:
    """The pack of a slice of the tree."""
    first = int(np.searchsorted(tree.ends, low, side="right"))
    last_one = int(np.searchsorted(tree.ends, high, side="left"))
    found = tuple(pieces(tree.segments[first : last_one + 1], low, high))
    common = min(piece.cached for piece in found)
    if common < COMMON_PREFIX:
        common = 0
    positions = concat_ranges([(one.depth, one.depth + one.end - one.start) for one in found])
    last = found[-1]
    path = concat_ranges((*last.ancestors, (last.start, last.end)))
    blocks = tuple(_blocks(found, common))
    return Pack(
        low=low,
        high=high,
        tokens=tree.tokens[low:high],
        positions=positions,
        common=common,
        blocks=blocks,
        pieces=found,
        cached=last.cached,
        path=path,
    )


def _blocks(found: Sequence[SegmentPiece], common: int) -> Iterator[Block]:
    group: list[SegmentPiece] = []
    for piece in found:
        if group and not _joins(piece, group):
            yield from _finish(group, common)
            group = []
        group.append(piece)
    yield from _finish(group, common)


def _joins(piece: SegmentPiece, group: Sequence[SegmentPiece]) -> bool:
    """Whether a piece joins the block before it: the result is small, and the piece is related or the block short."""
    rows = piece.end - group[0].start
    if rows > BLOCK_ROWS:
        return False
    is_related = bool(piece.ancestors) and piece.ancestors[-1][1] > group[0].start
    return is_related or group[-1].end - group[0].start < FULL_ENOUGH


def _finish(group: Sequence[SegmentPiece], common: int) -> Iterator[Block]:
    if len(group) > 1:
        yield _masked(group, common)
        return
    piece = group[0]
    yield Block(piece.start, piece.end, piece.cached, piece.ancestors, None)


def _masked(group: Sequence[SegmentPiece], common: int) -> Block:
    start, end = group[0].start, group[-1].end
    cached = max(piece.cached for piece in group)
    outside = sorted({bounds for piece in group for bounds in _before(piece, start)})
    ancestors = tuple(_merged(outside))
    offset = cached - common
    columns = concat_ranges((*ancestors, (start, end)))
    place = np.full(end, -1, dtype=np.int64)  # row of the pack → column of the mask
    place[columns] = np.arange(offset, offset + len(columns))
    allowed = np.zeros((end - start, offset + len(columns)), dtype=np.bool_)
    for piece in group:
        own = slice(piece.start - start, piece.end - start)
        allowed[own, : piece.cached - common] = True
        for low, high in piece.ancestors:
            allowed[own, place[low:high]] = True
        size = piece.end - piece.start
        first = int(place[piece.start])
        allowed[own, first : first + size] = np.tri(size, dtype=np.bool_)
    return Block(start, end, cached, ancestors, allowed)


def _before(piece: SegmentPiece, start: int) -> Iterator[tuple[int, int]]:
    """Ancestors outside a block that begins at `start`."""
    for low, high in piece.ancestors:
        if low < start:
            yield low, min(high, start)


def _merged(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merges overlapping ranges, given in order."""
    current: tuple[int, int] | None = None
    for low, high in ranges:
        if current is not None and low <= current[1]:
            current = current[0], max(current[1], high)
            continue
        if current is not None:
            yield current
        current = low, high
    if current is not None:
        yield current
