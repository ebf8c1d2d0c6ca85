"""docs/sampling.md is tested: its commands run, one after the other, and print what it shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from assay.api import evaluate
from assay.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "sampling.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
SHOWN = [line for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_commands_run_and_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    for line in COMMANDS:
        program, *words = shlex.split(line)
        assert program == "assay"
        assert main([*words, "--store", "s.db"]) == 0
    printed = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", capsys.readouterr().out).splitlines()
    assert len(SHOWN) == 6
    assert [line for line in SHOWN if line not in [text.rstrip() for text in printed]] == []


def test_the_task_file_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "reading.yaml").write_text(example, encoding="utf-8")
    row = {"question": "Who?", "choices": ["he", "she"], "answer": 0}
    rows = [{**row, "passage": f"Passage {place // 2}."} for place in range(6)]
    (tmp_path / "reading.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = evaluate("dummy", str(tmp_path / "reading.yaml"), store=":memory:")
    assert (result.tasks[0].metrics[0].estimate.n, result.tasks[0].metrics[0].estimate.clusters) == (6, 3)
