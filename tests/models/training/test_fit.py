"""What comes of a training: the same for the same seed, a plain folder that opens, and clear errors."""

from __future__ import annotations

import errno
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import MissingExtra, ModelError
from assay.core.requests import ChoiceSelection, Classification, Loglikelihood, RollingLoglikelihood
from assay.core.specs import ModelSettings
from assay.core.training import FitProgress, FitReport, FitSettings, TrainingExample
from assay.models.hf.families import open_hf
from assay.models.training.adapters import adapt
from assay.models.training.hyperparameters import count_steps
from assay.models.training.recipes import Parent
from assay.models.training.trainer import TrainingPlan, isolated_random_state, train
from assay.models.training.training_errors import is_full_disk

Fit = Callable[..., FitReport]
Tensors = Callable[[Path], dict[str, Any]]


def opened(folder: Path) -> Any:
    return open_hf({"pretrained": str(folder)}, ModelSettings("auto", "cpu"))


def labelled() -> list[TrainingExample]:
    return [TrainingExample((Classification(f"Question {n}", ("odd", "even")),), n % 2) for n in range(16)]


def test_the_same_seed_gives_the_same_weights_and_another_others(
    young_llama: Path,
    encoders: Callable[..., Path],
    answers: list[TrainingExample],
    fitted: Fit,
    tensors: Tensors,
    tmp_path: Path,
) -> None:
    for parent, training_examples in ((young_llama, answers), (encoders("Bert", "Model"), labelled())):
        folders = [tmp_path / f"{parent.name}-{name}" for name in ("one", "two", "other")]
        for folder, seed in zip(folders, (1, 1, 2), strict=True):
            fitted(parent, folder, training_examples, max_steps=3, seed=seed)
        one, two, other = (tensors(folder) for folder in folders)
        assert all(one[name].equal(two[name]) for name in one)
        assert not all(one[name].equal(other[name]) for name in one)


def in_memory(
    model: Any, make: Any, training_examples: list[TrainingExample], settings: FitSettings, folder: Path
) -> Any:
    """The module right after training, which the Trainer itself holds."""
    import torch

    parent = Parent(model.checkpoint, model.arguments, "", model.capabilities, make)
    with isolated_random_state(settings.seed):
        recipe = make(parent, training_examples, [], settings)
        torch.manual_seed(settings.seed)
        module = adapt(recipe.load(), settings)
        plan = TrainingPlan(settings, settings.learning_rate or 0.0, settings.max_steps or 0, False, folder)
        train(module, recipe, plan, None, (torch.device("cpu"), lambda _: None))
    return (module.merge_and_unload() if settings.method == "lora" else module).eval()


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("kind", ["text", "head"])
def test_the_folder_gives_bit_by_bit_what_the_model_gave_in_memory(
    method: str,
    kind: str,
    young_llama: Path,
    encoders: Callable[..., Path],
    answers: list[TrainingExample],
    fitted: Fit,
    tmp_path: Path,
) -> None:
    import torch
    import transformers

    folder = young_llama if kind == "text" else encoders("Bert", "Model")
    training_examples = answers if kind == "text" else labelled()
    options: dict[str, Any] = {"method": method, "learning_rate": 1e-2, "batch_size": 8, "max_steps": 4, "epochs": 10}
    model = opened(folder)
    before = in_memory(model, model._recipe, training_examples, FitSettings(**options), tmp_path / "memory")
    fitted(folder, tmp_path / "new", training_examples, **options)
    loader = "AutoModelForCausalLM" if kind == "text" else "AutoModelForSequenceClassification"
    after = getattr(transformers, loader).from_pretrained(tmp_path / "new").eval()
    ids = torch.arange(5, 25).unsqueeze(0)
    with torch.inference_mode():
        assert before(input_ids=ids).logits.equal(after(input_ids=ids).logits)


