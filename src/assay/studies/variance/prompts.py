"""Scores of tasks with several prompts, collected per task and metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.protocols import SkipsRows, Task
from assay.core.results import TaskResult
from assay.core.scores import MetricResult
from assay.run.build import split_indices
from assay.studies.variance.variance_values import PromptAxis


def prompt_axes(tasks: Sequence[Task], results: Sequence[TaskResult]) -> tuple[PromptAxis, ...]:
    """An axis for every task with several prompts and every metric, in the order of the run.

    Args:
        tasks: the tasks.
        results: their results, task by task.
    """
    found: dict[tuple[str, str, str], list[_PromptScore]] = {}
    lost: dict[str, list[_PromptScore]] = {}
    for task, result in zip(tasks, results, strict=True):
        variant = task.card.variant
        if variant is None or variant.prompt is None:
            continue
        left_out = len(task.skipped_rows()) if isinstance(task, SkipsRows) else 0
        if not result.metrics:  # it could not be scored: a prompt without a score
            entry = _PromptScore(variant.prompt, None, 0, left_out, frozenset())
            lost.setdefault(variant.task, []).append(entry)
        for metric in result.metrics:
            if metric.metric != "bypass":
                score, documents = metric.estimate.value, metric.estimate.n
                entry = _PromptScore(variant.prompt, score, documents, left_out, _scored_indices(task, result, metric))
                found.setdefault((variant.task, metric.metric, metric.filter), []).append(entry)
    for (base, _, _), entries in found.items():
        entries.extend(lost.get(base, ()))
    return tuple(
        PromptAxis(
            *key,
            scores={
                name: _mean([entry.score for entry in entries if entry.prompt == name])
                for name in (entry.prompt for entry in entries)
            },
            documents={entry.prompt: entry.documents for entry in entries},
            left_out={entry.prompt: entry.left_out for entry in entries},
            shared=_shared(entries),
        )
        for key, entries in found.items()
    )


@dataclass(frozen=True, slots=True)
class _PromptScore:
    """A prompt, at one level of the other axes: its score, the documents that count, and their indices in the split."""

    prompt: str
    score: float | None
    documents: int
    left_out: int
    indices: frozenset[int]


def _scored_indices(task: Task, result: TaskResult, metric: MetricResult) -> frozenset[int]:
    own = [sample for sample in result.samples if sample.filter == metric.filter and metric.metric in sample.values]
    indices = split_indices(task)
    return frozenset(indices[sample.document_id] for sample in own if sample.values[metric.metric] is not None)


def _shared(entries: Sequence[_PromptScore]) -> int | None:
    """Number of documents that count with every prompt; None for metrics without per-document values."""
    known = [entry for entry in entries if entry.score is not None]
    if not known or any(len(entry.indices) != entry.documents for entry in known):
        return None
    return len(frozenset.intersection(*(entry.indices for entry in known)))


def _mean(scores: Sequence[float | None]) -> float | None:
    """The score of a prompt; averaged over seeds and the like if there are several."""
    known = [score for score in scores if score is not None]
    return math.fsum(known) / len(known) if known else None
