"""The same with a real torch model: killed in the middle, resumed, every answer within 1e-5 of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))
MODEL = SHARED / "data" / "models" / "stories260k"
TASKS = "demo_questions,demo_text,demo_scramble_cycle"
COMMAND = ["-m", "assay", "run", "--model", "hf", "--model_args", f"pretrained={MODEL},dtype=float32"]
COMMAND += ["--tasks", TASKS, "--batch_size", "4", "--limit", "40"]
Start = Callable[..., Any]

pytestmark = pytest.mark.skipif(not MODEL.is_dir(), reason="needs the shared datasets and models (ASSAY_SHARED)")


@pytest.fixture
def start(torch_server: Any, tmp_path: Path) -> Start:
    def begin(store: Path, output: Path) -> Any:
        return torch_server.start([*COMMAND, "--store", str(store), "--output_path", str(output)], tmp_path)

    return begin


def stored(store: Path) -> dict[bytes, tuple[Any, ...]]:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT key, total, is_greedy, extra FROM responses").fetchall()
    return {row[0]: row[1:] for row in rows}


def wait_for_answers(worker: Any, store: Path, count: int) -> None:
    while worker.poll() is None:
        try:
            if len(stored(store)) >= count:
                return
        except sqlite3.OperationalError:
            pass  # not created yet
        time.sleep(0.01)
    raise AssertionError("the run was over before it could be killed")


def finish(worker: Any) -> str:
    printed, errors = worker.communicate(timeout=200)
    assert worker.returncode == 0, errors[-3000:]
    return printed


def scores(output: Path) -> dict[str, Any]:
    (path,) = output.rglob("results_*.json")
    results: dict[str, Any] = json.loads(path.read_text())["results"]
    return results


def test_a_killed_torch_run_resumes_to_the_same_answers(start: Start, tmp_path: Path) -> None:
    finish(start(tmp_path / "whole.db", tmp_path / "whole"))
    worker = start(tmp_path / "killed.db", tmp_path / "never")
    wait_for_answers(worker, tmp_path / "killed.db", 100)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    kept = len(stored(tmp_path / "killed.db"))
    printed = finish(start(tmp_path / "killed.db", tmp_path / "resumed"))
    assert f"{kept:,} already known" in printed
    whole, resumed = stored(tmp_path / "whole.db"), stored(tmp_path / "killed.db")
    assert whole.keys() == resumed.keys()
    for key, (total, is_greedy, extra) in whole.items():
        assert resumed[key][1:] == (is_greedy, extra)
        assert resumed[key][0] == (None if total is None else pytest.approx(total, abs=1e-4, rel=0))
    for name, entry in scores(tmp_path / "whole").items():
        for key, value in entry.items():
            again = scores(tmp_path / "resumed")[name][key]
            assert again == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
