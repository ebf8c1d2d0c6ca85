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

# By default OpenMP threads spin for a long time while they wait. When another process needs a core, a spinning thread
# occupies the core that the thread it waits for needs, and a run becomes several times slower. Spinning for about
# 20 microseconds and then sleeping costs nothing measurable on an idle machine and halves the slowdown on a busy one.
SETTING, VALUE = "GOMP_SPINCOUNT", "20000"


def wait_briefly() -> None:
    """Makes waiting OpenMP threads sleep soon; call before torch is imported. The user's own setting wins."""
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SETTING, VALUE)


@contextmanager
def unlogged() -> Iterator[None]:
    """Suppresses warnings and log lines below ERROR, such as those torchao emits on import."""
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
    """Suppresses log lines, warnings and progress bars of transformers, and restores the settings afterwards."""
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
    """Returns unused memory to the system; glibc otherwise holds on to blocks of a few megabytes, such as weights."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # no glibc, or not this kind of system
        ctypes.CDLL(None).malloc_trim(0)
