"""The prefix tree of many token sequences: sorted sequences, and what each shares with its predecessor.

In: encoded texts. Out: the tree as flat arrays. Its tokens are in depth-first order, each once, so that any slice
can be forwarded with the KV cache of a single path: the one from the root to the token before the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assay.models.tokens.tokenization import EncodedText

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of a sequence that no earlier sequence has: rows `start` to `end` of the tree.

    Attributes:
        start: first row.
        end: row after the last.
        depth: position of the first row in its sequence, equal to the number of shared tokens.
    """

    start: int
    end: int
    depth: int


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Every distinct prefix once.

    Attributes:
        tokens: ids in depth-first order; the tree's rows.
        segments: unshared parts of the distinct sequences, in order; none is empty.
        rows: for every scored token of every text, the row that predicts it; texts in the order of `order`.
        targets: the scored tokens.
        bounds: start of each text in `rows` and `targets`; one more entry than texts.
        order: for every text in tree order, its index in the input.
        last_rows: the row that completes each text.
        depth: length of the longest sequence.
        ends: the segments' ends.
    """

    tokens: npt.NDArray[np.int32]
    segments: tuple[Segment, ...]
    rows: IntArray
    targets: IntArray
    bounds: IntArray
    order: IntArray
    last_rows: IntArray
    depth: int
    ends: IntArray

    def __len__(self) -> int:
        return len(self.tokens)


def build_tree(texts: Sequence[EncodedText]) -> PrefixTree:
    """Builds the tree of the texts' inputs; time and memory are linear in the number of tokens, apart from sorting."""
    # Big-endian bytes compare like the ids themselves, at the speed of memcmp.
    keys = [np.asarray(text.ids[:-1], dtype=">u4").tobytes() for text in texts]
    order = sorted(range(len(texts)), key=keys.__getitem__)
    tokens: list[npt.NDArray[np.int32]] = []
    segments: list[Segment] = []
    path = np.zeros(max((len(key) // 4 for key in keys), default=0), dtype=np.int64)
    rows: list[IntArray] = []
    targets: list[tuple[int, ...]] = []
    last_rows: list[int] = []
    count, previous = 0, b""
    for index in order:
        text, key = texts[index], keys[index]
        length, shared = len(key) // 4, _shared(previous, key)
        if length > shared:
            segments.append(Segment(count, count + length - shared, shared))
            tokens.append(np.frombuffer(key, dtype=">u4")[shared:].astype(np.int32))
            path[shared:length] = np.arange(count, count + length - shared)
            count += length - shared
        rows.append(path[length - text.scored : length].copy())
        targets.append(text.ids[len(text.ids) - text.scored :])
        last_rows.append(int(path[length - 1]))
        previous = key
    bounds = np.cumsum([0, *(len(entry) for entry in rows)])
    return PrefixTree(
        tokens=np.concatenate(tokens) if tokens else np.zeros(0, dtype=np.int32),
        segments=tuple(segments),
        rows=np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64),
        targets=np.fromiter((token for entry in targets for token in entry), dtype=np.int64, count=int(bounds[-1])),
        bounds=bounds,
        order=np.asarray(order, dtype=np.int64),
        last_rows=np.asarray(last_rows, dtype=np.int64),
        depth=len(path),
        ends=np.asarray([segment.end for segment in segments], dtype=np.int64),
    )


def _shared(left: bytes, right: bytes) -> int:
    """Length of the common prefix of two keys, in ids."""
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return size // 4
    differs = np.frombuffer(left, np.uint32, size // 4) != np.frombuffer(right, np.uint32, size // 4)
    return int(differs.argmax())


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """Rows of one segment inside a slice of the tree, and their ancestors.

    Attributes:
        start: first row, counted in the slice.
        end: row after the last.
        depth: position of the first row.
        ancestors: ranges of rows of the slice that the piece continues, nearest the root first.
        cached: number of tokens of the cached path that it continues; ancestors come after them.
    """

    start: int
    end: int
    depth: int
    ancestors: tuple[tuple[int, int], ...]
    cached: int


def pieces(segments: Sequence[Segment], low: int, high: int) -> Iterator[SegmentPiece]:
    """The slice `low` to `high` of a tree as pieces; the path to row `low` - 1 is cached.

    Args:
        segments: the segments with rows in the slice, in order.
        low: first row.
        high: row after the last.
    """
    trail: list[tuple[int, int, int]] = []  # (depth, first row in the slice, rows) of the path inside the slice
    for segment in segments:
        start, end = max(segment.start, low), min(segment.end, high)
        depth = segment.depth + start - segment.start
        while trail and trail[-1][0] >= depth:
            trail.pop()
        if trail:
            top, first, rows = trail[-1]
            trail[-1] = (top, first, min(rows, depth - top))
        cached = trail[0][0] if trail else depth
        yield SegmentPiece(
            start - low, end - low, depth, tuple((first, first + rows) for _, first, rows in trail), cached
        )
        trail.append((depth, start - low, end - start))
