"""Child processes that do not outlive the comparison, and one comparison per folder at a time."""

from __future__ import annotations

import ctypes
import fcntl
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.core.errors import Fault, UserError

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """For a new child: Linux ends it when its parent dies, even by `kill -9`, when no `finally` runs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Holds the folder's lock: two comparisons would write each other's records."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            advice = "Wait for it, or name another folder"
            raise UserError(Fault("--out", f"another comparison is running in {folder}", next=advice)) from error
        yield
