"""Validates every answer of a model and converts it to plain Python before it is stored or scored.

In: whatever a model returned for a request. Out: an output of plain Python values that matches the request, or a
`Failure` that says what was returned and what was expected.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Generation,
    Loglikelihood,
    Rating,
    Request,
    RollingLoglikelihood,
    SpanExtraction,
)
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text

# How far above 0 rounding may leave the log-probability of one token.
LOGPROB_TOLERANCE = 1e-3
FINISH_REASONS = ("stop", "eos", "length")

# Finish reasons of servers and libraries → Assay's.
_FINISH_REASON_ALIASES = {
    "max_tokens": "length",
    "max_length": "length",
    "max_new_tokens": "length",
    "eos_token": "eos",
    "end_turn": "eos",
    "stop_sequence": "stop",
}
_LARGEST_COUNT = 2**63 - 1  # the largest integer that the store's columns hold
_LONGEST_SHOWN = 80
OUTPUT_CLASSES: Mapping[str, type[Logprob] | type[Text] | type[LabelScores]] = {
    Loglikelihood.kind: Logprob,
    RollingLoglikelihood.kind: Logprob,
    Generation.kind: Text,
    SpanExtraction.kind: Text,
    Rating.kind: Text,
    Classification.kind: LabelScores,
    ChoiceSelection.kind: LabelScores,
}
_Value = TypeVar("_Value")


class _InvalidAnswer(Exception):
    """A value that cannot be accepted; carries the kind and the message of the failure."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def check_answer(answer: object, request: Request) -> Output | Failure:
    """The answer as plain values, or a failure if it does not match the request."""
    # Most answers are plain log-probabilities, hundreds of thousands per run: recognised in one expression.
    if (
        type(answer) is Logprob
        and type(answer.total) is float
        and -math.inf < answer.total <= 0.0
        and type(answer.is_greedy) is bool
        and type(answer.token_count) is type(answer.prompt_tokens) is type(answer.truncated) is int
        and 0 <= answer.token_count | answer.prompt_tokens | answer.truncated <= _LARGEST_COUNT
        and not answer.notes
        and answer.windows is None
        and OUTPUT_CLASSES[request.kind] is Logprob
    ):
        return answer
    try:
        return _plain(answer, request)
    except _InvalidAnswer as invalid:
        retryable = invalid.kind == "not_finite"
        return Failure(invalid.kind, f"{invalid}, in the answer to a {request.kind} request", retryable)


def matches_request(output: Output, request: Request) -> bool:
    """Whether an output is of the kind that a request needs, with one score per label or choice."""
    if type(output) is not OUTPUT_CLASSES[request.kind]:
        return False
    return not isinstance(output, LabelScores) or len(output.scores) == _score_count(request)


def is_valid_output(output: Output) -> bool:
    """Whether an output holds plain values, each in its range, independent of its request."""
    try:
        return _READERS[type(output)](output) == output
    except _InvalidAnswer:
        return False


def is_above_probability_one(output: Output) -> bool:
    """Whether a log-probability corresponds to a probability above 1; rounded sums may exceed 0 slightly."""
    if isinstance(output, Logprob):
        return output.total > 0 and output.total > LOGPROB_TOLERANCE * max(1, output.token_count)
    return isinstance(output, LabelScores) and any(score > LOGPROB_TOLERANCE for score in output.scores)


def _plain(answer: object, request: Request) -> Output | Failure:
    if isinstance(answer, Failure):
        return Failure(_encodable(answer.kind), _encodable(answer.message), bool(answer.retryable))
    wanted = OUTPUT_CLASSES[request.kind]
    if not isinstance(answer, wanted):
        raise _InvalidAnswer("invalid", f"returned {shown(answer)}; expected a {wanted.__name__} or a Failure")
    output = _READERS[wanted](answer)
    if is_above_probability_one(output):
        highest = output.total if isinstance(output, Logprob) else max(output.scores)  # type: ignore[union-attr]
        raise _InvalidAnswer("positive_logprob", f"returned the log-likelihood {highest:g}; expected at most 0")
    if isinstance(output, LabelScores) and len(output.scores) != _score_count(request):
        found = f"returned {len(output.scores)} scores; expected {_score_count(request)}, one per label or choice"
        raise _InvalidAnswer("invalid", found)
    return output


