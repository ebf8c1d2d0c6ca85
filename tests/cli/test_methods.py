"""`assay methods`: every way of picking an answer from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def words(folder: Path, *more: str) -> list[Any]:
    return ["methods", "--model", "ngram", "--tasks", "colours", "--include_path", folder, *more]


def test_a_table_of_methods_and_styles(cli: Cli, task_folder: Path) -> None:
    done = cli(*words(task_folder, "--styles", "own", "letters"))
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    start = lines.index(["colours,", "ngram", "(n", "=", "20)"])
    assert lines[start - 2] == ["Task,", "model", "and", "method", "own", "letters"]
    methods = [line[0] for line in lines[start + 1 : start + 9]]
    assert methods == ["raw", "token", "character", "continuation", "byte", "mutual", "mutual-phrase", "opencompass"]
    assert "Spread δ" in done.out
    assert "Documents whose answer depends on the method" in done.out
    assert "How often each place" not in done.out


def test_details_report_all_tables(cli: Cli, task_folder: Path) -> None:
    out = cli(*words(task_folder, "--details")).out
    assert "How often each position is predicted" in out
    assert "Length of the right choice minus median" in out


def test_a_study_as_json(cli: Cli, task_folder: Path) -> None:
    data = json.loads(cli(*words(task_folder, "--methods", "raw,byte", "--format", "json")).out)
    assert [(cell["method"], len(cell["picks"])) for cell in data["cells"]] == [("raw", 20), ("byte", 20)]


def test_a_study_as_markdown(cli: Cli, task_folder: Path) -> None:
    out = cli(*words(task_folder, "--methods", "raw", "byte", "--format", "markdown")).out
    assert "| Task | Model | Method | own | n |" in out


def test_two_models_are_ranked(cli: Cli, task_folder: Path) -> None:
    done = cli("methods", "--model", "ngram", "dummy", "--task", "colours", "--include_path", task_folder)
    assert done.code == 0
    assert "Does the ranking of the models depend on the method?" in done.out
    assert "comparisons are beyond chance" in done.out


def test_files_and_figures_are_written(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    done = cli(*words(task_folder, "--output_path", str(tmp_path / "out"), "--figures", "svg"))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    expected = {"study.json", "study.md", "spread.svg", "lengths_colours_ngram.svg", "places_colours_ngram.svg"}
    assert (done.code, names) == (0, expected)
    assert json.loads((tmp_path / "out" / "study.json").read_text(encoding="utf-8"))["tasks"] == ["colours"]


def test_nothing_is_requested_again(cli: Cli, task_folder: Path) -> None:
    cli(*words(task_folder))
    runs = cli(*words(task_folder, "--methods", "raw"))
    assert runs.code == 0
    last = json.loads(cli("ls", "runs", "--json").out)[0]
    assert last["status"] == "finished"


def test_wrong_words_are_errors(cli: Cli, task_folder: Path) -> None:
    done = cli(*words(task_folder, "--methods", "raws"))
    assert (done.code, 'no method "raws" (did you mean "raw"?)' in done.err) == (2, True)
    done = cli(*words(task_folder, "--changes", "-1"))
    assert done.code == 2
    done = cli("methods", "--model", "ngram", "--tasks", "demo_cloze")
    assert (done.code, "none of the tasks has choices" in done.err) == (2, True)


def test_failed_requests_are_reported_by_the_exit_code(process: Cli, task_folder: Path) -> None:
    done = process("methods", "--model", "acme/failing", "--tasks", "colours", "--include_path", task_folder)
    assert done.code == 3
    assert "failing: 86 requests failed (too_long: the prompt [b]is[/b] too long)" in done.out


def test_one_file_by_its_suffix_has_no_figures_beside_it(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    done = cli(*words(task_folder, "--output_path", str(tmp_path / "out" / "methods.json")))
    assert (done.code, [path.name for path in (tmp_path / "out").iterdir()]) == (0, ["methods.json"])
    assert json.loads((tmp_path / "out" / "methods.json").read_text(encoding="utf-8"))["tasks"] == ["colours"]
