"""docs/methods.md is tested: its commands run, its table names every method and metric."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.scoring.scorers.choice_methods import METHODS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "methods.md").read_text(encoding="utf-8")
EXAMPLES, STUDY = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("line", EXAMPLES.splitlines())
def test_commands_run(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(line)
    assert program == "assay"
    assert main([*words, "--store", str(tmp_path / "s.db")]) == 0
    assert "demo_questions" in capsys.readouterr().out


def test_the_table_has_every_method_with_its_metric() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", PAGE, re.MULTILINE))
    assert rows == {method.name: method.metric for method in METHODS.values()}


def test_the_study_names_options_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    main(["methods", "--help_all"])
    known = capsys.readouterr().out
    options = re.findall(r"--\w+", STUDY)
    assert options and [option for option in options if option not in known] == []


def test_the_figures_are_there() -> None:
    figures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE)
    assert len(figures) == 3
    assert all("</svg>" in (DOCS / figure).read_text(encoding="utf-8") for figure in figures)
