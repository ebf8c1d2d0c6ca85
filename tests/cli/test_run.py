"""`assay run`: exit codes, interruptions, and errors of every kind as one message with a way out."""

from __future__ import annotations

import json
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def words(task_folder: Path) -> list[Any]:
    return ["run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder]


def statuses(process: Cli) -> list[str]:
    return [row["status"] for row in json.loads(process("ls", "runs", "--json").out)]


def test_a_run_shows_the_table_and_the_record(cli: Cli, words: list[Any]) -> None:
    done = cli(*words)
    assert done.code == 0
    assert "acc_norm" in done.out and "60 requests built, 60 distinct, 0 already known, 60 executed" in done.out
    assert "record: run " in done.out
    assert "60 requests, 60 distinct: 60 to ask" in done.err


def test_a_second_run_requests_nothing(cli: Cli, words: list[Any]) -> None:
    cli(*words)
    assert "60 already known, 0 executed" in cli(*words).out


def test_write_out_shows_the_first_document(cli: Cli, words: list[Any]) -> None:
    assert "prompt: Colour 0?" in cli(*words, "--write_out").out


def test_result_files_are_named(cli: Cli, words: list[Any], tmp_path: Path) -> None:
    done = cli(*words, "--output_path", tmp_path / "out", "--log_samples")
    written = [Path(line.removeprefix("written: ")) for line in done.out.splitlines() if line.startswith("written: ")]
    assert sorted(path.name.split("_")[0] for path in written) == ["results", "samples"]
    assert all(path.is_file() for path in written)


def test_predictions_alone(cli: Cli, words: list[Any], tmp_path: Path) -> None:
    assert cli(*words, "--output_path", tmp_path, "--predict_only").code == 0
    (samples,) = tmp_path.rglob("samples_colours_*.jsonl")
    assert len(samples.read_text(encoding="utf-8").splitlines()) == 20


def test_a_model_that_measures_reports_how_it_ran(process: Cli, words: list[Any], tmp_path: Path) -> None:
    words[2] = "acme/words"
    done = process(*words, "--output_path", tmp_path / "out")
    assert "\nloading the model\nrequests: 60/60, 60 of 60 tokens" in done.err
    assert "\nmodel: words engine (it has no other [b]one[/b]), 60 tokens in 0." in done.out
    (results,) = (tmp_path / "out").rglob("results_*.json")
    ran = json.loads(results.read_text(encoding="utf-8"))["assay"]["model_run"]
    assert (ran["engine"], ran["tokens"], ran["seconds"] > 0) == ("words", 60, True)


# Endings


def test_failed_requests_end_with_three(process: Cli, words: list[Any]) -> None:
    words[2] = "acme/failing"
    done = process(*words, "--limit", "4")
    assert done.code == 3
    assert "12 failed" in done.out
    assert "failed: 12 × too_long, for example: the prompt [b]is[/b] too long" in done.out
    assert statuses(process) == ["incomplete"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_is_closed_and_continued(
    start: Cli, process: Cli, words: list[Any], tmp_path: Path, number: int
) -> None:
    words[2] = "acme/slow"
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    with start(*words, "--model_args", f"delay=0.05,log={first}") as running:
        while not first.exists() or len(first.read_text().split()) < 5:
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(number)
        _, errors = running.communicate(timeout=30)
    assert running.returncode == 128 + number
    assert "; answers so far are saved: run the same command again to resume" in errors
    assert "Traceback" not in errors
    assert statuses(process) == ["interrupted"]
    done = process(*words, "--model_args", f"log={second}")
    assert done.code == 0
    asked, again = first.read_text().split(), second.read_text().split()
    # The one that was asked when the signal came may have lost its answer.
    assert len(asked) >= 5 and len(set(asked) & set(again)) <= 1
    assert set(asked) | set(again) == {*asked, *again} and len({*asked, *again}) == 60
    assert f"{60 - len(again)} already known" in done.out


# Errors


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "colours.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("test_split: test", "test_split: tset", ["colours.yaml:7  test_split", 'no split "tset"', "one of: test"]),
        ("colours.jsonl", "nowhere.jsonl", ["colours.yaml:3", 'no file "nowhere.jsonl"', "Give an absolute path"]),
        ("{{q}}", "{{qq}}", ["colours.yaml:9  doc_to_text", "'qq' is undefined", "one of the columns: q, label"]),
        ("{{q}}", "{{q", ["colours.yaml:9  doc_to_text", "template does not parse"]),
        ("task: colours", "task: colours\nmetric_list: [{metric: ac}]", ["unknown metric", "See: assay ls metrics"]),
        ("doc_to_choice", "doc_to_choise", ["unknown key", "did you mean", "doc_to_choice: is missing"]),
    ],
)
def test_a_wrong_task_file_is_reported(
    cli: Cli, words: list[Any], task_folder: Path, old: str, new: str, parts: list[str]
) -> None:
    change(task_folder, old, new)
    done = cli(*words)
    assert done.code == 2
    assert all(part in done.err for part in parts), done.err
    assert "Traceback" not in done.err and "bug" not in done.err


