"""Result and sample files have lm-eval's keys and content: recorded runs of lm-eval 0.4.13 against ours, key by key.

The golden file was written by `python -m parity record`. What hangs on the model's numbers is left out of it, so that
it holds on every machine; `python -m parity files` compares these, too, beside a real lm-eval.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import main
from parity.files import CASES, FOLDER, GOLDEN_FILE, build_model, differences, masked, read_run, run_arguments
from parity.golden import digest_of

RECORDED: dict[str, Any] = json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("model"))


def test_the_task_files_are_those_that_lm_eval_ran() -> None:
    assert RECORDED["tasks"] == digest_of(FOLDER)
    assert list(RECORDED["runs"]) == list(CASES)


@pytest.mark.parametrize("case", CASES)
def test_every_key_of_lm_evals_files_is_in_ours(
    case: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    arguments = [*run_arguments(case, model, tmp_path), "--allow_code", "--store", str(tmp_path / "store.db")]
    assert main(arguments) == 0
    assert differences(RECORDED["runs"][case], masked(read_run(tmp_path))) == []


def test_the_comparison_sees_a_missing_key_and_another_value() -> None:
    theirs = {"results": {"max_length": 512, "date": 1, "chat_template": None}}
    ours = {"results": {"date": 2, "chat_template": False, "assay": {}}}
    assert [place for place, _, _ in differences(theirs, ours)] == ["results/max_length", "results/chat_template"]
