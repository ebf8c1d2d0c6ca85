"""Tiles: every row in one of them, with all its keys and no others, and the same attention as row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.models.engine.attention_kernel import Kernel
from assay.models.engine.c_kernels import CKernels
from assay.models.engine.tiles import LEAST_TILES, TILE_ROWS, WIDTH_STEP, SparseBlock, Tiles, batch_tiles

CPU = torch.device("cpu")
PATH, ROWS, HEADS, KEPT, WIDTH = 5, 150, 4, 2, 8


def random_looks(seed: int) -> list[SparseBlock]:
    """Blocks over all rows of a pack; each row looks at itself and at random keys before it."""
    draw = np.random.default_rng(seed)
    sparse_blocks, start = [], 0
    while start < ROWS:
        count = min(int(draw.choice([1, 7, 40, 90])), ROWS - start)
        before = np.sort(
            draw.choice(PATH + start, size=int(draw.integers(0, min(PATH + start, 60) + 1)), replace=False)
        )
        own = np.tri(count, dtype=bool) & (draw.random((count, count)) < draw.choice([0.02, 0.5, 1])) | np.eye(
            count, dtype=bool
        )
        allowed = np.concatenate([draw.random((count, len(before))) < 0.5, own], axis=1)
        sparse_blocks.append(SparseBlock(start, np.concatenate([before, np.arange(count) + PATH + start]), allowed))
        start += count
    return sparse_blocks


def seen(sparse_block: SparseBlock) -> dict[int, set[int]]:
    return {
        sparse_block.start + row: set(sparse_block.keys[line].tolist()) for row, line in enumerate(sparse_block.allowed)
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_tiles_keep_what_every_row_looks_at(seed: int) -> None:
    for sparse_block in random_looks(seed):
        tiles = list(sparse_block.tiles())
        assert [row for tile in tiles for row in seen(tile)] == list(seen(sparse_block))
        assert {row: keys for tile in tiles for row, keys in seen(tile).items()} == seen(sparse_block)
        assert all(len(tile.allowed) <= TILE_ROWS and tile.allowed.any(axis=0).all() for tile in tiles)


def test_unrelated_rows_begin_a_tile_of_their_own() -> None:
    allowed = np.zeros((40, 40), dtype=bool)
    allowed[:20, :20], allowed[20:, 20:] = np.tri(20), np.tri(20)
    tiles = list(SparseBlock(0, np.arange(40), allowed).tiles())
    assert [(tile.start, tile.allowed.shape) for tile in tiles] == [(0, (20, 20)), (20, (20, 20))]


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def check(c_kernels: CKernels | None, softcap: float | None, is_weighed: bool, seed: int, width: int = WIDTH) -> None:
    """Tiles give what each row gives by itself in float64; rows outside of them keep what they have."""
    exactness = 1e-12 if c_kernels is None else 1e-5
    dtype = torch.float64 if c_kernels is None else torch.float32
    sparse_blocks = [tile for sparse_block in random_looks(seed) for tile in sparse_block.tiles()]
    skipped = sparse_blocks.pop(seed % len(sparse_blocks)) if len(sparse_blocks) > 1 else None
    tiles = Tiles(sparse_blocks, PATH, dtype, CPU, c_kernels)
    # Rows come first in memory, heads first in shape, as in a model.
    query, key, value = (
        numbers(seed + place, 1, count, heads, width).to(dtype).transpose(1, 2)
        for place, (count, heads) in enumerate(((ROWS, HEADS), (PATH + ROWS, KEPT), (PATH + ROWS, KEPT)))
    )
    kernel = Kernel(width**-0.5, softcap)
    own, path = (key[:, :, PATH:], value[:, :, PATH:]), (key[:, :, :PATH], value[:, :, :PATH])
    found = torch.full((ROWS, HEADS, width), 7.0, dtype=dtype)
    weights = torch.zeros(HEADS, ROWS, dtype=dtype) if is_weighed else None
    tiles.attend(kernel, query, own, path, found, weights)
    known = {row: keys for sparse_block in sparse_blocks for row, keys in seen(sparse_block).items()}
    assert tiles.count == len(known)
    assert skipped is None or (found[list(seen(skipped))] == 7).all()
    query, key, value = query.double(), key.double(), value.double()
    for row, places in known.items():
        keys = sorted(places)
        right, weight = kernel(query[:, :, row : row + 1], key[:, :, keys], value[:, :, keys], None, False)
        assert torch.allclose(found[row].double(), right[0, :, 0], atol=exactness, rtol=0)
        if weights is not None:
            assert torch.allclose(weights[:, row].double(), weight[0, :, 0], atol=exactness, rtol=0)


@pytest.mark.parametrize("is_weighed", [False, True])
@pytest.mark.parametrize("softcap", [None, 1.5])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_joined_tiles_give_what_each_row_gives(is_weighed: bool, softcap: float | None, seed: int) -> None:
    check(None, softcap, is_weighed, seed)


@pytest.mark.parametrize("is_weighed", [False, True])
@pytest.mark.parametrize("softcap", [None, 1.5])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), width=st.sampled_from([1, 8, 16, 20, 32, 64, 80, 128, 136]))
def test_c_kernels_do_too(c_kernels: CKernels, is_weighed: bool, softcap: float | None, seed: int, width: int) -> None:
    check(c_kernels, softcap, is_weighed, seed, width)


def test_a_broken_number_stays_with_those_who_look_at_it(c_kernels: CKernels) -> None:
    sparse_blocks = [
        SparseBlock(0, np.arange(20), np.tri(20, dtype=bool)),
        SparseBlock(20, np.arange(20, 40), np.tri(20, dtype=bool)),
    ]
    query, key, value = (numbers(place, 1, 40, 2, 16).float().transpose(1, 2) for place in range(3))
    key[0, 0, 7, 3] = torch.nan
    nothing = (key[:, :, :0], value[:, :, :0])
    found = torch.zeros(40, 2, 16)
    Tiles(sparse_blocks, 0, torch.float32, CPU, c_kernels).attend(
        Kernel(0.3), query, (key, value), nothing, found, None
    )
    broken = found.isnan().any(dim=-1)
    assert broken[7:20, 0].all() and not broken[:7].any() and not broken[20:].any() and not broken[:, 1].any()


def test_few_tiles_of_a_width_go_with_the_next() -> None:
    sizes = [*[10] * LEAST_TILES, 20, *[40] * LEAST_TILES, 70]
    sparse_blocks = [
        SparseBlock(row, np.arange(size), np.ones((1, size), dtype=bool)) for row, size in enumerate(sizes)
    ]
    batches = [(len(bias), bias.shape[-1]) for bias in batch_tiles(sparse_blocks, 0, torch.float32, CPU).biases]
    assert batches == [(LEAST_TILES, WIDTH_STEP), (LEAST_TILES + 2, 5 * WIDTH_STEP)]
