"""Multiple choice by the log-probabilities of the letters as the first token of a chat answer.

In: requests for the log-likelihood of single letters after the same prompt, and the server's most likely first tokens.
Out: a log-probability for each letter. One request answers all letters of a question. A letter that is not listed has
at most the probability of the last token listed: this bound leaves the most likely choice as it is, and is noted. If no
letter is listed, nothing is known, and the question is a failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.core.requests import Demonstrated, Loglikelihood, Message
from assay.core.responses import Failure, Logprob
from assay.models.http.exchange import FirstTokens

NOTE, BOUND_NOTE = "by_top_logprobs", "outside_top_k"
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Question:
    """The letters that are asked for after one prompt.

    Attributes:
        prompt: the prompt.
        places: indices of the requests.
        letters: the letter of each.
    """

    prompt: str | tuple[Message, ...]
    places: tuple[int, ...]
    letters: tuple[str, ...]


def questions_of(
    requests: Iterable[tuple[int, Loglikelihood]],
) -> tuple[list[Question], list[tuple[int, Failure]]]:
    """The questions in the order of their first requests, and failures of requests that are not for a letter."""
    found: dict[str | tuple[Message, ...], list[tuple[int, str]]] = {}
    failures: list[tuple[int, Failure]] = []
    for index, request in requests:
        letter = request.continuation.strip()
        if isinstance(request.prompt, Demonstrated) or not _is_single(letter):
            failures.append((index, _not_a_letter(request.continuation)))
        else:
            found.setdefault(request.prompt, []).append((index, letter))
    questions = [
        Question(prompt, tuple(index for index, _ in entries), tuple(letter for _, letter in entries))
        for prompt, entries in found.items()
    ]
    return questions, failures


def compared(found: FirstTokens, letters: Sequence[str]) -> list[Logprob | Failure]:
    """The log-probability of each letter; tokens that differ in white space alone are the same letter."""
    listed = {letter: [value for text, value in found.tokens if text.strip() == letter] for letter in letters}
    if not any(listed.values()):
        shown = ", ".join(repr(text) for text, _ in found.tokens[:5])
        message = f"none of the letters is among the {len(found.tokens)} most likely first tokens ({shown}, …)"
        return [Failure("outside_top_k", message, retryable=False)] * len(letters)
    likeliest = max(value for _, value in found.tokens)
    # Below every token that is listed, so that a letter that is not cannot tie with one that is.
    bound = math.nextafter(min(value for _, value in found.tokens), -math.inf)
    answers: list[Logprob | Failure] = []
    for letter in letters:
        values = listed[letter]
        total = min(_log_sum(values), 0.0) if values else bound
        notes = (NOTE,) if values else (NOTE, BOUND_NOTE)
        is_greedy = bool(values) and max(values) == likeliest
        answers.append(Logprob(total, 1, is_greedy, prompt_tokens=found.prompt_tokens, notes=notes))
    return answers


def fault_of(found: FirstTokens | Failure) -> str:
    """Why log-probabilities of first tokens cannot be used; empty if they can."""
    if isinstance(found, Failure):
        return found.message
    if len(found.tokens) < 2:
        return f"the server lists {len(found.tokens)} first tokens; expected at least 2"
    total = math.fsum(math.exp(value) for _, value in found.tokens)
    if total > 1 + _ROUNDING:
        return f"the probabilities of the first tokens add up to {total:.3g}: they are not log-probabilities"
    return ""


def _log_sum(values: Sequence[float]) -> float:
    """The log of the sum of probabilities."""
    highest = max(values)
    if highest == -math.inf or len(values) == 1:
        return highest
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))


def _is_single(letter: str) -> bool:
    return len(letter) == 1 and letter.isascii() and letter.isalnum()


def _not_a_letter(continuation: str) -> Failure:
    message = (
        f"choices=top_logprobs compares single letters; {continuation[:40]!r} is none. Use TASK@letters, or "
        "TASK@generate for generated answers"
    )
    return Failure("unsupported", message, retryable=False)
