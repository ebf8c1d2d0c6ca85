"""`assay explain` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def two_runs(cli: Cli, task_folder: Path, *other: str, model: str = "dummy") -> tuple[str, str]:
    common = ("--model", model, "--tasks", "colours", "--include_path", task_folder)
    for extra in ((), other):
        assert cli("run", *common, *extra).code == 0
    second, first = (row["run"] for row in json.loads(cli("ls", "runs", "--json").out)[:2])
    return first, second


def test_the_same_runs_differ_in_nothing(cli: Cli, task_folder: Path) -> None:
    done = cli("explain", *two_runs(cli, task_folder))
    assert done.code == 0
    assert "of 20 documents that both scored, 0 are better in the second run, 0 worse" in done.out
    assert done.out.endswith("Nothing differs: the same model, documents, requests and scoring.\n")


def test_causes_are_shown_with_evidence(cli: Cli, task_folder: Path) -> None:
    first, second = two_runs(cli, task_folder, "--system_instruction", "Be [b]brief[/b].")
    done = cli("explain", first[:-2], "last")
    assert f"run {first} (dummy) and run {second} (dummy)" in done.out
    assert 'chat.system: null → "Be [b]brief[/b]."' in done.out
    assert "Be·[b]brief[/b]." in done.out
    assert done.out.rstrip().split("\n")[-1].startswith("The ")


def test_as_markdown_and_as_json(cli: Cli, task_folder: Path) -> None:
    runs = two_runs(cli, task_folder, "--limit", "5")
    page = cli("explain", *runs, "--markdown").out
    assert page.startswith(f"# run {runs[0]}") and "\n## colours\n" in page
    assert "```diff\ndocuments evaluated: 20 → 5\n" in page
    data = json.loads(cli("explain", *runs, "--json").out)
    assert data["runs"] == list(runs)
    assert [cause["kind"] for cause in data["tasks"][0]["causes"]] == ["dataset"]


def test_a_model_without_tokens_is_reported(cli: Cli, task_folder: Path) -> None:
    done = cli("explain", *two_runs(cli, task_folder, "--limit", "5"), "--tokens")
    assert "note: tokens are not compared: a model does not expose its tokens" in done.out


def test_tokens_are_compared(process: Cli, task_folder: Path) -> None:
    runs = two_runs(process, task_folder, "--system_instruction", "Be brief. ", model="acme/words")
    done = process("explain", *runs, "--tokens")
    assert "tokens: document 0 is tokenized differently" in done.out
    assert "3 → 5 tokens, the same up to token 2" in done.out


def test_unknown_runs_and_tasks_are_reported(cli: Cli, task_folder: Path) -> None:
    first, second = two_runs(cli, task_folder)
    assert 'unknown run "2031"' in cli("explain", first, "2031").err
    done = cli("explain", first, second, "--tasks", "colours", "shapes")
    assert (done.code, "has no such task" in done.err) == (2, True)


def test_a_file_by_its_suffix_or_all_formats_in_a_folder(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    runs = two_runs(cli, task_folder, "--limit", "5")
    done = cli("explain", *runs, "--output_path", tmp_path / "why.json")
    assert done.code == 0 and json.loads((tmp_path / "why.json").read_text())["runs"] == list(runs)
    assert cli("explain", *runs, "--output_path", tmp_path / "out").code == 0
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".txt", ".md", ".json"}


def test_published_numbers_of_a_task(cli: Cli) -> None:
    done = cli("explain", "piqa", "--reference", "EleutherAI/pythia-70m")
    assert done.code == 0 and "piqa: published acc 0.5947 of EleutherAI/pythia-70m" in done.out
    assert "EleutherAI/pythia-160m" in cli("explain", "piqa", "--reference").out
    alone = cli("explain", "piqa")
    assert (alone.code, "assay explain piqa --reference" in alone.err) == (2, True)
    assert cli("explain", "piqa", "boolq", "--reference").code == 2
