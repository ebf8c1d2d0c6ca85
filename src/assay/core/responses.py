"""A model's response: an output worth storing, or a failure, which is data and never an exception."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

from assay.core.errors import AssayError
from assay.core.secrets import redacted_text

# A note: a log-likelihood whose `is_greedy` says nothing.
GREEDY_UNKNOWN = "greedy_unknown"
# Notes that a model attaches to an output, or a task to a built document. They are counted over a run and reported;
# unknown notes are reported by name.
NOTE_TEXTS = {
    "own_example_shown": "documents are among their own few-shot examples, so their prompts show the right answer",
    "own_example_replaced": "documents were drawn among their own few-shot examples and replaced by another example"
    " (lm-eval shows the document itself: --like lm-eval)",
    "null_written": "prompts or answers contain the word None, because a field without a value (null) was inserted",
    "question_dropped": "the chat template dropped the question or changed its words",
    "turn_dropped": "the chat template dropped earlier turns (few-shot examples) or changed their words",
    "positive_logprob": "log-likelihoods are above 0, which is not possible for a probability",
    "zero_probability": "log-likelihoods are -inf: the model gives these answers a probability of 0",
    "demonstration_cut": "demonstrations were truncated to the style's token limit per demonstration",
    "question_cut": "questions were truncated to the style's token limit for a question with its options",
    "double_bos": "prompts began with two BOS tokens",
    "empty_prompt": "prompts were empty, so answers were scored after the prefix token only",
    "joined_token": "a token spans prompt and continuation; the tokens after it were scored, as in lm-eval",
    "split_token": "continuations shared a token with their prompt and were scored from the split point on",
    "system_dropped": "the chat template has no system role or ignores it; the system text was dropped",
    "stop_at_limit": "answers reached the token limit",
    "temperature_refused": "the model takes no temperature: answers were sampled at its own one, greedy ones too",
    "top_p_refused": "the model takes no top_p: answers were sampled without it",
    "top_k_refused": "the model takes no top_k: answers were sampled without it",
    "seed_refused": "the model takes no seed: sampled answers cannot be repeated",
    "stop_refused": "the model takes no stop strings: answers were cut at them afterwards",
    "stop_ignored": "the server wrote on after a stop string: answers were cut there afterwards",
    "limit_ignored": "the server wrote more tokens than it was allowed to",
    "prefill_repeated": "the server repeated the beginning of the answer that it was given; it was removed",
    GREEDY_UNKNOWN: "the server does not say whether answers are the most likely ones, so exact greedy matches have no"
    " score",
    "by_top_logprobs": "choices were compared by the log-probability of their letter as the first token of a chat"
    " answer (choices=top_logprobs), not as a continuation of the prompt",
    "outside_top_k": "choices were not among the most likely tokens that the server lists; their log-probability is an"
    " upper bound, which leaves the most likely choice as it is",
    "constrained": "answers were constrained to the texts of constrain=… in --model_args",
}


@dataclass(frozen=True, slots=True)
class Logprob:
    """The log-likelihood of a continuation or text.

    Attributes:
        total: natural log of the probability of all tokens together.
        token_count: number of scored tokens.
        is_greedy: whether greedy decoding would have produced the same tokens.
        prompt_tokens: tokens of context that the model saw.
        truncated: tokens of context cut from the left to fit the model's context.
        notes: names of peculiarities, see `NOTE_TEXTS`.
        windows: number of windows in which a non-empty text was read; None if unknown.
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
        text: the generated text.
        finish_reason: `stop` (a stop string), `eos` (the model ended) or `length` (the token limit).
        token_count: new tokens generated.
        prompt_tokens: tokens of prompt that the model saw.
        truncated: tokens of prompt cut from the left.
        notes: names of peculiarities.
        reasoning: what the model wrote before its answer and apart from it; never scored.
    """

    text: str
    finish_reason: str = "stop"
    token_count: int = 0
    prompt_tokens: int = 0
    truncated: int = 0
    notes: tuple[str, ...] = ()
    reasoning: str = ""

    @property
    def is_cut_off(self) -> bool:
        """Whether it ended at the token limit."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class LabelScores:
    """A head's scores for the labels of a text, or for the choices of a question.

    Attributes:
        scores: natural log of the probability of each, normalised over them, in the request's order.
        prompt_tokens: tokens that the model saw; of the longest pair if it read several.
        truncated: tokens cut to fit the model's context, of all pairs together.
        notes: names of peculiarities.
    """

    scores: tuple[float, ...]
    prompt_tokens: int = 0
    truncated: int = 0
    notes: tuple[str, ...] = ()


Output = Union[Logprob, Text, LabelScores]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a usable answer.

    Attributes:
        kind: a short name to count by. From models: `out_of_memory`, `too_long`, `empty`, `unsupported`, `error`. From
            the validation of answers (`core/output_checks.py`): `invalid`, `not_finite`, `positive_logprob`,
            `answered_twice`, `misnumbered`, `no_answer`. From the store: `missing`, `unreadable`.
        message: what happened; secrets are redacted, whoever wrote it.
        retryable: whether a retry may help.
    """

    kind: str
    message: str
    retryable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redacted_text(str(self.message)))


def unsupported(kind: str) -> Failure:
    """A model's answer to a kind of request that it does not support."""
    return Failure("unsupported", f"the model cannot answer {kind} requests", retryable=False)


class Response(NamedTuple):
    """An output and its storage key. A tuple, since one is created per answer of the fastest models."""

    key: bytes
    output: Output


# (total, is_greedy, token_count, prompt_tokens, truncated, extra): an output as flat values for a table. `extra` is
# JSON with rarer fields: the text, the finish reason, notes, windows, reasoning. A plain log-probability has none.
FlatOutput = tuple[Union[float, None], Union[int, None], int, int, int, Union[str, None]]


def flatten(output: Output) -> FlatOutput:
    """An output as flat values. Numbers and texts survive exactly, including lone surrogates.

    Only a high surrogate directly before a low one comes back as the single character that the pair encodes.
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
        if output.reasoning:
            data["reasoning"] = output.reasoning
    if output.notes:
        data["notes"] = output.notes
    token_count = 0 if isinstance(output, LabelScores) else output.token_count
    return None, None, token_count, output.prompt_tokens, output.truncated, json.dumps(data)


def unflatten(row: FlatOutput) -> Output:
    """The inverse of `flatten`."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = row
    if extra is None and total is not None:
        return Logprob(total, token_count, bool(is_greedy), prompt_tokens, truncated)
    data = json.loads(extra or "{}")
    notes = tuple(data.get("notes", ()))
    if total is not None:
        return Logprob(
            total=total,
            token_count=token_count,
            is_greedy=bool(is_greedy),
            prompt_tokens=prompt_tokens,
            truncated=truncated,
            notes=notes,
            windows=data.get("windows"),
        )
    if "text" in data:
        return Text(
            text=data["text"],
            finish_reason=data["finish"],
            token_count=token_count,
            prompt_tokens=prompt_tokens,
            truncated=truncated,
            notes=notes,
            reasoning=data.get("reasoning", ""),
        )
    if "scores" in data:
        return LabelScores(tuple(data["scores"]), prompt_tokens, truncated, notes)
    raise AssayError("a stored output is not a log-probability, text or label scores: written by a newer Assay?")
