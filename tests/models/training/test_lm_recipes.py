"""Language models are trained on the right continuation, with the token ids of inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.protocols import Capabilities, Trainable
from assay.core.requests import Generation, Loglikelihood
from assay.core.responses import Logprob
from assay.core.specs import ModelSettings
from assay.core.training import FitProgress, FitReport, FitSettings, TrainingExample
from assay.models.hf.families import open_hf
from assay.models.training.lm_recipes import TokenSequence, text_recipe
from assay.models.training.recipes import IGNORED, Parent

Fit = Callable[..., FitReport]
COLOURS = ("brown", "blue", "little", "lazy")


def opened(folder: Path, **arguments: Any) -> Any:
    return open_hf({"pretrained": str(folder), **arguments}, ModelSettings("auto", "cpu"))


def recipe_of(model: Any, training_examples: list[TrainingExample], **settings: Any) -> Any:
    parent = Parent(model.checkpoint, model.arguments, "", model.capabilities, text_recipe)  # type: ignore[arg-type]
    return model._recipe(parent, training_examples, training_examples, FitSettings(**settings))


@pytest.mark.parametrize("folder", ["llama", "plain", "t5"])
def test_language_models_say_that_they_learn(folder: str, request: pytest.FixtureRequest) -> None:
    model = opened(request.getfixturevalue(folder))
    assert model.capabilities.learns == {"loglikelihood"}
    assert isinstance(model, Trainable)


def test_a_model_says_by_default_that_it_learns_nothing() -> None:
    assert Capabilities(frozenset()).learns == frozenset()


def test_rows_are_the_ids_of_inference(llama: Path, choices: list[TrainingExample]) -> None:
    model = opened(llama)
    rows = recipe_of(model, choices).rows
    for row, training_example in zip(rows, choices, strict=True):
        view = model.view(training_example.requests[training_example.right])
        assert row.ids == view.context_ids + view.continuation_ids
        assert row.scored == len(view.continuation_ids)


def test_eos_is_trained_after_generated_answers_and_not_after_a_choice(
    llama: Path, t5: Path, choices: list[TrainingExample], answers: list[TrainingExample]
) -> None:
    for folder in (llama, t5):
        chosen, written = (
            recipe_of(opened(folder), training_examples).rows for training_examples in (choices, answers)
        )
        assert [(row.ids[-1] == 1, row.has_eos) for row in written] == [(True, True)] * 32
        assert not any(row.has_eos for row in chosen)
        assert [row.ids[:-1] for row in written] == [row.ids for row in chosen]


def test_long_prompts_are_cut_from_the_left_and_that_is_reported(llama: Path, answers: list[TrainingExample]) -> None:
    whole, short = (recipe_of(opened(llama), answers, max_length=length) for length in (None, 8))
    for long_row, row in zip(whole.rows, short.rows, strict=True):
        # The model reads all but the last token: 8 of them.
        assert row.ids == long_row.ids[-9:] and row.scored == long_row.scored
    assert whole.notices == ()
    assert short.notices == ("prompts of 32 of 32 training examples were truncated to 8 tokens",)


def test_training_examples_that_cannot_be_encoded_are_skipped_and_counted(
    llama: Path, answers: list[TrainingExample]
) -> None:
    recipe = recipe_of(opened(llama), [TrainingExample((Loglikelihood("Say", ""),)), *answers])
    assert len(recipe.rows) == 32
    assert recipe.notices[0] == "1 of 33 training examples was skipped: the continuation is empty: nothing to score"
    with pytest.raises(ModelError, match="training examples: none of the 1 can be used: the continuation is empty"):
        recipe_of(opened(llama), [TrainingExample((Loglikelihood("Say", ""),))])


def test_a_batch_labels_the_continuations_and_nothing_else(llama: Path) -> None:
    recipe = recipe_of(opened(llama), [TrainingExample((Loglikelihood("a", "b"),))])
    batch = recipe.collate([TokenSequence((5, 6, 7, 8), 2), TokenSequence((9, 10), 1)])
    # The model reads 5 6 7 and 9; after 6 comes 7, after 7 comes 8, after 9 comes 10. Column 0 is never used.
    assert batch["input_ids"].tolist() == [[5, 6, 7], [9, 0, 0]]
    assert batch["wanted"].tolist() == [0, 1, 2]
    assert batch["labels"].tolist() == [[IGNORED, IGNORED, 7, 8], [IGNORED, 10, IGNORED, IGNORED]]


def test_a_batch_of_pairs_gives_the_prompt_to_the_encoder(t5: Path) -> None:
    recipe = recipe_of(opened(t5), [TrainingExample((Loglikelihood("a", "b"),))])
    batch = recipe.collate([TokenSequence((5, 6, 7, 8), 2), TokenSequence((9, 10), 1)])
    assert batch["input_ids"].tolist() == [[5, 6], [9, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["labels"].tolist() == [[IGNORED, 7, 8], [IGNORED, 10, IGNORED]]


@pytest.mark.parametrize("folder", ["llama", "plain", "t5", "bart"])
def test_validation_gives_what_inference_gives(
    folder: str, choices: list[TrainingExample], request: pytest.FixtureRequest
) -> None:
    """Loss and accuracy by the answers of the model itself, which are computed in another way."""
    model = opened(request.getfixturevalue(folder))
    requests = [entry for training_example in choices for entry in training_example.requests]
    found = dict(model.respond(requests))
    totals = [[found[4 * number + place] for place in range(4)] for number in range(32)]
    gold = [row[training_example.right] for row, training_example in zip(totals, choices, strict=True)]
    assert all(isinstance(entry, Logprob) for entry in gold)
    loss = -sum(entry.total for entry in gold) / sum(entry.token_count for entry in gold)
    predictions = [max(range(4), key=lambda place: row[place].total) for row in totals]
    accuracy = (
        sum(
            predicted == training_example.right
            for predicted, training_example in zip(predictions, choices, strict=True)
        )
        / 32
    )
    sizes = (1, 5, 2, 3)
    normed = [max(range(4), key=lambda place: row[place].total / sizes[place]) for row in totals]
    recipe = recipe_of(model, [replace(training_example, lengths=sizes) for training_example in choices])
    scores = recipe.validate(recipe.load().module, "cpu", True)
    assert scores.loss == pytest.approx(loss, rel=1e-4)
    assert scores.accuracy == accuracy
    right_indices = sum(
        predicted == training_example.right for predicted, training_example in zip(normed, choices, strict=True)
    )
    assert scores.values["acc_norm"] == right_indices / 32


def test_a_single_answer_is_right_when_greedy_decoding_gives_it(llama: Path, prompts: list[str]) -> None:
    model = opened(llama)
    answers = dict(model.respond([Generation(prompt, max_tokens=3) for prompt in prompts]))
    written = [Loglikelihood(prompt, answers[place].text or "x") for place, prompt in enumerate(prompts)]
    expected = [answer.is_greedy for _, answer in sorted(model.respond(written))]
    recipe = recipe_of(model, [TrainingExample((entry,)) for entry in written])
    scores = recipe.validate(recipe.load().module, "cpu", True)
    assert sum(expected) > 0
    assert scores.accuracy == sum(expected) / len(expected)


@pytest.mark.parametrize("folder", ["young_llama", "plain", "young_t5"])
def test_a_language_model_learns_its_training_examples(
    folder: str, choices: list[TrainingExample], fitted: Fit, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    report = fitted(request.getfixturevalue(folder), tmp_path / "new", choices, choices)
    assert report.value is not None and report.value > 0.95
    model = opened(tmp_path / "new")
    found = dict(model.respond([entry for training_example in choices for entry in training_example.requests]))
    predictions = [max(range(4), key=lambda place: found[4 * number + place].total) for number in range(32)]
    assert (
        sum(
            predicted == training_example.right
            for predicted, training_example in zip(predictions, choices, strict=True)
        )
        > 0.95 * 32
    )


@pytest.mark.parametrize("folder", ["young_llama", "young_t5"])
def test_a_model_learns_to_generate_the_answer_and_to_end_there(
    folder: str,
    answers: list[TrainingExample],
    prompts: list[str],
    fitted: Fit,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    report = fitted(request.getfixturevalue(folder), tmp_path / "new", answers, answers, epochs=12)
    assert report.value == 1.0
    answers = dict(opened(tmp_path / "new").respond([Generation(prompt, max_tokens=12) for prompt in prompts]))
    right = [answers[place].text.strip() == COLOURS[place % 4] for place in range(32)]
    assert sum(right) > 0.95 * 32


def test_every_step_is_reported_with_its_loss(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    heard: list[FitProgress] = []
    fitted(young_llama, tmp_path / "new", answers, answers[:4], heard, epochs=2, check_every=4, warmup=0.0)
    # 32 examples in batches of 8, twice: 8 steps; evaluations after the fourth and the last are reported separately.
    assert [entry.step for entry in heard] == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8]
    assert {entry.steps for entry in heard} == {8}
    assert heard[0].loss is None and all(entry.loss is not None for entry in heard[1:])
    assert [entry.value is None for entry in heard] == [True] * 5 + [False] * 6
    assert heard[-1].loss < heard[1].loss  # type: ignore[operator]
