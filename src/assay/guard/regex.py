"""Regular expression searches with a time limit where `re` cannot be interrupted: on Windows, and off the main thread.

A helper process runs the search first, and is killed if it takes too long; then the search runs here, with `re` itself.
"""

from __future__ import annotations

import atexit
import json
import queue
import re
import subprocess
import sys
import threading
from functools import cache

from assay.guard.time_limit import MOST_SECONDS, TimeLimitExceeded, is_interruptible

_CODE = """
import json, re, sys
sys.stdout.write("\\n")
sys.stdout.flush()
for line in sys.stdin:
    pattern, flags, text = json.loads(line)
    for _ in re.finditer(pattern, text, flags):
        pass
    sys.stdout.write("\\n")
    sys.stdout.flush()
"""
# Python itself may start slowly on a busy machine.
_MOST_SECONDS_TO_START = 60.0


def check_search_time(pattern: re.Pattern[str], text: str, seconds: float = MOST_SECONDS) -> None:
    """Raises `TimeLimitExceeded` if finding all matches takes too long.

    Does nothing where `ResourceLimit` can interrupt a search.

    Args:
        pattern: the pattern.
        text: the text to search.
        seconds: wall-clock limit of the search.
    """
    if not is_interruptible() and text:
        _search_process().search(pattern, text, seconds)


class _SearchProcess:
    """A process that runs searches, one at a time, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def search(self, pattern: re.Pattern[str], text: str, seconds: float) -> None:
        """Runs a search; arguments as in `check_search_time`."""
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps([pattern.pattern, pattern.flags, text]) + "\n")
                process.stdin.flush()
                self._answers.get(timeout=seconds)
            except queue.Empty:
                self._end()
                raise TimeLimitExceeded(seconds) from None
            except BaseException:  # an interruption, or a process killed by others
                self._end()
                raise

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._process, self._answers = process, queue.Queue()
        threading.Thread(target=_read, args=(process, self._answers), name="assay-patterns", daemon=True).start()
        self._answers.get(timeout=_MOST_SECONDS_TO_START)
        return process

    def close(self) -> None:
        """Ends the process, if any."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    """Forwards the output of the process: one line per search."""
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)


@cache
def _search_process() -> _SearchProcess:
    """The helper process of this program, which ends with it."""
    process = _SearchProcess()
    atexit.register(process.close)
    return process
