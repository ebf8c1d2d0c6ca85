"""Multiple choice: which choice a model picks under each normalisation, and what that is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import truediv
from typing import Any, NamedTuple

from assay.core.requests import Instance
from assay.core.responses import Logprob


class ChoiceView(NamedTuple):
    """A question with the log-likelihood of each of its choices. A tuple, as it is made once per document.

    Attributes:
        logprobs: one per choice.
        totals: their log-likelihoods.
        unconditional: the same without the question; empty when not asked.
        choices: the choices' texts, without delimiter.
        golds: places of the right choices; a negative one is never picked.
        is_multiple: whether several choices are right.
    """

    logprobs: Sequence[Logprob]
    totals: Sequence[float]
    unconditional: Sequence[Logprob]
    choices: Sequence[str]
    golds: tuple[int, ...]
    is_multiple: bool


def choice_view(instance: Instance, results: Sequence[Any]) -> ChoiceView:
    """The view of one document."""
    size = len(instance.choices)
    is_multiple = isinstance(instance.gold, tuple)
    golds = instance.gold if is_multiple else (instance.gold,)
    logprobs = results if len(results) == size else results[:size]
    totals = [logprob.total for logprob in logprobs]
    return ChoiceView(logprobs, totals, results[size : 2 * size], instance.choices, golds, is_multiple)


def highest(scores: Sequence[float]) -> int:
    """Place of the highest score; the first one on a tie. No score is NaN: models report that as a failure."""
    return scores.index(max(scores))


def _shares(totals: Sequence[float], sizes: Iterable[int]) -> list[float]:
    """Totals by sizes. An empty choice has no length to divide by; it is never picked."""
    lengths = list(sizes)
    if all(lengths):
        return list(map(truediv, totals, lengths))
    return [total / length if length else -math.inf for total, length in zip(totals, lengths, strict=True)]


def pick(view: ChoiceView) -> int:
    """The choice of highest log-likelihood."""
    return highest(view.totals)


def accuracy(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Is the likeliest choice right?"""
    return float(pick(view) in view.golds)


def accuracy_per_character(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """The same after division by the choice's characters."""
    return float(highest(_shares(view.totals, map(len, view.choices))) in view.golds)


def accuracy_per_byte(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """The same after division by the choice's UTF-8 bytes."""
    sizes = [len(choice.encode("utf-8", "surrogatepass")) for choice in view.choices]
    return float(highest(_shares(view.totals, sizes)) in view.golds)


def accuracy_per_token(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """The same after division by the tokens that were scored, the delimiter's among them."""
    return float(highest(_shares(view.totals, [logprob.token_count for logprob in view.logprobs])) in view.golds)


def accuracy_mutual_information(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """The same after subtracting the choice's log-likelihood without the question."""
    pairs = zip(view.logprobs, view.unconditional, strict=True)
    return float(highest([given.total - alone.total for given, alone in pairs]) in view.golds)


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
    return first - second


def label_pair(view: ChoiceView, options: Mapping[str, Any]) -> tuple[int, int]:
    """(right, picked), for F1 and Matthews' correlation."""
    return view.golds[0], pick(view)


def place_pair(view: ChoiceView, options: Mapping[str, Any]) -> tuple[int, int]:
    """(place of a right choice, place picked); of several right ones the picked one, -1 where none is known."""
    picked = pick(view)
    return (picked if picked in view.golds else next(iter(view.golds), -1)), picked


def likelihoods(view: ChoiceView, options: Mapping[str, Any]) -> tuple[Any, tuple[float, ...]]:
    """(right, log-likelihood of every choice), for a task's own aggregation."""
    return list(view.golds) if view.is_multiple else view.golds[0], tuple(view.totals)


def confidence(view: ChoiceView, options: Mapping[str, Any]) -> tuple[float, float]:
    """(probability of the likeliest among the choices, whether it is right), for calibration."""
    _, shares = probabilities(view, options)
    return max(shares), accuracy(view, options)


def probabilities(view: ChoiceView, options: Mapping[str, Any]) -> tuple[Any, list[float]]:
    """(right choice or choices, probability of each choice), for the Brier score."""
    totals = view.totals
    top = max(totals)
    weights = [math.exp(total - top) for total in totals]
    scale = math.fsum(weights)
    right = view.golds if view.is_multiple else view.golds[0]
    return right, [weight / scale for weight in weights]
