"""Training loop: transformers' Trainer with the loss and validation of a recipe.

Takes a recipe and a module to train; writes checkpoints to a folder. Prints and reports nothing; random states, log
levels and environment variables of the process are restored afterwards.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.training import LOSS, FitListener, FitProgress, FitSettings
from assay.models.runtime import quiet
from assay.models.training.hyperparameters import SCHEDULES, steps_per_epoch
from assay.models.training.recipes import IGNORED, Recipe
from assay.models.training.resume_state import (
    EVAL,
    TrainingCheckpoint,
    best_evaluation,
    patience_exhausted,
    read_history,
)
from assay.models.training.training_errors import require_finite

MAX_GRAD_NORM = 1.0
# The Trainer keeps the checkpoint with the highest value of one metric and cannot break ties. This metric is the step
# of an evaluation that is the best so far by `best_evaluation`, else 0: its highest value marks the best evaluation.
_RECENCY = "recency"


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Plan of one training run.

    Attributes:
        settings: hyperparameters.
        rate: the peak learning rate.
        steps: total number of optimizer steps.
        has_validation: whether there are validation examples.
        folder: checkpoint folder.
    """

    settings: FitSettings
    rate: float
    steps: int
    has_validation: bool
    folder: Path

    def is_over(self, state: TrainingCheckpoint | None) -> bool:
        """Whether training is complete at a checkpoint."""
        if state is None:
            return False
        return state.step >= self.steps or patience_exhausted(
            state.history, self.settings.validation_metric, self.settings.patience
        )


@contextmanager
def isolated_random_state(seed: int) -> Iterator[None]:
    """Seeds all random generators, and restores their states and the environment afterwards."""
    import numpy
    import torch

    states = random.getstate(), numpy.random.get_state()
    environment = dict(os.environ)
    devices = list(range(torch.cuda.device_count()))
    try:
        with torch.random.fork_rng(devices), quiet():
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update({name: value for name, value in environment.items() if os.environ.get(name) != value})


def train(
    module: Any,
    recipe: Recipe,
    plan: TrainingPlan,
    last: TrainingCheckpoint | None,
    device_and_listener: tuple[Any, FitListener],
) -> None:
    """Trains to the end, resuming from the last checkpoint; the last step is saved too.

    Args:
        device_and_listener: the device, and the listener for progress.
    """
    from transformers import PrinterCallback

    device, listener = device_and_listener
    trainer = _make_trainer(module, recipe, plan, device.type == "cpu")
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_make_callback(plan, listener))
    trainer.train(resume_from_checkpoint=None if last is None else str(last.folder))


def _arguments(plan: TrainingPlan, example_count: int, on_cpu: bool) -> Any:
    from transformers import TrainingArguments

    settings = plan.settings
    every = settings.check_every or steps_per_epoch(example_count, settings)
    arguments = TrainingArguments(
        output_dir=str(plan.folder),
        max_steps=plan.steps,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=plan.rate,
        lr_scheduler_type=SCHEDULES[settings.schedule],
        # Rounded down: the first warm-up step has a learning rate of zero, so a one-step training would learn nothing.
        warmup_steps=int(settings.warmup * plan.steps),
        weight_decay=settings.weight_decay,
        max_grad_norm=MAX_GRAD_NORM,
        optim="adamw_torch",
        seed=settings.seed,
        data_seed=settings.seed,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        eval_strategy="steps" if plan.has_validation else "no",
        eval_steps=every,
        metric_for_best_model=EVAL + _RECENCY if plan.has_validation else None,
        greater_is_better=True,
        logging_strategy="steps",
        logging_steps=1,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to=[],
        disable_tqdm=True,
        use_cpu=on_cpu,
    )
    # One GPU: several would split batches and change the order of summation.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def _make_trainer(module: Any, recipe: Recipe, plan: TrainingPlan, on_cpu: bool) -> Any:
    from transformers import Trainer

    validation_metric = plan.settings.validation_metric

    class FitTrainer(Trainer):  # type: ignore[misc]
        """The Trainer with the loss and validation of a recipe."""

        control: Any

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            """The mean loss over the whole step, gradient accumulation included."""
            count = (inputs["labels"] != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
            return recipe.loss(model, inputs) / count

        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            """Validates; each example counts once, independent of batching."""
            self.model.eval()
            scores = recipe.validate(self.model, self.args.device, validation_metric != LOSS)
            step = self.state.global_step
            require_finite("validation loss", scores.loss, step, plan.rate)
            found = {EVAL + name: value for name, value in {LOSS: scores.loss, **scores.values}.items()}
            self.log(dict(found))
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
            is_best = best_evaluation(read_history(self.state.log_history), validation_metric)["step"] == step
            return {**found, EVAL + _RECENCY: float(step if is_best else 0)}

    validation = [None] if plan.has_validation else None
    trainer = FitTrainer(
        model=module,
        args=_arguments(plan, len(recipe.rows), on_cpu),
        data_collator=recipe.collate,
        train_dataset=recipe.rows,
        eval_dataset=validation,
    )
    # `compute_loss` divides by the number of labels of the whole step, so the Trainer must not divide again.
    trainer.model_accepts_loss_kwargs = trainer.loss_is_scaled_for_ga = True
    return trainer


def _make_callback(plan: TrainingPlan, listener: FitListener) -> Any:
    from transformers import TrainerCallback

    class ProgressCallback(TrainerCallback):  # type: ignore[misc]
        """Reports every step, raises on non-finite losses, and implements early stopping."""

        def __init__(self) -> None:
            self.loss: float | None = None
            self.value: float | None = None

        def report(self, step: int) -> None:
            listener(FitProgress(step, plan.steps, self.loss, self.value))

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            history = read_history(state.log_history)
            self.value = history[-1].get(plan.settings.validation_metric) if history else None
            self.report(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= plan.steps:
                control.should_save, control.should_evaluate = True, plan.has_validation

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Mapping[str, float] | None = None, **_: Any
        ) -> None:
            if logs is None or "loss" not in logs:
                return
            require_finite("loss", logs["loss"], state.global_step, plan.rate)
            require_finite("gradient", logs.get("grad_norm", 0.0), state.global_step, plan.rate)
            self.loss = logs["loss"]
            self.report(state.global_step)

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            history = read_history(state.log_history)
            self.value = history[-1][plan.settings.validation_metric]
            self.report(state.global_step)
            if patience_exhausted(history, plan.settings.validation_metric, plan.settings.patience):
                control.should_training_stop = True

    return ProgressCallback()
