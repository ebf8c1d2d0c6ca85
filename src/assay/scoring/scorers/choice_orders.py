"""Questions with several orders of their choices: values are means over the orders, predictions may disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.requests import Instance
from assay.scoring.scorers.generated_answer import AnswerView, exact_match
from assay.scoring.scorers.multiple_choice import ChoiceView, choice_view, predicted_choice

Views = tuple[ChoiceView, ...]


def rotated_view(instance: Instance, results: Sequence[Any]) -> Views:
    """One view per order. In each the choices are in document order, whatever their position in the prompt was."""
    size = len(results) // len(instance.orders)
    views = []
    for number, order in enumerate(instance.orders):
        part = slice(number * size, (number + 1) * size)
        view = choice_view(instance, results[part])
        requests = instance.requests[part.start : part.start + len(order)]
        views.append(
            _in_document_order(view._replace(choices=_scored_texts(instance, part.start), requests=requests), order)
        )
    return tuple(views)


def _scored_texts(instance: Instance, start: int) -> Sequence[str]:
    """The scored text of each choice in one order: its label may differ there, also in length."""
    continuations = [getattr(request, "continuation", "") for request in instance.requests]
    delimiter = continuations[0][: len(continuations[0]) - len(instance.choices[0])]
    return [text[len(delimiter) :] for text in continuations[start : start + len(instance.choices)]]


def _in_document_order(view: ChoiceView, order: Sequence[int]) -> ChoiceView:
    """A view with its choices put back into document order."""
    indices = sorted(range(len(order)), key=order.__getitem__)
    logprobs = [view.logprobs[index] for index in indices]
    return view._replace(
        logprobs=logprobs,
        totals=[logprob.total for logprob in logprobs],
        choices=[view.choices[index] for index in indices],
        alone={null: [found[index] for index in indices] for null, found in view.alone.items()},
        prompts=[view.prompts[index] for index in indices] if view.prompts else (),
        requests=[view.requests[index] for index in indices],
    )


def mean_over_orders(
    value: Callable[[ChoiceView, Mapping[str, Any]], float], views: Views, options: Mapping[str, Any]
) -> float:
    """The mean of a value over the orders."""
    return sum(value(view, options) for view in views) / len(views)


def agreement(views: Views, options: Mapping[str, Any]) -> float:
    """Whether the same choice is predicted in every order."""
    return float(len(set(map(predicted_choice, views))) == 1)


def all_right(views: Views, options: Mapping[str, Any]) -> float:
    """Whether a right choice is predicted in every order."""
    return float(all(predicted_choice(view) in view.golds for view in views))


def vote(views: Views, options: Mapping[str, Any]) -> float:
    """Whether the most frequent prediction is right."""
    return float(majority_choice(list(map(predicted_choice, views))) in views[0].golds)


def majority_choice(predictions: Sequence[int]) -> int:
    """The most frequent prediction; the lowest index on a tie."""
    counts = Counter(predictions)
    most = max(counts.values())
    return min(index for index, count in counts.items() if count == most)


class RotatedAnswer(NamedTuple):
    """A generated label under one order of the choices.

    Attributes:
        answer: the generated label, and the label of the right choice in this order.
        predicted: index in the document of the choice with the generated label; -1 for no label.
        golds: indices of the right choices in the document.
    """

    answer: AnswerView
    predicted: int
    golds: tuple[int, ...]


def rotated_answers(instance: Instance, results: Sequence[Any]) -> tuple[RotatedAnswer, ...]:
    """One answer per order; the instance's choices are the labels, its target is the index of the right choice."""
    golds = instance.gold_indices
    found = []
    for order, result in zip(instance.orders, results, strict=True):
        right = tuple(instance.choices[order.index(gold)] for gold in golds if gold in order)
        label = "" if result is None else str(result)
        predicted = order[instance.choices.index(label)] if label in instance.choices else -1
        found.append(RotatedAnswer(AnswerView((label,), right, result, len(right) > 1), predicted, golds))
    return tuple(found)


def answers_match(found: Sequence[RotatedAnswer], options: Mapping[str, Any]) -> float:
    """Share of orders with the right label."""
    return sum(exact_match(item.answer, options) for item in found) / len(found)


def answers_agree(found: Sequence[RotatedAnswer], options: Mapping[str, Any]) -> float:
    """Whether the same choice is predicted in every order. No label in every order does not count as agreement."""
    predictions = {item.predicted for item in found}
    return float(len(predictions) == 1 and -1 not in predictions)


def answers_all_match(found: Sequence[RotatedAnswer], options: Mapping[str, Any]) -> float:
    """Whether the label is right in every order."""
    return float(all(exact_match(item.answer, options) for item in found))


def answers_vote(found: Sequence[RotatedAnswer], options: Mapping[str, Any]) -> float:
    """Whether the most frequent prediction is right. Answers without a label do not vote."""
    votes = [item.predicted for item in found if item.predicted >= 0]
    return float(bool(votes) and majority_choice(votes) in found[0].golds)
