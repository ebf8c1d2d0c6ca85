"""Makes tasks from a mapping and rows in memory, through a real YAML file and the real reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.core.specs import TaskOptions
from assay.data.sources import MemorySource
from assay.run.resolve import known_names
from assay.tasks.lm_eval.file.definition import define
from assay.tasks.lm_eval.file.schema import KnownNames, task_faults
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file
from assay.tasks.lm_eval.task import LmEvalTask

Rows = Sequence[Mapping[str, Any]]

_QUESTIONS = ("What is 1+1?", "What is 1+2?", "What is 2+2?", "What is 5-3?", "What is 5-2?")
_LABELS = (0, 1, 2, 0, 1)
_ANSWERS = ("2", "3", "lol", "2", "3")


@pytest.fixture(scope="session")
def names() -> KnownNames:
    return known_names()


@pytest.fixture(scope="session")
def golden_rows() -> list[dict[str, Any]]:
    """Rows r0 to r4 of the golden vectors."""
    return [
        {"q": question, "choices": ["2", "3", "four"], "label": label, "ans": answer}
        for question, label, answer in zip(_QUESTIONS, _LABELS, _ANSWERS, strict=True)
    ]


@pytest.fixture
def write_yaml(tmp_path: Path) -> Callable[..., Path]:
    """Writes a mapping, or a text, as a task file and gives its path."""

    def write(name: str, content: Mapping[str, Any] | str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(dict(content), sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def make_task(write_yaml: Callable[..., Path], names: KnownNames) -> Callable[..., LmEvalTask]:
    """A task of some keys over rows in memory; keys that every task needs have defaults."""

    def make(rows: Rows | Mapping[str, Rows], options: TaskOptions | None = None, **keys: Any) -> LmEvalTask:
        splits = rows if isinstance(rows, Mapping) else {"test": rows}
        base = {"task": "toy", "dataset_path": "memory", "test_split": "test"}
        data = {key: value for key, value in {**base, **keys}.items() if value is not None}
        file: TaskFile = read_task_file(write_yaml("toy.yaml", data))
        faults = task_faults(file, names)
        assert not faults, faults
        return LmEvalTask(define(file), options or TaskOptions(), MemorySource(splits))

    return make
