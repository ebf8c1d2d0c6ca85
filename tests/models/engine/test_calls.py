"""Tiles: every row in one of them, with all its keys and no others, and the same attention as row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.models.engine.calls import LEAST_TILES, TILE_ROWS, WIDTH_STEP, Look, join
from assay.models.engine.kernel import Kernel

CPU = torch.device("cpu")
PATH, ROWS, HEADS, KEPT, WIDTH = 5, 150, 4, 2, 8


def random_looks(seed: int) -> list[Look]:
    """Blocks over all rows of a pack; each row looks at itself and at random keys before it."""
    draw = np.random.default_rng(seed)
    looks, start = [], 0
    while start < ROWS:
        count = min(int(draw.choice([1, 7, 40, 90])), ROWS - start)
        before = np.sort(
            draw.choice(PATH + start, size=int(draw.integers(0, min(PATH + start, 60) + 1)), replace=False)
        )
        own = np.tri(count, dtype=bool) & (draw.random((count, count)) < draw.choice([0.02, 0.5, 1])) | np.eye(
            count, dtype=bool
        )
        allowed = np.concatenate([draw.random((count, len(before))) < 0.5, own], axis=1)
        looks.append(Look(start, np.concatenate([before, np.arange(count) + PATH + start]), allowed))
        start += count
    return looks


def seen(look: Look) -> dict[int, set[int]]:
    return {look.start + row: set(look.keys[line].tolist()) for row, line in enumerate(look.allowed)}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_tiles_keep_what_every_row_looks_at(seed: int) -> None:
    for look in random_looks(seed):
        tiles = list(look.tiles())
        assert [row for tile in tiles for row in seen(tile)] == list(seen(look))
        assert {row: keys for tile in tiles for row, keys in seen(tile).items()} == seen(look)
        assert all(len(tile.allowed) <= TILE_ROWS and tile.allowed.any(axis=0).all() for tile in tiles)


def test_unrelated_rows_begin_a_tile_of_their_own() -> None:
    allowed = np.zeros((40, 40), dtype=bool)
    allowed[:20, :20], allowed[20:, 20:] = np.tri(20), np.tri(20)
    tiles = list(Look(0, np.arange(40), allowed).tiles())
    assert [(tile.start, tile.allowed.shape) for tile in tiles] == [(0, (20, 20)), (20, (20, 20))]


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("is_weighed", [False, True])
@pytest.mark.parametrize("softcap", [None, 1.5])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_joined_tiles_give_what_each_row_gives(is_weighed: bool, softcap: float | None, seed: int) -> None:
    looks = [tile for look in random_looks(seed) for tile in look.tiles()]
    skipped = looks.pop(seed % len(looks)) if len(looks) > 1 else None
    tiles = join(looks, PATH, torch.float64, CPU)
    query = numbers(seed, 1, HEADS, ROWS, WIDTH)
    key, value = numbers(seed + 1, 1, KEPT, PATH + ROWS, WIDTH), numbers(seed + 2, 1, KEPT, PATH + ROWS, WIDTH)
    kernel = Kernel(0.4, softcap)
    own, path = (key[:, :, PATH:], value[:, :, PATH:]), (key[:, :, :PATH], value[:, :, :PATH])
    found = torch.full((ROWS, HEADS, WIDTH), 7.0, dtype=torch.float64)
    weights = torch.zeros(HEADS, ROWS, dtype=torch.float64) if is_weighed else None
    tiles.attend(kernel, query, own, path, found, weights)
    known = {row: keys for look in looks for row, keys in seen(look).items()}
    assert tiles.count == len(known)
    assert skipped is None or (found[list(seen(skipped))] == 7).all()
    for row, places in known.items():
        keys = sorted(places)
        right, weight = kernel(query[:, :, row : row + 1], key[:, :, keys], value[:, :, keys], None, False)
        assert torch.allclose(found[row], right[0, :, 0], atol=1e-12, rtol=0)
        if weights is not None:
            assert torch.allclose(weights[:, row], weight[0, :, 0], atol=1e-12, rtol=0)


def test_few_tiles_of_a_width_go_with_the_next() -> None:
    sizes = [*[10] * LEAST_TILES, 20, *[40] * LEAST_TILES, 70]
    looks = [Look(row, np.arange(size), np.ones((1, size), dtype=bool)) for row, size in enumerate(sizes)]
    batches = [(len(bias), bias.shape[-1]) for bias in join(looks, 0, torch.float32, CPU).biases]
    assert batches == [(LEAST_TILES, WIDTH_STEP), (LEAST_TILES + 2, 5 * WIDTH_STEP)]
