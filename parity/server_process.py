"""Real servers of other projects, started for a comparison: vLLM on the CPU, and llama.cpp by xllamacpp.

In: the name of a server, a Python that has it, and how many sequences it serves at once. Out: a running server with
SmolLM2 in float32, which ends with the block.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import AssayError, Fault, UserError
from assay.models.download.named import NAMED_MODELS, locate
from parity.float32_gguf import float32_gguf
from parity.lifetime import end_with_parent

VLLM, LLAMACPP = "vllm", "llamacpp"
SERVERS = (VLLM, LLAMACPP)
# Environment variables that name a Python with the server.
VARIABLES = {VLLM: "VLLM_PYTHON", LLAMACPP: "XLLAMACPP_PYTHON"}
_PACKAGES = {VLLM: "vllm", LLAMACPP: "xllamacpp"}
_RECIPES = {
    VLLM: "docs/servers/vllm.md has the commands that install it without a GPU",
    LLAMACPP: "Run: PYTHON -m pip install xllamacpp",
}
MODEL = "smollm2"
# Tokens of a sequence.
CONTEXT = 2048
_START_SECONDS = 300.0
_END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes:
        name: `vllm` or `llamacpp`.
        url: base URL of its API.
        process: its process.
    """

    name: str
    url: str
    process: subprocess.Popen[bytes]


def python_with(name: str, chosen: str | None) -> str:
    """The Python that has a server: the one named, that of the environment variable, or this one.

    Raises:
        UserError: if it has not, with what installs it.
    """
    python = chosen or os.environ.get(VARIABLES[name]) or sys.executable
    question = f"import importlib.util as u, sys; sys.exit(u.find_spec({_PACKAGES[name]!r}) is None)"
    try:
        is_missing = subprocess.run([python, "-c", question], check=False, capture_output=True).returncode
    except OSError as error:
        raise UserError(Fault("--server-python", f"{python}: {error.strerror}", "a Python")) from error
    if is_missing:
        found = f"{python} has no {_PACKAGES[name]}"
        raise UserError(Fault(f"--server-python or {VARIABLES[name]}", found, next=_RECIPES[name]))
    return python


def model_folder() -> Path:
    """SmolLM2 as a folder of transformers, in float32."""
    return locate(NAMED_MODELS[MODEL])


@contextmanager
def running(name: str, python: str, log: Path, most: int = 16) -> Iterator[Server]:
    """Starts a server and waits until it answers.

    Args:
        name: `vllm` or `llamacpp`.
        python: a Python that has it.
        log: file for its output.
        most: sequences that it serves at once, each of `CONTEXT` tokens.
    """
    port = _free_port()
    command = _vllm(python, port, most) if name == VLLM else _llamacpp(python, port, most)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # the server of llama.cpp ends when this closes
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(),
            start_new_session=True,  # so that its workers can be ended, too
            preexec_fn=end_with_parent,
        )
    server = Server(name, f"http://127.0.0.1:{port}/v1", process)
    try:
        _wait(server, port, log)
        yield server
    finally:
        _end(process)


def _vllm(python: str, port: int, most: int) -> list[str]:
    options = ["--served-model-name", MODEL, "--dtype", "float32", "--enforce-eager", "--max-model-len", str(CONTEXT)]
    place = [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--max-num-seqs",
        str(most),
        "--enable-tokenizer-info-endpoint",
    ]
    return [python, "-m", "vllm.entrypoints.cli.main", "serve", str(model_folder()), *options, *place]


def _llamacpp(python: str, port: int, most: int) -> list[str]:
    script = Path(__file__).with_name("llamacpp_server.py")
    return [python, str(script), str(float32_gguf(NAMED_MODELS[MODEL])), str(port), str(most), str(CONTEXT)]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    threads = kept.get("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return {**kept, **offline, "OMP_NUM_THREADS": threads, "VLLM_CPU_KVCACHE_SPACE": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(server: Server, port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise AssayError(f"{server.name} ended (code {server.process.returncode}): {' / '.join(last)}; log: {log}")
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise AssayError(f"{server.name} did not answer within {_START_SECONDS:g} seconds; log: {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and all that it started."""
    assert process.stdin is not None, "the input is a pipe"
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            if number == signal.SIGKILL or not _has_group(process.pid):
                return


def _has_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
