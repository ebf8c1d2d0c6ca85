"""The process around torch and transformers: log output, waiting threads, and memory returned to the system."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

# By default OpenMP's threads spin for long while they wait. When another process needs a core, a spinning thread holds
# what the one it waits for would need, and a run becomes several times slower. Spinning some 20 microseconds and then
# sleeping costs nothing that can be measured on a quiet machine and halves the damage on a busy one.
SETTING, VALUE = "GOMP_SPINCOUNT", "20000"


def wait_briefly() -> None:
    """Lets waiting threads sleep soon, unless the user has said how they wait, or torch is there already."""
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SETTING, VALUE)


@contextmanager
def unlogged() -> Iterator[None]:
    """None below errors while packages are imported that tell what they lack on this machine, as torchao does."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines, warnings or progress bars of transformers while this lasts; then all is as before."""
    from transformers.utils import logging as untyped_lines

    lines = cast(Any, untyped_lines)
    verbosity, had_bars = lines.get_verbosity(), lines.is_progress_bar_enabled()
    lines.set_verbosity_error()
    if had_bars:
        lines.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        lines.set_verbosity(verbosity)
        if had_bars:
            lines.enable_progress_bar()


def release_memory() -> None:
    """Returns memory that is no longer used to the system. glibc keeps blocks of a few megabytes, such as weights."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # no glibc, or not this kind of system
        ctypes.CDLL(None).malloc_trim(0)
