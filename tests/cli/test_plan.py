"""`assay plan`: what a run would ask, before and after it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_a_plan_before_and_after_the_run(cli: Cli, task_folder: Path) -> None:
    words = ["--model", "dummy", "--tasks", "colours", "--include_path", task_folder]
    before = cli("plan", *words)
    assert before.code == 0
    assert "60 posed, 60 distinct, 0 already known, 60 to ask (60 loglikelihood)" in before.out
    assert "forecast: unknown: this model has not run with this store yet" in before.out
    assert cli("run", *words, "--limit", "5").code == 0
    between = cli("plan", *words).out
    assert "60 posed, 60 distinct, 15 already known, 45 to ask" in between
    assert "at the speed of this model's earlier runs" in between
    assert cli("run", *words).code == 0
    assert "60 already known, 0 to ask (nothing)" in cli("plan", *words).out


def test_a_plan_as_json(cli: Cli) -> None:
    report = json.loads(cli("plan", "--model", "dummy", "--tasks", "demo_questions,demo_cloze", "--json").out)
    assert [task["name"] for task in report["tasks"]] == ["demo_questions", "demo_cloze"]
    assert report["missing"] == sum(task["missing"] for task in report["tasks"]) > 0
    assert report["tokens"] is None


def test_a_plan_asks_nothing(cli: Cli) -> None:
    cli("plan", "--model", "dummy", "--tasks", "demo_cloze")
    assert json.loads(cli("ls", "runs", "--json").out) == []


def test_a_plan_notes_options_without_effect(cli: Cli) -> None:
    done = cli("plan", "--model", "dummy", "--tasks", "demo_cloze", "--use_cache", "x")
    assert (done.code, "note: --use_cache has no effect" in done.err) == (0, True)


def test_tokens_are_counted_where_the_model_can(process: Cli, task_folder: Path) -> None:
    words = ["--model", "acme/words", "--tasks", "colours", "--include_path", task_folder]
    assert "tokens:   180 to read" in process("plan", *words).out
