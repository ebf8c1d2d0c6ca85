"""The tasks of a run that were asked in several prompts, each put together again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core.prompt_axes import PromptAxis
from assay.core.protocols import Task
from assay.core.results import TaskResult
from assay.tasks.harness.task import HarnessTask


def prompt_axes(tasks: Sequence[Task], results: Sequence[TaskResult]) -> tuple[PromptAxis, ...]:
    """An axis for every task in prompts and every metric, in the order of the run.

    Args:
        tasks: the tasks.
        results: what they scored, task by task.
    """
    found: dict[tuple[str, str, str], list[tuple[str, float | None, int, int]]] = {}
    for task, result in zip(tasks, results, strict=True):
        prompt = result.card.config.get("prompt")
        if not isinstance(task, HarnessTask) or task.definition.prompt is None or not isinstance(prompt, dict):
            continue
        for metric in result.metrics:
            if metric.metric != "bypass":
                entry = (prompt["name"], metric.estimate.value, metric.estimate.n, len(task.left_out))
                found.setdefault((prompt["task"], metric.metric, metric.filter), []).append(entry)
    return tuple(
        PromptAxis(
            *key,
            scores={name: _mean([entry[1] for entry in entries if entry[0] == name]) for name, *_ in entries},
            documents={name: count for name, _, count, _ in entries},
            left_out={name: count for name, _, _, count in entries},
        )
        for key, entries in found.items()
    )


def _mean(scores: Sequence[float | None]) -> float | None:
    """The score of a prompt; over seeds and the like, where it was asked with several."""
    known = [score for score in scores if score is not None]
    return math.fsum(known) / len(known) if known else None
