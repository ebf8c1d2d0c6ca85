"""docs/variance.md is tested: its files and commands run, and its lines equal the printed ones."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.core.scores import Estimate
from assay.stats.variance import Decomposition, StderrForecast, VarianceComponent
from assay.studies.variance.values import TaskVariance, VarianceAxis
from assay.studies.variance.variance_report import variance_lines

PAGE = (Path(__file__).parents[2] / "docs" / "variance.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
(TASK,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
COUNTRIES = {"France": "Paris", "Spain": "Madrid", "Italy": "Rome", "Japan": "Tokyo", "Peru": "Lima", "Cuba": "Havana"}


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--axes_figure" in line:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("capitals.yaml").write_text(TASK, encoding="utf-8")
    rows = [{"country": name, "options": [city, "Xanadu"], "label": 0} for name, city in COUNTRIES.items()]
    for split in ("known", "capitals"):
        Path(f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    program, *words = shlex.split(line)
    assert program == "assay"
    assert main([*words, "--limit", "6", "--store", "s.db"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r": (4 orders|3 seeds × 4 draws|2 prompts × 5 seeds) on 6 documents: mean \d\.\d{4}", shown)


def test_the_lines_are_as_they_are_printed() -> None:
    def estimate(value: float) -> Estimate:
        return Estimate(value, None, None, None, 60, "bootstrap")

    scores = {"1": 0.283333, "2": 0.433333, "3": 0.316667, "4": 0.4}
    axis = VarianceAxis("order", scores, estimate(0.69), estimate(0.58))
    components = (
        VarianceComponent(("document",), 0.14, 0.61, 0.69, 59, False),
        VarianceComponent(("document", "order"), 0.09, 0.38, 0.11, 177, False),
        VarianceComponent(("order",), 0.003, 0.01, 0.21, 3, False),
    )
    forecasts = (StderrForecast("document", 60, 0.0456, 0.08), StderrForecast("order", 4, 0.0532, 0.07))
    parts = Decomposition(0.358333, 0.0587, components, forecasts, {"document": 60, "order": 4}, (), 0, 0.2492, 0.4844)
    lines = variance_lines([TaskVariance("demo_questions@hybrid", "acc", "none", (axis,), parts, 0.0523)])
    assert set(lines) <= set(PAGE.splitlines())
