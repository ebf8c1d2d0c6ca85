"""The commands of docs/rescoring.md run, one after the other, in one store."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "rescoring.md").read_text(encoding="utf-8")


def test_the_commands_run(tmp_path: Path) -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.strip().split("\n")]
    assert len(lines) == 5
    environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store.db")}
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "assay"
        command = [sys.executable, "-m", "assay", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert "the metrics differ" in done.stdout
