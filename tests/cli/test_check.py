"""`assay check`: faults on standard error, a summary, and an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_good_files_are_counted(cli: Cli, task_folder: Path) -> None:
    done = cli("check", task_folder)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("no faults\n")


def test_faults_have_file_line_and_key_and_code_2(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("task: t\noutput_typ: multiple_choice\n")
    done = cli("check", tmp_path / "t.yaml")
    assert done.code == 2
    assert f'error: {tmp_path}/t.yaml:2  output_typ: unknown key "output_typ"' in done.err
    assert json.loads(cli("check", tmp_path, "--json").out)["files"] == 1


def test_a_sample_document_is_read_from_a_data_file(cli: Cli, tmp_path: Path) -> None:
    text = "task: t\ndataset_path: json\ntest_split: test\ndoc_to_text: '{{q}} {{r}}'\ndoc_to_target: a\n"
    (tmp_path / "t.yaml").write_text(text)
    (tmp_path / "d.jsonl").write_text('{"q": 1, "a": 2}\n')
    assert "'r' is not a column" in cli("check", tmp_path / "t.yaml", "--doc", tmp_path / "d.jsonl").err
    (tmp_path / "d.jsonl").write_text("")
    assert "holds no document" in cli("check", tmp_path / "t.yaml", "--doc", tmp_path / "d.jsonl").err


def test_with_consent_code_runs_and_everything_is_built(cli: Cli, tmp_path: Path) -> None:
    common = "dataset_path: json\ntest_split: test\ndoc_to_target: a\n"
    (tmp_path / "utils.py").write_text("def ask(doc):\n    return ''\n")
    (tmp_path / "broken.py").write_text("import nonesuch_package\ndef ask(doc):\n    return ''\n")
    (tmp_path / "a.yaml").write_text(f"task: a\n{common}doc_to_text: !function utils.ask\n")
    (tmp_path / "b.yaml").write_text(f"task: b\n{common}doc_to_text: !function broken.ask\n")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [a]\n")
    assert cli("check", tmp_path).out.endswith("3 files, 2 tasks, 1 group: no faults\n")
    done = cli("check", tmp_path, "--allow_code")
    assert done.code == 2
    assert done.out.splitlines()[1:] == [
        "1 of 2 tasks can be built with their code",
        "1 of 1 groups can be built with their code",
    ]
    assert "error: task b: " in done.err and "Run: pip install nonesuch_package" in done.err
    loading = json.loads(cli("check", tmp_path, "--allow_code", "--json").out)["loading"]
    assert [failure["name"] for failure in loading["failures"]] == ["b"]


def test_a_sound_benchmark_passes_its_contract(cli: Cli) -> None:
    done = cli("check", "demo_questions,demo_text", "--contract", "--rows", "5", "--own_only")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("2 tasks, styles and heads: 0 faults\n")


def test_a_fault_of_a_benchmark_is_named_with_code_2(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"q": "2 + 3 =", "a": "5"}\n{"q": "4 + 3 =", "a": "7"}\n')
    text = "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n"
    (tmp_path / "t.yaml").write_text(f"task: t\n{text}doc_to_text: '{{{{q}}}} '\ndoc_to_target: a\n")
    done = cli("check", tmp_path / "t.yaml", "--contract")
    assert done.code == 2
    assert "error: t, document 0: space: the prompt ends with white space: '2 + 3 = ' (2 of 2 documents)" in done.err
    (task,) = json.loads(cli("check", tmp_path / "t.yaml", "--contract", "--format", "json").out)["tasks"]
    assert (task["checks"]["space"], task["checks"]["perfect"]) == ("fault", "ok")
