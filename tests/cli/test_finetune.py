"""`assay finetune` and the options of training: what is refused, and how."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.report.trained_model import fitted_lines
from assay.store.store import Store
from assay.store.trained_models import FittedModel


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_a_model_without_weights_cannot_be_trained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    message = refused(
        capsys, "finetune", "--model", "ngram", "--tasks", "demo_questions", "--store", str(tmp_path / "s.db")
    )
    assert "model ngram (n-gram): cannot be trained; expected a decoder" in message


@pytest.mark.parametrize("options", [["--epochs", "3"], ["--together"]])
@pytest.mark.parametrize("command", ["run", "matrix"])
def test_settings_of_training_need_training(
    capsys: pytest.CaptureFixture[str], command: str, options: list[str]
) -> None:
    message = refused(capsys, command, "--model", "dummy", "--tasks", "demo_questions", *options)
    assert f"{options[0]}: has no meaning without training. Add --finetune" in message


def test_options_of_runs_have_no_meaning_in_training(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(
        capsys, "finetune", "--model", "dummy", "--tasks", "demo_questions", "--limit", "5", "--num_fewshot", "2"
    )
    assert "--limit: is not an option of assay finetune. Take fewer training examples with --train_limit" in message
    assert "--num_fewshot: is not an option of assay finetune" in message


def test_wrong_values_are_reported_before_anything_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "run", "--model", "no-such", "--tasks", "none", "--finetune", "--epochs", "-1")
    assert message == 'error: --epochs: is "-1"; expected a number above 0\n'


def test_trained_models_are_listed_and_a_lost_folder_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, gone = tmp_path / "s.db", str(tmp_path / "gone")
    data, report = {"lessons": 90, "checks": 10}, {"steps": 12, "best_step": 8, "metric": "accuracy", "value": 0.875}
    parent, settings = {"name": "parent"}, {"method": "lora"}
    record = FittedModel("my-model", "k", gone, {}, parent, {}, ("a", "b"), data, settings, report)
    with Store(path) as store:
        store.fitted.add(record)
    assert main(["ls", "models", "my-model", "--store", str(path)]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert "my-model trained lora on a, b;" in listed
    for command in (["run", "--tasks", "demo_questions"], ["show", "demo_questions"]):
        message = refused(capsys, *command, "--model", "my-model", "--store", str(path))
        assert f"its folder {gone} is gone" in message
    assert list(fitted_lines(record)) == [
        "model my-model",
        "  trained on a, b: 90 documents, 10 for validation",
        "  from parent, method lora",
        "  12 steps; best step 8 with accuracy 0.8750",
        f"  in {gone}",
        "use it: assay run --model my-model --tasks a,b",
    ]
    decided = replace(record, report={**report, "metric": "mcc", "loss": 0.25, "tied": 2})
    message = "  12 steps; best step 8 with mcc 0.8750, loss 0.2500 (2 other checks have the same mcc; lowest loss)"
    assert message in fitted_lines(decided)


def test_looking_at_models_makes_no_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ls", "models", "--store", str(tmp_path / "none.db")]) == 0
    assert not (tmp_path / "none.db").exists()
