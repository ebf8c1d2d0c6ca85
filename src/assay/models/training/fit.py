"""One training run, from checking its folder to exporting the model; one line per stage.

In: a parent model, training examples and settings. Out: a report. Resumes from the checkpoints of a killed process.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.errors import missing_extra
from assay.core.training import ACCURACY, LORA, FitListener, FitReport, FitSettings, TrainingExample
from assay.models.loading.checkpoint import precision
from assay.models.loading.network import choose_device, require_transformers
from assay.models.training.adapters import adapt, require_peft
from assay.models.training.export import Architecture, architecture_of, reload, restore, save_model
from assay.models.training.fit_record import claim, folder_lock, make_record, write_record
from assay.models.training.hyperparameters import check_settings, count_steps, learning_rate
from assay.models.training.recipes import LoadedNetwork, Parent, Recipe, check_metric, check_training_examples
from assay.models.training.resume_state import TrainingCheckpoint, best_evaluation, complete_checkpoints
from assay.models.training.trainer import TrainingPlan, isolated_random_state, train
from assay.models.training.training_errors import explained
from assay.models.training.validation_metrics import CLASSES, MAJORITY

CHECKPOINTS_FOLDER = "checkpoints"
# With fewer validation documents, identical predictions may be chance.
_FEW_DOCUMENTS = 10


def fit(
    parent: Parent,
    training_examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    settings: FitSettings,
    folder: Path,
    listener: FitListener,
) -> FitReport:
    """Trains a copy of the parent and saves it in the folder; see `Trainable.fit`."""
    check_settings(settings, bool(validation))
    check_training_examples(training_examples, validation, parent.capabilities.learns)
    check_metric(settings.validation_metric, validation)
    _require(settings, parent)
    rate = learning_rate(settings, parent.capabilities.family)
    with explained(folder, settings), folder_lock(folder):
        record = make_record((parent.digest, parent.checkpoint.name), training_examples, validation, settings, rate)
        known = claim(folder, record)
        if known is not None:
            return known
        with isolated_random_state(settings.seed):
            recipe = parent.recipe(parent, training_examples, validation, settings)
            plan = _plan(recipe, settings, rate, bool(validation), folder)
            report = _train_and_save(parent, recipe, plan, folder, listener)
            report = replace(report, notices=(*report.notices, *_majority_notice(report, len(validation))))
        write_record(folder, record, report)
        shutil.rmtree(plan.folder)
        return report


def _plan(recipe: Recipe, settings: FitSettings, rate: float, has_validation: bool, folder: Path) -> TrainingPlan:
    return TrainingPlan(
        settings, rate, count_steps(len(recipe.rows), settings), has_validation, folder / CHECKPOINTS_FOLDER
    )


def _train_and_save(
    parent: Parent, recipe: Recipe, plan: TrainingPlan, folder: Path, listener: FitListener
) -> FitReport:
    """Trains the remaining steps and exports the best checkpoint."""
    device, notice = choose_device(parent.device)
    load = partial(_load, recipe, plan.settings.seed)
    loaded, states = load(), complete_checkpoints(plan.folder)
    notices = [notice, *recipe.notices, *loaded.notices, _precision_notice(parent)]
    architecture = architecture_of(loaded.module)
    if not plan.is_over(states[-1] if states else None):
        _train(loaded, architecture, recipe, plan, states, (device, listener))
        states = complete_checkpoints(plan.folder)
    # Free the trained network before loading the best checkpoint.
    del loaded
    gc.collect()
    last = states[-1]
    best = (
        best_evaluation(last.history, plan.settings.validation_metric) if plan.has_validation else {"step": last.step}
    )
    module = restore(architecture, load, plan.folder / f"checkpoint-{int(best['step'])}", plan.settings)
    save_model(module, parent, folder)
    return _report(last, best, plan.settings.validation_metric, [text for text in notices if text])


def _load(recipe: Recipe, seed: int) -> LoadedNetwork:
    """The network to train; the seed makes new heads and LoRA adapters reproducible."""
    import torch

    torch.manual_seed(seed)
    return recipe.load()


def _train(
    loaded: LoadedNetwork,
    architecture: Architecture,
    recipe: Recipe,
    plan: TrainingPlan,
    states: Sequence[TrainingCheckpoint],
    device_and_listener: tuple[Any, FitListener],
) -> None:
    last = states[-1] if states else None
    if last is not None and plan.settings.method != LORA:
        # The Trainer loads by parameter names in the file, which may differ from those in the network.
        loaded = replace(loaded, module=reload(architecture, last.folder))
    _simplify_generation(loaded.module)
    train(adapt(loaded, plan.settings), recipe, plan, last, device_and_listener)


def _simplify_generation(module: Any) -> None:
    """Reduces the generation settings to token ids: transformers refuses to save some settings of real models."""
    stated = getattr(module, "generation_config", None)
    if stated is not None:
        names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
        module.generation_config = type(stated)(**{name: getattr(stated, name) for name in names})


def _report(last: TrainingCheckpoint, best: Mapping[str, float], metric: str, notices: list[str]) -> FitReport:
    """The training report: best step with its metric value and loss, history and notices."""
    if metric not in best:
        return FitReport(last.step, int(best["step"]), notices=tuple(notices))
    tied = sum(evaluation[metric] == best[metric] for evaluation in last.history) - 1
    return FitReport(
        last.step,
        int(best["step"]),
        metric=metric,
        value=best[metric],
        loss=best["loss"],
        tied=tied,
        history=last.history,
        notices=tuple(notices),
    )


def _majority_notice(report: FitReport, count: int) -> list[str]:
    """A notice if the model is no better than always giving the most frequent answer."""
    best: Mapping[str, float] = next(
        (evaluation for evaluation in report.history if evaluation["step"] == report.best_step), {}
    )
    if count < _FEW_DOCUMENTS or CLASSES not in best:
        return []
    accuracy, share = best[ACCURACY], best[MAJORITY]
    head = f"the selected model (step {report.best_step})"
    if best[CLASSES] == 1:
        return [
            f"{head} predicts one answer for all {count} validation documents; it is right for {accuracy:.1%} of them"
        ]
    found = f"is right for {accuracy:.1%} of {count} validation documents"
    constant = f"always giving the most frequent answer is right for {share:.1%}"
    return [f"{head} {found}; {constant}"] if accuracy <= share else []


def _require(settings: FitSettings, parent: Parent) -> None:
    require_transformers(f'training "{parent.checkpoint.name}"')
    if settings.method == LORA:
        require_peft()
    try:
        __import__("accelerate")
    except ImportError:
        raise missing_extra("accelerate", "finetune", "training") from None


def _precision_notice(parent: Parent) -> str | None:
    stated = precision(parent.checkpoint, parent.arguments)
    return None if stated == "float32" else f"trained and saved in float32; the parent is in {stated}"
