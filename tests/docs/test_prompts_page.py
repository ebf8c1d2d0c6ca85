"""docs/prompts.md is tested: its files and commands run, and its line equals the printed one."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.studies.variance.values import PromptAxis
from assay.studies.variance.variance_report import prompt_lines

PAGE = (Path(__file__).parents[2] / "docs" / "prompts.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
TASK, TEMPLATES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--prompt_figure" in line:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("capitals.yaml").write_text(TASK, encoding="utf-8")
    Path("templates.yaml").write_text(TEMPLATES, encoding="utf-8")
    rows = [{"country": "France", "options": ["Paris", "Lyon"], "label": 0}]
    rows += [{"country": "Spain", "options": ["Seville", "Madrid"], "label": 1}]
    Path("capitals.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    program, *words = shlex.split(line)
    assert program == "assay"
    assert main([*words, *(["--store", "s.db"] if words[0] == "run" else [])]) == 0
    assert re.search(r"(capitals|demo_questions)@\w+", capsys.readouterr().out)


def test_the_line_is_as_it_is_printed() -> None:
    scores: dict[str, float | None] = {"question": 0.5, "sentence": 0.5, "yes_no": 1.0}
    axis = PromptAxis("capitals", "acc", "none", scores, dict.fromkeys(scores, 2), dict.fromkeys(scores, 0))
    (line,) = prompt_lines([axis])
    assert line in PAGE.splitlines()
