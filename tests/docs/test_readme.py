"""The README cannot rot: its examples run, its links lead somewhere, its tree names every module."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from assay import evaluate
from assay.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


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
    assert [name for name in COMMANDS if f"assay {name}" not in README] == []


def test_the_tree_names_every_module() -> None:
    tree = re.search(r"```\nsrc/assay/\n(.*?)```", README, re.DOTALL)
    assert tree is not None
    words = set(re.findall(r"\w+", tree.group(1)))
    modules = [path for path in (ROOT / "src" / "assay").rglob("*.py") if path.stem not in ("__init__", "__main__")]
    inner = ("filters", "scorers", "metrics", "testing")  # folders that the tree names as a whole
    missing = [str(path) for path in modules if path.stem not in words and path.parent.name not in inner]
    assert missing == []
