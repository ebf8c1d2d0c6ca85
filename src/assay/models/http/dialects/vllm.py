"""vLLM: log-likelihoods by `prompt_logprobs: 0` without echo, which returns the true tokens only, by id and with rank.

Cheaper and safer than echo: no strings, `rank == 1` is greedy, and `prompt_token_ids` proves what was scored. Choices
of one token are asked for by `logprob_token_ids`, all in one request, which reads the prefix cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assay.core.responses import Failure, Text
from assay.models.http.dialects.chat_completions import ChatServer, template_switch
from assay.models.http.dialects.completions import PATH, completion
from assay.models.http.dialects.reading import (
    Constraint,
    check_ids,
    check_prompt_count,
    choices_of,
    list_of,
    logprob_of,
    mapping_of,
)
from assay.models.http.exchange import Exchange, GenerationCall, Step, Thinking, TokenScore, Unreadable

_OPTIONS = frozenset({"top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"})


@dataclass(frozen=True, slots=True)
class Vllm:
    """Requests to a vLLM server.

    Attributes:
        model: the model's name at the server.
        seed: seed of sampled generations whose request has none.
    """

    name: ClassVar[str] = "vllm"
    # vLLM's usual --max-logprobs; it accepts 128 ids in logprob_token_ids.
    most_candidates: ClassVar[int] = 20
    model: str
    seed: int | None = None

    def score(self, ids: Sequence[int], scored: int) -> Exchange[list[TokenScore]]:
        return Exchange(PATH, self._body(list(ids)), partial(self._read_score, ids=ids, scored=scored))

    def batch(self, rows: Sequence[Sequence[int]]) -> Exchange[list[list[TokenScore]]] | None:
        return Exchange(PATH, self._body([list(row) for row in rows]), partial(self._read_batch, rows=rows))

    def step(self, ids: Sequence[int]) -> Exchange[Step]:
        body = {
            "model": self.model,
            "prompt": list(ids),
            "max_tokens": 1,
            "temperature": 0,
            # The server's default is that of the model's generation_config.json; the likeliest token is wanted here.
            "repetition_penalty": 1.0,
            "logprobs": 1,
            "return_token_ids": True,
        }
        return Exchange(PATH, body, _read_step)

    def next_tokens(self, ids: Sequence[int], candidates: Sequence[int]) -> Exchange[list[TokenScore]]:
        body = {
            "model": self.model,
            "prompt": list(ids),
            "max_tokens": 1,
            "temperature": 0,
            "repetition_penalty": 1.0,
            "logprobs": len(candidates),
            "logprob_token_ids": list(candidates),
            "return_tokens_as_token_ids": True,
            "return_token_ids": True,
        }
        return Exchange(PATH, body, partial(_read_next, ids=ids, candidates=candidates))

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text after a prompt of text or token ids."""
        return completion(call, self.model, _OPTIONS, self.seed)

    def _body(self, prompt: Any) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": 0,
            "return_token_ids": True,
        }

    def _read_score(self, data: Mapping[str, Any], ids: Sequence[int], scored: int) -> list[TokenScore]:
        check_prompt_count(data, len(ids))
        return _read_prompt(choices_of(data)[0], ids)[len(ids) - 1 - scored :]

    def _read_batch(self, data: Mapping[str, Any], rows: Sequence[Sequence[int]]) -> list[list[TokenScore]]:
        return [_read_prompt(choice, row) for choice, row in zip(choices_of(data, len(rows)), rows, strict=True)]


def _read_prompt(choice: Mapping[str, Any], ids: Sequence[int]) -> list[TokenScore]:
    """The scores of all ids but the first."""
    check_ids(choice.get("prompt_token_ids"), ids, "prompt_token_ids")
    values = list_of(choice.get("prompt_logprobs"), "prompt_logprobs", len(ids))
    if values[0] is not None:
        raise Unreadable("shifted", "the first token has a log-probability; expected null")
    scores = []
    for place, token_id in enumerate(ids[1:], 1):
        entries = mapping_of(values[place], f"prompt_logprobs of token {place}")
        if str(token_id) not in entries:
            raise Unreadable("other_tokens", f"prompt_logprobs of token {place} lacks the token that was sent")
        entry = mapping_of(entries[str(token_id)], f"prompt_logprobs of token {place}")
        rank = entry.get("rank")
        if type(rank) is not int or rank < 1:
            raise Unreadable("no_logprobs", f"the rank of token {place} is {rank!r}; expected a number from 1 on")
        scores.append(TokenScore(logprob_of(entry.get("logprob"), f"of token {place}"), rank == 1))
    return scores


def _read_next(data: Mapping[str, Any], ids: Sequence[int], candidates: Sequence[int]) -> list[TokenScore]:
    check_prompt_count(data, len(ids))
    choice = choices_of(data)[0]
    check_ids(choice.get("prompt_token_ids"), ids, "prompt_token_ids")
    (generated,) = list_of(choice.get("token_ids"), "token_ids", 1)
    logprobs = mapping_of(choice.get("logprobs"), "logprobs")
    (top,) = list_of(logprobs.get("top_logprobs"), "top_logprobs", 1)
    entries = mapping_of(top, "top_logprobs")
    scores = []
    for token_id in candidates:
        # An entry that is missing is null, which is not a log-probability.
        value = logprob_of(entries.get(f"token_id:{token_id}"), f"of the next token {token_id}")
        scores.append(TokenScore(value, token_id == generated))
    return scores


def _read_step(data: Mapping[str, Any]) -> Step:
    choice = choices_of(data)[0]
    (token_id,) = list_of(choice.get("token_ids"), "token_ids", 1)
    logprobs = mapping_of(choice.get("logprobs"), "logprobs")
    (value,) = list_of(logprobs.get("token_logprobs"), "token_logprobs", 1)
    if type(token_id) is not int:
        raise Unreadable("other_tokens", f"the generated token has the id {token_id!r}; expected a number")
    return Step(token_id, str(choice.get("text")), logprob_of(value, "of the generated token"))


# Chat


def _thinking(thinking: Thinking) -> Mapping[str, Any]:
    budget = {"thinking_token_budget": thinking.budget} if thinking.extra_tokens else {}
    effort = {"reasoning_effort": thinking.effort} if thinking.effort else {}
    return {**template_switch(thinking), **budget, **effort}


def _constraint(allowed: tuple[str, ...]) -> Constraint:
    # The older field guided_choice is ignored with 200.
    return Constraint(allowed, {"structured_outputs": {"choice": list(allowed)}})


CHAT = ChatServer(
    prefill={"continue_final_message": True, "add_generation_prompt": False},
    thinking=_thinking,
    constrain=_constraint,
)
