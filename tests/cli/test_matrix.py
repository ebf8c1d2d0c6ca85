"""`assay matrix`, and several models with `assay run`."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.options.model_rows import model_runs
from assay.report.safe_names import different_names

Cli = Callable[..., Any]


def words(folder: Path, *more: Any) -> list[Any]:
    return ["matrix", "--models", "ngram:order=2|3", "dummy", "--tasks", "colours", "--include_path", folder, *more]


def test_a_table_of_models_and_tasks(cli: Cli, task_folder: Path) -> None:
    done = cli(*words(task_folder))
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert ["Model", "colours", "(acc)"] in lines
    assert ["picking", "at", "random", "33.3"] in lines
    assert [line[0] for line in lines if line[:1] and line[0] in ("ngram@2", "ngram@3", "dummy")][:3] == [
        "ngram@2",
        "ngram@3",
        "dummy",
    ]
    assert "model dummy (3 of 3)" in done.err


def test_the_same_command_again_requests_nothing(cli: Cli, task_folder: Path) -> None:
    cli(*words(task_folder))
    out = cli(*words(task_folder)).out
    assert out.count("60 answers known, 0 executed, 0 failed") == 3


def test_a_killed_matrix_goes_on_where_it_was(start: Cli, process: Cli, task_folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    tasks = ["--tasks", "colours", "--include_path", task_folder]
    with start("matrix", "--models", "dummy", f"acme/slow:delay=0.02,log={first}", *tasks) as running:
        while not first.exists() or len(first.read_text().split()) < 20:
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
        running.communicate(timeout=30)
    done = process("matrix", "--models", "dummy", f"acme/slow:log={second}", *tasks)
    asked, again = first.read_text().split(), second.read_text().split()
    assert done.code == 0
    assert "record: dummy" in done.out and "60 answers known, 0 executed" in done.out
    # Answers are committed twenty times a second: few of them may be lost, however busy the machine is.
    assert len({*asked, *again}) == 60 and len(set(asked) & set(again)) < 20


def test_a_fault_of_the_data_is_an_error_for_all(cli: Cli, task_folder: Path) -> None:
    path = task_folder / "colours.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("{{q}}", "{{qq}}"), encoding="utf-8")
    done = cli(*words(task_folder))
    assert (done.code, done.out) == (2, "")
    assert "'qq' is undefined" in done.err


def test_formats_read_back(cli: Cli, task_folder: Path) -> None:
    data = json.loads(cli(*words(task_folder, "--format", "json")).out)
    assert [cell["model"] for cell in data["cells"]] == ["ngram@2", "ngram@3", "dummy"]
    rows = list(csv.DictReader(io.StringIO(cli(*words(task_folder, "--format", "csv")).out)))
    assert [float(row["baseline"]) for row in rows] == [pytest.approx(1 / 3)] * 3
    counts = [[row[name] for name in ("n", "total", "scored", "failed", "truncated", "unparsed")] for row in rows]
    assert counts == [[row["n"], row["n"], row["n"], "0", "0", "0"] for row in rows]
    assert all(int(row["n"]) > 0 and float(row["stderr"]) > 0 and row["clusters"] == "" for row in rows)
    assert "| Model | colours (acc) |" in cli(*words(task_folder, "--format", "markdown")).out
    assert r"\begin{tabular}{lr}" in cli(*words(task_folder, "--format", "latex")).out


def test_files_are_written(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    done = cli(*words(task_folder, "--output_path", tmp_path / "out"))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert (done.code, names) == (0, {f"matrix.{ending}" for ending in ("md", "csv", "tex", "json", "html")})
    assert (tmp_path / "out" / "matrix.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_one_file_is_written_where_its_suffix_is_a_format(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    done = cli(*words(task_folder, "--output_path", tmp_path / "out" / "table.csv"))
    assert (done.code, [path.name for path in (tmp_path / "out").iterdir()]) == (0, ["table.csv"])
    text = (tmp_path / "out" / "table.csv").read_text(encoding="utf-8")
    assert text == cli(*words(task_folder, "--format", "csv")).out


def test_a_gap_is_reported_by_the_exit_code(cli: Cli, task_folder: Path) -> None:
    done = cli("matrix", "--models", "dummy", "hf:pretrained=/no", "--tasks", "colours", "--include_path", task_folder)
    assert done.code == 3
    assert "Cells that could not be filled" in done.out
    assert "/no: no such folder" in done.out


def test_run_takes_several_models(cli: Cli, task_folder: Path) -> None:
    done = cli("run", "--models", "ngram", "dummy:seed=1|2", "--tasks", "colours", "--include_path", task_folder)
    assert done.code == 0
    heads = [line for line in done.out.splitlines() if line.startswith("model ")]
    assert heads == ["model ngram", "model dummy@1", "model dummy@2"]
    assert done.out.count("record: run") == 3


def test_a_failing_model_leaves_the_others_their_turn(cli: Cli, task_folder: Path) -> None:
    done = cli("run", "--models", "hf:pretrained=/no", "dummy", "--tasks", "colours", "--include_path", task_folder)
    assert done.code == 3
    assert "error: no: /no: no such folder" in done.err
    assert done.out.count("record: run") == 1


def test_an_error_of_all_models_is_the_users(cli: Cli, task_folder: Path) -> None:
    done = cli("run", "--models", "ngram", "dummy", "--tasks", "colour", "--include_path", task_folder)
    assert (done.code, done.out) == (2, "")
    assert 'unknown task "colour"' in done.err


def test_notices_of_several_models_name_each(cli: Cli, task_folder: Path) -> None:
    words = ["--tasks", "colours", "--include_path", task_folder, "--limit", "3"]
    out = cli("run", "--models", "ngram", "dummy", *words).out
    for model in ("ngram", "dummy"):
        assert f"note: {model}: evaluated only part of the documents" in out
    assert "note: evaluated only part" in cli("run", "--model", "dummy", *words).out


def test_figures_of_several_models_have_a_file_each(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    words = ["--tasks", "colours", "--include_path", task_folder, "--reliability_figure", tmp_path / "r.svg"]
    done = cli("run", "--models", "ngram", "dummy:seed=1|2", *words)
    written = [tmp_path / f"r_{name}.svg" for name in ("ngram", "dummy@1", "dummy@2")]
    assert done.code == 0
    assert [line for line in done.out.splitlines() if "written" in line] == [f"written: {path}" for path in written]
    assert sorted(tmp_path.glob("*.svg")) == sorted(written)
    cli("run", "--model", "ngram", *words)
    assert (tmp_path / "r.svg").exists()


def test_a_figure_that_one_model_cannot_have_leaves_the_others_their_turn(cli: Cli, tmp_path: Path) -> None:
    """Unscrambled words are generated, so there is no confidence to plot."""
    words = ["--tasks", "demo_scramble", "--limit", "2", "--reliability_figure", tmp_path / "r.svg"]
    done = cli("run", "--models", "dummy:seed=1|2", *words)
    assert (done.code, done.out.count("record: run")) == (2, 2)
    assert "error: dummy@2: --reliability_figure: no task of the run scores choices" in done.err.replace("\n", " ")


def test_a_model_with_several_runs_has_files_by_task() -> None:
    """One that is trained for every task has a run for each; names that are not valid file names stay distinct."""
    runs = model_runs(["dummy:finetune=head", "ngram"], ["x", "y"], {})
    assert [(run.tasks, run.mark) for run in runs] == [
        (("x",), "dummy@head_x"),
        (("y",), "dummy@head_y"),
        (("x", "y"), "ngram"),
    ]
    assert different_names(["a/b", "a:b"]) == ["a__b", "a__b_2"]
