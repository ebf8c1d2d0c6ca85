"""Checkpoints of a training under way: which are whole, what they say of the checks so far, which was best.

Takes the folder where transformers' Trainer keeps them; gives their steps and histories. A process may be killed while
one is written or deleted, so what is not whole is removed before training goes on.
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
# How the Trainer marks what a check found.
EVAL = "eval_"
NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class TrainingCheckpoint:
    """A whole checkpoint.

    Attributes:
        folder: where it is.
        step: steps done.
        history: what every check so far found: step, loss and the other metrics.
    """

    folder: Path
    step: int
    history: tuple[Mapping[str, float], ...]


def complete_checkpoints(folder: Path) -> list[TrainingCheckpoint]:
    """The checkpoints in a folder, by step; those that are not whole are removed."""
    found: list[TrainingCheckpoint] = []
    for path in folder.glob("checkpoint-*"):
        state = _read_checkpoint(path)
        if state is None:
            shutil.rmtree(path)
        else:
            found.append(state)
    return sorted(found, key=lambda state: state.step)


def best_evaluation(history: Sequence[Mapping[str, float]], metric: str) -> Mapping[str, float]:
    """The check with the best value of a metric; of equals that with the lowest loss, and of these the first."""
    sign = 1 if DIRECTIONS[metric] else -1
    return max(history, key=lambda evaluation: (sign * evaluation[metric], -evaluation["loss"], -evaluation["step"]))


def patience_exhausted(history: Sequence[Mapping[str, float]], metric: str, patience: int | None) -> bool:
    """Whether that many checks have come since the best one."""
    if patience is None or not history:
        return False
    best = best_evaluation(history, metric)["step"]
    return sum(evaluation["step"] > best for evaluation in history) >= patience


def read_history(log: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, float], ...]:
    """The checks in the Trainer's log: step, loss and what else they found."""
    evaluations = (entry for entry in log if "eval_loss" in entry)
    return tuple({"step": entry["step"], **_found(entry)} for entry in evaluations)


def _found(entry: Mapping[str, Any]) -> dict[str, float]:
    return {name.removeprefix(EVAL): value for name, value in entry.items() if name.startswith(EVAL)}


def _read_checkpoint(folder: Path) -> TrainingCheckpoint | None:
    """The checkpoint, if everything that training needs to go on is there."""
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
