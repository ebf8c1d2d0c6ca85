"""Tiny models to train, and training examples that they learn within seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.requests import Loglikelihood
from assay.core.specs import ModelSettings
from assay.core.training import FitProgress, FitReport, FitSettings, TrainingExample
from assay.models.hf.families import open_hf

COLOURS = {"fox": " brown", "sky": " blue", "girl": " little", "dog": " lazy"}
Fit = Callable[..., FitReport]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are trained faster by one thread than by several, above all on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def young_llama(tmp_path_factory: pytest.TempPathFactory, tokenizers: dict[bool, Any]) -> Path:
    """A Llama that has learnt nothing yet; its output layer is its own."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("young-llama")
    config = LlamaConfig(
        vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=48, bos_token_id=0, eos_token_id=1, attention_dropout=0.1,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizers[True].save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def young_t5(tmp_path_factory: pytest.TempPathFactory, t5: Path) -> Path:
    """A T5 that has learnt nothing yet, with the tokenizer of the other."""
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("young-t5")
    config = T5Config(
        vocab_size=320, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, n_positions=48, dropout_rate=0.0,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(7)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(t5).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def choices() -> list[TrainingExample]:
    """32 training examples with a choice of four: which word belongs to which noun."""
    answers = list(COLOURS.values())
    return [
        TrainingExample(tuple(Loglikelihood(f"Question {number}: the {noun} is", answer) for answer in answers), right)
        for number in range(8)
        for right, noun in enumerate(COLOURS)
    ]


@pytest.fixture(scope="session")
def answers(choices: list[TrainingExample]) -> list[TrainingExample]:
    """The same with the answer to be written."""
    return [TrainingExample((training_example.requests[training_example.right],)) for training_example in choices]


@pytest.fixture(scope="session")
def prompts(answers: list[TrainingExample]) -> list[str]:
    """The text before the answers."""
    return [str(getattr(training_example.requests[0], "prompt", "")) for training_example in answers]


@pytest.fixture(scope="session")
def fitted() -> Fit:
    """Trains a model of a folder, with settings by name."""

    def run(
        parent: Path,
        folder: Path,
        training_examples: list[TrainingExample],
        validation_examples: list[TrainingExample] | None = None,
        heard: list[FitProgress] | None = None,
        **settings: Any,
    ) -> FitReport:
        model: Any = open_hf({"pretrained": str(parent)}, ModelSettings("auto", "cpu"))
        listener = (lambda _: None) if heard is None else heard.append
        usual = {"learning_rate": 1e-2, "batch_size": 8, "epochs": 10, "check_every": 1000}
        report: FitReport = model.fit(
            training_examples, validation_examples or [], FitSettings(**{**usual, **settings}), folder, listener
        )
        model.close()
        return report

    return run


def weights(folder: Path) -> dict[str, Any]:
    """All tensors of a folder's model."""
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="session")
def tensors() -> Callable[[Path], dict[str, Any]]:
    return weights


@pytest.fixture(scope="session")
def differing() -> Callable[[Path, Path], set[str]]:
    """Names of the tensors that two models of the same shape do not share."""

    def compare(left: Path, right: Path) -> set[str]:
        one, other = weights(left), weights(right)
        assert one.keys() == other.keys()
        return {name for name in one if not one[name].equal(other[name])}

    return compare
