"""Runs both workers concurrently and waits for them, with a progress line.

In: a job and where to write. Out: two files of records; a worker that died is an error that shows the end of its log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assay.core.errors import AssayError
from parity.hub import Hub
from parity.installation import LmEval
from parity.job import Job
from parity.lifetime import end_with_parent

ROOT = Path(__file__).resolve().parent.parent
# `evaluate` looks for a metric's script in the working folder before it queries the Hub.
STAND_INS = Path(__file__).resolve().parent / "standins"


@dataclass(frozen=True, slots=True)
class Output:
    """The files of a comparison."""

    folder: Path

    @property
    def job(self) -> Path:
        return self.folder / "job.json"

    def records(self, side: str) -> Path:
        return self.folder / f"{side}.jsonl"

    def log(self, side: str) -> Path:
        return self.folder / f"{side}.log"

    @property
    def finished(self) -> Path:
        """A file that exists when the reference worker has ended."""
        return self.records("reference").with_suffix(".finished")

    @property
    def differences(self) -> Path:
        return self.folder / "differences.jsonl"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.json"


def environment(output: Output, side: str, hub: Hub | None) -> dict[str, str]:
    """The caller's environment, with our hub, a separate data cache, and equal conditions on both sides."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return kept | {
        **({"HF_ENDPOINT": hub.address} if hub else {}),
        # Apart, because `datasets` keeps what a task's own code made of a split, too.
        "HF_HOME": str(output.folder / "data" / side),
        "HF_ALLOW_CODE_EVAL": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        # lm-eval's bootstrap starts a process per core; the numbers are the same without.
        "DISABLE_MULTIPROC": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


@dataclass(frozen=True, slots=True)
class Worker:
    """A process: whose Python, which module, with what arguments, in which folder."""

    side: str
    python: str
    module: str
    arguments: tuple[str, ...]
    folder: Path = STAND_INS


def run_workers(job: Job, lm_eval: LmEval, output: Output, hub: Hub | None) -> None:
    """Runs both sides to their end."""
    job.write(output.job)
    output.finished.unlink(missing_ok=True)
    reference = Worker("reference", lm_eval.python, "parity.reference", _places(output, "reference"))
    ours = Worker("assay", sys.executable, "parity.ours", (*_places(output, "assay"), str(output.records("reference"))))
    with _started(reference, output, hub) as theirs, _started(ours, output, hub) as own:
        _wait({"reference": theirs, "assay": own}, job, output, hub)
    _check(theirs, "reference", output)
    _check(own, "assay", output)


def run_reference(job: Job, lm_eval: LmEval, output: Output, folder: Path) -> None:
    """Runs lm-eval's side alone, without a hub, in a folder that relative paths of task files start from."""
    job.write(output.job)
    run_alone([Worker("reference", lm_eval.python, "parity.reference", _places(output, "reference"), folder)], output)


def run_alone(workers: Sequence[Worker], output: Output) -> None:
    """Runs workers concurrently, without a hub and without output."""
    with ExitStack() as stack:
        started = [(worker.side, stack.enter_context(_started(worker, output, None))) for worker in workers]
        for side, process in started:
            process.wait()
            _check(process, side, output)


def _places(output: Output, side: str) -> tuple[str, str]:
    return str(output.job), str(output.records(side))


def _check(process: subprocess.Popen[bytes], side: str, output: Output) -> None:
    if process.returncode:
        last = output.log(side).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise AssayError("\n".join([f"the {side} worker ended with code {process.returncode}:", *last]))


@contextmanager
def _started(worker: Worker, output: Output, hub: Hub | None) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that ends with the block."""
    with output.log(worker.side).open("wb") as log:
        process = subprocess.Popen(
            [worker.python, "-m", worker.module, *worker.arguments],
            env=environment(output, worker.side, hub),
            cwd=worker.folder,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()


def _wait(processes: dict[str, subprocess.Popen[bytes]], job: Job, output: Output, hub: Hub | None) -> None:
    total = len(job.tasks) * len(job.cases)
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {side: progress.add_task(side, total=total) for side in processes}
        counters = {side: LineCounter(output.records(side)) for side in processes}
        while True:
            if processes["reference"].poll() is not None:
                output.finished.touch()
            running = [process for process in processes.values() if process.poll() is None]
            for side, bar in bars.items():
                progress.update(bar, completed=min(total, counters[side].count() - 1))
            if not running:
                return
            if hub is not None:
                hub.check()
            time.sleep(0.5)


class LineCounter:
    """Counts the lines of a file that grows and is read only once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = 0

    def count(self) -> int:
        if not self._path.is_file():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for chunk in iter(lambda: file.read(1 << 20), b""):
                self._offset += len(chunk)
                self._lines += chunk.count(b"\n")
        return self._lines
