"""Perplexity from the command line: own texts by domain, windows and strides, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.api import show_document
from assay.core.requests import RollingLoglikelihood, Windows

Cli = Callable[..., Any]
ROWS = [
    {"text": "abcdefgh", "domain": "letters"},
    {"text": "ab", "domain": "letters"},
    {"text": "12 34 é", "domain": "numbers"},
    {"text": "", "domain": "numbers"},
]
TASK = (
    "task: pages\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: own.jsonl\ntest_split: test\n"
    'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: text\n'
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def cells(out: str, name: str) -> list[str]:
    """The last line of a name: that of the table of texts."""
    return [line.split() for line in out.splitlines() if line.strip().startswith(name)][-1]


def test_own_texts_have_a_line_per_domain_with_counts(cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # the name of the task holds a long path
    done = cli("run", "--model", "ngram", "--tasks", f"text:{own}", "--domain_column", "domain", "--window", 4)
    assert done.code == 0, done.err
    # Windows of 4 bytes: 2 and 1 for the letters, 2 for the 8 bytes of the numbers.
    assert cells(done.out, "- letters")[2:7] == ["2", "3", "10", "2", "10"]
    assert cells(done.out, "- numbers")[2:7] == ["1", "2", "8", "3", "8"]
    assert cells(done.out, f"text:{own} (all)")[2:7] == ["3", "5", "18", "5", "18"]
    assert "documents without any text were left out (1)" in done.out


def test_the_total_is_pooled_over_all_texts(cli: Cli, own: Path, tmp_path: Path) -> None:
    name = f"text:{own}"
    arguments = ["run", "--model", "ngram", "--tasks", name, "--domain_column", "domain", "-o", tmp_path / "out"]
    assert cli(*arguments).code == 0
    data = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())
    scores, message = data["results"], data["assay"]
    letters, numbers = (scores[f"{name}:{domain}"]["nats_per_token,none"] for domain in ("letters", "numbers"))
    assert scores[name]["nats_per_token,none"] == pytest.approx((10 * letters + 8 * numbers) / 18)
    assert message["texts"][name] == {"documents": 3, "windows": 3, "tokens": 18, "words": 5, "bytes": 18}
    assert message["tasks"][f"{name}:letters"]["texts"]["bytes"] == 10


def test_a_stride_of_the_window_changes_nothing(cli: Cli, own: Path) -> None:
    tables = [
        cells(cli("run", "--model", "ngram", "--tasks", f"text:{own}", "--window", 4, *more).out, f"text:{own}")
        for more in ([], ["--stride", 4], ["--stride", 1])
    ]
    assert tables[0] == tables[1] != tables[2]
    assert tables[2][2] == str(1 + 4 + 1 + 1 + 4)


def test_a_second_run_requests_nothing_and_another_stride_needs_new_requests(cli: Cli, own: Path) -> None:
    command = ["run", "--model", "ngram", "--tasks", f"text:{own}", "--window", 4]
    first, again = cli(*command).out, cli(*command).out
    assert "0 already known, 3 executed" in first and "3 already known, 0 executed" in again
    assert cells(first, f"text:{own}") == cells(again, f"text:{own}") and cells(again, f"text:{own}")[2] == "5"
    assert "0 already known, 3 executed" in cli(*command, "--stride", 2).out


def test_other_metrics_of_a_recorded_run_from_another_folder(
    cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.parent)
    assert cli("run", "--model", "ngram", "--tasks", "text:own.jsonl", "--stride", 2, "--window", 4).code == 0
    (own.parent / "elsewhere").mkdir()
    monkeypatch.chdir(own.parent / "elsewhere")
    done = cli("rescore", "last", "--metrics", "bits_per_byte")
    assert done.code == 0, done.err
    assert "no model was loaded" in done.out and "token_perplexity" not in done.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--tasks", "text:own.jsonl", "--window", "4", "--stride", "5"], "stride: is 5, more than the 4 tokens"),
        (["--tasks", "text:own.jsonl", "--window", "0"], "window: is 0; expected a whole number of tokens"),
        (["--tasks", "demo_questions", "--stride", "5"], "--stride: no task of this run reads whole texts"),
        (["--tasks", "text:gone.jsonl"], "there is no such file or folder"),
        (["--tasks", "text:own.jsonl", "--domain_column", "source"], 'own.jsonl:1: has no "source"'),
    ],
)
def test_what_is_wrong_is_reported(
    cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(own.parent)
    done = cli("run", "--model", "ngram", *arguments)
    assert done.code == 2 and expected in done.err


def test_a_task_file_may_say_its_windows(cli: Cli, own: Path) -> None:
    (own.parent / "pages.yaml").write_text(TASK + "perplexity: {window: 4, stride: 2}\n")
    (shown,) = show_document(str(own.parent / "pages.yaml"))
    assert shown.instance.requests == (RollingLoglikelihood("abcdefgh", windows=Windows(4, 2)),)
    (shown,) = show_document(str(own.parent / "pages.yaml"), stride=3)
    assert shown.instance.requests == (RollingLoglikelihood("abcdefgh", windows=Windows(4, 3)),)
    (own.parent / "pages.yaml").write_text(TASK)
    (shown,) = show_document(str(own.parent / "pages.yaml"))
    assert shown.instance.requests == (RollingLoglikelihood("abcdefgh"),)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("perplexity: {window: 4, stride: 5}", "perplexity.stride: is 5, more than the 4 tokens"),
        ("perplexity: {windo: 4}", 'unknown key "windo" (did you mean "window"?)'),
        ("perplexity: {window: many}", "a whole number of tokens, 1 or more"),
        ("perplexity: 4", "expected a mapping"),
        ("perplexity: {window: 4}\noutput_type: loglikelihood", "applies to tasks that score whole texts"),
    ],
)
def test_wrong_windows_of_a_task_file_are_reported(cli: Cli, own: Path, lines: str, expected: str) -> None:
    text = TASK.replace("output_type: loglikelihood_rolling\n", "") if "output_type" in lines else TASK
    (own.parent / "pages.yaml").write_text(text + lines + "\n")
    done = cli("check", own.parent / "pages.yaml")
    assert done.code == 2 and expected in done.out + done.err


def test_windows_reach_tasks_in_python() -> None:
    @assay.task("lines", rows=[{"text": "abcdefgh"}])
    def asked(row: Any) -> assay.Read:
        return assay.Read(row["text"])

    result = assay.evaluate("ngram", asked, window=4, stride=1, store=":memory:")
    (item,) = result.task("lines").answered
    assert item.instance.requests == (RollingLoglikelihood("abcdefgh", windows=Windows(4, 1)),)
    assert result.task("lines").texts is not None and result.task("lines").texts.windows == 5
    assert result.task("lines").card.config["perplexity"] == {"window": 4, "stride": 1}


def test_a_narrow_screen_reports_the_counts_in_sentences(cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own.parent)
    monkeypatch.setenv("COLUMNS", "80")
    out = cli("run", "--model", "ngram", "--tasks", "text:own.jsonl").out
    assert "text:own.jsonl: documents 3, windows 3, tokens 18, words 5, bytes 18, per token" in " ".join(out.split())


def test_styles_and_profiles_leave_texts_alone(cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own.parent)
    command = ["run", "--model", "ngram", "--tasks", "text:own.jsonl"]
    assert cli(*command, "--style", "letters").code == 0
    done = cli(*command, "--like", "helm")
    assert done.code == 0 and "3 already known, 0 executed" in done.out and "written in Python" not in done.out


def test_a_document_is_shown_and_planned(cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own.parent)
    assert "abcdefgh" in cli("show", "text:own.jsonl").out
    assert (
        "3 built, 3 distinct, 0 already known, 3 to execute"
        in cli("plan", "--model", "ngram", "--tasks", "text:own.jsonl").out
    )
