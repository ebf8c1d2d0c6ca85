"""`assay rescore`: from the command line, without a model, and fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

NO_TORCH = """
import sys
from assay.cli.main import main
code = main(sys.argv[1:])
heavy = [name for name in ("torch", "transformers", "datasets") if name in sys.modules]
sys.exit(code or (99 if heavy else 0))
"""


def test_a_run_is_rescored_and_listed_with_its_parent(cli: Cli, task_folder: Path) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    (parent,) = json.loads(cli("ls", "runs", "--json").out)
    done = cli("rescore", "last", "--metrics", "+acc_bytes")
    assert (done.code, done.err.count("error")) == (0, 0)
    assert f"rescored from run {parent['run']}: no model was loaded, 60 answers read" in done.out
    assert "acc_norm" in done.out and "acc_bytes" in done.out
    rows = json.loads(cli("ls", "runs", "--json").out)
    assert [row["rescored from"] for row in rows] == [parent["run"], ""]


def test_a_conversation_scored_again_says_that_its_messages_are_not_rendered(
    cli: Cli, task_folder: Path, tmp_path: Path
) -> None:
    run = ["run", "--model", "ngram", "--tasks", "colours", "--include_path", task_folder, "--apply_chat_template"]
    assert "messages" not in cli(*run, "--limit", 2, "-o", tmp_path / "run", "-s").err
    done = cli("rescore", "last", "--metrics", "acc", "-o", tmp_path / "again", "-s")
    assert "sample files hold messages instead of rendered prompts" in done.err
    first, again = (
        json.loads(next((tmp_path / name).rglob("samples_*.jsonl")).read_text(encoding="utf-8").splitlines()[0])
        for name in ("run", "again")
    )
    assert first["arguments"]["gen_args_0"]["arg_0"].startswith("user: Colour 0?")
    assert again["arguments"]["gen_args_0"]["arg_0"] == first["assay"]["messages"][0]


def test_the_start_of_a_name_will_do(cli: Cli, task_folder: Path) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    (parent,) = json.loads(cli("ls", "runs", "--json").out)
    data = json.loads(cli("rescore", parent["run"][:-3], "--metrics", "acc", "--json").out)
    assert data["parent"] == parent["run"]
    assert [metric["metric"] for metric in data["tasks"]["colours"]["metrics"]] == ["acc"]


def test_missing_answers_are_reported_and_completed(cli: Cli, task_folder: Path) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    refused = cli("rescore", "last", "--metrics", "acc_mutual_info")
    assert refused.code == 2
    assert "3 loglikelihood requests for acc_mutual_info (choices without a question)" in refused.err
    assert "Add --complete" in refused.err
    done = cli("rescore", "last", "--metrics", "acc_mutual_info", "--complete")
    assert done.code == 0
    assert "3 requests executed besides, 60 answers read" in done.out


def test_files_and_a_scoring_file(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    (tmp_path / "scoring.yaml").write_text("metric_list:\n  - metric: acc_tokens\n")
    assert cli("rescore", "last", "--log_samples").code == 2
    done = cli("rescore", "last", "--scoring", tmp_path / "scoring.yaml", "-o", tmp_path / "out", "--log_samples")
    assert done.out.count("written: ") == 2
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert "acc_tokens,none" in json.loads(results.read_text())["results"]["colours"]


def test_an_unknown_run_is_a_user_error(cli: Cli) -> None:
    assert (cli("rescore", "last").code, cli("rescore", "20300101").code) == (2, 2)
    assert "holds no run" in cli("rescore", "last").err


def test_a_killed_run_is_scored_as_far_as_it_got(
    cli: Cli, start: Callable[..., subprocess.Popen[str]], task_folder: Path, tmp_path: Path
) -> None:
    log = tmp_path / "asked.log"
    options = ("--model", "acme/slow", "--model_args", f"delay=0.02,log={log}", "--tasks", "colours")
    with start("run", *options, "--include_path", task_folder) as running:
        while not log.exists() or len(log.read_text().split()) < 12:
            time.sleep(0.01)
        running.kill()
    done = cli("rescore", "last", "--metrics", "acc")
    assert done.code == 3
    assert "is running: " in done.err and "of 20 documents lack answers" in done.err


def test_no_model_library_is_loaded(environment: dict[str, str], task_folder: Path, tmp_path: Path) -> None:
    run = ["run", "--model", "dummy", "--tasks", "colours", "--include_path", str(task_folder)]
    for arguments in (run, ["rescore", "last", "--metrics", "+acc_bytes"]):
        done = subprocess.run([sys.executable, "-c", NO_TORCH, *arguments], env=environment, timeout=60)
        assert done.returncode == 0


@pytest.mark.slow
def test_a_hundred_thousand_answers_take_less_than_ten_seconds(tmp_path: Path) -> None:
    rows = [{"q": f"What is {n} + {n}?", "c": [str(2 * n + k) for k in range(4)], "a": n % 4} for n in range(25_000)]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "many.yaml").write_text(
        "task: many\ndataset_path: json\ndataset_kwargs:\n  data_files: {test: many.jsonl}\ntest_split: test\n"
        "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: '{{c}}'\ndoc_to_target: a\n"
    )
    environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store.db")}
    assay = [sys.executable, "-m", "assay"]
    tasks = ["--tasks", str(tmp_path / "many.yaml")]
    subprocess.run([*assay, "run", "--model", "dummy", *tasks], env=environment, check=True, capture_output=True)
    started = time.perf_counter()
    command = [*assay, "rescore", "last", "--metrics", "+acc_bytes", "acc_tokens"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    assert "100,000 answers read" in done.stdout
    assert seconds < 10, f"{seconds:.1f} s"
