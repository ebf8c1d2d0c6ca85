"""docs/calibration.md is tested: its commands run, and its table has the metrics with their directions."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.registry import METRICS, metric_definition

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "calibration.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def _words(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS.splitlines():
        program, *words = shlex.split(line)
        assert program == "assay" and main([*words, "--store", "s.db", "--output_path", "out"]) == 0
        assert "demo_questions" in capsys.readouterr().out
    (figure,) = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE)
    assert _words(Path("reliability.svg")) == _words(DOCS / figure)
    files = sorted(tmp_path.glob("out/*/results_*.json"), key=lambda path: path.stat().st_mtime)
    for path in files:
        task = json.loads(path.read_text())["assay"]["tasks"]["demo_questions"]
        assert task["reliability"]["n"] == 120
        assert sum(one["n"] for one in task["reliability"]["bins"]) == 120
    assert len(files) == 2


def test_the_figure_alone_brings_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    plain = ["run", "--model", "dummy", "--tasks", "demo_questions", "--store", "s.db", "--limit", "8"]
    assert main([*plain, "--output_path", "a"]) == 0
    assert main([*plain, "--output_path", "b", "--reliability_figure", "r.png"]) == 0
    tasks = [json.loads(next(tmp_path.glob(f"{name}/*/*.json")).read_text())["assay"]["tasks"] for name in "ab"]
    assert ["reliability" in found["demo_questions"] for found in tasks] == [False, True]


def test_the_table_says_which_way_is_better_and_where_errors_come_from() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (higher|lower) \|.*\| ([\w ]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8 and all(name in METRICS for name, _, _ in rows)
    for name, better, error in rows:
        definition = metric_definition(name)
        assert definition.higher_is_better is (better == "higher")
        assert definition.aggregation in AGGREGATIONS
        is_mean = definition.aggregation in ("brier_score", "mean_of_known")
        redrawn = "bootstrap of gaps" if name.startswith("ece") else "bootstrap"
        assert error == ("mean over documents" if is_mean else redrawn)
