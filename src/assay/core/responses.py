"""What a model gave back: an output worth storing, or a failure, which is data and never an exception."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

from assay.core.errors import AssayError
from assay.core.secrets import redacted_text

# Notes that a model attaches to an output, or a task to a document as asked. They are counted over a run and shown; an
# unknown one is shown by name.
NOTE_TEXTS = {
    "own_example_shown": "documents are among their own few-shot examples, so their prompts show the right answer",
    "own_example_replaced": "documents were drawn among their own few-shot examples; another example stands there"
    " (lm-eval shows the document itself: --like lm-eval)",
    "null_written": "prompts or answers hold the word None, as a field without a value (null) was written into them",
    "question_dropped": "the chat template left the question out, or changed its words",
    "turn_dropped": "the chat template left out earlier turns (few-shot examples), or changed their words",
    "positive_logprob": "log-likelihoods are above 0, which no probability has",
    "zero_probability": "log-likelihoods are -inf: the model gives these answers a probability of 0",
    "demonstration_cut": "demonstrations were cut to the most tokens that each may have (the style's limit)",
    "question_cut": "questions were cut to the most tokens that each may have with its options (the style's limit)",
    "double_bos": "prompts began with two BOS tokens",
    "empty_prompt": "prompts were empty and stood on the prefix token alone",
    "joined_token": "a token spans prompt and continuation; what follows it was scored, as lm-eval does",
    "split_token": "continuations shared a token with their prompt and were scored from the split point on",
    "system_dropped": "the chat template knows no system role, or ignores it; the system text was left out",
    "stop_at_limit": "answers ran into the token limit",
}


@dataclass(frozen=True, slots=True)
class Logprob:
    """The log-likelihood of a continuation or text.

    Attributes:
        total: natural log of the probability of all tokens together.
        token_count: how many tokens were scored.
        is_greedy: whether greedy decoding would have said the same.
        prompt_tokens: tokens of context that the model saw.
        truncated: tokens of context that were cut from the left because the model takes no more.
        notes: names of oddities, see `NOTE_TEXTS`.
        windows: in how many windows a whole text with tokens was read; None where that is not told.
    """

    total: float
    token_count: int
    is_greedy: bool
    prompt_tokens: int = 0
    truncated: int = 0
    notes: tuple[str, ...] = ()
    windows: int | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Generated text, cut before the first stop string.

    Attributes:
        text: what was said.
        finish_reason: `stop` (a stop string), `eos` (the model ended) or `length` (the token limit).
        token_count: new tokens generated.
        prompt_tokens: tokens of prompt that the model saw.
        truncated: tokens of prompt that were cut from the left.
        notes: names of oddities.
    """

    text: str
    finish_reason: str = "stop"
    token_count: int = 0
    prompt_tokens: int = 0
    truncated: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_cut_off(self) -> bool:
        """Whether the token limit ended it."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class LabelScores:
    """What a head gives the labels of a text, or the choices of a question.

    Attributes:
        scores: natural log of each one's probability among them, in the request's order.
        prompt_tokens: tokens that the model saw, of the longest pair where it read several.
        truncated: tokens that were cut because the model takes no more, of all pairs together.
        notes: names of oddities.
    """

    scores: tuple[float, ...]
    prompt_tokens: int = 0
    truncated: int = 0
    notes: tuple[str, ...] = ()


Output = Union[Logprob, Text, LabelScores]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no usable answer.

    Attributes:
        kind: a short name to count by. Of models: `out_of_memory`, `too_long`, `empty`, `unsupported`, `error`. Of
            the check of every answer (`core/output_checks.py`): `invalid`, `not_finite`, `positive_logprob`,
            `answered_twice`, `misnumbered`, `no_answer`. Of the store: `missing`, `unreadable`.
        message: what happened, for people; secrets are hidden, whoever wrote it.
        retryable: whether asking again may help.
    """

    kind: str
    message: str
    retryable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redacted_text(str(self.message)))


def unsupported(kind: str) -> Failure:
    """The answer of a model to a kind of request that it cannot take."""
    return Failure("unsupported", f"the model cannot answer {kind} requests", retryable=False)


class Response(NamedTuple):
    """An output and the key it is stored under. A tuple, as it is made once per answer of the fastest models."""

    key: bytes
    output: Output


# (total, is_greedy, token_count, prompt_tokens, truncated, extra): an output as flat values for a table. `extra` is
# JSON with what few outputs have: the text, why it ended, notes, windows. A plain log-probability has none.
FlatOutput = tuple[Union[float, None], Union[int, None], int, int, int, Union[str, None]]


def flatten(output: Output) -> FlatOutput:
    """An output as flat values. Numbers and texts survive exactly, lone surrogates too.

    Only a high surrogate right before a low one comes back as the one character that the two stand for.
    """
    if isinstance(output, Logprob):
        details: dict[str, Any] = {"notes": output.notes} if output.notes else {}
        if output.windows is not None:
            details["windows"] = output.windows
        extra = json.dumps(details) if details else None
        greedy = 1 if output.is_greedy else 0
        return output.total, greedy, output.token_count, output.prompt_tokens, output.truncated, extra
    data: dict[str, Any]
    if isinstance(output, LabelScores):
        data = {"scores": output.scores}
    else:
        data = {"text": output.text, "finish": output.finish_reason}
    if output.notes:
        data["notes"] = output.notes
    token_count = 0 if isinstance(output, LabelScores) else output.token_count
    return None, None, token_count, output.prompt_tokens, output.truncated, json.dumps(data)


def unflatten(row: FlatOutput) -> Output:
    """The output that `flatten` took apart."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = row
    if extra is None and total is not None:
        return Logprob(total, token_count, bool(is_greedy), prompt_tokens, truncated)
    data = json.loads(extra or "{}")
    notes = tuple(data.get("notes", ()))
    if total is not None:
        return Logprob(total, token_count, bool(is_greedy), prompt_tokens, truncated, notes, data.get("windows"))
    if "text" in data:
        return Text(data["text"], data["finish"], token_count, prompt_tokens, truncated, notes)
    if "scores" in data:
        return LabelScores(tuple(data["scores"]), prompt_tokens, truncated, notes)
    raise AssayError("a stored output is no log-probability, no text and no scores: written by a newer Assay?")
