"""How much memory there is, and how many tokens may be kept or read at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.models.config_values import config_number, config_value

if TYPE_CHECKING:
    import torch

# Share of the free memory that keys, values and activations may fill; the rest is for everything else.
SHARE = 0.5
# A CPU is at full speed with this many tokens; a GPU wants more.
CPU_PACK, GPU_PACK = 1024, 8192
LEAST_PACK = 64
# Rows that write at once: more make each step cheaper per token, until attention over their own keys weighs more.
MOST_SLOTS = 64
UNKNOWN = 2 << 30


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had on a device, limits of a container included."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(_available(), container_room())


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        # Without /proc (macOS): half of what is built in.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def container_room(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """What a control group still allows; more than any machine has when there is none."""
    try:
        most = int((folder / "memory.max").read_text(encoding="ascii"))
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        counts = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return 1 << 62
    # Pages of files that were read, weights for one, count as used but are given up at need.
    return max(most - used + int(counts.get("inactive_file", 0)), 0)


def peak_bytes(device: torch.device) -> int | None:
    """The most that this process has held so far, on a CUDA device what its tensors have; None where nothing tells."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def token_bytes(module: Any) -> int:
    """Keys and values of one token in all layers."""
    config = module.config.get_text_config()
    all_heads = config_number(config, "num_attention_heads")
    heads = config_number(config, "num_key_value_heads") or all_heads
    width = config_number(config, "head_dim") or config_number(config, "hidden_size") // max(all_heads, 1)
    return int(2 * config_number(config, "num_hidden_layers") * heads * width * module.dtype.itemsize)


def pack_tokens(module: Any, device: torch.device, free: int | None = None) -> int:
    """Tokens of a pack: what the device is fast with, as far as its states and one layer's work fit.

    Args:
        module: the model.
        device: where it is.
        free: bytes that can be had there; None to measure them.
    """
    config = module.config.get_text_config()
    width = int(config_number(config, "hidden_size"))
    wide = config_value(config, "intermediate_size") or 4 * width
    widest = max(wide) if isinstance(wide, (list, tuple)) else wide
    # Keys and values to stage, a few states, the widest layer twice, and scores over a few thousand keys.
    each = token_bytes(module) + module.dtype.itemsize * (12 * width + 3 * int(widest) + 4096)
    most = CPU_PACK if device.type == "cpu" else GPU_PACK
    room = free_bytes(device) if free is None else free
    return max(min(int(room * SHARE) // int(each), most), LEAST_PACK)


def slots_for(module: Any, device: torch.device, length: int, count: int, free: int | None = None) -> int:
    """Rows that may write at once, each with `length` tokens of its own; at least one."""
    room = int((free_bytes(device) if free is None else free) * SHARE) // max(token_bytes(module) * length, 1)
    return max(min(room, count, MOST_SLOTS), 1)
