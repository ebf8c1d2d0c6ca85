"""The figure of reliability, read from its SVG, and which tasks it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from assay.api import evaluate
from assay.core.errors import OutputError, UserError
from assay.core.requests import Loglikelihood, Request
from assay.report.figures.reliability_plot import reliability_figure
from assay.report.figures.sheet import check_figure
from assay.stats.calibration import CoveragePoint, ReliabilityBin
from assay.studies.calibration.reliability import with_reliability
from assay.studies.calibration.reliability_figure import write_reliability_figure
from assay.studies.calibration.values import Reliability
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"
TASK = Reliability(
    6,
    (ReliabilityBin(0.2, 0.4, 0.3, 0.5, 0.1, 0.9, 2), ReliabilityBin(0.5, 0.9, 0.7, 0.75, 0.3, 0.95, 4)),
    (CoveragePoint(0.5, 1.0, 0.6), CoveragePoint(1.0, 2 / 3, 0.2)),
)


def texts(path: Path) -> list[str]:
    return [(node.text or "").strip() for node in ElementTree.parse(path).iter(f"{SVG}text")]


def answer(request: Request) -> float | str:
    """Confident in the first choice of every question."""
    return -0.1 * len(str(request.continuation)) if isinstance(request, Loglikelihood) else "12"


def test_every_task_has_its_panels(tmp_path: Path) -> None:
    path = tmp_path / "r.svg"
    reliability_figure({"one": TASK, "other": replace(TASK, bins=TASK.bins[:1], n=2)}, path, "Sure?")
    found = texts(path)
    assert {"Sure?", "one", "other", "n = 6", "n = 2", "2 to 4 in a bin", "2 in each bin"} <= set(found)
    assert found.count("confidence (%)") == 2 and any("n = 2 to 6 documents" in text for text in found)


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        reliability_figure({"one": TASK}, tmp_path / name, "Sure?")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_png_is_a_png(tmp_path: Path) -> None:
    reliability_figure({"one": TASK}, tmp_path / "r.png", "Sure?")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_tasks_without_choices_are_not_shown(tmp_path: Path) -> None:
    result = evaluate(ScriptedModel(answer), [toy_choice_task(12), toy_generation_task(2)], store=":memory:")
    tasks = with_reliability(result).tasks
    assert [task.reliability is None for task in tasks] == [False, True]
    written = write_reliability_figure(tasks, tmp_path / "new" / "r.svg")
    assert "toy_choice" in texts(written) and "toy_generation" not in texts(written)
    with pytest.raises(UserError, match="weighs choices"):
        write_reliability_figure(tasks[1:], tmp_path / "r.svg")


def test_another_suffix_is_refused_before_the_run() -> None:
    check_figure("a.PNG", "--reliability_figure")
    with pytest.raises(OutputError, match=r"\.svg or \.png"):
        check_figure("a.pdf", "--reliability_figure")