@pytest.mark.parametrize("folder", ["young_llama", "plain", "t5", "bart"])
def test_the_new_folder_is_a_model_of_its_own_with_the_tokenizer_of_its_parent(
    folder: str, answers: list[TrainingExample], fitted: Fit, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    parent_folder = request.getfixturevalue(folder)
    fitted(parent_folder, tmp_path / "new", answers, max_steps=1)
    parent, child = opened(parent_folder).fingerprint, opened(tmp_path / "new").fingerprint
    assert child.parent == parent.digest and parent.parent is None
    assert child.tokenizer == parent.tokenizer and child.template == parent.template
    assert child.weights != parent.weights and child.digest != parent.digest
    # Training leaves no trace in what the model is said to be.
    assert child.settings == parent.settings


def test_training_leaves_random_states_environment_and_output_alone(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import numpy
    import torch
    from transformers.utils import logging

    def states() -> list[Any]:
        drawn = str(random.getstate()), str(numpy.random.get_state()), torch.random.get_rng_state().tolist()
        return [*drawn, dict(os.environ), logging.get_verbosity(), logging.is_progress_bar_enabled()]

    before = states()
    capfd.readouterr()
    fitted(young_llama, tmp_path / "new", answers, answers[:4], max_steps=2, method="lora")
    assert states() == before
    assert capfd.readouterr() == ("", "")


def test_steps_are_counted_from_training_examples_epochs_and_batches() -> None:
    assert count_steps(100, FitSettings(batch_size=16, epochs=3)) == 21
    assert count_steps(100, FitSettings(batch_size=16, epochs=3, accumulation=4)) == 6
    assert count_steps(100, FitSettings(batch_size=16, epochs=0.5)) == 4
    assert count_steps(100, FitSettings(batch_size=16, max_steps=5)) == 5
    assert count_steps(3, FitSettings(batch_size=16, epochs=1, max_steps=5)) == 1


@pytest.mark.parametrize(
    ("training_examples", "message"),
    [
        ([], "training examples: there are none; expected at least one training document"),
        ([TrainingExample(())], "training example 1: it has no requests"),
        (
            [TrainingExample((ChoiceSelection("a", ("b", "c")),))],
            "training example 1: choosing requests, which this model cannot be trained on; expected",
        ),
        (
            [TrainingExample((RollingLoglikelihood("a"),))],
            "training example 1: rolling_loglikelihood requests, which this model cannot",
        ),
        (
            [TrainingExample((Loglikelihood("a", "b"),), right=1)],
            "training example 1: the right answer is 1; expected an index from 0",
        ),
    ],
)
def test_training_examples_that_cannot_be_trained_on_are_refused(
    training_examples: list[TrainingExample], message: str, young_llama: Path, fitted: Fit, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message):
        fitted(young_llama, tmp_path / "new", training_examples)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("training_example", "message"),
    [
        (
            TrainingExample((Loglikelihood("a", "b"),)),
            "loglikelihood requests.*expected one of: choosing, classification, rating, span",
        ),
        (TrainingExample((Classification("a", ("b",)),)), "the labels b; expected two or more distinct labels"),
        (
            TrainingExample((Classification("a", ("b", "b")),)),
            "the labels b, b; expected two or more distinct labels",
        ),
        (
            TrainingExample((Classification("a", ("b", "c")),), 2),
            "the right answer is 2; expected an index from 0 to 1",
        ),
        (TrainingExample((ChoiceSelection("a", ()),)), "there are no choices; expected at least one"),
        (
            TrainingExample((ChoiceSelection("a", ("b",)), ChoiceSelection("a", ("c",)))),
            "2 choosing requests; expected one",
        ),
    ],
)
def test_training_examples_that_a_head_cannot_learn_are_refused(
    training_example: TrainingExample, message: str, encoders: Callable[..., Path], fitted: Fit, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=f"^training example 1: {message}"):
        fitted(encoders("Bert", "Model"), tmp_path / "new", [training_example])


def test_all_faults_of_the_settings_are_reported_at_once(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    wrong = {
        "method": "magic",
        "metric": "bleu",
        "schedule": "up",
        "batch_size": 0,
        "epochs": 0,
        "warmup": 1.5,
        "seed": -1,
    }
    with pytest.raises(ModelError) as caught:
        fitted(young_llama, tmp_path / "new", answers, **wrong)
    assert {fault.where for fault in caught.value.faults} == set(wrong)


def test_a_loss_that_is_not_a_number_stops_with_the_step(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    with pytest.raises(
        ModelError, match=r"the (loss|gradient) is (nan|inf) at step [2-9].*lower learning_rate than 1e\+30"
    ):
        fitted(young_llama, tmp_path / "new", answers, learning_rate=1e30, warmup=0.0)
    assert not (tmp_path / "new" / "config.json").exists()


def failing(error: Exception) -> Callable[[FitProgress], None]:
    def listen(progress: FitProgress) -> None:
        raise error

    return listen


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            "memory ran out with a batch size of 16",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full; expected space for"),
    ],
)
def test_full_memory_and_full_disks_say_what_to_do(
    error: Exception, message: str, young_llama: Path, answers: list[TrainingExample], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        opened(young_llama).fit(answers, [], FitSettings(), tmp_path / "new", failing(error))
    assert caught.value.__cause__ is error
    if isinstance(error, RuntimeError):
        assert "Try batch_size=8 with accumulation=2 (same effective batch size), method=lora" in str(caught.value)


def test_other_errors_pass_as_they_are(young_llama: Path, answers: list[TrainingExample], tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        opened(young_llama).fit(answers, [], FitSettings(), tmp_path / "new", failing(ZeroDivisionError()))


def test_a_full_disk_is_known_by_the_words_of_every_library() -> None:
    assert is_full_disk(RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed"))
    assert is_full_disk(RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"))
    assert is_full_disk(RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 5312 vs 5204"))
    assert not is_full_disk(RuntimeError("size mismatch"))


def test_missing_peft_is_named_with_its_extra(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match=r'"peft" is not installed. Run: pip install \'assay-eval\[finetune\]\''):
        fitted(young_llama, tmp_path / "new", answers, method="lora")


def test_the_example_of_the_page_runs(young_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "finetuning.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    code = code.replace("NEW_FOLDER", str(tmp_path / "new")).replace('"FOLDER"', repr(str(young_llama)))
    exec(compile(code, "finetuning.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1].split()[1] == "accuracy"
