"""What can go wrong while training, in words: memory and disks that are full, losses that are no numbers."""

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
    # What torch.save says of it.
    "pytorchstreamwriter failed writing",
    "inline_container.cc",
)


@contextmanager
def explained(folder: Path, settings: FitSettings) -> Iterator[None]:
    """Turns full memory and full disks into errors that say what to do; other errors pass."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        chain = _chain(error)
        if any(is_full_disk(entry) for entry in chain):
            found = "the disk is full"
            hint = "Make room and run the same command again: it goes on from the last checkpoint"
            raise ModelError(Fault(str(folder), found, "room for the model and three checkpoints", hint)) from error
        if any(is_out_of_memory(entry) for entry in chain):
            raise _out_of_memory(settings) from error
        raise


def is_full_disk(error: BaseException) -> bool:
    """Whether an error means that a disk is full, whichever library met it."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(word in str(error).lower() for word in FULL_DISK_WORDS)


def require_finite(name: str, value: float, step: int, rate: float) -> None:
    """Fails when a loss or a gradient is no number any more."""
    if not math.isfinite(value):
        found = f"the {name} is {value} at step {step}"
        hint = f"Try a lower learning_rate than {rate:g}, or a longer warmup"
        raise ModelError(Fault("training", found, "a finite number", hint))


def _out_of_memory(settings: FitSettings) -> ModelError:
    found = f"memory ran out with batches of {settings.batch_size} lessons"
    ways = []
    if settings.batch_size > 1:
        half = settings.batch_size // 2
        ways.append(f"batch_size={half} with accumulation={settings.accumulation * 2} (the same steps)")
    ways += ["method=lora"] if settings.method == "full" else []
    ways.append("a smaller max_length" if settings.max_length is None else f"max_length below {settings.max_length}")
    return ModelError(Fault("training", found, next="Try " + ", ".join(ways)))


def _chain(error: BaseException) -> list[BaseException]:
    """An error and those that led to it."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found
