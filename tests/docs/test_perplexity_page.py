"""The commands of docs/perplexity.md run, and the counts that it shows are those of its own file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "perplexity.md").read_text(encoding="utf-8")


def test_the_commands_run_and_count_as_the_page_says(tmp_path: Path) -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store.db"), "COLUMNS": "160"}
    script = commands.replace("assay run", f"{sys.executable} -m assay run")
    command = ["sh", "-e", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^ (text:texts.jsonl \(all\)|- \w+) +((?:\d+ +){5})", PAGE, re.MULTILINE)
    assert len(shown) == 3
    for name, counts in shown:
        lines = [line.split() for line in done.stdout.splitlines() if line.strip().startswith(name)]
        assert any(counts.split() == line[2:7] for line in lines), (name, lines)
