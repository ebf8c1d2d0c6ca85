"""`assay serve` as a process: one line on standard output, ends at signals, refuses what it cannot serve."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from assay.cli.main import main

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers of the random model, and ends them."""
    started = []

    def begin(*words: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "assay",
            "serve",
            "--model",
            "dummy",
            "--store",
            str(tmp_path / "s.db"),
            *words,
        ]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_says_where_it_is_and_ends_at_a_signal(start: Start, number: signal.Signals) -> None:
    process = start("--port", "0", "--name", "mine")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    with urlopen(f"{address}/v1/models", timeout=20) as answer:
        assert json.load(answer)["data"][0]["id"] == "mine"
    process.send_signal(number)
    rest, said = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")
    assert said.splitlines()[-1] == f"assay serve: ends at {number.name}" and "Traceback" not in said


def test_a_port_in_use_is_an_error_with_advice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["--model", "dummy", "--port", port, "--store", str(tmp_path / "s.db")]
        assert main(["serve", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and f"port {port}" in said.err and "--port 0" in said.err


def test_another_address_without_a_key_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_SERVE_KEY", raising=False)
    assert main(["serve", "--model", "dummy", "--host", "0.0.0.0"]) == 2
    assert "ASSAY_SERVE_KEY" in capsys.readouterr().err
