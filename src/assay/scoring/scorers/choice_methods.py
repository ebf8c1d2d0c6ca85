"""Multiple-choice scoring methods: each gives every choice a score, and the highest is the prediction.

All of them use the same log-likelihoods. Two need more than the choices' own requests: mutual information the choices
after a null prompt, OpenCompass's rule the likelihood of the whole prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import truediv
from typing import Any

from assay.core.specs import NULL_PROMPTS
from assay.scoring.scorers.multiple_choice import ChoiceView

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


def _mutual_information(metric: str) -> Scores:
    own = NULL_PROMPTS[metric]

    def scores(view: ChoiceView, options: Mapping[str, Any]) -> Sequence[float]:
        alone = view.alone[str(options.get("phrase", own))]
        # An impossible choice is never predicted, however impossible it is without the question.
        return [
            given.total - without.total if given.total > -math.inf else -math.inf
            for given, without in zip(view.logprobs, alone, strict=True)
        ]

    return scores


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
    method.name: method
    for method in (
        Method("raw", "acc", raw, "log-likelihood of the choice"),
        Method("token", "acc_tokens", per_token, "per token of the choice"),
        Method("character", "acc_norm", per_character, "per character of the choice"),
        Method("continuation", "acc_per_char", per_scored_character, "per character of delimiter and choice together"),
        Method("byte", "acc_bytes", per_byte, "per byte of the choice"),
        Method(
            "mutual",
            "acc_mutual_info",
            _mutual_information("acc_mutual_info"),
            "minus the choice's score without a prompt",
        ),
        Method(
            "mutual-phrase",
            "acc_mutual_phrase",
            _mutual_information("acc_mutual_phrase"),
            'minus the choice\'s score after a phrase such as "Answer:"',
        ),
        Method("opencompass", "acc_opencompass", whole_prompt, "mean over the tokens of the whole prompt and choice"),
    )
}
