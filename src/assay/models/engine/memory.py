"""Memory budget: free memory, and how many tokens may be cached or forwarded at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.models.loading.network import config_number, config_value

if TYPE_CHECKING:
    import torch

# Share of the free memory for the weights and everything else that the engine holds.
SHARE = 0.5
# Shares of the rest: packed weights, states of a pack, KV cache of answers.
PACKED_PART, PACK_PART, SLOTS_PART = 0.4, 0.2, 0.4
# Pack sizes in tokens that reach full speed.
CPU_PACK, GPU_PACK = 1024, 8192
LEAST_PACK = 64
# Minimum number of full packs ahead before weights are packed for scoring: packing costs as much as a few packs save.
WORTH_PACKING = 6
# Maximum number of slots: more slots make a step cheaper per token, until attention over their own keys dominates.
MOST_SLOTS = 64
UNKNOWN = 2 << 30
NO_LIMIT = 1 << 62


def free_bytes(device: torch.device) -> int:
    """Free memory of a device in bytes, container limits included."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(_available(), address_space_headroom(), *(cgroup_headroom(folder) for folder in _cgroup_folders()))


def memory_budget(module: Any, free: int) -> int:
    """Memory budget of the engine beside the weights, in bytes.

    Args:
        module: the model.
        free: free memory before the weights were loaded.
    """
    return max(int(SHARE * free) - weight_bytes(module), 0)


def weight_bytes(module: Any) -> int:
    """Size of a model's weights in bytes, tied weights counted once."""
    return sum(weight.numel() * weight.itemsize for weight in module.parameters())


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        # Without /proc (macOS): half of the physical memory.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def address_space_headroom() -> int:
    """Remaining address space under `ulimit -v`; NO_LIMIT without such a limit."""
    try:
        import resource  # not on Windows

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return NO_LIMIT
    return NO_LIMIT if most == resource.RLIM_INFINITY else max(most - pages * resource.getpagesize(), 0)


def _cgroup_folders(listing: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """Folders of this process's control group and its parents."""
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    return [root / own, *(root / above for above in Path(own).parents)] if own else [root]


def cgroup_headroom(folder: Path = Path("/sys/fs/cgroup")) -> int:
    """Remaining memory of a control group; NO_LIMIT without one."""
    try:
        most = int((folder / "memory.max").read_text(encoding="ascii"))
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        counts = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return NO_LIMIT
    # Page-cache pages, such as weight files, count as used but are reclaimable.
    return max(most - used + int(counts.get("inactive_file", 0)), 0)


def peak_bytes(device: torch.device) -> int | None:
    """Peak memory of this process so far, on CUDA of its tensors; None if unknown."""
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
    """KV cache size of one token in all layers, in bytes."""
    config = module.config.get_text_config()
    all_heads = config_number(config, "num_attention_heads")
    heads = config_number(config, "num_key_value_heads") or all_heads
    width = config_number(config, "head_dim") or config_number(config, "hidden_size") // max(all_heads, 1)
    return int(2 * config_number(config, "num_hidden_layers") * heads * width * module.dtype.itemsize)


def pack_bytes(module: Any) -> int:
    """Memory per token of a pack: staged keys and values, states, the widest layer, attention scores."""
    config = module.config.get_text_config()
    width = int(config_number(config, "hidden_size"))
    wide = config_value(config, "intermediate_size") or 4 * width
    widest = max(wide) if isinstance(wide, (list, tuple)) else wide
    return int(token_bytes(module) + module.dtype.itemsize * (12 * width + 3 * int(widest) + 4096))


def pack_tokens(module: Any, device: torch.device, room: int) -> int:
    """Number of tokens in a pack: the fastest size for the device, limited by memory.

    Args:
        module: the model.
        device: its device.
        room: memory budget in bytes.
    """
    most = CPU_PACK if device.type == "cpu" else GPU_PACK
    return max(min(int(room * PACK_PART) // pack_bytes(module), most), LEAST_PACK)


def slots_for(module: Any, length: int, count: int, room: int) -> int:
    """Number of slots, each with `length` tokens of its own; at least one."""
    fitting = int(room * SLOTS_PART) // max(token_bytes(module) * length, 1)
    return max(min(fitting, count, MOST_SLOTS), 1)
