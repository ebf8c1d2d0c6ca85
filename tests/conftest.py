"""What every test has: time for property tests, no secrets of an earlier test, and no width of anyone's terminal.

Tests of many commands in processes of their own fork them from one that has imported what they need.
Where several processes run tests side by side, torch has one thread in each: more would wait for each other.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from assay.core.secrets import forget

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("COLUMNS", None)  # set by xdist; the tests that want a width say so

FORK_SERVER = Path(__file__).with_name("fork_server.py")
# Most of what a command imports before it does anything.
LIGHT = ("assay.cli.main", "assay.cli.run", "assay.api", "assay.options.parser", "assay.studies", "scipy.stats")
TORCH = (*LIGHT, "torch", "transformers.trainer", "transformers.models.bert.modeling_bert")

gc.disable()  # what is collected stays: torch alone makes a million objects
settings.register_profile("house", deadline=None)
settings.load_profile("house")


def pytest_collection_finish() -> None:
    gc.enable()


@dataclass
class Forked:
    """A command in a process of its own, with the verbs of `subprocess.Popen`."""

    folder: Path
    returncode: int | None = None

    def _state(self) -> list[int]:
        path = self.folder / "state"
        return (
            [int(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if path.exists()
            else []
        )

    def poll(self) -> int | None:
        self.returncode = self._state()[1] if len(self._state()) == 2 else None
        return self.returncode

    def wait(self, timeout: float = 200) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(str(self.folder), timeout)
            time.sleep(0.01)
        return code

    def communicate(self, timeout: float = 200) -> tuple[str, str]:
        self.wait(timeout)
        return (self.folder / "out").read_text(), (self.folder / "err").read_text()

    def send_signal(self, number: int) -> None:
        while not self._state():
            time.sleep(0.001)
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended just now
                os.kill(self._state()[0], number)


class ForkServer:
    """Starts commands without the time that an interpreter and its imports take."""

    def __init__(self, folder: Path, packages: tuple[str, ...]) -> None:
        self.folder, self.numbers = folder, itertools.count()
        command = [sys.executable, str(FORK_SERVER), *packages]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout and self.server.stdout.readline() == "ready\n"

    def start(self, argv: list[str], cwd: Path, env: dict[str, str] | None = None) -> Forked:
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        files = {name: str(folder / name) for name in ("out", "err", "state")}
        assert self.server.stdin
        self.server.stdin.write(
            json.dumps({"argv": argv, "cwd": str(cwd), "env": env or dict(os.environ), **files}) + "\n"
        )
        self.server.stdin.flush()
        return Forked(folder)

    def close(self) -> None:
        with self.server as server:  # closes its input, and so ends it
            pass
        assert server.returncode == 0


@pytest.fixture(scope="session")
def light_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    server = ForkServer(tmp_path_factory.mktemp("light"), LIGHT)
    yield server
    server.close()


@pytest.fixture(scope="session")
def torch_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    server = ForkServer(tmp_path_factory.mktemp("torch"), TORCH)
    yield server
    server.close()


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> None:
    """What is in memory when a module's tests begin is never garbage for them.

    With torch and transformers loaded a full collection takes up to a second; every training starts one.
    """
    gc.freeze()


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """Tests share a process, and what is known as a secret is known to all of it."""
    forget()
    yield
    forget()


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., None]:
    """Writes the task `odd`, on odd.jsonl with examples of shots.jsonl; keys by name change it, also its name."""

    def write(task: str = "odd", **changes: str) -> None:
        keys = {
            "task": task,
            "dataset_path": "json",
            "dataset_kwargs": "{data_files: {test: odd.jsonl, train: shots.jsonl}}",
            "test_split": "test",
            "fewshot_split": "train",
            "output_type": "multiple_choice",
            "doc_to_text": "'{{q}}'",
            "doc_to_choice": "['yes', 'no']",
            "doc_to_target": "label",
            "metric_list": "[{metric: acc}, {metric: acc_norm}]",
            **changes,
        }
        path = tmp_path / "tasks" / f"{task}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))

    return write