def test_a_task_file_that_is_not_yaml_is_reported_by_name(cli: Cli, task_folder: Path) -> None:
    (task_folder / "colours.yaml").write_text("task: colours\nlist: [\n", encoding="utf-8")
    done = cli("run", "--model", "dummy", "--tasks", task_folder / "colours.yaml")
    assert done.code == 2
    assert "colours.yaml:3: is not YAML" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [("", 'the split "test" is empty'), ('{"q": 1}\n{"q"', "colours.jsonl:2: is not JSON"), ("\udcff", "is not UTF-8")],
)
def test_data_of_no_use_is_reported(cli: Cli, words: list[Any], task_folder: Path, content: str, message: str) -> None:
    (task_folder / "colours.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
    done = cli(*words)
    assert (done.code, message in done.err) == (2, True)


def test_a_file_in_the_way_of_the_output_is_refused_before_the_first_request(
    cli: Cli, words: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("in the way", encoding="utf-8")
    done = cli(*words, "--output_path", tmp_path / "out")
    assert done.code == 2
    assert f"error: {tmp_path / 'out'}: could not be written" in done.err
    assert json.loads(cli("ls", "runs", "--json").out) == []


def test_a_folder_as_store_is_reported(cli: Cli, words: list[Any], tmp_path: Path) -> None:
    done = cli(*words, "--store", tmp_path)
    assert done.code == 2
    assert str(tmp_path) in done.err and done.err.startswith("error: ")


def test_a_full_disk_for_the_output_keeps_the_numbers(process: Cli, words: list[Any], tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = process(*words, "--output_path", tmp_path / "out", "--store", ":memory:", preexec_fn=limit)
    assert done.code == 2
    assert "acc_norm" in done.out
    assert "could not be written: File too large" in done.err
    assert "rerun the command with another --output_path" in done.err
    assert "Traceback" not in done.err
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_a_full_disk_for_the_store_is_reported(process: Cli, words: list[Any]) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    done = process(*words, preexec_fn=limit)
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("error: ") and "store.db" in done.err
    assert "Traceback" not in done.err


def test_code_of_task_files_needs_consent(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n{"q": "b"}\n')
    (tmp_path / "utils.py").write_text("def ask(doc):\n    return doc['q'] + '?'\n")
    (tmp_path / "own.yaml").write_text(
        "task: own\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        "doc_to_text: !function utils.ask\ndoc_to_target: q\n"
    )
    words = ["run", "--model", "dummy", "--tasks", "own", "--include_path", tmp_path]
    refused = cli(*words)
    assert refused.code == 2
    assert f"error: {tmp_path / 'utils.py'}: is Python code that task files want to run: ask (" in refused.err
    pytest.importorskip("datasets")
    assert cli(*words, "--allow_code").code == 0
    assert cli(*words, "--trust_package", "json").code == 2  # json's code may run, not that of this folder
    assert "no installed package" in cli(*words, "--trust_package", "nonesuch").err
