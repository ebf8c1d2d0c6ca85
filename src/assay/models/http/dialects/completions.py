"""OpenAI's completions: generation, and log-likelihoods by `echo` and `logprobs` with token ids as the prompt.

The form that most servers with log-probabilities of prompts have. Its log-probabilities are lists over the prompt,
whose first entry is null, followed by at most one generated token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assay.core.requests import Message
from assay.core.responses import Failure, Text
from assay.models.http.dialects.reading import (
    OPTIONAL,
    Written,
    check_ids,
    check_logprobs,
    check_prompt_count,
    choices_of,
    count_of,
    generated_text,
    list_of,
    logprob_of,
    mapping_of,
    sampling_fields,
    sent_stops,
)
from assay.models.http.exchange import Exchange, GenerationCall, Step, TokenScore, Unreadable

_OPTIONS = frozenset({"top_p", "frequency_penalty", "presence_penalty"})
PATH = "completions"
_LOGPROBS = "logprobs: echo or logprobs is ignored"


@dataclass(frozen=True, slots=True)
class Completions:
    """Requests to `/v1/completions`.

    Attributes:
        model: the model's name at the server.
        seed: seed of sampled generations whose request has none.
        options: decoding options that the server has.
    """

    name: ClassVar[str] = "openai"
    model: str
    seed: int | None = None
    options: frozenset[str] = _OPTIONS

    def score(self, ids: Sequence[int], scored: int) -> Exchange[list[TokenScore]]:
        return Exchange(PATH, self._echo(list(ids)), partial(self._read_score, ids=ids, scored=scored))

    def batch(self, rows: Sequence[Sequence[int]]) -> Exchange[list[list[TokenScore]]] | None:
        return Exchange(PATH, self._echo([list(row) for row in rows]), partial(self._read_batch, rows=rows))

    def step(self, ids: Sequence[int]) -> Exchange[Step]:
        body = {"model": self.model, "prompt": list(ids), "max_tokens": 1, "temperature": 0, "logprobs": 1}
        return Exchange(PATH, body, _read_step)

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text after a prompt of text or token ids."""
        return completion(call, self.model, self.options, self.seed)

    def _echo(self, prompt: Any) -> dict[str, Any]:
        # max_tokens 1, since not every server accepts 0; the generated token is not read.
        return {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}

    def _read_score(self, data: Mapping[str, Any], ids: Sequence[int], scored: int) -> list[TokenScore]:
        check_prompt_count(data, len(ids))
        return _read_echo(choices_of(data)[0], ids, scored)

    def _read_batch(self, data: Mapping[str, Any], rows: Sequence[Sequence[int]]) -> list[list[TokenScore]]:
        pairs = zip(choices_of(data, len(rows)), rows, strict=True)
        return [_read_echo(choice, row, len(row) - 1) for choice, row in pairs]


def completion(call: GenerationCall, model: str, options: frozenset[str], seed: int | None) -> Exchange[Text] | Failure:
    """A generation by `/v1/completions`, for every server that has it."""
    if isinstance(call.sent, tuple) and call.sent and isinstance(call.sent[0], Message):
        message = "conversations are not sent to /v1/completions; use --model openai-chat"
        return Failure("unsupported", message, retryable=False)
    fields = sampling_fields(call.request, options, seed)
    if isinstance(fields, Failure):
        return fields
    prompt = call.sent if isinstance(call.sent, str) else list(call.sent)
    body = {"model": model, "prompt": prompt, "max_tokens": call.max_tokens, **fields}
    if stops := sent_stops(call):
        body["stop"] = list(stops)

    def read(data: Mapping[str, Any]) -> Text | Failure:
        choice = choices_of(data)[0]
        written = Written(
            choice.get("text"),
            choice.get("finish_reason"),
            prompt_tokens=count_of(data, "prompt_tokens"),
            new_tokens=count_of(data, "completion_tokens"),
            stops=stops,
            limit=call.max_tokens,
        )
        return generated_text(written, call)

    return Exchange(PATH, body, read, OPTIONAL)


def _read_echo(choice: Mapping[str, Any], ids: Sequence[int], scored: int) -> list[TokenScore]:
    """The scores of the last ids. All log-probabilities are checked."""
    check_ids(choice.get("prompt_token_ids"), ids, "prompt_token_ids")
    logprobs = mapping_of(choice.get("logprobs"), _LOGPROBS)
    values = list_of(logprobs.get("token_logprobs"), "token_logprobs")
    if len(values) not in (len(ids), len(ids) + 1):
        found = f"token_logprobs has {len(values)} entries; expected {len(ids)} or {len(ids) + 1} for a prompt of"
        hint = ": echo is ignored" if len(values) <= 1 else ": the server adds or drops a token"
        raise Unreadable("token_count", f"{found} {len(ids)} tokens{hint}")
    if values[0] is not None:
        raise Unreadable("shifted", f"the first token has the log-probability {values[0]!r}; expected null")
    tops = list_of(logprobs.get("top_logprobs"), "top_logprobs", len(values))
    first = len(ids) - scored
    check_logprobs(values[1:first], 1)
    scores = []
    for place in range(first, len(ids)):
        value = logprob_of(values[place], place)
        scores.append(TokenScore(value, value >= _best(tops[place], place)))
    return scores


def _best(top: Any, place: int) -> float:
    """The highest log-probability of a position."""
    if type(top) is not dict or not top:
        raise Unreadable("no_logprobs", f"top_logprobs of token {place} is empty")
    return max([logprob_of(value, place) for value in top.values()])


def _read_step(data: Mapping[str, Any]) -> Step:
    choice = choices_of(data)[0]
    logprobs = mapping_of(choice.get("logprobs"), _LOGPROBS)
    if "content" in logprobs:
        raise Unreadable("no_logprobs", "logprobs has the form of chat completions, which has none of prompts")
    tokens = list_of(logprobs.get("tokens"), "tokens", 1)
    values = list_of(logprobs.get("token_logprobs"), "token_logprobs", 1)
    ids = choice.get("token_ids")
    known = ids[0] if isinstance(ids, list) and len(ids) == 1 and type(ids[0]) is int else None
    return Step(known, str(tokens[0]), logprob_of(values[0], "of the generated token"))
