"""Multiple choice: a question with the likelihoods of its choices, the scoring methods, and values of a prediction.

A method gives every choice a score, and the highest is the prediction. All methods use the same log-likelihoods. Two
need more than the choices' own requests: mutual information the choices after a null prompt, OpenCompass's rule the
likelihood of the whole prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import truediv
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.core.requests import Instance, Request
from assay.core.responses import GREEDY_UNKNOWN, Logprob
from assay.core.specs import NULL_PROMPTS

_NOTHING: Mapping[str, Sequence[Logprob]] = MappingProxyType({})


class ChoiceView(NamedTuple):
    """A question with the log-likelihood of each of its choices. A tuple, since one is built per document.

    Attributes:
        logprobs: one per choice; empty if a classifier head scored them.
        totals: their log-likelihoods.
        choices: the choices' texts, without delimiter.
        golds: indices of the right choices; a negative one is never predicted.
        is_multiple: whether several choices are right.
        alone: null prompt → the same choices after it; only those that were requested.
        prompts: the whole prompt before each choice; empty if not requested.
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
    return ChoiceView(
        logprobs=logprobs,
        totals=totals,
        choices=instance.choices,
        golds=golds,
        is_multiple=is_multiple,
        alone=alone,
        prompts=prompts,
        requests=requests,
    )


def scores_view(instance: Instance, results: Sequence[Any]) -> ChoiceView:
    """The view of a document whose labels or choices a classifier head has scored: totals only, without tokens."""
    is_multiple = isinstance(instance.gold, tuple)
    golds = instance.gold if is_multiple else (instance.gold,)
    return ChoiceView((), results[0].scores, instance.choices, golds, is_multiple)


Scores = Callable[[ChoiceView, Mapping[str, Any]], Sequence[float]]


def _shares(totals: Sequence[float], sizes: Iterable[int]) -> list[float]:
    """Totals divided by sizes. An empty choice has no length to divide by; it is never predicted."""
    lengths = list(sizes)
    if all(lengths):
        return list(map(truediv, totals, lengths))
    return [total / length if length else -math.inf for total, length in zip(totals, lengths, strict=True)]


