"""A task file that tests change: a choice with examples to draw from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., None]:
    """Writes the task `odd`, on odd.jsonl with examples of shots.jsonl; keys by name change it, also its name."""

    def write(task: str = "odd", **changes: str) -> None:
        keys = {
            "task": task,
            "dataset_path": "json",
            "dataset_kwargs": "{data_files: {test: odd.jsonl, train: shots.jsonl}}",
            "test_split": "test",
            "fewshot_split": "train",
            "output_type": "multiple_choice",
            "doc_to_text": "'{{q}}'",
            "doc_to_choice": "['yes', 'no']",
            "doc_to_target": "label",
            "metric_list": "[{metric: acc}, {metric: acc_norm}]",
            **changes,
        }
        path = tmp_path / "tasks" / f"{task}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))

    return write
