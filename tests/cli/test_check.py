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
