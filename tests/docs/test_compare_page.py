"""The commands of docs/compare.md run, one after the other, in one store; its tables name what the code has."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.studies.compare.compare_report import comparison_formats
from assay.studies.paired.paired_values import AXES, TESTS

PAGE = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.strip().split("\n")]
    assert len(lines) == 14
    said = []
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "assay"
        capsys.readouterr()
        assert main(arguments) == 0, capsys.readouterr().err
        said.append(capsys.readouterr().out)
    (sentence,) = re.findall(r"```\n(No difference.*?)\n```", PAGE, re.DOTALL)
    assert sentence.replace("\n", " ") in said[2]
    assert "; not worse by more than 5 points" in said[3] and "\n  document 0: 0 → 1: " in said[3]
    assert Path("compared.md").read_text(encoding="utf-8").startswith("# ngram and dummy\n")
    assert ElementTree.parse("compared.xml").getroot().get("failures") == "0"
    assert "systems that share a letter cannot be told apart" in said[11]
    assert "differs: style: own → letters" in said[13]
    for row in re.findall(r"^ demo_questions, acc .*", PAGE, re.MULTILINE):
        assert row.split() in [line.split() for line in said[8].split("\n")]
    (agreed,) = re.findall(r"```text\n(  the same outcome.*?)```", PAGE, re.DOTALL)
    assert agreed in said[5]
    (failed,) = re.findall(r"```text\n(gate failed.*?)```", PAGE, re.DOTALL)
    assert main(["compare", "last~2", "last~3", "--metric", "acc", "--fail_if_worse"]) == 4
    assert capsys.readouterr().err == failed


def test_the_raters_of_the_page_agree_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "compare.md", "exec"), {})
    said = [float(line) for line in capsys.readouterr().out.split()]
    assert said == pytest.approx([float(number) for number in re.findall(r": ([\d.]+)$", code, re.MULTILINE)], abs=5e-5)


def test_every_axis_test_and_format_is_named() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(AXES)
    assert [
        name for name in (*TESTS, *comparison_formats().formats) if f"`{name}`" not in PAGE and f" {name}`" not in PAGE
    ] == []
