"""Classifiers that predict a single class: notices for a task whose documents all have the same choices.

In: a task's answers. Out: sentences: the same class is picked everywhere; a trained model does no better than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.core.responses import Failure, LabelScores, Logprob
from assay.core.results import Answered, TaskResult
from assay.scoring.scorers.choice import choice_view, pick, scores_view

# Fewer documents may well have one pick by chance.
_FEW_DOCUMENTS = 10


def majority_texts(result: TaskResult, is_trained: bool) -> Iterator[str]:
    """A sentence where the picks of a task's documents say no more than which class is the most frequent.

    Args:
        result: the task's answers.
        is_trained: whether the model was trained here: it is expected to do better than the most frequent class.
    """
    classes = {item.instance.choices for item in result.answered}
    if len(result.answered) < _FEW_DOCUMENTS or len(classes) > 1 or len(next(iter(classes))) < 2:
        return
    names, picked = next(iter(classes)), dict(_picks(result))
    rights = [item.instance.right_places for item in result.answered if item.document.id in picked]
    if len(picked) < _FEW_DOCUMENTS or not all(len(right) == 1 and isinstance(right[0], int) for right in rights):
        return
    n, frequent = len(picked), Counter(right[0] for right in rights).most_common(1)[0]
    right = sum(pick == right[0] for pick, right in zip(picked.values(), rights, strict=True))
    if len(set(picked.values())) == 1 and right < n:
        yield f'"{names[next(iter(picked.values()))]}" is picked in all {n} documents and right in {right} of them'
    elif is_trained and right <= frequent[1]:
        told = f"the trained model is right in {right} of {n} documents, no more than always"
        name = names[frequent[0]] if 0 <= frequent[0] < len(names) else "one class"
        yield f'{told} picking "{name}", the most frequent class ({frequent[1]})'


def _picks(result: TaskResult) -> Iterator[tuple[int, int]]:
    """Document → the place of the likeliest choice, of documents asked in one order without a failure."""
    for item in result.answered:
        found = None if item.instance.orders else _pick(item)
        if found is not None:
            yield item.document.id, found


def _pick(item: Answered) -> int | None:
    size = len(item.instance.choices)
    if any(isinstance(output, Failure) for output in item.outputs):
        return None
    if isinstance(item.outputs[0], LabelScores):
        return pick(scores_view(item.instance, item.outputs))
    if len(item.outputs) < size or not all(isinstance(output, Logprob) for output in item.outputs[:size]):
        return None
    return pick(choice_view(item.instance, item.outputs))
