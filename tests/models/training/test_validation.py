"""The best weights are selected by the metric; early stopping ends training when patience is exhausted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import Loglikelihood
from assay.core.training import FitReport, TrainingExample
from assay.models.training.resume_state import best_evaluation, patience_exhausted, read_history

Fit = Callable[..., FitReport]
HISTORY = (
    {"step": 2, "loss": 3.0, "accuracy": 0.1},
    {"step": 4, "loss": 1.0, "accuracy": 0.2},
    {"step": 6, "loss": 2.0, "accuracy": 0.9},
    {"step": 8, "loss": 4.0, "accuracy": 0.9},
    {"step": 10, "loss": 5.0, "accuracy": 0.3},
)


def test_the_best_check_is_the_highest_accuracy_or_the_lowest_loss_and_the_first_of_equals() -> None:
    assert best_evaluation(HISTORY, "accuracy")["step"] == 6
    assert best_evaluation(HISTORY, "loss")["step"] == 4
    twice = [{"step": step, "loss": 1.0, "accuracy": 0.5} for step in (2, 4)]
    assert best_evaluation(twice, "accuracy")["step"] == 2


@pytest.mark.parametrize("metric", ["accuracy", "mcc", "f1"])
def test_of_equal_checks_the_lowest_loss_wins(metric: str) -> None:
    history = [{"step": step, "loss": loss, metric: 0.5} for step, loss in ((2, 3.0), (4, 1.0), (6, 2.0))]
    assert best_evaluation(history, metric)["step"] == 4
    assert not patience_exhausted(history, metric, 2) and patience_exhausted(history, metric, 1)


@pytest.mark.parametrize(("metric", "since"), [("accuracy", 2), ("loss", 3)])
def test_patience_is_lost_after_as_many_checks_since_the_best(metric: str, since: int) -> None:
    assert patience_exhausted(HISTORY, metric, since)
    assert not patience_exhausted(HISTORY, metric, since + 1)
    assert not patience_exhausted(HISTORY, metric, None)
    assert not patience_exhausted((), metric, 1)


def test_history_is_read_from_the_log() -> None:
    log = [{"loss": 4.0, "step": 1}, {"eval_loss": 3.0, "eval_accuracy": 0.5, "epoch": 1, "step": 2}, {"step": 3}]
    assert read_history(log) == ({"step": 2, "loss": 3.0, "accuracy": 0.5},)


def swapped(training_examples: list[TrainingExample]) -> list[TrainingExample]:
    """Training examples with wrong answers: the more is learnt, the worse the validation."""
    return [
        TrainingExample(training_example.requests, (training_example.right + 1) % 4)
        for training_example in training_examples
    ]


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
@pytest.mark.parametrize("is_honest", [True, False])
def test_the_best_and_not_the_worst_weights_are_selected(
    metric: str,
    is_honest: bool,
    young_llama: Path,
    choices: list[TrainingExample],
    fitted: Fit,
    tensors: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    validation_examples = choices if is_honest else swapped(choices)
    options = {"metric": metric, "check_every": 8, "epochs": 6, "schedule": "constant", "warmup": 0.0}
    report = fitted(young_llama, tmp_path / "new", choices, validation_examples, **options)
    values = [entry[metric] for entry in report.history]
    assert [entry["step"] for entry in report.history] == [8, 16, 24]
    best = max(values) if metric == "accuracy" else min(values)
    assert values[0] != values[-1]
    assert (report.metric, report.value) == (metric, best)
    assert report.best_step == 8 * (values.index(best) + 1)
    assert report.steps == 24
    # The weights are those of that step: a training with the same rates that ends there gives them.
    again = fitted(
        young_llama, tmp_path / "short", choices, validation_examples, **{**options, "max_steps": report.best_step}
    )
    assert again.best_step == report.best_step
    one, other = tensors(tmp_path / "new"), tensors(tmp_path / "short")
    assert all(one[name].equal(other[name]) for name in one)


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_weights_from_before_it_got_worse_are_selected(
    metric: str, young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    """At first the short word is likelier; then the taught one is, and the short one unlikelier with every step."""
    words = tuple(Loglikelihood("Question 1: the fox is", word) for word in ("#", " brown"))
    options = {"metric": metric, "check_every": 2, "epochs": 6, "schedule": "constant"}
    falling = fitted(young_llama, tmp_path / "falling", choices, [TrainingExample(words, 0)], **options)
    rising = fitted(young_llama, tmp_path / "rising", choices, [TrainingExample(words, 1)], **options)
    assert falling.best_step == 2 and falling.steps == 24
    assert falling.history[0][metric] != falling.history[-1][metric]
    assert rising.best_step > 2
    if metric == "accuracy":
        assert (falling.value, falling.history[-1]["accuracy"], rising.value) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_training_stops_when_nothing_improves(
    metric: str, young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    report = fitted(
        young_llama, tmp_path / "new", choices, swapped(choices), metric=metric, check_every=4, patience=2, epochs=20
    )
    best = [entry["step"] for entry in report.history].index(report.best_step)
    assert len(report.history) == best + 3
    assert report.steps == report.best_step + 8 < 80


def test_the_weights_of_the_lowest_loss_are_selected_of_equal_checks(
    young_llama: Path,
    choices: list[TrainingExample],
    fitted: Fit,
    tensors: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    """One question that is right from the first evaluation on: only the loss distinguishes the evaluations."""
    words = tuple(Loglikelihood("Question 1: the fox is", word) for word in (" brown", "#"))
    options = {"check_every": 2, "epochs": 2, "schedule": "constant", "warmup": 0.0, "learning_rate": 5e-3}
    report = fitted(young_llama, tmp_path / "new", choices, [TrainingExample(words, 0)] * 2, **options)
    ties = [entry for entry in report.history if entry["accuracy"] == report.value]
    assert len(ties) == report.tied + 1 > 2
    lowest = min(ties, key=lambda entry: entry["loss"])
    assert ties[0] is not lowest
    assert (report.best_step, report.loss) == (lowest["step"], lowest["loss"])
    again = fitted(
        young_llama,
        tmp_path / "short",
        choices,
        [TrainingExample(words, 0)] * 2,
        **{**options, "max_steps": report.best_step},
    )
    one, other = tensors(tmp_path / "new"), tensors(tmp_path / "short")
    assert again.best_step == report.best_step and all(one[name].equal(other[name]) for name in one)


@pytest.mark.parametrize("metric", ["mcc", "f1", "acc_norm"])
def test_other_metrics_of_choices_decide(
    metric: str, young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    sized = [
        replace(training_example, lengths=tuple(len(r.continuation) for r in training_example.requests))
        for training_example in choices
    ]  # type: ignore[union-attr]
    options = {"check_every": 8, "epochs": 6, "schedule": "constant", "warmup": 0.0}
    report = fitted(young_llama, tmp_path / "new", choices, sized, metric=metric, **options)
    values = [entry[metric] for entry in report.history]
    assert (report.metric, report.value) == (metric, max(values)) and values[0] < max(values)
    assert {"loss", "accuracy", metric} <= set(report.history[0])


def test_a_metric_that_the_training_examples_do_not_have_is_refused(
    young_llama: Path, answers: list[TrainingExample], choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    message = 'metric: found "mcc", but validation example 1 has no choices; expected one of: accuracy, loss'
    with pytest.raises(ModelError, match=message):
        fitted(young_llama, tmp_path / "new", answers, answers[:2], metric="mcc")
    with pytest.raises(ModelError, match="character lengths of the choices of validation example 1 are unknown"):
        fitted(young_llama, tmp_path / "new", choices, choices[:2], metric="acc_norm")


def test_a_model_that_predicts_one_answer_only_is_noticed(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    """Training has one right word everywhere; in validation it is wrong in every fourth document."""
    words = (" brown", "#")
    request_groups = [
        tuple(Loglikelihood(f"Question {number}: the fox is", word) for word in words) for number in range(16)
    ]
    training_examples = [TrainingExample(requests, 0) for requests in request_groups]
    validation_examples = [
        TrainingExample(requests, int(number % 4 == 0)) for number, requests in enumerate(request_groups)
    ]
    report = fitted(young_llama, tmp_path / "new", training_examples, validation_examples, epochs=6, learning_rate=5e-3)
    message = f"the selected model (step {report.best_step}) predicts one answer for all 16 validation documents"
    assert report.history[-1]["classes"] == 1
    assert report.notices == (f"{message}; it is right for {report.value:.1%} of them",)
    few = fitted(
        young_llama, tmp_path / "few", training_examples, validation_examples[:4], epochs=6, learning_rate=5e-3
    )
    assert few.notices == ()


def test_without_checks_the_last_weights_are_selected(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    report = fitted(young_llama, tmp_path / "new", choices, max_steps=5, check_every=2)
    assert report == FitReport(5, 5)
    with pytest.raises(ModelError, match="patience: is 2, but there are no validation examples"):
        fitted(young_llama, tmp_path / "other", choices, patience=2)


def test_the_last_step_is_checked_too(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    report = fitted(young_llama, tmp_path / "new", choices, choices[:4], max_steps=5, check_every=2)
    assert [entry["step"] for entry in report.history] == [2, 4, 5]


def test_once_an_epoch_is_checked_unless_set_otherwise(
    young_llama: Path, choices: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    # 32 examples, 5 per batch, 2 batches a step: 7 batches, 4 steps an epoch; two and a half epochs are 10 steps.
    options = {"check_every": None, "batch_size": 5, "accumulation": 2, "epochs": 2.5}
    report = fitted(young_llama, tmp_path / "new", choices, choices[:4], **options)
    assert [entry["step"] for entry in report.history] == [4, 8, 10]


def test_a_step_of_several_batches_is_one_of_a_large_batch(
    young_t5: Path,
    choices: list[TrainingExample],
    fitted: Fit,
    tensors: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    """Every token counts alike, also when the batches of a step have different numbers of them."""
    training_examples = [
        *choices[:4],
        TrainingExample((Loglikelihood("Say", " blue blue blue blue blue blue"),)),
        *choices[4:7],
    ]
    options = {"max_steps": 1, "warmup": 0.0, "schedule": "constant", "learning_rate": 1e-3}
    fitted(young_t5, tmp_path / "large", training_examples, batch_size=8, **options)
    fitted(young_t5, tmp_path / "small", training_examples, batch_size=2, accumulation=4, **options)
    one, other = tensors(tmp_path / "large"), tensors(tmp_path / "small")
    for name, before in tensors(young_t5).items():
        # AdamW's first step is the sign of the gradient times the rate; where the sign is clear, it is the same.
        assert ((one[name] - before).sign() == (other[name] - before).sign()).float().mean() > 0.99
