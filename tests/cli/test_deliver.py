"""Nothing is lost at the end: unscored tasks, missing packages, files and figures that cannot be written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import AssayError, Fault, UserError
from assay.core.results import Problem
from assay.report.deliver import CommandOutput
from assay.report.result_files import WrittenFiles

Cli = Callable[..., Any]

CODE = """
def lazily(doc, results):
    import no_such_package_of_mine
    return {"acc": 1.0}

def sometimes(doc, results):
    try:
        import no_such_package_of_mine
    except ImportError:
        pass
    return {"acc": 1.0}

def failing(items):
    raise RuntimeError("no labels")
"""


@pytest.fixture
def folder(task_folder: Path) -> Path:
    """The task `colours` and three like it: with a metric that fails, a package that is missing, one that may be."""
    (task_folder / "scoring.py").write_text(CODE)
    text = (task_folder / "colours.yaml").read_text().replace("tag: paint\n", "")
    metrics = "metric_list: [{metric: acc, aggregation: !function scoring.failing}]\n"
    (task_folder / "failing.yaml").write_text(text.replace("task: colours", "task: failing") + metrics)
    for name in ("lazily", "sometimes"):
        own = text.replace("task: colours", f"task: {name}") + f"process_results: !function scoring.{name}\n"
        (task_folder / f"{name}.yaml").write_text(own)
    group = "group: both\ntask: [colours, failing]\naggregate_metric_list: [{metric: acc}]\n"
    (task_folder / "both.yaml").write_text(group)
    return task_folder


def run(cli: Cli, folder: Path, tasks: str, *more: Any) -> Any:
    return cli("run", "--model", "dummy", "--tasks", tasks, "--include_path", folder, "--allow_code", *more)


def test_one_unscored_task_leaves_table_files_and_record_of_the_others(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = run(cli, folder, "both", "-o", tmp_path / "out", "--log_samples")
    assert done.code == 3
    assert "not scored" in done.out and done.out.count("written: ") == 3
    assert 'problem: task failing, metric "acc": its aggregation failing raised RuntimeError: no labels' in done.out
    assert "problem: group both: no score: its task failing could not be scored" in done.out
    (path,) = (tmp_path / "out").rglob("results_*.json")
    data = json.loads(path.read_text())
    assert data["results"]["colours"]["acc,none"] is not None and data["results"]["both"]["acc,none"] is None
    assert "no labels" in data["assay"]["tasks"]["failing"]["problem"]["text"]
    (row,) = json.loads(cli("ls", "runs", "--json").out)
    assert (row["status"], row["tasks"]) == ("incomplete", "both (not scored: failing)")


def test_a_fixed_task_is_rescored_without_requests(cli: Cli, folder: Path) -> None:
    run(cli, folder, "colours,failing")
    (folder / "scoring.py").write_text(CODE.replace('raise RuntimeError("no labels")', "return 0.5"))
    again = run(cli, folder, "colours,failing")
    assert again.code == 0 and "60 already known, 0 executed" in again.out
    done = cli("rescore", "last~1")
    assert done.code == 0 and "0.5000" in done.out


def test_rescoring_goes_through_the_same_door(cli: Cli, folder: Path) -> None:
    run(cli, folder, "colours,failing")
    done = cli("rescore", "last", "--json")
    assert done.code == 3 and "problem: task failing" in done.err
    assert "no labels" in json.loads(done.out)["tasks"]["failing"]["problem"]["text"]


def test_all_missing_packages_are_named_before_the_first_request(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run(cli, folder, "colours,lazily", "--reliability_figure", tmp_path / "f.svg")
    assert done.code == 2
    assert "task lazily, process_results (lazily): the package" in done.err and "--reliability_figure: " in done.err
    assert "Run: pip install 'assay-eval[report]' no_such_package_of_mine" in done.err
    assert json.loads(cli("ls", "runs", "--json").out) == []


def test_a_package_that_code_can_do_without_is_not_required(cli: Cli, folder: Path) -> None:
    assert run(cli, folder, "sometimes").code == 0


def test_figures_of_a_study_are_checked_before_it(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = ("methods", "--model", "dummy", "--tasks", "colours", "--include_path", folder, "-o", tmp_path / "out")
    done = cli(*options)
    assert done.code == 2 and "--figures none" in done.err and "assay-eval[report]" in done.err
    assert json.loads(cli("ls", "runs", "--json").out) == []
    assert cli(*options, "--figures", "none").code == 0


@pytest.mark.parametrize("path", ["folder.svg", "file/f.svg"])
def test_a_figure_that_cannot_be_written_is_refused_before_the_run(
    cli: Cli, folder: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").write_text("")
    done = run(cli, folder, "colours", "--reliability_figure", tmp_path / path)
    assert (done.code, "--reliability_figure" in done.err) == (2, True)
    assert json.loads(cli("ls", "runs", "--json").out) == []


def test_a_file_that_cannot_be_written_costs_itself_alone(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    replace = os.replace

    def full(source: str, target: Path) -> None:
        if "samples_colours" in str(target):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    done = run(cli, folder, "colours,sometimes", "-o", tmp_path / "out", "--log_samples")
    assert done.code == 2 and "No space left on device. All answers are stored" in done.err
    assert "acc" in done.out and done.out.count("written: ") == 2
    written = sorted(path.name.partition("_20")[0] for path in (tmp_path / "out").rglob("*.json*"))
    assert written == ["results", "samples_sometimes"]


def test_a_figure_that_fails_leaves_the_others(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matplotlib.figure.Figure.legend", None)  # not to be called: the first figure has a legend
    figures = ("--axes_figure", tmp_path / "a.svg", "--reliability_figure", tmp_path / "r.svg", "--orders", 2)
    done = run(cli, folder, "colours@letters", "-o", tmp_path / "out", *figures)
    assert done.code == 1 and "could not be made: TypeError" in done.err and "--debug shows" in done.err
    assert "acc" in done.out and "written: " in done.out
    assert [path.name for path in (tmp_path / "out").rglob("results_*")] != []


def test_a_figure_of_prompts_without_prompts_is_refused_before_the_run(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = run(cli, folder, "colours", "--prompt_figure", tmp_path / "p.svg")
    assert done.code == 2 and "--prompt_figure: no task of the run is evaluated in several ways" in done.err
    assert json.loads(cli("ls", "runs", "--json").out) == []


def test_a_prompt_that_puts_no_document_is_named(cli: Cli, folder: Path) -> None:
    templates = "templates:\n  1: !Template {name: some, answer_choices: A ||| B, jinja: '{{q}} ||| A'}\n"
    templates += "  2: !Template {name: never, answer_choices: A ||| B, jinja: '{{gone.away}} ||| A'}\n"
    (folder / "templates.yaml").write_text(templates)
    text = "task: prompted\ndataset_path: json\ndataset_kwargs: {data_files: {test: colours.jsonl}}\n"
    (folder / "prompted.yaml").write_text(text + "test_split: test\nprompts: templates.yaml\n")
    done = run(cli, folder, "prompted", "--write_out")
    assert done.code == 3 and "bug" not in done.err
    assert (
        "problem: task prompted@never: no score: its prompt template cannot render any of its 20 documents" in done.out
    )
    (row,) = json.loads(cli("ls", "runs", "--json").out)
    assert row["status"] == "incomplete"


def bug(found: str) -> Problem:
    return Problem((Fault("the notices", found),), RuntimeError(found))


def test_a_bug_is_raised_last_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    command_output = CommandOutput()
    command_output.take(WrittenFiles(problems=(Problem((Fault("r.json", "could not be written"),)),)), None)
    with pytest.raises(AssayError, match="the notices: fell over") as caught:
        command_output.code([bug("fell over")], is_whole=False)
    assert (caught.value.exit_code, repr(caught.value.__cause__)) == (1, "RuntimeError('fell over')")
    assert capsys.readouterr().err == "error: r.json: could not be written\n"


def test_a_table_that_fails_leaves_the_files() -> None:
    command_output, shown = CommandOutput(), []
    command_output.show("the table", lambda: 1 / 0)
    command_output.show("the rest", lambda: shown.append(1))
    assert shown == [1] and command_output.problems[0].is_bug
    with pytest.raises(AssayError, match="the table: could not be shown: ZeroDivisionError"):
        command_output.code((), is_whole=True)


def test_exit_codes_without_a_bug() -> None:
    assert (CommandOutput().code((), is_whole=True), CommandOutput().code((), is_whole=False)) == (0, 3)
    with pytest.raises(UserError):
        CommandOutput([Problem((Fault("r.json", "full"),))]).code((), is_whole=False)


def test_files_are_written_though_no_one_reads_the_table(
    start: Callable[..., subprocess.Popen[str]], folder: Path, tmp_path: Path
) -> None:
    options = ("--model", "acme/slow", "--tasks", "colours", "--include_path", folder, "-o", tmp_path / "out")
    with start("run", *options) as running:
        assert running.stdout is not None
        running.stdout.close()
        running.wait(timeout=60)
    assert len(list((tmp_path / "out").rglob("results_*.json"))) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_files_are_written_though_standard_output_is_full(
    process: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    options = ("--model", "acme/slow", "--tasks", "colours", "--include_path", folder, "-o", tmp_path / "out")
    with open("/dev/full", "w") as full:
        done = process("run", *options, stdout=full)
    assert done.code == 2 and "standard output: could not be written" in done.err
    assert len(list((tmp_path / "out").rglob("results_*.json"))) == 1
