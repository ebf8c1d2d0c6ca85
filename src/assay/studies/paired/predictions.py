"""The choice that a task's metric predicts for every document: by likelihood, or extracted from generated text.

In: a task with its answers. Out: document → index among the document's own choices, however they were ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from assay.core.protocols import ReordersChoices, Task
from assay.core.requests import Instance
from assay.core.responses import Failure
from assay.core.results import TaskResult
from assay.core.scores import Sample
from assay.scoring.scorers.multiple_choice import METHODS, argmax, choice_view

_CHOICE, _GENERATED = "multiple_choice", "generate_until"
# Metric → scores of the choices, for accuracies of a predicted choice.
_METHODS = {method.metric: method.scores for method in METHODS.values()}
# Document → index of the predicted choice; None if an answer names no choice.
Predictions = Mapping[int, "int | None"]


def predictions_of(
    task: Task, result: TaskResult, metric: str, filter: str, drawn: Sequence[Sequence[Sample]] = ()
) -> list[Predictions]:
    """Predictions under a metric and pipeline: one mapping per draw; one without draws; none without predictions.

    Args:
        task: the task.
        result: its answers.
        metric: an accuracy of predicted choices, for choices that are scored by likelihood.
        filter: the pipeline, for generated answers.
        drawn: the samples of every draw, if answers were sampled several times.
    """
    if result.card.kind == _CHOICE and metric in _METHODS:
        return [dict(_likelihood_predictions(task, result, _METHODS[metric], _options(task, metric)))]
    if result.card.kind == _GENERATED:
        return [dict(_generated_predictions(task, result, filter, samples)) for samples in drawn or [result.samples]]
    return []


def gold_choices_of(task: Task, result: TaskResult) -> dict[int, tuple[int, tuple[Any, ...]]]:
    """Document → its number of choices and the right ones: predictions are comparable if these are the same."""
    found = {}
    for item in result.answered:
        size = len(item.instance.choices)
        # The right answer may not be among the choices; it is then given by its text.
        shown = [index for index in item.instance.gold_indices if isinstance(index, int) and 0 <= index < size]
        found[item.document.id] = (size, tuple(sorted(_original_index(task, item.instance, index) for index in shown)))
    return found


def _options(task: Task, metric: str) -> Mapping[str, Any]:
    return next((spec.options for spec in task.scoring.metrics if spec.name == metric), {})


def _likelihood_predictions(
    task: Task, result: TaskResult, scores: Callable[..., Sequence[float]], options: Mapping[str, Any]
) -> Iterator[tuple[int, int]]:
    for item in result.answered:
        is_whole = not any(isinstance(output, Failure) for output in item.outputs)
        if is_whole and item.instance.choices and not item.instance.orders:
            predicted = argmax(scores(choice_view(item.instance, item.outputs), options))
            yield item.document.id, _original_index(task, item.instance, predicted)


def _generated_predictions(
    task: Task, result: TaskResult, filter: str, samples: Sequence[Sample]
) -> Iterator[tuple[int, int | None]]:
    asked = {item.document.id: item.instance for item in result.answered}
    for sample in samples:
        instance = asked[sample.document_id]
        if sample.filter == filter and instance.choices and not instance.orders:
            said = sample.filtered[0] if sample.filtered else None
            predicted = instance.choices.index(said) if said in instance.choices else None
            yield sample.document_id, None if predicted is None else _original_index(task, instance, predicted)


def _original_index(task: Task, instance: Instance, predicted: int) -> int:
    """Converts an index among the choices as shown to one among the document's own choices."""
    return task.choice_order(instance)[predicted] if isinstance(task, ReordersChoices) else predicted
