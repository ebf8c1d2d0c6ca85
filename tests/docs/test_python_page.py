"""docs/python.md: its examples run, one after the other, and errors are as shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli.main import COMMANDS
from assay.core.errors import UserError
from assay.models.model_registry import MODELS
from assay.scoring.registry import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, scope)
    assert scope["again"].task("capitals").metric("acc_bytes")
    assert len(scope["result"].tasks) == 1
    assert any((tmp_path / "out").rglob("samples_*.jsonl"))
    printed = capsys.readouterr().out
    assert "\n1.0\n" in printed and printed.endswith("True\n")
    METRICS.remove("short")
    MODELS.remove("parrot")


def test_the_errors_are_those_of_the_page() -> None:
    (session,) = re.findall(r"```\n(>>>.*?)```", PAGE, re.DOTALL)
    for part in session.split(">>> ")[1:]:
        call, _, message = part.partition("\n")
        with pytest.raises(UserError) as caught:
            exec(call, {"assay": assay})
        assert str(caught.value) == message.rstrip("\n")


def test_the_table_has_every_verb() -> None:
    rows = dict(re.findall(r"^\| `assay\.(\w+)\(.*?\)` \| `assay (\w+)` \|", PAGE, re.MULTILINE))
    assert set(rows) <= set(assay.__all__)
    assert set(rows.values()) == set(COMMANDS) - {"ls", "store", "serve"}


def test_the_names_that_it_mentions_exist() -> None:
    assert [name for name in re.findall(r"\bassay\.([A-Z]\w+)", PAGE) if name not in assay.__all__] == []
