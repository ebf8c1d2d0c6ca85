"""The README is tested: its examples and commands run, and its links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from assay import evaluate
from assay.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs() -> None:
    (example,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "n=100" in done.stdout


def test_the_task_file_example_runs(tmp_path: Path) -> None:
    (example,) = blocks("yaml")
    (tmp_path / "capitals.yaml").write_text(example)
    row = {"country": "France", "options": ["Paris", "Lyon"], "label": 0}
    (tmp_path / "capitals.jsonl").write_text(json.dumps(row) + "\n")
    result = evaluate("ngram", "capitals", store=":memory:", include_path=tmp_path)
    assert [metric.metric for metric in result.task("capitals").metrics] == ["acc", "acc_norm"]
    assert yaml.safe_load(example)["task"] == "capitals"


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_is_shown() -> None:
    assert [name for name in COMMANDS if f"assay {name}" not in INDEX] == []


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are written, with a small model for the one that is fetched; the first two blocks install packages."""
    (example,) = blocks("yaml")
    (tmp_path / "capitals.yaml").write_text(example)
    (tmp_path / "capitals.jsonl").write_text('{"country": "France", "options": ["Paris", "Lyon"], "label": 0}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_STORE", "store.db")
    commands = [line for block in blocks("sh")[2:] for line in block.splitlines()]
    assert len(commands) == 4
    for command in commands:
        program, *arguments = command.replace("smollm2", "dummy").split()
        assert (program, main(arguments)) == ("assay", 0), command


def test_the_marked_commands_are_single_lines() -> None:
    """`.ci/run` reads the second."""
    for mark in ("run", "test"):
        assert re.search(rf"<!-- {mark}-command -->\n```sh\npip install -c constraints.txt .*\n```\n", README)
