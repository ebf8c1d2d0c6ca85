"""The page on profiles is tested: its commands run, its profile is one, its table names every tool."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from assay.tasks.profiles.parse import find_profile, profile_names, read_profile

PAGE = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^assay .*$", PAGE, re.MULTILINE)


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)[1:]
    store = ["--store", str(tmp_path / "store.sqlite")] if words[0] == "run" else []
    done = subprocess.run([sys.executable, "-m", "assay", *words, *store], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_example_is_a_profile(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "mine.yaml"
    path.write_text(example, encoding="utf-8")
    profile = read_profile(path)
    rule = profile.rule("arc_easy")
    assert rule is not None and [variant.name for variant in rule.variants] == ["letters", "texts"]
    assert profile.weight_by_size is False and profile.default is not None
    assert rule.choices == 4 and rule.variants[0].rows[1] == {"question": "What burns?"}
    assert profile.averages_first("mmlu_stem") and profile.model_args == {"add_bos_token": False}


@pytest.mark.parametrize("name", profile_names())
def test_every_known_difference_from_a_tool_is_on_the_page(name: str) -> None:
    part = re.search(rf"^### `{name}`\n(.*?)^##", PAGE, re.DOTALL | re.MULTILINE)
    assert part is not None
    said = " ".join(part[1].split())
    profile = find_profile(name)
    reasons = [" ".join(rule.unfit.split()) for rule in profile.rules]
    assert [text for text in (*profile.all_deviations, *reasons) if text not in said] == []


def test_the_table_has_every_tool() -> None:
    assert [name for name in profile_names() if f"| `{name}` |" not in PAGE] == []
