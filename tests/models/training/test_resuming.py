"""A training that was killed goes on where it was, to the same weights; other trainings are never overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.training import FitReport, FitSettings, TrainingExample
from assay.models.training.fit_record import folder_lock
from assay.models.training.resume_state import TrainingCheckpoint, complete_checkpoints
from assay.models.training.trainer import TrainingPlan

Fit = Callable[..., FitReport]
WORKER = Path(__file__).with_name("worker.py")
DONE, KILLED = ["0", "True"], ["-9", "False"]
# 20 examples in batches of 3 are 7 batches, so 4 steps per epoch and 16 in all; evaluation after every third.
MOMENTS = (
    "step:2",  # before the first checkpoint
    "open:checkpoint-3/trainer_state.json",  # while the first is written
    "open:checkpoint-6/trainer_state.json",
    "step:8",  # between two checkpoints
    "os.remove:optimizer.pt",  # while an old one is deleted
    "os.rename:config.json",  # while the finished model is put in place
)


def run_worker(parent: Path, method: str, *pairs: str, cache: Path) -> list[str]:
    command = [sys.executable, str(WORKER), str(parent), method, *pairs]
    environment = {**os.environ, "ASSAY_CACHE": str(cache), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("method", "moments"), [("full", MOMENTS), ("lora", MOMENTS[2:4])])
def test_a_killed_training_ends_with_the_weights_of_an_unbroken_one(
    method: str, moments: tuple[str, ...], young_llama: Path, tmp_path: Path, tensors: Callable[[Path], dict[str, Any]]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    pairs = [str(whole), "end"]
    for moment in moments:
        pairs += [str(broken), moment]
    lines = run_worker(young_llama, method, *pairs, str(broken), "end", cache=tmp_path)
    # Before it is finished, nothing opens the folder.
    assert [line.split()[:2] for line in lines] == [DONE, *[KILLED] * len(moments), DONE], lines
    one, other = tensors(whole), tensors(broken)
    assert one.keys() == other.keys()
    assert [name for name in one if not one[name].equal(other[name])] == []
    assert (whole / "config.json").read_bytes() == (broken / "config.json").read_bytes()
    assert (whole / "fit.json").read_bytes() == (broken / "fit.json").read_bytes()
    # While it was written, there were the last and the best; in the end there is only the model.
    assert max(line.count("checkpoint-") for line in lines) <= 3
    assert sorted(path.name for path in broken.iterdir()) == sorted(path.name for path in whole.iterdir())
    assert not list(broken.glob("*checkpoint*")) and not list(broken.glob(".*"))


def whole_checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (path / name).touch()
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))
    return path


@pytest.mark.parametrize(
    "missing", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]
)
def test_a_checkpoint_that_lacks_something_is_removed(missing: str, tmp_path: Path) -> None:
    whole_checkpoint(tmp_path, 4)
    (whole_checkpoint(tmp_path, 8) / missing).unlink()
    assert [state.step for state in complete_checkpoints(tmp_path)] == [4]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]


def test_a_torn_state_and_missing_shards_make_a_checkpoint_broken(tmp_path: Path) -> None:
    (whole_checkpoint(tmp_path, 1) / "trainer_state.json").write_text('{"global_step": 1, "log_hi')
    sharded = whole_checkpoint(tmp_path, 2)
    (sharded / "model.safetensors").rename(sharded / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert complete_checkpoints(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_come_in_the_order_of_their_steps(tmp_path: Path) -> None:
    for step in (12, 8, 100):
        whole_checkpoint(tmp_path, step)
    assert [state.step for state in complete_checkpoints(tmp_path)] == [8, 12, 100]


@pytest.mark.parametrize(
    ("metric", "patience", "is_over"), [("loss", 2, True), ("loss", 3, False), ("accuracy", 1, False)]
)
def test_what_was_stopped_early_is_not_trained_on(metric: str, patience: int, is_over: bool, tmp_path: Path) -> None:
    """As after a kill between the last check and the finished model."""
    history = tuple({"step": step, "loss": step / 10, "accuracy": step / 10} for step in (2, 4, 6))
    plan = TrainingPlan(FitSettings(metric=metric, patience=patience), 1e-3, 20, True, tmp_path)
    assert plan.is_over(TrainingCheckpoint(tmp_path, 6, history)) is is_over
    assert plan.is_over(TrainingCheckpoint(tmp_path, 20, history))
    assert not plan.is_over(None)


def test_a_finished_folder_gives_its_report_at_once(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    first = fitted(young_llama, tmp_path / "new", answers, answers[:4], max_steps=2)
    weights = (tmp_path / "new" / "model.safetensors").stat().st_mtime_ns
    heard: list[Any] = []
    assert fitted(young_llama, tmp_path / "new", answers, answers[:4], heard, max_steps=2) == first
    assert heard == []
    assert (tmp_path / "new" / "model.safetensors").stat().st_mtime_ns == weights


def test_a_folder_of_another_training_is_refused_with_what_differs(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    fitted(young_llama, tmp_path / "new", answers, max_steps=1)
    before = (tmp_path / "new" / "fit.json").read_bytes()
    with pytest.raises(ModelError) as caught:
        fitted(young_llama, tmp_path / "new", answers[1:], max_steps=1, seed=7)
    assert "belongs to another training run: other training examples; seed was 42, now 7" in str(caught.value)
    with pytest.raises(ModelError, match="belongs to another training run: other validation examples"):
        fitted(young_llama, tmp_path / "new", answers, answers, max_steps=1)
    assert (tmp_path / "new" / "fit.json").read_bytes() == before


def test_another_parent_is_refused(
    young_llama: Path, plain: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    fitted(young_llama, tmp_path / "new", answers, max_steps=1)
    with pytest.raises(ModelError, match="belongs to another training run: another parent model"):
        fitted(plain, tmp_path / "new", answers, max_steps=1)


def test_a_model_is_never_overwritten(copied: Path, answers: list[TrainingExample], fitted: Fit) -> None:
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    with pytest.raises(ModelError, match="already contains a model .config.json. but no fit.json"):
        fitted(copied, copied, answers, max_steps=1)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_a_file_in_the_place_of_the_folder_is_reported(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    (tmp_path / "new").touch()
    with pytest.raises(ModelError, match="new: cannot be created: File exists; expected a writable folder"):
        fitted(young_llama, tmp_path / "new", answers)


def test_two_trainings_of_one_folder_do_not_run_at_once(
    young_llama: Path, answers: list[TrainingExample], fitted: Fit, tmp_path: Path
) -> None:
    pytest.importorskip("fcntl")
    with folder_lock(tmp_path / "new"), pytest.raises(ModelError, match="another process is training in this folder"):
        fitted(young_llama, tmp_path / "new", answers, max_steps=1)
    fitted(young_llama, tmp_path / "new", answers, max_steps=1)
