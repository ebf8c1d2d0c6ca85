"""A model without weights: its answers are a function of the question's text, the same in every process.

Log-likelihoods are hashes. Generated texts are chosen by a hash among shapes that filters and metrics look for,
some made from the right answer, so that scores are neither all right nor all wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

WRONG_SHAPES = (
    "The answer is (B).",
    "#### 42",
    " A",
    "yes",
    "No, that is false.",
    "{last}",
    " {number}",
    "",
    "Let us think step by step. 3 + 4 = 7, so the answer is {number}.\n\nQuestion: What next?",
    "So the best answer is (C).",
    "The final answer is: $\\boxed{{{number}}}$. I hope it is correct.",
    "unanswerable",
    "\n  D. perhaps\n",
    "Ünïcödé “quotes” – ２ x² …",
)
RIGHT_SHAPES = (
    "{right}",
    " {right}",
    "The answer is {right}.",
    "Let us think. So the answer is {right}.",
    "So the answer is {right}. The answer is {right}.\n#### {right}",
    "The best answer is {right}. The final answer is {right}. The answer is {right}. #### {right}",
    "Final Answer: The final answer is ${right}$. I hope it is correct. The answer is ({right}).",
    "We see that $\\boxed{{{right}}}$.",
    "{right}\n\nQuestion: What next?",
    "{shouted}!",
)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def loglikelihood(context: str, continuation: str) -> tuple[float, bool]:
    """A number in [-20, 0) and whether greedy decoding would have said the same."""
    found = _digest(context, continuation)
    return -20.0 * (int(found[:6], 16) + 1) / 16**6, found[6] in "0123"


def rolling_loglikelihood(text: str) -> float:
    """About one nat per three characters."""
    return loglikelihood("rolling", text)[0] * (1 + len(text)) / 30


def prompt_key(context: str, draw: int) -> str:
    """Name of an answer in a table of answers."""
    return _digest(context, str(draw))[:24]


def generation(context: str, stops: Sequence[str], draw: int, right: Sequence[str]) -> str:
    """A text for a prompt, ended before the first stop.

    Args:
        context: the prompt.
        stops: where the text ends.
        draw: which of several samples this is.
        right: right answers, where the caller knows them; used for two texts in three.
    """
    number = int(_digest(context, "text", str(draw))[:12], 16)
    if number % 4:
        # Samples of one prompt mostly agree, so that a vote among them has a winner.
        number = int(_digest(context, "text")[:12], 16)
    words = {"last": " ".join(context.split()[-3:]), "number": str(number % 97)}
    if right and (number >> 4) % 3:
        answer = right[(number >> 8) % len(right)]
        shape = RIGHT_SHAPES[(number >> 16) % len(RIGHT_SHAPES)]
        return _cut(shape.format(right=answer, shouted=answer.upper(), **words), stops)
    return _cut(WRONG_SHAPES[(number >> 16) % len(WRONG_SHAPES)].format(**words), stops)


def is_sampled(settings: Mapping[str, Any]) -> bool:
    """Whether generation settings of a task file ask for random draws."""
    return bool(settings.get("do_sample", float(settings.get("temperature") or 0) > 0))


def for_weights(settings: Mapping[str, Any], max_tokens: int | None) -> dict[str, Any]:
    """What changes in a task's generation settings for a model with weights.

    Two programs draw differently, so it is asked for its likeliest answer instead.
    """
    greedy = {"do_sample": False, "temperature": 0.0} if is_sampled(settings) else {}
    return {**greedy, **({} if max_tokens is None else {"max_gen_toks": max_tokens})}


def _cut(text: str, stops: Sequence[str]) -> str:
    for stop in stops:
        if stop:
            text = text.split(stop)[0]
    return text
