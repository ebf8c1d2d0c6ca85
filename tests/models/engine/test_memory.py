"""Memory budgets from a given amount of free memory, and how free memory is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from assay.models.engine.memory import (
    CPU_PACK,
    GPU_PACK,
    LEAST_PACK,
    MOST_SLOTS,
    NO_LIMIT,
    PACK_PART,
    PACKED_PART,
    SLOTS_PART,
    _cgroup_folders,
    address_space_headroom,
    cgroup_headroom,
    free_bytes,
    memory_budget,
    pack_tokens,
    peak_bytes,
    slots_for,
    token_bytes,
    weight_bytes,
)
from assay.models.loading.network import Network
from assay.models.runtime import release_memory

CPU = torch.device("cpu")
GIGABYTE = 1 << 30


def test_keys_and_values_of_all_layers_are_counted(network: Network) -> None:
    assert token_bytes(network.module) == 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, width, bytes
    assert token_bytes(network.module.to(torch.bfloat16)) == 2 * 2 * 2 * 8 * 2


def test_packs_are_as_large_as_memory_and_device_allow(network: Network) -> None:
    sizes = [pack_tokens(network.module, CPU, room) for room in (0, 1 << 23, 1 << 24, GIGABYTE)]
    assert sizes[0] == LEAST_PACK < sizes[1] < sizes[2] < sizes[3] == CPU_PACK
    assert sizes[2] == pytest.approx(2 * sizes[1], abs=1)
    assert pack_tokens(network.module, torch.device("cuda"), 1 << 40) == GPU_PACK


def test_slots_fit_into_memory(network: Network) -> None:
    each = token_bytes(network.module) * 100
    assert slots_for(network.module, 100, 1000, 25 * each) == 10
    assert slots_for(network.module, 100, 7, 25 * each) == 7
    assert slots_for(network.module, 100, 1000, 0) == 1
    assert slots_for(network.module, 100, 1000, 1 << 50) == MOST_SLOTS


def test_weights_and_all_beside_them_take_half_of_what_is_free(network: Network) -> None:
    weights = weight_bytes(network.module)
    assert weights == 4 * sum(weight.numel() for weight in network.module.parameters())
    assert memory_budget(network.module, 10 * weights) == 4 * weights
    assert memory_budget(network.module, weights) == 0
    assert PACKED_PART + PACK_PART + SLOTS_PART <= 1


def test_a_limit_of_the_address_space_counts() -> None:
    code = "from assay.models.engine.memory import address_space_headroom as room, free_bytes; import torch; "
    code += "print(room(), free_bytes(torch.device('cpu')))"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)); "
    done = subprocess.run([sys.executable, "-c", limit + code], capture_output=True, text=True, check=True, timeout=120)
    room, free = map(int, done.stdout.split())
    assert 0 < free <= 8 << 30 and 0 < room < 8 << 30


def test_no_limit_of_the_address_space_is_no_limit() -> None:
    assert address_space_headroom() == NO_LIMIT or address_space_headroom() < 1 << 48


def test_groups_above_a_process_count_too(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("1:cpu:/\n0::/a/b\n")
    root = tmp_path / "sys"
    assert _cgroup_folders(tmp_path / "cgroup", root) == [root / "a/b", root / "a", root]
    assert _cgroup_folders(tmp_path / "none", root) == [root]


def write_group(folder: Path, most: str, used: int, files: int) -> Path:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {files}\n")
    return folder


def test_limit_of_a_container_counts(tmp_path: Path) -> None:
    assert cgroup_headroom(write_group(tmp_path, "1000", 900, 300)) == 400
    assert cgroup_headroom(write_group(tmp_path, "1000", 1200, 0)) == 0


def test_no_container_is_no_limit(tmp_path: Path) -> None:
    assert cgroup_headroom(tmp_path) > 1 << 60
    assert cgroup_headroom(write_group(tmp_path, "max", 900, 300)) > 1 << 60


def test_this_machine_has_some_memory() -> None:
    assert 1 << 20 < free_bytes(CPU) < 1 << 50


def test_the_peak_is_what_the_process_has_held() -> None:
    before = peak_bytes(torch.device("cpu"))
    held = bytearray(300_000_000)
    after = peak_bytes(torch.device("cpu"))
    assert before is not None and after is not None
    assert 300_000_000 <= after < 100e9 and before <= after and len(held) == 300_000_000


def resident() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own way with memory")
def test_memory_that_is_not_used_any_more_is_given_back() -> None:
    torch.ones(1 << 22)  # freed at once: from here on glibc keeps blocks of up to 16 MB for itself
    blocks = [torch.ones(1 << 18) for _ in range(300)]
    pin = torch.ones(1 << 10)  # lies behind them, so that they are not at the end of the heap
    before = resident()
    del blocks
    resident_after = resident()
    release_memory()
    assert resident() < before - 200_000_000 and resident() <= resident_after and len(pin) == 1 << 10
