"""Classifiers that predict a single class: notices for a task whose documents all have the same choices.

Takes a task's answers as its first metric reads them; gives a sentence where one class is predicted everywhere, or
where a trained model does no better than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.core.responses import Failure, LabelScores, Logprob
from assay.core.results import AnsweredDocument, TaskResult
from assay.core.specs import NULL_PROMPTS, WHOLE_PROMPT_METRICS
from assay.scoring.scorers.multiple_choice import METHODS, ChoiceView, Scores, argmax, choice_view, raw, scores_view

# Fewer documents may well have one prediction by chance.
_FEW_DOCUMENTS = 10


def majority_class_texts(result: TaskResult, is_trained: bool) -> Iterator[str]:
    """A sentence where the predictions of a task are no better than the most frequent class.

    Args:
        result: the task's answers.
        is_trained: whether the model was trained here: it is expected to do better than the most frequent class.
    """
    if len(result.answered) < _FEW_DOCUMENTS:
        return
    names = result.answered[0].instance.choices
    if len(names) < 2 or any(item.instance.choices != names for item in result.answered):
        return
    predicted: dict[int, int] = {}
    for document, index in _predictions(result):
        predicted[document] = index
        if not is_trained and index != predicted[next(iter(predicted))]:
            return  # two classes: nothing more to check for a model that was not trained here
    rights = [item.instance.gold_indices for item in result.answered if item.document.id in predicted]
    if len(predicted) < _FEW_DOCUMENTS or not all(len(right) == 1 and isinstance(right[0], int) for right in rights):
        return
    n, frequent = len(predicted), Counter(right[0] for right in rights).most_common(1)[0]
    right = sum(prediction == right[0] for prediction, right in zip(predicted.values(), rights, strict=True))
    if len(set(predicted.values())) == 1 and right < n:
        only = names[next(iter(predicted.values()))]
        yield f'"{only}" is predicted in all {n} documents and correct in {right} of them'
    elif is_trained and right <= frequent[1]:
        message = f"the trained model is correct in {right} of {n} documents, no more than always"
        name = names[frequent[0]] if 0 <= frequent[0] < len(names) else "one class"
        yield f'{message} predicting "{name}", the most frequent class ({frequent[1]})'


def _predictions(result: TaskResult) -> Iterator[tuple[int, int]]:
    """Document → the index that the task's first metric predicts, for documents in one order without a failure."""
    scores = _scores(result)
    for item in result.answered:
        view = None if item.instance.orders or scores is None else _view(item)
        if view is not None and scores is not None:
            yield item.document.id, argmax(scores(view, {}))


def _scores(result: TaskResult) -> Scores | None:
    """How the first metric scores choices; None where that takes more than their own answers."""
    first = result.metrics[0].metric if result.metrics else ""
    if first in (*NULL_PROMPTS, *WHOLE_PROMPT_METRICS):
        return None
    return next((method.scores for method in METHODS.values() if method.metric == first), raw)


def _view(item: AnsweredDocument) -> ChoiceView | None:
    size = len(item.instance.choices)
    if any(isinstance(output, Failure) for output in item.outputs):
        return None
    if isinstance(item.outputs[0], LabelScores):
        return scores_view(item.instance, item.outputs)
    if len(item.outputs) < size or not all(isinstance(output, Logprob) for output in item.outputs[:size]):
        return None
    return choice_view(item.instance, item.outputs)
