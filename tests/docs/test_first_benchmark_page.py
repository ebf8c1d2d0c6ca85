"""docs/first-benchmark.md: its commands run in one folder, and print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from assay.options.parser import command
from assay.tasks.scaffold.values import KINDS, Wishes

PAGE = (Path(__file__).parents[2] / "docs" / "first-benchmark.md").read_text(encoding="utf-8")


def run(commands: str, folder: Path) -> str:
    environment = {**os.environ, "ASSAY_STORE": str(folder / "store.db"), "COLUMNS": "120"}
    script = re.sub(r"^assay ", f"{sys.executable} -m assay ", commands, flags=re.MULTILINE)
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def words(text: str) -> set[tuple[str, ...]]:
    """The lines of an output, without the white space of its tables."""
    return {tuple(line.split()) for line in text.splitlines()}


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    printed: set[tuple[str, ...]] = set()
    shown = 0
    for kind, block in re.findall(r"```(sh|text)\n(.*?)```", PAGE, re.DOTALL):
        if kind == "sh":
            printed = words(run(block, tmp_path))
        else:
            shown += 1
            assert words(block) - printed == set()
    assert shown >= 10


def test_every_option_and_kind_is_named() -> None:
    options = [f"`--{name}" for name in (*Wishes.__slots__, "train", "overwrite")]
    assert [name for name in (*options, *KINDS) if name not in PAGE] == []
    assert {*Wishes.__slots__, "train", "overwrite"} <= set(command("task").options)
