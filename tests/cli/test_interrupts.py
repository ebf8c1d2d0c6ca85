"""Signals at every stage of a command: the record says interrupted, answers are stored, no traceback is shown.

A child process sends itself Ctrl-C, three times within 50 ms, when it first enters a function.
"""

from __future__ import annotations

import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))
MODEL = SHARED / "data" / "models" / "stories260k"
needs_model = pytest.mark.skipif(not MODEL.is_dir(), reason="ASSAY_SHARED names no folder with the model stories260k")

# Imported by the interpreter when it starts: sends the signals at the n-th call of a function.
TRIGGER = """
import os, signal, sys, threading, time
place, name, count = os.environ["TRIGGER"].split(":")
calls = [0]

def send_more():
    for _ in range(2):
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

def look(frame, event, _):
    if event == "call" and frame.f_code.co_name == name and frame.f_code.co_filename.endswith(place):
        calls[0] += 1
        if calls[0] == int(count):
            sys.setprofile(None)
            threading.Thread(target=send_more, daemon=True).start()
            os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(look)
"""
PLUGIN = """
import os, signal, sys
from assay.core.responses import Logprob
from assay.testing import ScriptedModel

ENDINGS = {
    "exit": lambda: sys.exit(0), "message": lambda: sys.exit("no licence"),
    "generator": lambda: (_ for _ in ()).throw(GeneratorExit("closed")),
    "other": lambda: (_ for _ in ()).throw(type("Odd", (BaseException,), {})("odd")),
    "hidden": lambda: hide(),
}

def hide():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        raise RuntimeError("cancelled")

class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

def open_ending(args, settings):
    def answer(request):
        if len(model.asked) == 8:
            ENDINGS[args["by"]]()
        return Logprob(-1.0, 1, False)
    model = ScriptedModel(answer, name="ending")
    return model

def open_dropping(args, settings):
    def answer(request):
        if len(model.asked) == 8:
            Dropping()
        return Logprob(-1.0, 1, False)
    model = ScriptedModel(answer, name="dropping", delay=0.02)
    return model
"""