def _plain_logprob(answer: Any) -> Logprob:
    total = _convert_field("total", answer.total, _as_logprob, "a number")
    return Logprob(
        total=total,
        token_count=_count("token_count", answer.token_count),
        is_greedy=_convert_field("is_greedy", answer.is_greedy, _as_bool, "True or False"),
        prompt_tokens=_count("prompt_tokens", answer.prompt_tokens),
        truncated=_count("truncated", answer.truncated),
        notes=_with_zero_probability_note(_notes(answer.notes), [total]),
        windows=None if answer.windows is None else _count("windows", answer.windows),
    )


def _plain_text(answer: Any) -> Text:
    reason, notes = _finish_reason(answer.finish_reason)
    return Text(
        text=_convert_field("text", answer.text, _as_text, "a str"),
        finish_reason=reason,
        token_count=_count("token_count", answer.token_count),
        prompt_tokens=_count("prompt_tokens", answer.prompt_tokens),
        truncated=_count("truncated", answer.truncated),
        notes=(*_notes(answer.notes), *notes),
        reasoning=_convert_field("reasoning", answer.reasoning, _as_text, "a str"),
    )


def _plain_scores(answer: Any) -> LabelScores:
    scores = _convert_field(
        "scores", answer.scores, lambda scores: tuple(map(_as_logprob, scores)), "a tuple of numbers"
    )
    return LabelScores(
        scores,
        _count("prompt_tokens", answer.prompt_tokens),
        _count("truncated", answer.truncated),
        _with_zero_probability_note(_notes(answer.notes), scores),
    )


_READERS: dict[type, Callable[[Any], Output]] = {
    Logprob: _plain_logprob,
    Text: _plain_text,
    LabelScores: _plain_scores,
}


def _convert_field(name: str, value: object, convert: Callable[[Any], _Value], expected: str) -> _Value:
    """Converts a value to plain Python: numpy and torch scalars become numbers."""
    try:
        return convert(value)
    except _InvalidAnswer:
        raise
    except Exception as error:  # values of other libraries may raise anything
        raise _InvalidAnswer("invalid", f"returned {name}={shown(value)}; expected {expected}") from error


def _count(name: str, value: object) -> int:
    return _convert_field(name, value, _as_count, "a whole number from 0 on")


def _as_logprob(value: Any) -> float:
    if isinstance(value, (bool, str, bytes, bytearray)):
        raise TypeError
    number = float(value)
    if math.isnan(number) or number == math.inf:
        raise _InvalidAnswer("not_finite", f"returned the log-likelihood {number}; expected a number or -inf")
    return number


def _as_count(value: Any) -> int:
    number = int(value) if isinstance(value, float) and value.is_integer() else int(operator.index(value))
    if not 0 <= number <= _LARGEST_COUNT:
        raise ValueError
    return number


def _as_bool(value: Any) -> bool:
    if isinstance(value, (str, bytes)) or not (value == 0 or value == 1):
        raise TypeError
    return bool(value)


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    # Two halves of a surrogate pair become one character, as they would on the way through the store.
    text = str(value)
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _finish_reason(reason: object) -> tuple[str, tuple[str, ...]]:
    """One of our finish reasons; an unknown reason of another library is recorded as a note."""
    if reason is None:
        return "stop", ()
    if not isinstance(reason, str):
        raise _InvalidAnswer(
            "invalid", f"returned finish_reason={shown(reason)}; expected one of {', '.join(FINISH_REASONS)}"
        )
    found = _FINISH_REASON_ALIASES.get(reason, reason)
    return (str(found), ()) if found in FINISH_REASONS else ("stop", (f"finish_reason {reason}",))


def _notes(value: Any) -> tuple[str, ...]:
    """The names as a tuple; a single string is one name, not a sequence of letters."""
    if not value:
        return ()
    names = [value] if isinstance(value, str) else value
    return _convert_field("notes", names, lambda names: tuple(map(_as_text, names)), "a tuple of names")


def _with_zero_probability_note(notes: tuple[str, ...], totals: Sequence[float]) -> tuple[str, ...]:
    """Probabilities of 0 are legal and rare, and many of them hint at a bug (an overflow), so they are counted."""
    return (*notes, "zero_probability") if -math.inf in totals and "zero_probability" not in notes else notes


def _score_count(request: Request) -> int:
    if isinstance(request, Classification):
        return len(request.labels)
    return len(request.choices) if isinstance(request, ChoiceSelection) else 0


def _encodable(value: object) -> str:
    """A string that can always be stored and printed: lone surrogates are written as escapes."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """A value as a message shows it: the start of its repr, and its type."""
    try:
        text = repr(value)
    except Exception:  # a broken repr must not end the run that reports it
        text = "…"
    text = _encodable(text)
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
    return f"{shown} ({type(value).__name__})"
