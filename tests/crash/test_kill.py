"""A run may be killed at any moment: no answered request is repeated, and the result is the same."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
WORKER = Path(__file__).parent / "worker.py"
LAP_WORKER = Path(__file__).parent / "lap_worker.py"
KILLS = 20
DELAY = "0.008"
# What may differ between two runs with the same outcome.
VOLATILE = {"date", "total_evaluation_time_seconds", "git_hash"}
VOLATILE_OWN = {"run", "store", "timings", "requests", "manifest"}


@pytest.fixture
def start(light_server: Any, tmp_path: Path) -> Start:
    def begin(store: Path, log: Path, output: Path, delay: str = DELAY, script: Path = WORKER) -> Any:
        log.touch()
        return light_server.start([str(script), str(store), str(log), str(output), delay], tmp_path)

    return begin


def finish(worker: Any) -> None:
    _, errors = worker.communicate(timeout=120)
    assert worker.returncode == 0, errors[-3000:]


def kill_after(worker: Any, seconds: float) -> bool:
    """Kills a worker; False when it was done before that."""
    try:
        worker.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        return True


def results(output: Path) -> dict[str, Any]:
    path = sorted(output.rglob("results_*.json"))[-1]  # a lap may be killed after it has written its files
    data: dict[str, Any] = json.loads(path.read_text())
    own = {key: value for key, value in data.pop("assay").items() if key not in VOLATILE_OWN}
    return {**{key: value for key, value in data.items() if key not in VOLATILE}, "assay": own}


def samples(output: Path) -> dict[str, bytes]:
    return {path.name.rsplit("_", 1)[0]: path.read_bytes() for path in sorted(output.rglob("samples_*.jsonl"))}


def asked(log: Path) -> list[str]:
    return log.read_text().split()


def check_finished(store: Path, logs: list[Path], reference: Path, output: Path) -> None:
    """No answered request was repeated; results and samples equal the uninterrupted run's."""
    answered: set[str] = set()
    for log in logs:
        lap = asked(log)
        assert len(set(lap)) == len(lap)
        assert not answered & set(lap)
        # The last request of a killed lap was under way: asked, and perhaps not answered.
        answered.update(lap[:-1])
    assert set().union(*map(asked, logs)) == set(asked(reference.parent / "reference.log"))
    assert results(output) == results(reference)
    assert samples(output) == samples(reference)
    with sqlite3.connect(store) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_killed_runs_resume_without_repeating_requests(start: Start, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    started = time.monotonic()
    finish(start(tmp_path / "reference.db", tmp_path / "reference.log", reference))
    whole_lap = time.monotonic() - started
    moments = random.Random(20)
    kills = chain = 0
    while kills < KILLS:
        chain += 1
        store, output, logs = tmp_path / f"{chain}.db", tmp_path / f"out{chain}", []
        for lap in range(6):
            logs.append(tmp_path / f"{chain}-{lap}.log")
            worker = start(store, logs[-1], output)
            # Anywhere from the first moments to after the last answer; early laps often die before any answer.
            if not kill_after(worker, moments.uniform(0.01, whole_lap)):
                break
            kills += 1
        else:
            logs.append(tmp_path / f"{chain}-last.log")
            finish(start(store, logs[-1], output))
        check_finished(store, logs, reference, output)


def test_a_finished_run_requests_nothing_again(start: Start, tmp_path: Path) -> None:
    finish(start(tmp_path / "store.db", tmp_path / "1.log", tmp_path / "first", "0"))
    finish(start(tmp_path / "store.db", tmp_path / "2.log", tmp_path / "second", "0"))
    assert len(asked(tmp_path / "1.log")) == 20 * 4 + 20 + 5
    assert asked(tmp_path / "2.log") == []
    assert samples(tmp_path / "first") == samples(tmp_path / "second")


def test_a_run_that_may_stop_early_stops_at_the_same_document_after_kills(start: Start, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    finish(start(tmp_path / "reference.db", tmp_path / "reference.log", reference, script=LAP_WORKER))
    store, output, logs = tmp_path / "s.db", tmp_path / "out", []
    # In the first lap, right after it, and in later ones; each lap of work asks so many new requests.
    for count in (10, 24, 30):
        logs.append(tmp_path / f"{count}.log")
        worker = start(store, logs[-1], output, script=LAP_WORKER)
        until = time.monotonic() + 60
        while len(asked(logs[-1])) < count and worker.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    logs.append(tmp_path / "last.log")
    finish(start(store, logs[-1], output, script=LAP_WORKER))
    check_finished(store, logs, reference, output)
    stop = results(output)["assay"]["tasks"]["toy_generation"]["spared"]["stop"]
    assert stop["is_reached"] and stop["documents"] == len(asked(tmp_path / "reference.log")) < 300
