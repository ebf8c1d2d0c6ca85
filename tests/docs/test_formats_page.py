"""docs/formats.md is tested: its commands run, its tables name every kind, key and metric."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from assay.core.requests import HEAD_KINDS
from assay.scoring.registry import METRICS, metric_definition
from assay.tasks.lm_eval.file.format_key import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
WORDS = {word for text in re.findall(r"`([^`\n]+)`", PAGE) for word in re.findall(r"\w+", text)}


def test_the_commands_run(tmp_path: Path) -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store.db"), "COLUMNS": "160"}
    script = re.sub(r"^assay ", f"{sys.executable} -m assay ", commands, flags=re.MULTILINE)
    command = ["sh", "-e", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "prompt: A joy from start to end.\nAnswer:\ncontinuation 0: ' negative'" in done.stdout
    assert "reviews@letters" in done.stdout


def test_every_kind_and_key_is_named() -> None:
    assert {*FORMATS, *(key for kind in FORMATS.values() for key in kind.parts), *HEAD_KINDS} <= WORDS


def test_every_metric_of_heads_is_named() -> None:
    fitting = {name for name in METRICS.names() if "label_scores" in metric_definition(name).values}
    assert fitting - {"bypass"} <= WORDS
