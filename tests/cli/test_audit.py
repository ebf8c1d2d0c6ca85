"""`assay run --audit`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def words(task_folder: Path) -> list[Any]:
    """A run whose model says "the" 20 times: two extractors read t and e from it."""
    text = (task_folder / "colours.yaml").read_text().replace("multiple_choice", "generate_until")
    patterns = "[{name: head, regex: '[a-z]'}, {name: tail, regex: '[a-z]', take: last}]"
    text += f"filter_list:\n- name: p\n  filter:\n  - {{function: extract, patterns: {patterns}}}\n"
    text += "  - function: take_first\n"
    (task_folder / "colours.yaml").write_text(text)
    return ["run", "--model", "acme/slow", "--tasks", "colours", "--include_path", task_folder]


def test_the_audit_is_shown_below_the_table(process: Cli, words: list[Any], tmp_path: Path) -> None:
    done = process(*words, "--audit", "3", "--output_path", tmp_path / "out")
    assert done.code == 0, done.err
    table, _, audit = done.out.partition("audit of colours (p): 20 texts, no answer in 0, cut off 0")
    assert "no_answer" in table and "truncated" in table
    assert "20 × head" in audit and "0 × tail" in audit
    assert "document 0: head 't', tail 'e'; right: 'red'" in audit
    assert audit.count("  document ") == 3 and "and 17 more: --audit all" in audit
    (path,) = (tmp_path / "out").rglob("results_*.json")
    data = json.loads(path.read_text(encoding="utf-8"))["assay"]["audit"]["colours"]
    assert len(data["pipelines"][0]["disagreements"]) == 20


def test_all_documents_or_twenty(process: Cli, words: list[Any]) -> None:
    assert process(*words, "--audit", "all").out.count("  document ") == 20
    assert process(*words, "--audit").out.count("  document ") == 20
    assert "audit of" not in process(*words).out


def test_another_word_is_an_error_before_the_first_request(cli: Cli, words: list[Any]) -> None:
    done = cli(*words, "--audit", "some")
    assert (done.code, done.err) == (2, 'error: --audit: is "some"; expected a number of documents, or all\n')


def test_a_run_without_generated_answers_says_so(cli: Cli, task_folder: Path) -> None:
    done = cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder, "--audit")
    assert "audit: no task of this run extracts answers from generated text" in done.out
