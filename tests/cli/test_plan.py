"""`assay plan`: the requests of a run, before and after it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def test_a_plan_before_and_after_the_run(cli: Cli, task_folder: Path) -> None:
    words = ["--model", "dummy", "--tasks", "colours", "--include_path", task_folder]
    before = cli("plan", *words)
    assert before.code == 0
    assert "60 built, 60 distinct, 0 already known, 60 to execute (60 loglikelihood)" in before.out
    assert "forecast: unknown: this model has not run with this store yet" in before.out
    assert cli("run", *words, "--limit", "5").code == 0
    between = cli("plan", *words).out
    assert "60 built, 60 distinct, 15 already known, 45 to execute" in between
    assert "at the speed of this model's earlier runs" in between
    assert cli("run", *words).code == 0
    assert "60 already known, 0 to execute (nothing)" in cli("plan", *words).out


def test_a_plan_as_json(cli: Cli) -> None:
    report = json.loads(cli("plan", "--model", "dummy", "--tasks", "demo_questions,demo_cloze", "--json").out)
    assert [task["name"] for task in report["tasks"]] == ["demo_questions", "demo_cloze"]
    assert report["missing"] == sum(task["missing"] for task in report["tasks"]) > 0
    assert (report["tokens"], report["tokens_alone"], report["operations"]) == (None, None, None)
    assert (report["seconds"], report["seconds_from"]) == (None, None)


def test_a_plan_requests_nothing(cli: Cli) -> None:
    cli("plan", "--model", "dummy", "--tasks", "demo_cloze")
    assert json.loads(cli("ls", "runs", "--json").out) == []


def test_a_plan_notes_options_without_effect(cli: Cli) -> None:
    done = cli("plan", "--model", "dummy", "--tasks", "demo_cloze", "--use_cache", "x")
    assert (done.code, "note: --use_cache has no effect" in done.err) == (0, True)


def test_a_model_that_measures_reports_tokens_and_time(process: Cli, task_folder: Path) -> None:
    words = ["--model", "acme/words", "--tasks", "colours", "--include_path", task_folder]
    before = process("plan", *words).out
    assert "tokens:   100 to read, 180 without sharing (saves 44 %)\n" in before
    assert "forecast: about 10.0 s, from a short measurement of this machine\n" in before
    assert "memory:   about 2.0 GB at the peak\n" in before
    assert process("run", *words, "--limit", "5").code == 0
    after = json.loads(process("plan", *words, "--json").out)
    assert (after["tokens"], after["tokens_alone"], after["operations"]) == (75, 135, 75_000.0)
    assert (after["seconds_from"], after["seconds"] < 7.5) == ("earlier runs", True)


def test_without_requests_there_are_no_tokens(process: Cli, task_folder: Path) -> None:
    words = ["--model", "acme/words", "--tasks", "colours", "--include_path", task_folder, "--limit", "2"]
    assert process("run", *words).code == 0
    assert "tokens:   none\nforecast: nothing to execute" in process("plan", *words).out
    report = json.loads(process("plan", *words, "--json").out)
    assert (report["tokens"], report["tokens_alone"], report["seconds"]) == (0, 0, 0.0)


def test_a_plan_says_whether_the_documents_suffice_to_detect_a_difference(cli: Cli) -> None:
    words = ["plan", "--model", "dummy", "--tasks", "demo_questions,demo_text", "--detect"]
    shown = cli(*words, "0.1").out
    # (1.95996·√0.5 + 0.84162·√(0.5 − 0.1²))²/0.1² + 1/0.1
    assert re.search(r"demo_questions, acc +120 +401 +no +0\.1832", shown) and re.search(
        r"demo_text +\d+ +– +– +–", shown
    )
    assert "two independent runs that are right half of the time" in " ".join(shown.split())
    assert re.search(r"demo_questions, acc +120 +45 +yes ", cli(*words, "0.3").out)


def test_what_a_plan_assumes_can_be_given(cli: Cli) -> None:
    words = ["plan", "--model", "dummy", "--tasks", "demo_questions", "--detect", "0.1", "--json"]

    def needed(*given: str) -> int:
        return int(json.loads(cli(*words, *given).out)["tasks"][0]["detection"]["needed"])

    assert needed() == 401 > needed("--discordance", "0.2") == needed("--correlation", "0.6") == 165
    assert needed("--sd", "0.3", "--correlation", "0.5") == 71  # 7.84888 · 2·0.09·0.5 / 0.01
    assert needed("--alpha", "0.01") > 401


def test_a_plan_of_a_part_says_what_there_is(cli: Cli) -> None:
    shown = cli("plan", "--model", "dummy", "--tasks", "demo_questions", "--limit", "50", "--detect", "0.19").out
    assert "Available" in shown and re.search(r"demo_questions, acc +50 +120 +\d+ +no ", shown)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--detect", "2"], "--detect: 2; expected a difference above 0 and below 1"),
        (["--detect", "0.1", "--discordance", "20"], "--discordance: 20; expected a share"),
        (["--detect", "0.1", "--discordance", "0.2", "--sd", "0.3"], "--discordance: given together with --sd"),
        (["--detect", "0.1", "--correlation", "1"], "--correlation: 1; expected"),
        (["--sd", "0.3"], "--sd: given without --detect"),
        (["--detect", "0.3", "--discordance", "0.1"], "--discordance: two runs that differ on 10 % of the documents"),
        (["--detect", "0.3", "--correlation", "0.9"], "--correlation: two runs that differ on 5 % of the documents"),
        (["--detect", "0.3", "--alpha", "1e-20"], "--alpha: 1e-20; expected a number from 1e-09 to 0.5"),
    ],
)
def test_assumptions_that_mean_nothing_are_refused(cli: Cli, given: list[str], message: str) -> None:
    done = cli("plan", "--model", "dummy", "--tasks", "demo_questions", *given)
    assert done.code == 2 and message in done.err
