"""Readable training errors: out of memory, full disk, non-finite losses."""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.core.errors import Fault, ModelError, UserError
from assay.core.training import FitSettings
from assay.models.inference.batching import is_out_of_memory

FULL_DISK_WORDS = (
    "no space left on device",
    "disk quota exceeded",
    # Messages of torch.save.
    "pytorchstreamwriter failed writing",
    "inline_container.cc",
)


@contextmanager
def explained(folder: Path, settings: FitSettings) -> Iterator[None]:
    """Turns out-of-memory and disk-full errors into readable ones; other errors pass."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        chain = _chain(error)
        if any(is_full_disk(entry) for entry in chain):
            found = "the disk is full"
            hint = "Free some space and rerun the same command to resume from the last checkpoint"
            raise ModelError(Fault(str(folder), found, "space for the model and three checkpoints", hint)) from error
        if any(is_out_of_memory(entry) for entry in chain):
            raise _out_of_memory(settings) from error
        raise


def is_full_disk(error: BaseException) -> bool:
    """Whether an error means that the disk is full, in any library."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(word in str(error).lower() for word in FULL_DISK_WORDS)


def require_finite(name: str, value: float, step: int, rate: float) -> None:
    """Raises an error if a loss or gradient is not finite."""
    if not math.isfinite(value):
        found = f"the {name} is {value} at step {step}"
        hint = f"Try a lower learning_rate than {rate:g}, or a longer warmup"
        raise ModelError(Fault("training", found, "a finite number", hint))


def _out_of_memory(settings: FitSettings) -> ModelError:
    found = f"memory ran out with a batch size of {settings.batch_size}"
    ways = []
    if settings.batch_size > 1:
        half = settings.batch_size // 2
        ways.append(f"batch_size={half} with accumulation={settings.accumulation * 2} (same effective batch size)")
    ways += ["method=lora"] if settings.method == "full" else []
    ways.append("a smaller max_length" if settings.max_length is None else f"max_length below {settings.max_length}")
    return ModelError(Fault("training", found, next="Try " + ", ".join(ways)))


def _chain(error: BaseException) -> list[BaseException]:
    """An error and its causes."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found
