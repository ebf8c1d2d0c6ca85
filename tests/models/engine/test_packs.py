"""Packs: which row looks at which key, against the plain definition on random trees and slices."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.models.engine.packs import BLOCK_ROWS, COMMON_PREFIX, Pack, make_pack
from assay.models.engine.prefix_tree import PrefixTree, build_tree
from assay.models.tokens.tokenization import EncodedText


def random_tree(seed: int, stem: int) -> PrefixTree:
    """A stem, branches and twigs of random lengths, up to a few blocks of rows."""
    draw = random.Random(seed)
    rows: list[tuple[int, ...]] = [tuple(draw.randrange(3) for _ in range(stem))]
    for _ in range(draw.randint(1, 25)):
        base = draw.choice(rows)[: draw.randint(0, 400)]
        rows.append((*base, *(draw.randrange(3) for _ in range(draw.choice([1, 3, 20, 220])))))
    return build_tree([EncodedText(number, (*row, 9), 1) for number, row in enumerate(rows)])


def paths_of(tree: PrefixTree) -> list[list[int]]:
    """For every row, the rows from the root to itself."""
    found: list[list[int]] = []
    path: list[int] = []
    for segment in tree.segments:
        path = path[: segment.depth]
        for row in range(segment.start, segment.end):
            path = [*path, row]
            found.append(path)
    return found


def looks_at(pack: Pack, remembered: list[int]) -> list[list[int]]:
    """For every row of a pack, the rows of the tree it looks at, as its blocks say."""
    found: list[list[int]] = []
    for block in pack.blocks:
        own = [row for bounds in (*block.ancestors, (block.start, block.end)) for row in range(*bounds)]
        keys = [*remembered[pack.common : block.cached], *(row + pack.low for row in own)]
        rows = block.end - block.start
        allowed = np.tri(rows, len(keys), len(keys) - rows, dtype=bool) if block.allowed is None else block.allowed
        assert allowed.shape == (rows, len(keys)) and block.start == len(found)
        for line in allowed:
            found.append(sorted([*remembered[: pack.common], *(key for key, on in zip(keys, line, strict=True) if on)]))
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, COMMON_PREFIX + 6, 300]), st.data())
def test_every_row_looks_at_its_own_path_only(seed: int, stem: int, data: st.DataObject) -> None:
    tree = random_tree(seed, stem)
    paths = paths_of(tree)
    low = data.draw(st.integers(0, len(tree) - 1))
    high = data.draw(st.integers(low + 1, len(tree)))
    pack = make_pack(tree, low, high)
    assert looks_at(pack, paths[low - 1] if low else []) == paths[low:high]
    assert list(pack.positions) == [len(path) - 1 for path in paths[low:high]]
    assert list(pack.tokens) == list(tree.tokens[low:high])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 300))
def test_the_cached_path_leads_to_the_last_row(seed: int, size: int) -> None:
    tree = random_tree(seed, 40)
    paths, remembered = paths_of(tree), []
    for low in range(0, len(tree), size):
        pack = make_pack(tree, low, min(low + size, len(tree)))
        remembered = [*remembered[: pack.cached], *(int(row) + low for row in pack.path)]
        assert remembered == paths[pack.high - 1]


@pytest.mark.parametrize(("stem", "common"), [(COMMON_PREFIX - 1, 0), (COMMON_PREFIX, COMMON_PREFIX)])
def test_only_a_long_common_prefix_is_set_apart(stem: int, common: int) -> None:
    texts = [EncodedText(number, (*range(stem), 900 + number, 0), 1) for number in range(4)]
    tree = build_tree(texts)
    assert make_pack(tree, stem, len(tree)).common == common


def test_a_long_piece_is_a_block_without_a_mask() -> None:
    tree = build_tree([EncodedText(0, (*range(1000), 0), 1)])
    blocks = make_pack(tree, 0, 1000).blocks
    assert [block.end - block.start for block in blocks] == [5 * BLOCK_ROWS + 40]
    assert all(block.allowed is None for block in blocks)
