"""Budgets from a given amount of free memory, and how free memory is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from assay.models.engine.memory import (
    CPU_PACK,
    GPU_PACK,
    LEAST_PACK,
    MOST_SLOTS,
    container_room,
    free_bytes,
    pack_tokens,
    peak_bytes,
    slots_for,
    token_bytes,
)
from assay.models.network import Network

CPU = torch.device("cpu")
GIGABYTE = 1 << 30


def test_keys_and_values_of_all_layers_are_counted(network: Network) -> None:
    assert token_bytes(network.module) == 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, width, bytes
    assert token_bytes(network.module.to(torch.bfloat16)) == 2 * 2 * 2 * 8 * 2


def test_packs_are_as_large_as_memory_and_device_allow(network: Network) -> None:
    sizes = [pack_tokens(network.module, CPU, free) for free in (0, 1 << 23, 1 << 24, GIGABYTE)]
    assert sizes[0] == LEAST_PACK < sizes[1] < sizes[2] < sizes[3] == CPU_PACK
    assert sizes[2] == pytest.approx(2 * sizes[1], abs=1)
    assert pack_tokens(network.module, torch.device("cuda"), 1 << 40) == GPU_PACK


def test_slots_fit_into_memory(network: Network) -> None:
    each = token_bytes(network.module) * 100
    assert slots_for(network.module, CPU, 100, 1000, 20 * each) == 10
    assert slots_for(network.module, CPU, 100, 7, 20 * each) == 7
    assert slots_for(network.module, CPU, 100, 1000, 0) == 1
    assert slots_for(network.module, CPU, 100, 1000, 1 << 50) == MOST_SLOTS


def write_group(folder: Path, most: str, used: int, files: int) -> Path:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {files}\n")
    return folder


def test_limit_of_a_container_counts(tmp_path: Path) -> None:
    assert container_room(write_group(tmp_path, "1000", 900, 300)) == 400
    assert container_room(write_group(tmp_path, "1000", 1200, 0)) == 0


def test_no_container_is_no_limit(tmp_path: Path) -> None:
    assert container_room(tmp_path) > 1 << 60
    assert container_room(write_group(tmp_path, "max", 900, 300)) > 1 << 60


def test_this_machine_has_some_memory() -> None:
    assert 1 << 20 < free_bytes(CPU) < 1 << 50


def test_the_peak_is_what_the_process_has_held() -> None:
    before = peak_bytes(torch.device("cpu"))
    held = bytearray(300_000_000)
    after = peak_bytes(torch.device("cpu"))
    assert before is not None and after is not None
    assert 300_000_000 <= after < 100e9 and before <= after and len(held) == 300_000_000
