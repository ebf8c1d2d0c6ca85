"""Multiple choice: the question with the likelihoods of its choices, and what a pick is worth.

How a pick is made (the score of each choice) is in `methods`; this reads the picks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.core.requests import Instance, Request
from assay.core.responses import Logprob

_NOTHING: Mapping[str, Sequence[Logprob]] = MappingProxyType({})


class ChoiceView(NamedTuple):
    """A question with the log-likelihood of each of its choices. A tuple, as it is made once per document.

    Attributes:
        logprobs: one per choice; empty where a head scored them.
        totals: their log-likelihoods.
        choices: the choices' texts, without delimiter.
        golds: places of the right choices; a negative one is never picked.
        is_multiple: whether several choices are right.
        alone: prompt without question → the same choices after it; only those that were requests.
        prompts: the whole prompt before each choice; empty when not requests.
        requests: the choices' own requests, in their order.
    """

    logprobs: Sequence[Logprob]
    totals: Sequence[float]
    choices: Sequence[str]
    golds: tuple[int, ...]
    is_multiple: bool
    alone: Mapping[str, Sequence[Logprob]] = _NOTHING
    prompts: Sequence[Logprob] = ()
    requests: Sequence[Request] = ()


def choice_view(instance: Instance, results: Sequence[Any]) -> ChoiceView:
    """The view of one document."""
    size = len(instance.choices)
    is_multiple = isinstance(instance.gold, tuple)
    golds = instance.gold if is_multiple else (instance.gold,)
    logprobs = results if len(results) == size else results[:size]
    totals = [logprob.total for logprob in logprobs]
    requests = instance.requests[:size]
    if not instance.nulls and not instance.prompts:
        return ChoiceView(logprobs, totals, instance.choices, golds, is_multiple, requests=requests)
    alone = {null: results[size * (index + 1) : size * (index + 2)] for index, null in enumerate(instance.nulls)}
    read = list(results[size * (len(instance.nulls) + 1) :])
    prompts = read * size if instance.prompts == 1 else read
    return ChoiceView(logprobs, totals, instance.choices, golds, is_multiple, alone, prompts, requests)


def scores_view(instance: Instance, results: Sequence[Any]) -> ChoiceView:
    """The view of one document whose labels or choices a head has scored: totals alone, as there are no tokens."""
    is_multiple = isinstance(instance.gold, tuple)
    golds = instance.gold if is_multiple else (instance.gold,)
    return ChoiceView((), results[0].scores, instance.choices, golds, is_multiple)


def argmax(scores: Sequence[float]) -> int:
    """Place of the highest score; the first one on a tie. No score is NaN: models report that as a failure."""
    return scores.index(max(scores))


def predicted_choice(view: ChoiceView) -> int:
    """The choice of highest log-likelihood."""
    return argmax(view.totals)


def accuracy(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Is the likeliest choice right?"""
    return float(predicted_choice(view) in view.golds)


def accuracy_by(scores: Callable[[ChoiceView, Mapping[str, Any]], Sequence[float]]) -> Callable[..., float]:
    """The value function: is the choice of the highest score right?"""

    def value(view: ChoiceView, options: Mapping[str, Any]) -> float:
        return float(argmax(scores(view, options)) in view.golds)

    return value


def exact_match(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Would greedy decoding say the right choice?"""
    return float(any(view.logprobs[gold].is_greedy for gold in view.golds if 0 <= gold < len(view.logprobs)))


def greedy_choice(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Would greedy decoding say one of the choices, right or wrong?"""
    return float(any(logprob.is_greedy for logprob in view.logprobs))


def mass(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """The probability that the model says one of the choices; equal choices are one."""
    return math.fsum(math.exp(total) for total in dict(zip(view.choices, view.totals, strict=True)).values())


def margin(view: ChoiceView, options: Mapping[str, Any]) -> float | None:
    """By how much the likeliest choice is ahead of the next, in log-likelihood; None where there is no next."""
    if len(view.totals) < 2:
        return None
    second, first = sorted(view.totals)[-2:]
    return first - second if first > second else 0.0


def label_pair(view: ChoiceView, options: Mapping[str, Any]) -> tuple[int, int]:
    """(right, picked), for F1 and Matthews' correlation; -1 where no right one is known."""
    return next(iter(view.golds), -1), predicted_choice(view)


def position_pair(view: ChoiceView, options: Mapping[str, Any]) -> tuple[int, int]:
    """(index of a right choice, index picked); of several right ones the picked one, -1 where none is known."""
    predicted = predicted_choice(view)
    known = [gold for gold in view.golds if 0 <= gold < len(view.totals)]
    return (predicted if predicted in known else next(iter(known), -1)), predicted


def positions(view: ChoiceView, options: Mapping[str, Any]) -> dict[str, float]:
    """Per index, whether it is the one picked: over documents, the histogram of picks."""
    predicted = predicted_choice(view)
    return {f"position_{index}": float(index == predicted) for index in range(len(view.totals))}


def likelihoods(view: ChoiceView, options: Mapping[str, Any]) -> tuple[Any, tuple[float, ...]]:
    """(right, log-likelihood of every choice), for a task's own aggregation."""
    return list(view.golds) if view.is_multiple else view.golds[0], tuple(view.totals)


def confidence(view: ChoiceView, options: Mapping[str, Any]) -> tuple[float, float]:
    """(probability of the likeliest among the choices, whether it is right), for calibration."""
    _, shares = probabilities(view, options)
    return max(shares), accuracy(view, options)


def covered_confidence(view: ChoiceView, options: Mapping[str, Any]) -> tuple[float, float, float]:
    """The same and the share of documents to answer: aggregations have no settings, so it travels along."""
    return *confidence(view, options), float(options["coverage"])


def log_loss(view: ChoiceView, options: Mapping[str, Any]) -> float | None:
    """Minus the log of the probability, among the choices, of the right ones together; None where none is known."""
    right = [view.totals[gold] for gold in view.golds if 0 <= gold < len(view.totals)]
    # Logs throughout: a probability too small for a float still has its loss.
    return _log_sum(view.totals) - _log_sum(right) if right else None


def _log_sum(totals: Sequence[float]) -> float:
    top = max(totals)
    return top + math.log(math.fsum(math.exp(total - top) for total in totals))


def probabilities(view: ChoiceView, options: Mapping[str, Any]) -> tuple[Any, list[float]]:
    """(right choice or choices, probability of each choice), for the Brier score."""
    totals = view.totals
    top = max(totals)
    # Where all choices are impossible, none is more so than the others.
    weights = [math.exp(total - top) for total in totals] if top > -math.inf else [1.0] * len(totals)
    scale = math.fsum(weights)
    right = view.golds if view.is_multiple else view.golds[0]
    return right, [weight / scale for weight in weights]
