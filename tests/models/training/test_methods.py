"""Each method changes the weights that it should and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import ChoiceSelection, Classification
from assay.core.specs import ModelSettings
from assay.core.training import FitReport, FitSettings, TrainingExample
from assay.models.hf.families import open_hf
from assay.models.training.hyperparameters import LEARNING_RATES, learning_rate

Fit = Callable[..., FitReport]
Differing = Callable[[Path, Path], set[str]]
LAYERS = [f"model.layers.{number}" for number in range(2)]


def test_full_changes_every_weight(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, differing: Differing, tmp_path: Path
) -> None:
    fitted(young_llama, tmp_path / "new", choices, max_steps=2)
    changed = differing(young_llama, tmp_path / "new")
    assert {"lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"} <= changed
    assert len(changed) == 2 * 9 + 3


def test_lora_changes_its_layers_alone_and_leaves_a_plain_model(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, differing: Differing, tmp_path: Path
) -> None:
    report = fitted(young_llama, tmp_path / "new", choices, choices, method="lora", check_every=20)
    # peft's usual layers of a Llama.
    expected = {f"{layer}.self_attn.{name}_proj.weight" for layer in LAYERS for name in ("q", "v")}
    assert differing(young_llama, tmp_path / "new") == expected
    assert not list((tmp_path / "new").glob("adapter*"))
    assert report.history[1]["loss"] < report.history[0]["loss"]


def test_lora_takes_other_layers(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, differing: Differing, tmp_path: Path
) -> None:
    fitted(young_llama, tmp_path / "new", choices, method="lora", lora_targets=("up_proj",), max_steps=2)
    assert differing(young_llama, tmp_path / "new") == {f"{layer}.mlp.up_proj.weight" for layer in LAYERS}
    with pytest.raises(
        ModelError, match="lora_targets: found no_such_layer: .*expected names of layers, such as down_"
    ):
        fitted(young_llama, tmp_path / "other", choices, method="lora", lora_targets=("no_such_layer",))


@pytest.mark.parametrize("folder", ["plain", "young_t5"])
def test_lora_works_for_other_families(
    folder: str, choices: list[TrainingExample], fitted: Fit, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    parent = request.getfixturevalue(folder)
    report = fitted(parent, tmp_path / "new", choices, choices[:4], method="lora", max_steps=12, check_every=6)
    assert report.history[1]["loss"] < report.history[0]["loss"]


def test_head_trains_the_output_layer_alone(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, differing: Differing, tmp_path: Path
) -> None:
    fitted(young_llama, tmp_path / "new", choices, method="head", max_steps=2)
    assert differing(young_llama, tmp_path / "new") == {"lm_head.weight"}


@pytest.mark.parametrize("folder", ["plain", "young_t5"])
def test_a_tied_output_layer_cannot_be_trained_alone(
    folder: str, choices: list[TrainingExample], fitted: Fit, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(ModelError, match="tied to the input embeddings.*expected full or lora. Set method=lora"):
        fitted(request.getfixturevalue(folder), tmp_path / "new", choices, method="head")


def labelled() -> list[TrainingExample]:
    return [TrainingExample((Classification(f"Question {n}", ("odd", "even")),), n % 2) for n in range(8)]


def chosen() -> list[TrainingExample]:
    return [TrainingExample((ChoiceSelection(f"Question {n}", ("odd", "even")),), n % 2) for n in range(8)]


@pytest.mark.parametrize("method", ["head", "lora"])
@pytest.mark.parametrize("training_examples", [labelled(), chosen()], ids=["labels", "choices"])
def test_a_new_head_is_trained_in_full_and_the_body_as_the_method_says(
    method: str,
    training_examples: list[TrainingExample],
    encoders: Callable[..., Path],
    fitted: Fit,
    tensors: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    parent = encoders("Bert", "Model")
    for name, steps in (("begun", 1), ("trained", 4)):
        # With a rate of almost nothing the first shows what the new head was before.
        rate = 1e-2 if name == "trained" else 1e-30
        fitted(parent, tmp_path / name, training_examples, method=method, max_steps=steps, learning_rate=rate)
    before, begun, after = (tensors(folder) for folder in (parent, tmp_path / "begun", tmp_path / "trained"))
    body = {name for name in before if not before[name].equal(after[f"bert.{name}"])}
    lora = {f"encoder.layer.{n}.attention.self.{part}.weight" for n in range(2) for part in ("query", "value")}
    assert body == (lora if method == "lora" else set())
    heads = {name for name in after if not name.startswith("bert.")}
    assert heads == {"classifier.weight", "classifier.bias"}
    assert not any(begun[name].equal(after[name]) for name in heads)


def test_a_pooler_that_the_parent_lacks_is_trained_with_the_head(
    encoders: Callable[..., Path], fitted: Fit, differing: Differing, tmp_path: Path
) -> None:
    parent = encoders("Bert", "ForMaskedLM")  # has no pooler
    fitted(parent, tmp_path / "begun", labelled(), method="head", max_steps=1, learning_rate=1e-30)
    fitted(parent, tmp_path / "new", labelled(), method="head", max_steps=4)
    expected = {f"{layer}.{part}" for layer in ("classifier", "bert.pooler.dense") for part in ("weight", "bias")}
    assert differing(tmp_path / "begun", tmp_path / "new") == expected


def test_a_reused_head_is_trained_by_head(
    encoders: Callable[..., Path], fitted: Fit, differing: Differing, tmp_path: Path
) -> None:
    parent = encoders("Bert", "ForSequenceClassification", id2label={0: "odd", 1: "even"})
    fitted(parent, tmp_path / "new", labelled(), method="head", max_steps=2)
    assert differing(parent, tmp_path / "new") == {"classifier.weight", "classifier.bias"}


def test_every_method_has_a_rate_for_every_family() -> None:
    assert len(LEARNING_RATES) == 9
    assert learning_rate(FitSettings("lora"), "causal") == 2e-4
    assert learning_rate(FitSettings("full"), "encoder") == 5e-5
    assert learning_rate(FitSettings("full", learning_rate=3e-3), "encoder") == 3e-3


def test_a_parent_in_bfloat16_is_trained_and_saved_in_float32(
    young_llama: Path,
    choices: list[TrainingExample],
    fitted: Fit,
    tensors: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoModelForCausalLM.from_pretrained(young_llama, dtype=torch.bfloat16).save_pretrained(tmp_path / "half")
    AutoTokenizer.from_pretrained(young_llama).save_pretrained(tmp_path / "half")
    report = fitted(tmp_path / "half", tmp_path / "new", choices, max_steps=1)
    assert report.notices == ("trained and saved in float32; the parent is in bfloat16",)
    assert {tensor.dtype for tensor in tensors(tmp_path / "new").values()} == {torch.float32}
    model: Any = open_hf({"pretrained": str(tmp_path / "new")}, ModelSettings())
    assert model.fingerprint.precision == "float32"
