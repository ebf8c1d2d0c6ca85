"""docs/library.md and docs/benchmarks.md: the commands run, every key is explained, the generated page is current."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

from assay.tasks.lm_eval.file.card import CARD_KEYS, LM_EVAL_KEYS, REFERENCE_KEYS, REQUIRED
from assay.tasks.lm_eval.file.configurations import KEYS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
SCRIPT = ROOT / "scripts" / "make_benchmark_page.py"


def run(commands: str, folder: Path) -> str:
    environment = {**os.environ, "ASSAY_STORE": str(folder / "store.db"), "COLUMNS": "120"}
    script = re.sub(r"^assay ", f"{sys.executable} -m assay ", commands, flags=re.MULTILINE)
    command = ["sh", "-e", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_run(tmp_path: Path) -> None:
    first, example = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert "57 tasks: Choose the letter" in run(first, tmp_path)
    out = run(example, tmp_path)
    assert "1 file, 2 tasks, 2 groups: no faults" in out
    assert "quiz: The small quiz" in out and "rows       test 3" in out
    assert "quiz_nature" in out and "quiz_animals@letters" in out


def test_every_key_is_explained() -> None:
    words = {word for text in re.findall(r"`([^`\n]+)`", PAGE) for word in re.findall(r"\w+", text)}
    assert {*CARD_KEYS, *LM_EVAL_KEYS, *REFERENCE_KEYS, *KEYS} <= words
    (listed,) = re.findall(r"Required in the library: (.*?)\. ", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", listed)) == set(REQUIRED)


def test_the_page_of_benchmarks_is_current() -> None:
    page = runpy.run_path(str(SCRIPT))["page"]()
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert written == page, "python scripts/make_benchmark_page.py"
