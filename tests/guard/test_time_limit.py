"""Limits of time and memory: what goes on for ever is interrupted, and nothing else is disturbed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from assay.core.errors import LimitError
from assay.guard.time_limit import MemoryLimitExceeded, ResourceLimit, TimeLimitExceeded, keep_limit_timer

ENDLESS = re.compile(r"(a+)+$")
TEXT = "a" * 60 + "b"


@pytest.mark.parametrize("search", [ENDLESS.search, ENDLESS.findall, lambda text: ENDLESS.sub("", text)])
def test_an_endless_search_is_interrupted(search: object) -> None:
    with pytest.raises(TimeLimitExceeded, match=r"takes more than 0.2 seconds"), ResourceLimit(0.2):
        search(TEXT)  # type: ignore[operator]


def test_an_endless_loop_is_interrupted() -> None:
    with pytest.raises(TimeLimitExceeded), ResourceLimit(0.2):
        while True:
            pass


def test_what_grows_step_by_step_is_interrupted() -> None:
    with pytest.raises(MemoryLimitExceeded, match="1,024 MB"), ResourceLimit():
        kept = []
        while True:
            kept.append("a" * 100_000)


def test_the_outermost_block_counts() -> None:
    with pytest.raises(TimeLimitExceeded, match="0.2 seconds"), ResourceLimit(0.2), ResourceLimit(100):
        ENDLESS.search(TEXT)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_loop_of_blocks_leaves_no_timer_running() -> None:
    with keep_limit_timer():
        with pytest.raises(TimeLimitExceeded), ResourceLimit(0.2):
            ENDLESS.search(TEXT)
        end = time.thread_time() + 0.3
        while time.thread_time() < end:  # a tick between two blocks does no harm
            pass
        with pytest.raises(TimeLimitExceeded), ResourceLimit(0.2):
            ENDLESS.search(TEXT)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_an_error_of_the_block_passes() -> None:
    with pytest.raises(KeyboardInterrupt), ResourceLimit():
        raise KeyboardInterrupt


def test_an_alarm_of_the_user_rings_in_the_block() -> None:
    code = """
import signal
rung = []
signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.1)
from assay.guard.time_limit import ResourceLimit
with ResourceLimit():
    while not rung:
        pass
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_an_endless_loop_of_another_thread_is_interrupted() -> None:
    found: list[Exception] = []

    def work() -> None:
        try:
            with ResourceLimit(0.1):
                while True:
                    pass
        except LimitError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert [type(error) for error in found] == [TimeLimitExceeded]


def test_a_profiler_keeps_its_signal() -> None:
    code = """
import signal
ticks = []
signal.signal(signal.SIGPROF, lambda *_: ticks.append(1))
signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
from assay.guard.time_limit import ResourceLimit
with ResourceLimit():
    while len(ticks) < 3:
        pass
print(signal.setitimer(signal.ITIMER_PROF, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) == pytest.approx(0.01, abs=0.005)


def test_a_forked_child_has_limits_of_its_own() -> None:
    code = """
import os, sys
from assay.core.errors import LimitError
from assay.guard.time_limit import ResourceLimit, keep_limit_timer
with keep_limit_timer():
    with ResourceLimit():
        pass
    child = os.fork()
    if child == 0:
        try:
            with ResourceLimit(0.2):
                while True:
                    pass
        except LimitError:
            os._exit(7)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 7


LATE = """
import cProfile, threading, time
from assay.guard.time_limit import ResourceLimit, TimeLimitExceeded

def work():
    try:
        with ResourceLimit(0.05):
            time.sleep(0.5)  # one instruction: the error is on its way when the block ends
    except TimeLimitExceeded:
        pass
    cProfile.Profile().runcall(lambda: sum(map(abs, range(9))))
    print("done")

for _ in range(3):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
cProfile.Profile().runcall(lambda: len("x"))
"""


def test_an_error_that_comes_too_late_leaves_nothing_pending() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["done"] * 3, "")
