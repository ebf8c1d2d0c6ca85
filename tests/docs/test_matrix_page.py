"""docs/matrix.md is tested: its commands run, and the rows of its table parse as described."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.options.model_rows import model_rows, model_variants

PAGE = (Path(__file__).parents[2] / "docs" / "matrix.md").read_text(encoding="utf-8")
(EXAMPLES,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("line", EXAMPLES.splitlines())
def test_commands_run(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(line)
    assert program == "assay"
    assert main([*words, "--store", str(tmp_path / "s.db")]) == 0
    assert "demo_questions" in capsys.readouterr().out


def test_the_listed_models_parse_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (9, 10):
        (tmp_path / "runs" / f"step-{step}").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    texts = re.findall(r'^\| `"?([^`"]+)"?` \|', PAGE, re.MULTILINE)
    assert [len(model_variants(text.replace("\\|", "|"))) for text in texts] == [1, 1, 2, 2, 2, 2]


def test_the_command_of_the_real_matrix_names_six_rows_and_eight_tasks() -> None:
    (command,) = re.findall(r"```text\n(assay matrix.*?)```", PAGE, re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    models = words[words.index("--models") + 1 : words.index("--tasks")]
    tasks = words[words.index("--tasks") + 1 : words.index("--metrics")]
    assert (len(model_rows(models, {})), len(tasks)) == (6, 8)
    for task in tasks:
        assert len(re.findall(rf"^\| {task} \(acc\) \|", PAGE, re.MULTILINE)) == 2, "scores and improvements"
