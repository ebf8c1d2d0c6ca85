"""`assay plot`: figures of recorded runs, without their models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
Cli = Callable[..., Any]


@pytest.mark.parametrize("kind", ["reliability", "lengths", "positions"])
def test_a_figure_is_drawn_from_the_record(cli: Cli, task_folder: Path, tmp_path: Path, kind: str) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    done = cli("plot", "last", kind, "-o", tmp_path / "f.svg")
    assert (done.code, done.out) == (0, f"written: {tmp_path / 'f.svg'}\n")
    assert "<svg" in (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert len(json.loads(cli("ls", "runs", "--json").out)) == 1  # nothing is recorded


def test_the_axes_of_a_varied_run(cli: Cli, tmp_path: Path) -> None:
    words = ["--tasks", "demo_scramble_cycle", "--fewshot_sampler", "fixed", "--limit", 3, "--num_fewshot", 2]
    cli("run", "--model", "ngram", *words, "--seeds", 2)
    assert cli("plot", "last", "axes", "-o", tmp_path / "f.svg").code == 0


def test_a_figure_without_anything_to_show_is_an_error(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    done = cli("plot", "last", "prompts", "-o", tmp_path / "f.svg")
    assert done.code == 2 and "no task of the run was evaluated in several prompts" in done.err
    assert not (tmp_path / "f.svg").exists()


def test_wrong_words_are_errors(cli: Cli) -> None:
    assert 'KIND: is "reliabilty" (did you mean "reliability"?)' in cli("plot", "last", "reliabilty").err


def test_a_folder_takes_a_file_named_by_run_and_kind(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    (run,) = json.loads(cli("ls", "runs", "--json").out)
    done = cli("plot", "last", "lengths", "-o", tmp_path / "figures")
    (path,) = (tmp_path / "figures").iterdir()
    assert done.code == 0 and path.name == f"{run['run']}_lengths.svg"
