"""What every test has: time for property tests, no secrets of an earlier test, and no width of anyone's terminal.

Where several processes run tests side by side, torch has one thread in each: more would wait for each other.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from assay.core.secrets import forget

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("COLUMNS", None)  # set by xdist; the tests that want a width say so

settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> None:
    """What is in memory when a module's tests begin is never garbage for them.

    With torch and transformers loaded a full collection takes up to a second; every training starts one.
    """
    gc.freeze()


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """Tests share a process, and what is known as a secret is known to all of it."""
    forget()
    yield
    forget()


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
