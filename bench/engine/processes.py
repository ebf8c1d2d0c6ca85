"""Long-lived workers, and the load by other processes while one of them works.

In: a Python, a module and its settings. Out: answers to commands. Linux only, because of /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError
from parity.lifetime import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that answers commands, and the file of its stderr."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def ask(self, do: str, **settings: Any) -> dict[str, Any]:
        """One command and its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None, "both are pipes"
        try:
            self.process.stdin.write(json.dumps({"do": do, **settings}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.process.wait()
            last = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise AssayError("\n".join([f"the {self.name} worker ended with code {code} at {do} {settings}:", *last]))
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise AssayError(f"the {self.name} worker failed at {do} {settings}:\n{answer['error']}")
        return answer

    def peak_megabytes(self) -> float:
        """Peak memory of the process (VmHWM)."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1e3
        raise AssayError(f"/proc/{self.process.pid}/status has no VmHWM")


@contextmanager
def started_worker(
    name: str, python: str, module: str, settings: dict[str, Any], environment: dict[str, str], log: Path
) -> Iterator[Worker]:
    """A worker that ends with the block. It has its own session, by which its CPU time is found."""
    path = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    with (
        log.open("wb") as words,
        subprocess.Popen(
            [python, "-m", module, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            env={**environment, "PYTHONPATH": path},
            start_new_session=True,
            preexec_fn=end_with_parent,
        ) as process,
    ):
        try:
            yield Worker(name, process, log)
        finally:
            process.terminate()


class ForeignLoad:
    """CPU seconds of other processes (and of the host, as steal) per wall second, from here to `read`."""

    def __init__(self, worker: Worker) -> None:
        self._session = worker.process.pid
        self._started = time.perf_counter()
        self._busy, self._own = busy_seconds(), own_seconds(self._session)

    def read(self) -> float:
        wall = time.perf_counter() - self._started
        foreign = busy_seconds() - self._busy - (own_seconds(self._session) - self._own)
        return max(foreign, 0.0) / wall


def busy_seconds() -> float:
    """CPU seconds of the whole machine since it started: user, nice, system, irq, softirq, steal."""
    fields = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _waiting, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / TICKS


def own_seconds(session: int) -> float:
    """CPU seconds of the worker's session, children included, and of this process."""
    mine = os.times()
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in parentheses may contain spaces; what follows does not.
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS + mine.user + mine.system
