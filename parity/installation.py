"""Finds lm-eval's Python, or creates a virtual environment with it once, in the cache folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from assay.core.atomic_files import cache_folder
from assay.core.errors import Fault, UserError

LM_EVAL_VERSION = "0.4.13"
TORCH_VERSION = "2.13.0"
VARIABLE = "LM_EVAL_PYTHON"

# Asks without importing lm-eval, which takes seconds.
_QUESTION = """
import importlib.metadata as m, importlib.util as u, json
print(json.dumps([m.version("lm_eval"), u.find_spec("lm_eval").submodule_search_locations[0]]))
"""


@dataclass(frozen=True, slots=True)
class LmEval:
    """An installed lm-eval: its Python and its folder of task files."""

    python: str
    tasks_folder: str


def find_lm_eval(python: str | None) -> LmEval:
    """lm-eval in the named Python, in that of the environment variable, or in a new virtual environment."""
    chosen = python or os.environ.get(VARIABLE)
    return _query_python(chosen or str(_installed()))


def _query_python(python: str) -> LmEval:
    try:
        answer = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(Fault("--lm-eval-python", f"{python}: {error.strerror}", "a Python with lm-eval")) from error
    if answer.returncode:
        reason = answer.stderr.strip().splitlines()[-1:] or ["no reason given"]
        install = f"{python} -m pip install torch=={TORCH_VERSION} 'lm-eval[hf]=={LM_EVAL_VERSION}'"
        raise UserError(Fault("--lm-eval-python", f"{python} has no lm-eval: {reason[0]}", next=f"Run: {install}"))
    version, folder = json.loads(answer.stdout)
    if version != LM_EVAL_VERSION:
        raise UserError(Fault("--lm-eval-python", f"{python} has lm-eval {version}", LM_EVAL_VERSION))
    return LmEval(python, str(Path(folder) / "tasks"))


def _installed() -> Path:
    """Our own virtual environment; an incomplete one is created again."""
    folder = cache_folder() / "parity" / f"lm-eval-{LM_EVAL_VERSION}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    print(f"installing lm-eval {LM_EVAL_VERSION} into {folder}, once …", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    install = [str(python), "-m", "pip", "install", "--quiet", f"torch=={TORCH_VERSION}"]
    _run(install)
    _run([*install, f"lm-eval[hf]=={LM_EVAL_VERSION}"])
    ready.touch()
    return python


def _run(command: list[str]) -> None:
    if subprocess.run(command, check=False).returncode:
        advice = f"Name a Python that has it: --lm-eval-python PYTHON, or {VARIABLE}"
        raise UserError(Fault("installing lm-eval", f"this failed: {' '.join(command)}", next=advice))
