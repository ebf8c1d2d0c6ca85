"""C kernels for the CPU, compiled with GCC on first use: fused loops that move less memory.

In: float32 tensors on a CPU. Out: the results of the corresponding torch operations, up to rounding. Every caller
can fall back to torch: without a compiler, on other systems and for other dtypes only speed is lost
(docs/decisions/0011).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from assay.core.atomic_files import cache_folder, private_folder

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = Path(__file__).with_name("c_kernels.c")
# These flags change neither rounding nor NaN handling, only errno and traps, which are unused.
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC", "-shared")
SWITCH = "ASSAY_LOOPS"
CPU_INFO = Path("/proc/cpuinfo")
COMPILE_SECONDS = 60
# The files in this folder are executed, so other users must not be able to write them.
OTHERS_WRITE = 0o022

Pair = tuple["Tensor", "Tensor"]


class _StridedTensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("row", ctypes.c_int64), ("head", ctypes.c_int64))

    @classmethod
    def of(cls, numbers: Tensor) -> _StridedTensor:
        """From a tensor of shape (1, heads, rows, width)."""
        return cls(numbers.data_ptr(), numbers.stride(2), numbers.stride(1))


class _TileTableStruct(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int32),
        ("most_keys", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("starts", "rows", "keys", "keys_at", "allowed", "allowed_at")),
    )


class _AttentionArguments(ctypes.Structure):
    _fields_ = (
        *((name, _StridedTensor) for name in ("query", "key", "value", "path_key", "path_value")),
        ("output", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("all_rows", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("heads", "kv_heads", "width", "length")),
        ("scale", ctypes.c_float),
    )


class TileTable:
    """Tiles in the memory layout of the C kernels."""

    def __init__(self, starts: Sequence[int], keys: Sequence[Any], allowed: Sequence[Any]) -> None:
        """Takes the first row of each tile, its keys, and which of its rows attends to which key."""
        self._arrays: dict[str, npt.NDArray[Any]] = {  # kept alive: the structure holds only pointers
            "starts": np.array(starts, dtype=np.int32),
            "rows": np.array([len(one) for one in allowed], dtype=np.int32),
            "keys": np.concatenate(keys).astype(np.int32),
            "keys_at": np.cumsum([0, *map(len, keys)], dtype=np.int32),
            "allowed": np.concatenate([one.ravel() for one in allowed]).astype(np.uint8),
            "allowed_at": np.cumsum([0, *(one.size for one in allowed)], dtype=np.int64),
        }
        pointers = {name: array.ctypes.data for name, array in self._arrays.items()}
        self.structure = _TileTableStruct(len(starts), max(map(len, keys)), **pointers)


@dataclass(frozen=True, slots=True)
class CKernels:
    """The compiled functions."""

    library: Any

    def gate_up(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(gate) * up, written over `gate`; both contiguous."""
        self.library.gate_up(gate.data_ptr(), up.data_ptr(), gate.numel())
        return gate

    def norm(self, given: Tensor, weight: Tensor, small: float) -> Tensor:
        """RMS norm times the weight; both contiguous."""
        import torch

        found, width = torch.empty_like(given), given.shape[-1]
        rows = given.numel() // width
        self.library.norm(given.data_ptr(), weight.data_ptr(), found.data_ptr(), rows, width, small)
        return found

    def rotate(self, given: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Rotary position embedding of (1, heads, rows, width) by (1, rows, width); for tensors that `can_rotate`."""
        import torch

        found = torch.empty_like(given)
        _, heads, rows, width = given.shape
        pointers = (cosines.data_ptr(), sines.data_ptr(), found.data_ptr())
        self.library.rotate(_StridedTensor.of(given), *pointers, rows, heads, width)
        return found

    def exp_sums(self, logits: Tensor) -> Pair:
        """Row maxima, and float64 sums of exp(logit - maximum); unshifted where the maximum is infinite."""
        import torch

        largest, sums = torch.empty(len(logits)), torch.empty(len(logits), dtype=torch.float64)
        self.library.exp_sums(logits.data_ptr(), *logits.shape, largest.data_ptr(), sums.data_ptr())
        return largest, sums

    def attend(
        self,
        table: TileTable,
        query: Tensor,
        own: Pair,
        path: Pair,
        output: Tensor,
        weight: Tensor | None,
        scale: float,
    ) -> None:
        """Attention of tiles; arguments as in `Tiles.attend`, for tensors that `can_attend`."""
        given = _AttentionArguments(
            *(_StridedTensor.of(one) for one in (query, *own, *path)),
            output=output.data_ptr(),
            weight=None if weight is None else weight.data_ptr(),
            all_rows=query.shape[2],
            heads=query.shape[1],
            kv_heads=own[0].shape[1],
            width=query.shape[3],
            length=path[0].shape[2],
            scale=scale,
        )
        if self.library.attend(ctypes.byref(table.structure), ctypes.byref(given)):
            raise MemoryError("out of memory for attention scores")


def are_float32_cpu(*numbers: Tensor) -> bool:
    """Whether all tensors are float32 on a CPU, the only kind that the kernels can read."""
    import torch

    return all(one.dtype == torch.float32 and one.device.type == "cpu" for one in numbers)


def are_contiguous_float32(*numbers: Tensor) -> bool:
    """The same, and contiguous: required by `gate_up`, `norm` and `exp_sums`."""
    return are_float32_cpu(*numbers) and all(one.is_contiguous() for one in numbers)


def can_attend(query: Tensor, own: Pair, path: Pair, output: Tensor, weight: Tensor | None) -> bool:
    """Whether `attend` accepts these tensors: equal widths, contiguous within each head."""
    given = (query, *own, *path)
    written = (output,) if weight is None else (output, weight)
    return (
        are_float32_cpu(*given)
        and are_contiguous_float32(*written)
        and all(one.shape[-1] == query.shape[-1] and one.stride(-1) == 1 for one in given)
    )


def can_rotate(given: Tensor, cosines: Tensor, sines: Tensor) -> bool:
    """Whether `rotate` accepts these tensors: batch size 1, contiguous within each head."""
    return (
        given.ndim == 4
        and given.shape[0] == 1
        and cosines.shape == sines.shape == (1, given.shape[2], given.shape[3])
        and are_float32_cpu(given)
        and given.stride(-1) == 1
        and (given.is_contiguous() or given.transpose(1, 2).is_contiguous())
        and are_contiguous_float32(cosines, sines)
    )


@cache
def find_c_kernels(cpu_info: Path = CPU_INFO) -> CKernels | str:
    """The C kernels, compiled on first use for this compiler and processor; or the reason why they are unavailable."""
    if os.environ.get(SWITCH, "").lower() in {"0", "off", "no", "false"}:
        return f"{SWITCH} is off"
    if sys.platform != "linux":
        return "compiled on Linux only"
    compiler = next(filter(None, map(shutil.which, ("gcc", "cc"))), None)
    if compiler is None:
        return "no C compiler (gcc) was found"
    try:
        return CKernels(_declared(ctypes.CDLL(str(_built(compiler, cpu_info)))))
    except subprocess.CalledProcessError as error:
        return f"could not be compiled: {error}; {str(error.stderr).strip()[-200:]}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"could not be compiled: {error}"


def _built(compiler: str, cpu_info: Path) -> Path:
    """The library for this source, compiler and processor.

    Raises:
        ValueError: if the compiler is not GCC, or other users can write to the folder of the library.
    """
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    if "Free Software Foundation" not in version:
        raise ValueError("the compiler is not GCC")  # another OpenMP runtime would not share torch's threads
    source = SOURCE.read_bytes()
    parts = (source, " ".join(FLAGS).encode(), version.encode(), _processor(cpu_info))
    name = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    folder = cache_folder() / "compiled"
    private_folder(folder)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & OTHERS_WRITE:
        raise ValueError(f"other users can write to {folder}")
    library = folder / f"{name}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as made:
            target = Path(made) / library.name
            command = [compiler, *FLAGS, "-o", str(target), str(SOURCE), "-lm"]
            subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=True)
            os.replace(target, library)
    return library


def _processor(cpu_info: Path) -> bytes:
    """Features of the processor: a library compiled for one may contain instructions that another lacks."""
    text = cpu_info.read_text(encoding="utf-8", errors="replace")
    cpu_lines = {line for line in text.splitlines() if line.startswith(("flags", "Features", "model name", "CPU part"))}
    return "\n".join((platform.machine(), *sorted(cpu_lines))).encode()


def _declared(library: Any) -> Any:
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    for name, arguments, result in (
        ("gate_up", (pointer, pointer, count), None),
        ("norm", (pointer, pointer, pointer, count, count, ctypes.c_float), None),
        ("rotate", (_StridedTensor, pointer, pointer, pointer, count, count, count), None),
        ("exp_sums", (pointer, count, count, pointer, pointer), None),
        ("attend", (ctypes.POINTER(_TileTableStruct), ctypes.POINTER(_AttentionArguments)), ctypes.c_int32),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library
