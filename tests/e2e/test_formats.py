"""From the command line to result files: the same data in every format gives the same scores."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import main

ROWS = [
    {
        "q": f'What is {n} + 1?\nSay "it", {n}.',
        "a": str(n + 1) if n % 2 else f"it's {n + 1}",
        "label": n % 2,
        "w": n / 4,
    }
    for n in range(30)
]


def write_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS, indent=1), encoding="utf-8")


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


def write_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)


def write_parquet(path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(ROWS), path)


FORMATS: dict[str, Callable[[Path], None]] = {
    "json": write_json,
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
}

TASK = """\
task: my_task
dataset_path: {builder}
dataset_kwargs:
  data_files:
    test: data.{extension}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}} ({{{{w}}}})"
doc_to_target: label
doc_to_choice: ["yes", "no"]
num_fewshot: 2
metadata: {{version: 1}}
"""


def run_format(folder: Path, extension: str) -> dict[str, Any]:
    """The scores and samples of a run, without what differs from run to run."""
    tasks, out = folder / extension, folder / f"out_{extension}"
    tasks.mkdir()
    builder = "json" if extension == "jsonl" else extension
    (tasks / "my_task.yaml").write_text(TASK.format(builder=builder, extension=extension), encoding="utf-8")
    FORMATS[extension](tasks / f"data.{extension}")
    words = ["run", "--model", "dummy", "--tasks", "my_task", "--include_path", str(tasks), "--limit", "20"]
    assert main([*words, "--output_path", str(out), "--log_samples", "--store", ":memory:"]) == 0
    (results,) = out.rglob("results_*.json")
    (samples,) = out.rglob("samples_my_task_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    return {"results": json.loads(results.read_text(encoding="utf-8"))["results"]["my_task"], "samples": lines}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("formats")
    return {extension: run_format(folder, extension) for extension in FORMATS}


def test_every_document_is_in_the_samples(runs: dict[str, Any]) -> None:
    assert [line["doc_id"] for line in runs["json"]["samples"]] == list(range(20))
    assert runs["json"]["results"]["acc,none"] == sum(line["acc"] for line in runs["json"]["samples"]) / 20


@pytest.mark.parametrize("extension", ["jsonl", "csv", "parquet"])
def test_formats_agree_in_scores_and_prompts(runs: dict[str, Any], extension: str) -> None:
    assert runs[extension]["results"] == runs["json"]["results"]
    assert runs[extension]["samples"] == runs["json"]["samples"]


def test_the_module_can_be_run(tmp_path: Path) -> None:
    environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store.db")}
    command = [sys.executable, "-m", "assay", "run", "--model", "dummy", "--tasks", "demo_cloze", "--limit", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "demo_cloze" in done.stdout and "perplexity" in done.stdout
    assert (tmp_path / "store.db").is_file()


def test_all_of_demo_runs_and_a_second_run_requests_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", "dummy", "--tasks", "demo", "--limit", "5", "--store", str(tmp_path / "store.db")]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert main(words) == 0
    second = capsys.readouterr().out
    assert " 0 executed" in second and " 0 executed" not in first
    assert first.partition("note:")[0] == second.partition("note:")[0]
