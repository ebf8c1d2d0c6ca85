"""A matrix whose row is trained, killed in the middle of its second training: what was done stays done."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

Start = Callable[..., Any]
WORDS = ["good", "bad", "fine", "poor", "film", "play", "book", "song", "the", "a", "was", "very"]
SETTINGS = "finetune=full,epochs=12,check_every=6,train_batch_size=4,learning_rate=0.01"


def make_encoder(folder: Path) -> None:
    """A tiny BERT without a head."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    BertTokenizer(vocab={piece: place for place, piece in enumerate(pieces)}).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)


def make_task(folder: Path, name: str, good: tuple[str, str]) -> Path:
    """Sentences of which those with certain words are good."""
    rows = [
        {"sentence": f"the {noun} was very {word}" if number % 2 else f"a {word} {noun}", "label": int(word in good)}
        for number in range(2)
        for noun in ("film", "play", "book", "song")
        for word in ("good", "bad", "fine", "poor")
    ]
    for split, own in (("train", rows[4:]), ("test", rows[:4])):
        (folder / f"{name}_{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    path = folder / f"{name}.yaml"
    files = f"{{train: {name}_train.jsonl, test: {name}_test.jsonl}}"
    path.write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {files}}}\n"
        "training_split: train\ntest_split: test\n"
        "format: {kind: classification, text: sentence, labels: [bad, good], answer: label}\n"
    )
    return path


@pytest.fixture
def start(torch_server: Any, tmp_path: Path) -> Start:
    def begin(store: Path, tasks: list[Path]) -> Any:
        command = ["-m", "assay", "matrix", "--models", f"hf:pretrained={tmp_path / 'encoder'},{SETTINGS}"]
        command += ["--tasks", *map(str, tasks), "--store", str(store), "--device", "cpu"]
        return torch_server.start(command, tmp_path)

    return begin


def finish(worker: Any) -> tuple[str, str]:
    printed, errors = worker.communicate(timeout=200)
    assert worker.returncode == 0, errors[-3000:]
    return printed, errors


def trained(store: Path, name: str) -> Path:
    (folder,) = store.parent.glob(f"models/encoder-{name}-*")
    return folder


def test_a_killed_matrix_trains_no_finished_cell_again_and_ends_with_the_same_weights(
    start: Start, tmp_path: Path
) -> None:
    make_encoder(tmp_path / "encoder")
    tasks = [make_task(tmp_path, "taste", ("good", "fine")), make_task(tmp_path, "wealth", ("bad", "fine"))]
    whole, killed = tmp_path / "whole" / "store.db", tmp_path / "killed" / "store.db"
    for store in (whole, killed):
        store.parent.mkdir()
    finish(start(whole, tasks))
    worker = start(killed, tasks)
    while not list(killed.parent.glob("models/encoder-wealth-*/checkpoints/checkpoint-*/trainer_state.json")):
        assert worker.poll() is None, "the matrix was over before it could be killed"
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    first = trained(killed, "taste") / "model.safetensors"
    written, steps = first.stat().st_mtime_ns, len(list(trained(killed, "wealth").glob("checkpoints/checkpoint-*")))
    assert steps >= 1 and not (trained(killed, "wealth") / "config.json").exists()
    printed, errors = finish(start(killed, tasks))
    assert f'"{first.parent.name}" was trained so before and is used as it is' in errors
    assert first.stat().st_mtime_ns == written
    records = " ".join(printed.split()).split("record: ")[1:]
    assert ["4 answers known, 0 executed" in record for record in records] == [True, False]
    assert "0 answers known, 4 executed" in records[1]
    for name in ("taste", "wealth"):
        weights = [(trained(store, name) / "model.safetensors").read_bytes() for store in (whole, killed)]
        assert weights[0] == weights[1]


def test_an_interrupted_training_keeps_its_checkpoints(torch_server: Any, tmp_path: Path) -> None:
    make_encoder(tmp_path / "encoder")
    task = make_task(tmp_path, "taste", ("good", "fine"))
    command = ["-m", "assay", "finetune", "--model", "./encoder", "--tasks", task.name]
    command += ["--store", "store.db", "--device", "cpu", "--epochs", "300", "--train_batch_size", "4"]
    worker = torch_server.start(command, tmp_path)
    while not list(tmp_path.glob("models/*/checkpoints/checkpoint-*/trainer_state.json")):
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.01)
    for _ in range(3):
        worker.send_signal(signal.SIGINT)
        time.sleep(0.015)
    _, errors = worker.communicate(timeout=60)
    assert (worker.returncode, "Traceback" in errors) == (130, False), errors
    assert errors.endswith("interrupted; checkpoints so far are saved: run the same command again to resume\n")
