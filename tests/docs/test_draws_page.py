"""docs/draws.md is tested: its commands run on its task file, and its table has every metric over draws."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.core.metric_names import DRAW_METRICS, family_of

PAGE = (Path(__file__).parents[2] / "docs" / "draws.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
(TASK,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_commands_run_and_say_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("draws.yaml").write_text(TASK, encoding="utf-8")
    shown = []
    for line in COMMANDS.splitlines():
        program, *words = shlex.split(line)
        assert program == "assay" and main([*words, "--store", "s.db"]) == 0
        shown.append(capsys.readouterr().out)
    (counts,) = re.findall(r"`(demo_questions_letters: .*?\(letter\))`", PAGE, re.DOTALL)
    assert counts.replace("\n", " ") in shown[0]
    assert all(name in shown[0] for name in ("pass@1", "pass@5", "pass@10", "maj@5"))
    assert all(name in shown[1] for name in ("pass@5", "pass^5", "mean@10", "gpass@5:0.75"))
    assert "pass@20 cannot be computed from 10 draws" in " ".join(shown[2].split())


def test_the_table_has_every_metric() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} == set(DRAW_METRICS)
    assert all(family_of(reported) == name for name, reported in rows)