def raw(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """log P(choice | prompt), the sum over its tokens."""
    return view.totals


def per_token(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """The sum per scored token, including those of the delimiter."""
    return _shares(view.totals, [logprob.token_count for logprob in view.logprobs])


def per_character(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """The sum per character of the choice, without the delimiter."""
    return _shares(view.totals, map(len, view.choices))


def per_scored_character(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """The sum per character of the scored text, including the delimiter before the choice."""
    return _shares(view.totals, [len(getattr(request, "continuation", "")) for request in view.requests])


def per_byte(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """The sum per UTF-8 byte of the choice, without the delimiter."""
    return _shares(view.totals, [len(choice.encode("utf-8", "surrogatepass")) for choice in view.choices])


def mutual_information(phrase: str, view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """The sum minus that of the choice after a null prompt: pointwise mutual information."""
    alone = view.alone[str(options.get("phrase", phrase))]
    # An impossible choice is never predicted, however impossible it is without the question.
    return [
        given.total - without.total if given.total > -math.inf else -math.inf
        for given, without in zip(view.logprobs, alone, strict=True)
    ]


def whole_prompt(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
    """Mean log-likelihood of prompt and choice together, over all their tokens.

    As in OpenCompass's Hugging Face models: the first token has no context and is not scored, but counts.
    """
    pairs = list(zip(view.prompts, view.logprobs, strict=True))
    sizes = [prompt.prompt_tokens + prompt.token_count + choice.token_count for prompt, choice in pairs]
    return _shares([prompt.total + choice.total for prompt, choice in pairs], sizes)


@dataclass(frozen=True, slots=True)
class Method:
    """A multiple-choice scoring method.

    Attributes:
        name: short name.
        metric: the accuracy under this method, by its name in task files.
        scores: computes the score of every choice.
        description: half a line.
    """

    name: str
    metric: str
    scores: Scores
    description: str


METHODS = {
    "raw": Method("raw", "acc", raw, "log-likelihood of the choice"),
    "token": Method("token", "acc_tokens", per_token, "per token of the choice"),
    "character": Method("character", "acc_norm", per_character, "per character of the choice"),
    "continuation": Method(
        "continuation", "acc_per_char", per_scored_character, "per character of delimiter and choice together"
    ),
    "byte": Method("byte", "acc_bytes", per_byte, "per byte of the choice"),
    "mutual": Method(
        "mutual",
        "acc_mutual_info",
        partial(mutual_information, NULL_PROMPTS["acc_mutual_info"]),
        "minus the choice's score without a prompt",
    ),
    "mutual-phrase": Method(
        "mutual-phrase",
        "acc_mutual_phrase",
        partial(mutual_information, NULL_PROMPTS["acc_mutual_phrase"]),
        'minus the choice\'s score after a phrase such as "Answer:"',
    ),
    "opencompass": Method(
        "opencompass", "acc_opencompass", whole_prompt, "mean over the tokens of the whole prompt and choice"
    ),
}


def argmax(scores: Sequence[float]) -> int:
    """Index of the highest score; the first one on a tie. No score is NaN: models report that as a failure."""
    return scores.index(max(scores))


def predicted_choice(view: ChoiceView) -> int:
    """The choice of highest log-likelihood."""
    return argmax(view.totals)


def accuracy(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Whether the most likely choice is right."""
    return float(predicted_choice(view) in view.golds)


def accuracy_by(scores: Scores, view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Whether the choice of the highest score is right."""
    return float(argmax(scores(view, options)) in view.golds)


def exact_match(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Whether greedy decoding would produce the right choice; NaN if the model does not say."""
    if not _knows_greedy(view):
        return math.nan
    return float(any(view.logprobs[gold].is_greedy for gold in view.golds if 0 <= gold < len(view.logprobs)))


def greedy_choice(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Whether greedy decoding would produce one of the choices, right or wrong; NaN if the model does not say."""
    return float(any(logprob.is_greedy for logprob in view.logprobs)) if _knows_greedy(view) else math.nan


def _knows_greedy(view: ChoiceView) -> bool:
    return not any(GREEDY_UNKNOWN in logprob.notes for logprob in view.logprobs)


def mass(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Total probability of the choices; equal choices count once."""
    return math.fsum(math.exp(total) for total in dict(zip(view.choices, view.totals, strict=True)).values())


def margin(view: ChoiceView, options: Mapping[str, Any]) -> float | None:
    """Log-likelihood margin of the most likely choice over the next; None if there is no other."""
    if len(view.totals) < 2:
        return None
    second, first = sorted(view.totals)[-2:]
    return first - second if first > second else 0.0


def label_pair(view: ChoiceView, options: Mapping[str, Any]) -> tuple[int, int]:
    """(right, predicted), for F1 and MCC; -1 if no right choice is known."""
    return next(iter(view.golds), -1), predicted_choice(view)


def position_pair(view: ChoiceView, options: Mapping[str, Any]) -> tuple[int, int]:
    """(index of a right choice, predicted index); of several right ones the predicted one, -1 if none is known."""
    predicted = predicted_choice(view)
    known = [gold for gold in view.golds if 0 <= gold < len(view.totals)]
    return (predicted if predicted in known else next(iter(known), -1)), predicted


def positions(view: ChoiceView, options: Mapping[str, Any]) -> dict[str, float]:
    """Per position, whether it is predicted: over documents, the histogram of predictions."""
    predicted = predicted_choice(view)
    return {f"position_{index}": float(index == predicted) for index in range(len(view.totals))}


def likelihoods(view: ChoiceView, options: Mapping[str, Any]) -> tuple[Any, tuple[float, ...]]:
    """(right, log-likelihood of every choice), for a task's own aggregation."""
    return list(view.golds) if view.is_multiple else view.golds[0], tuple(view.totals)


def confidence(view: ChoiceView, options: Mapping[str, Any]) -> tuple[float, float]:
    """(probability of the most likely choice, normalised over the choices, whether it is right), for calibration."""
    _, shares = probabilities(view, options)
    return max(shares), accuracy(view, options)


def covered_confidence(view: ChoiceView, options: Mapping[str, Any]) -> tuple[float, float, float]:
    """The same with the coverage: aggregations have no settings, so it is part of the value."""
    return *confidence(view, options), float(options["coverage"])


def log_loss(view: ChoiceView, options: Mapping[str, Any]) -> float | None:
    """Negative log of the total probability of the right choices, normalised over the choices; None if unknown."""
    right = [view.totals[gold] for gold in view.golds if 0 <= gold < len(view.totals)]
    # In log space: a probability too small for a float still has its loss.
    return _log_sum(view.totals) - _log_sum(right) if right else None


def _log_sum(totals: Sequence[float]) -> float:
    top = max(totals)
    return top + math.log(math.fsum(math.exp(total - top) for total in totals))


def right_share(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Probability of all right choices together, normalised over the choices: TruthfulQA's MC2 (Lin et al. 2022)."""
    loss = log_loss(view, options)
    return 0.0 if loss is None else math.exp(-loss)


def rank(view: ChoiceView) -> float:
    """Rank of the most likely right choice, 1 for the first; infinite if none is known. Ties get the best rank."""
    right = [view.totals[gold] for gold in view.golds if 0 <= gold < len(view.totals)]
    return 1 + sum(total > max(right) for total in view.totals) if right else math.inf


def reciprocal_rank(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """1 / rank of the right choice."""
    return 1 / rank(view)


def among_two(view: ChoiceView, options: Mapping[str, Any]) -> float:
    """Whether a right choice is one of the two most likely."""
    return float(rank(view) <= 2)


def probabilities(view: ChoiceView, options: Mapping[str, Any]) -> tuple[Any, list[float]]:
    """(right choice or choices, probability of each choice), for the Brier score."""
    totals = view.totals
    top = max(totals)
    # If all choices are impossible, all are equally likely.
    weights = [math.exp(total - top) for total in totals] if top > -math.inf else [1.0] * len(totals)
    scale = math.fsum(weights)
    right = view.golds if view.is_multiple else view.golds[0]
    return right, [weight / scale for weight in weights]
