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
    assert "'r' is no column" in cli("check", tmp_path / "t.yaml", "--doc", tmp_path / "d.jsonl").err
    (tmp_path / "d.jsonl").write_text("")
    assert "holds no document" in cli("check", tmp_path / "t.yaml", "--doc", tmp_path / "d.jsonl").err