@pytest.fixture
def endings(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment with models that end the program in odd ways."""
    (tmp_path / "site" / "acme_endings.py").write_text(PLUGIN)
    points = tmp_path / "site" / "acme-1.0.dist-info" / "entry_points.txt"
    points.write_text(
        "[assay.models]\nslow = acme_models:open_slow\n"
        "ending = acme_endings:open_ending\ndropping = acme_endings:open_dropping\n"
    )
    return environment


@pytest.fixture
def words(task_folder: Path) -> list[Any]:
    return ["run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder]


def arm(environment: dict[str, str], tmp_path: Path, trigger: str) -> None:
    (tmp_path / "site" / "sitecustomize.py").write_text(TRIGGER)
    environment["TRIGGER"] = trigger


def stored(tmp_path: Path) -> tuple[list[str], int]:
    """How the runs of the store ended, and how many answers it holds."""
    if not (tmp_path / "store.db").exists():
        return [], 0
    with sqlite3.connect(tmp_path / "store.db") as connection:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return [], 0
        statuses = [row[0] for row in connection.execute("SELECT status FROM runs")]
        return statuses, connection.execute("SELECT count(*) FROM responses").fetchone()[0]


# Where the signals come → how the record ends (None: there is none yet), and whether all answers are there.
STAGES = {
    "options/parser.py:make_parser:1": (None, False),
    "tasks/selection.py:select_tasks:1": (None, False),
    "run/build.py:build_documents:1": (None, False),
    "run/plan.py:make_plan:1": (None, False),
    "store/run_records.py:begin:1": ("interrupted", False),
    "store/response_table.py:model_id:1": ("interrupted", False),
    "run/execute.py:execute:1": ("interrupted", False),
    "run/execute.py:keep:30": ("interrupted", False),
    "store/response_table.py:put:3": ("interrupted", False),
    "run/score.py:scored_task:1": ("interrupted", True),
    "stats/lm_eval_bootstrap.py:lm_eval_stderr:1": ("interrupted", True),
    "run/session.py:make_result:1": ("interrupted", True),
    "scoring/aggregate.py:document_values:1": ("interrupted", True),
    "store/run_records.py:end:1": ("interrupted", True),
    "store/run_records.py:_values_row:1": ("interrupted", True),
    "store/database.py:close:1": ("finished", True),
    "report/terminal.py:show_result:1": ("finished", True),
    "report/result_files.py:written_results:1": ("finished", True),
    "core/atomic_files.py:atomic_write:1": ("finished", True),
}


@pytest.mark.parametrize("trigger", STAGES)
def test_three_quick_signals_at_a_stage(
    light_server: Any, environment: dict[str, str], words: list[Any], tmp_path: Path, trigger: str
) -> None:
    """In a fork: watching every call while an interpreter imports Assay would take most of the time."""
    (tmp_path / "watched.py").write_text(f"{TRIGGER}\nimport assay.__main__\n")
    words += ["--metrics", "acc", "mcc", "--output_path", tmp_path / "out", "--log_samples"]
    command = [str(tmp_path / "watched.py"), *map(str, words)]
    running = light_server.start(command, tmp_path, {**environment, "TRIGGER": trigger})
    _, errors = running.communicate(timeout=60)
    assert "Traceback" not in errors and "Exception ignored" not in errors, errors
    assert (running.returncode, errors.splitlines()[-1]) == (
        130,
        "interrupted; answers so far are saved: run the same command again to resume",
    )
    status, has_all = STAGES[trigger]
    statuses, answers = stored(tmp_path)
    assert statuses == ([] if status is None else [status])
    assert (answers == 60) >= has_all
    assert not list(tmp_path.rglob(".partial-*"))


@pytest.mark.parametrize("trigger", ["threading.py:_shutdown:1", "core/interrupts.py:_ignore_signals:1"])
def test_a_signal_during_the_interpreters_own_end_changes_nothing(
    start: Cli, environment: dict[str, str], words: list[Any], tmp_path: Path, trigger: str
) -> None:
    arm(environment, tmp_path, trigger)
    with start(*words) as running:
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, "Traceback" in errors, stored(tmp_path)) == (0, False, (["finished"], 60)), errors


@needs_model
@pytest.mark.parametrize("trigger", ["torch/__init__.py:<module>:1", "models/loading/network.py:load_module:1"])
def test_signals_while_torch_or_a_model_is_loaded(
    start: Cli, environment: dict[str, str], words: list[Any], tmp_path: Path, trigger: str
) -> None:
    arm(environment, tmp_path, trigger)
    words[2:3] = ["hf", "--model_args", f"pretrained={MODEL}"]
    with start(*words) as running:
        _, errors = running.communicate(timeout=120)
    assert (running.returncode, "Traceback" in errors) == (130, False), errors
    assert set(stored(tmp_path)[0]) <= {"interrupted"}


@pytest.mark.parametrize(
    ("by", "code", "status", "said"),
    [
        ("exit", 130, "interrupted", "ended by sys.exit(0) in the code of a model, task or plugin"),
        ("message", 130, "interrupted", "ended by sys.exit('no licence')"),
        ("generator", 1, "failed", "bug: GeneratorExit: closed"),
        ("other", 1, "failed", "bug: Odd: odd"),
        ("hidden", 130, "interrupted", "interrupted; answers so far are saved"),
    ],
)
def test_whatever_a_model_raises_marks_the_record(
    process: Cli, endings: dict[str, str], words: list[Any], tmp_path: Path, by: str, code: int, status: str, said: str
) -> None:
    words[2:3] = ["acme/ending", "--model_args", f"by={by}"]
    done = process(*words)
    assert (done.code, said in done.err, "Traceback" in done.err) == (code, True, False), done.err
    assert stored(tmp_path) == ([status], 7)


def test_a_signal_that_python_drops_in_a_destructor_comes_again(
    process: Cli, endings: dict[str, str], words: list[Any], tmp_path: Path
) -> None:
    words[2] = "acme/dropping"
    done = process(*words)
    assert (done.code, "Exception ignored" in done.err) == (130, False), done.err
    statuses, answers = stored(tmp_path)
    assert statuses == ["interrupted"] and 7 <= answers < 60


@pytest.mark.parametrize("command", ["matrix", "methods"])
def test_of_many_runs_the_one_in_progress_is_marked(start: Cli, words: list[Any], tmp_path: Path, command: str) -> None:
    log = tmp_path / "log"
    words[:3] = [command, "--models", "dummy", f"acme/slow:delay=0.05,log={log}"]
    with start(*words) as running:
        while not log.exists() or len(log.read_text().split()) < 5:
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=30)
    assert (running.returncode, "Traceback" in errors) == (143, False), errors
    assert "interrupted (SIGTERM); answers so far are saved" in errors
    statuses, _ = stored(tmp_path)
    assert statuses[-1] == "interrupted" and set(statuses[:-1]) <= {"finished"}


@pytest.mark.parametrize("trigger", ["studies/compare/compare_runs.py:compare:1", "cli/compare.py:<module>:1"])
def test_a_command_that_requests_nothing_says_only_that_it_was_interrupted(
    start: Cli, process: Cli, environment: dict[str, str], words: list[Any], tmp_path: Path, trigger: str
) -> None:
    assert process(*words).code == process(*words, "--num_fewshot", "1").code == 0
    arm(environment, tmp_path, trigger)
    with start("compare", "last~1", "last") as running:
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, "\ninterrupted\n")


def test_a_closed_terminal_ends_the_run_properly(environment: dict[str, str], words: list[Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    words[2:3] = ["acme/slow", "--model_args", f"delay=0.05,log={log}"]
    outer, inner = pty.openpty()
    command = ["setsid", "--ctty", sys.executable, "-m", "assay", *map(str, words)]
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    while not log.exists() or len(log.read_text().split()) < 5:
        assert running.poll() is None
        time.sleep(0.01)
    os.close(outer)  # the kernel sends SIGHUP, and what is written from now on fails
    assert running.wait(timeout=30) == 128 + signal.SIGHUP
    statuses, answers = stored(tmp_path)
    assert statuses == ["interrupted"] and 4 <= answers < 60


def test_nohup_is_respected(start: Cli, words: list[Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    words[2:3] = ["acme/slow", "--model_args", f"delay=0.02,log={log}"]

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with start(*words, preexec_fn=ignore) as running:
        while not log.exists():
            time.sleep(0.01)
        running.send_signal(signal.SIGHUP)
        running.communicate(timeout=60)
    assert (running.returncode, stored(tmp_path)) == (0, (["finished"], 60))


def test_a_run_goes_on_when_no_one_reads_its_progress(start: Cli, words: list[Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    words[2:3] = ["acme/slow", "--model_args", f"delay=0.01,log={log}"]
    with start(*words) as running:
        running.stderr.close()
        printed = running.stdout.read()
    assert (running.returncode, stored(tmp_path)) == (0, (["finished"], 60))
    assert "colours" in printed
