"""The command line in this process and in a separate one, a small task, and plugin models that fail or are slow."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import main


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


PLUGIN = """
from pathlib import Path
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.protocols import Progress, TokenView, Workload
from assay.core.responses import Failure, Logprob, Text
from assay.testing import ScriptedModel

def answer(request):
    return Text("the") if request.kind == "generation" else Logprob(-1.0, 1, False)

def open_slow(args, settings):
    log = Path(args["log"]) if "log" in args else None
    return ScriptedModel(answer, name="slow", delay=float(args.get("delay", 0)), log_path=log)

def open_failing(args, settings):
    return ScriptedModel(lambda request: Failure("too_long", "the prompt [b]is[/b] too long"), name="failing")

def open_broken(args, settings):
    raise RuntimeError("the plugin fell over")

class Words(ScriptedModel):
    @property
    def capabilities(self):
        return Capabilities(frozenset(self.kinds), can_tokenize=True, has_chat=True, family="words")

    def view(self, request):
        context, scored = request.prompt.split(), request.continuation.split()
        return TokenView(tuple(range(len(context))), tuple(range(len(scored))), tuple(context), tuple(scored))

    def workload(self, requests):
        alone = sum(len((request.prompt + request.continuation).split()) for request in requests)
        read = sum(len(prompt.split()) for prompt in {request.prompt for request in requests}) + len(requests)
        return Workload(read, alone, 0, 1000.0 * read, 0.1 * read, 2_040_000_000)

    def watch(self, listener):
        self.asked.append(listener)

    def respond(self, requests):
        listener, total = self.asked[0], len(requests)
        listener(Progress(0, 1000.0 * total, 0, total))
        for place, answer in super().respond(requests):
            listener(Progress(1000.0 * (place + 1), 1000.0 * total, place + 1, total))
            yield place, answer

    def description(self):
        return {"engine": "words", "why": "it has no other [b]one[/b]"}

def open_words(args, settings):
    return Words(answer, name="words")
"""
POINTS = "[assay.models]\n" + "".join(
    f"{name} = acme_models:open_{name}\n" for name in ("slow", "failing", "broken", "words")
)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Done]:
    """Runs a command in this process, with its own store."""
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: Any) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a separate process: a store, and the package `acme` with its plugins."""
    site = tmp_path / "site"
    (site / "acme-1.0.dist-info").mkdir(parents=True)
    (site / "acme-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    (site / "acme_models.py").write_text(PLUGIN)
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "ASSAY_STORE": str(tmp_path / "store.db"), "COLUMNS": "200"}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a command in a separate process."""

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "assay", *map(str, arguments)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # Where the tests run in the background of a shell, Ctrl-C is ignored and children inherit that.
        heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        own = {**pipes, "preexec_fn": heed, **options}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, **own)

    return popen


@pytest.fixture
def process(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., Done]:
    """Runs a command in a separate process to its end."""

    def run(*arguments: Any, **options: Any) -> Done:
        with start(*arguments, **options) as running:
            out, err = running.communicate(timeout=60)
        return Done(running.returncode, out or "", err or "")

    return run


@pytest.fixture
def task_folder(tmp_path: Path) -> Path:
    """A folder with the task `colours`: twenty documents, three choices each."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    names = ["red", "green", "blue"]
    rows = [{"q": f"Colour {n}?", "label": n % 3, "note": "[red]x[/red]"} for n in range(20)]
    (folder / "colours.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "colours.yaml").write_text(
        "task: colours\ntag: paint\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: colours.jsonl\n"
        "test_split: test\noutput_type: multiple_choice\n"
        f'doc_to_text: "{{{{q}}}}"\ndoc_to_target: label\ndoc_to_choice: {names}\nmetadata:\n  version: 1\n',
        encoding="utf-8",
    )
    return folder
