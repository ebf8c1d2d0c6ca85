"""The page on answer extraction: its examples run, and it names every list, extractor and setting."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from assay import evaluate
from assay.core.specs import FilterSpec
from assay.scoring.extraction.rule_lists import EXTRACTORS, LISTS
from assay.scoring.filters.extract import extract
from assay.scoring.registry import make_filter
from assay.testing import ScriptedModel

PAGE = (Path(__file__).parents[2] / "docs" / "extraction.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_task_file_runs(tmp_path: Path) -> None:
    (tmp_path / "quiz.yaml").write_text(blocks("yaml")[0])
    row = {"question": "Capital of France?", "choices": ["Rome", "Paris"], "right": "B"}
    (tmp_path / "quiz.jsonl").write_text(json.dumps(row) + "\n")
    model = ScriptedModel(lambda request: "The answer is B.")
    result = evaluate(model, "quiz", store=":memory:", include_path=tmp_path)
    assert result.task("quiz").metric("exact_match").estimate.value == 1.0


def test_the_list_of_ones_own_is_read_in_its_order() -> None:
    (step,) = yaml.safe_load(blocks("yaml")[1])
    made = make_filter(FilterSpec(step.pop("function"), step), "t")
    texts = ["Verdict: yes", "**no**", "The answer is C", "x\nthe end"]
    assert made([texts], {}) == [["yes", "no", "C", "the end"]]


def test_the_python_example_runs() -> None:
    (example,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "value=0.0" in done.stdout and "number_statement '8', number_last '7'" in done.stdout


def test_every_name_is_listed() -> None:
    message = set(re.findall(r"`(\w+)`", PAGE))
    assert {*LISTS, *EXTRACTORS, *inspect.signature(extract).parameters} - message == set()
