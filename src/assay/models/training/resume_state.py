"""Checkpoints of a training run in progress: which are complete, their evaluation history, and the best evaluation.

In: the checkpoint folder of transformers' Trainer. Out: steps and histories. A process may be killed while it writes
or deletes a checkpoint, so incomplete ones are removed before training resumes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.training import DIRECTIONS

STATE_FILE = "trainer_state.json"
NEEDED = ("optimizer.pt", "scheduler.pt", "rng_state.pth")
WEIGHTS = ("model.safetensors", "adapter_model.safetensors")
INDEX = "model.safetensors.index.json"
# Prefix of evaluation results in the Trainer's log.
EVAL = "eval_"
NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class TrainingCheckpoint:
    """A complete checkpoint.

    Attributes:
        folder: its folder.
        step: number of steps done.
        history: all evaluations so far: step, loss and the other metrics.
    """

    folder: Path
    step: int
    history: tuple[Mapping[str, float], ...]


def complete_checkpoints(folder: Path) -> list[TrainingCheckpoint]:
    """The checkpoints in a folder, by step; removes incomplete ones."""
    found: list[TrainingCheckpoint] = []
    for path in folder.glob("checkpoint-*"):
        state = _read_checkpoint(path)
        if state is None:
            shutil.rmtree(path)
        else:
            found.append(state)
    return sorted(found, key=lambda state: state.step)


def best_evaluation(history: Sequence[Mapping[str, float]], metric: str) -> Mapping[str, float]:
    """The evaluation with the best value of a metric; ties go to the lowest loss, then to the first."""
    sign = 1 if DIRECTIONS[metric] else -1
    return max(history, key=lambda evaluation: (sign * evaluation[metric], -evaluation["loss"], -evaluation["step"]))


def patience_exhausted(history: Sequence[Mapping[str, float]], metric: str, patience: int | None) -> bool:
    """Whether `patience` evaluations have passed since the best one."""
    if patience is None or not history:
        return False
    best = best_evaluation(history, metric)["step"]
    return sum(evaluation["step"] > best for evaluation in history) >= patience


def read_history(log: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, float], ...]:
    """The evaluations in the Trainer's log: step, loss and the other metrics."""
    evaluations = (entry for entry in log if "eval_loss" in entry)
    return tuple({"step": entry["step"], **_found(entry)} for entry in evaluations)


def _found(entry: Mapping[str, Any]) -> dict[str, float]:
    return {name.removeprefix(EVAL): value for name, value in entry.items() if name.startswith(EVAL)}


def _read_checkpoint(folder: Path) -> TrainingCheckpoint | None:
    """The checkpoint, if it has everything that resuming needs."""
    named = NAME.fullmatch(folder.name)
    try:
        data = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        step, log = int(data["global_step"]), data["log_history"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    files_there = all((folder / name).is_file() for name in NEEDED) and _has_weights(folder)
    if named is None or step != int(named[1]) or not files_there:
        return None
    return TrainingCheckpoint(folder, step, read_history(log))


def _has_weights(folder: Path) -> bool:
    if any((folder / name).is_file() for name in WEIGHTS):
        return True
    try:
        shards = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return all((folder / name).is_file() for name in set(shards))
