"""How much memory there is, and how many tokens may be kept or read at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.models.loading.network import config_number, config_value

if TYPE_CHECKING:
    import torch

# Share of the free memory that a model may take with its weights and all that the engine holds beside them.
SHARE = 0.5
# Of what the weights leave of that: packed copies of them, the states of a pack, and the keys of answers.
PACKED_PART, PACK_PART, SLOTS_PART = 0.4, 0.2, 0.4
# A CPU is at full speed with this many tokens; a GPU wants more.
CPU_PACK, GPU_PACK = 1024, 8192
LEAST_PACK = 64
# Full packs that must be ahead before weights are packed for reading them: packing takes what a few of them gain.
WORTH_PACKING = 6
# Rows that write at once: more make each step cheaper per token, until attention over their own keys weighs more.
MOST_SLOTS = 64
UNKNOWN = 2 << 30
NO_LIMIT = 1 << 62


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had on a device, limits of a container included."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(_available(), address_space_headroom(), *(cgroup_headroom(folder) for folder in _cgroup_folders()))


def memory_budget(module: Any, free: int) -> int:
    """Bytes that the engine may hold beside the weights.

    Args:
        module: the model.
        free: bytes that could be had before its weights were loaded.
    """
    return max(int(SHARE * free) - weight_bytes(module), 0)


def weight_bytes(module: Any) -> int:
    """The weights of a model, tied ones once."""
    return sum(weight.numel() * weight.itemsize for weight in module.parameters())


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


def address_space_headroom() -> int:
    """What `ulimit -v` leaves of the address space; more than any machine has when there is no such limit."""
    try:
        import resource  # not on Windows

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return NO_LIMIT
    return NO_LIMIT if most == resource.RLIM_INFINITY else max(most - pages * resource.getpagesize(), 0)


def _cgroup_folders(listing: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """The folders of this process's control group and of those above it."""
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    return [root / own, *(root / above for above in Path(own).parents)] if own else [root]


def cgroup_headroom(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """What a control group still allows; more than any machine has when there is none."""
    try:
        most = int((folder / "memory.max").read_text(encoding="ascii"))
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        counts = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return NO_LIMIT
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


def pack_bytes(module: Any) -> int:
    """What a token of a pack takes: keys and values to stage, a few states, the widest layer, scores over many keys."""
    config = module.config.get_text_config()
    width = int(config_number(config, "hidden_size"))
    wide = config_value(config, "intermediate_size") or 4 * width
    widest = max(wide) if isinstance(wide, (list, tuple)) else wide
    return int(token_bytes(module) + module.dtype.itemsize * (12 * width + 3 * int(widest) + 4096))


def pack_tokens(module: Any, device: torch.device, room: int) -> int:
    """Tokens of a pack: what the device is fast with, as far as its states and one layer's work fit.

    Args:
        module: the model.
        device: where it is.
        room: bytes that the engine may hold.
    """
    most = CPU_PACK if device.type == "cpu" else GPU_PACK
    return max(min(int(room * PACK_PART) // pack_bytes(module), most), LEAST_PACK)


def slots_for(module: Any, length: int, count: int, room: int) -> int:
    """Rows that may write at once, each with `length` tokens of its own; at least one."""
    fitting = int(room * SLOTS_PART) // max(token_bytes(module) * length, 1)
    return max(min(fitting, count, MOST_SLOTS), 1)
