"""SGLang: log-likelihoods by its own `/generate`, which scores from a given token on and keeps the cache before it.

The entry at `logprob_start_len` has no log-probability, so scoring starts one token before the continuation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assay.core.responses import Failure, Text
from assay.models.http.dialects.chat_completions import ChatServer, no_budget, template_switch
from assay.models.http.dialects.completions import completion
from assay.models.http.dialects.reading import Constraint, list_of, logprob_of, mapping_of
from assay.models.http.exchange import Exchange, GenerationCall, Step, Thinking, TokenScore, Unreadable

_OPTIONS = frozenset({"top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"})
_PATH = "/generate"
# Characters with a meaning in a regular expression.
_SPECIAL = frozenset(r"\.^$*+?{}[]|()")


@dataclass(frozen=True, slots=True)
class Sglang:
    """Requests to an SGLang server.

    Attributes:
        model: the model's name at the server.
        seed: seed of sampled generations whose request has none.
    """

    name: ClassVar[str] = "sglang"
    model: str
    seed: int | None = None

    def score(self, ids: Sequence[int], scored: int) -> Exchange[list[TokenScore]]:
        start = len(ids) - scored - 1
        body = {**self._body(ids), "logprob_start_len": start, "top_logprobs_num": 1}
        return Exchange(_PATH, body, partial(_read_scores, ids=list(ids[start:])))

    def batch(self, rows: Sequence[Sequence[int]]) -> Exchange[list[list[TokenScore]]] | None:
        return None  # answered with a list, and one start for all rows

    def step(self, ids: Sequence[int]) -> Exchange[Step]:
        return Exchange(_PATH, {**self._body(ids), "logprob_start_len": -1}, _read_step)

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text after a prompt of text or token ids, by `/v1/completions`."""
        return completion(call, self.model, _OPTIONS, self.seed)

    def _body(self, ids: Sequence[int]) -> dict[str, Any]:
        # max_new_tokens 1, since not every version accepts 0.
        return {
            "input_ids": list(ids),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
        }


def _read_scores(data: Mapping[str, Any], ids: Sequence[int]) -> list[TokenScore]:
    """The scores of all ids but the first."""
    report = mapping_of(data.get("meta_info"), "meta_info")
    entries = list_of(report.get("input_token_logprobs"), "input_token_logprobs", len(ids))
    tops = list_of(report.get("input_top_logprobs"), "input_top_logprobs", len(ids))
    scores = []
    for place, (entry, top, token_id) in enumerate(zip(entries, tops, ids, strict=True)):
        value, found = _pair(entry, "input_token_logprobs")
        if found != token_id:
            raise Unreadable("other_tokens", f"token {place} of the continuation is {found!r}, not {token_id}")
        if place == 0:
            if value is not None:
                raise Unreadable("shifted", f"the token before the continuation has {value!r}; expected null")
            continue
        best = list_of(top, "input_top_logprobs")
        _, likeliest = _pair(best[0] if best else None, "input_top_logprobs")
        scores.append(TokenScore(logprob_of(value, f"of token {place}"), likeliest == token_id))
    return scores


def _read_step(data: Mapping[str, Any]) -> Step:
    report = mapping_of(data.get("meta_info"), "meta_info")
    (entry,) = list_of(report.get("output_token_logprobs"), "output_token_logprobs", 1)
    value, token_id = _pair(entry, "output_token_logprobs")
    if type(token_id) is not int:
        raise Unreadable("other_tokens", f"the generated token has the id {token_id!r}; expected a number")
    return Step(token_id, str(data.get("text", "")), logprob_of(value, "of the generated token"))


def _pair(entry: Any, name: str) -> tuple[Any, Any]:
    """Log-probability and id of an entry, which may have the token's text as well."""
    values = list_of(entry, name)
    if len(values) < 2:
        raise Unreadable("no_logprobs", f"an entry of {name} has {len(values)} values; expected at least 2")
    return values[0], values[1]


# Chat


def _thinking(thinking: Thinking) -> Mapping[str, Any]:
    if thinking.extra_tokens:
        raise no_budget("thinking=off, thinking=auto, or reasoning_effort=…")
    return template_switch(thinking) | ({"reasoning_effort": thinking.effort} if thinking.effort else {})


def _constraint(allowed: tuple[str, ...]) -> Constraint:
    texts = ("".join(f"\\{mark}" if mark in _SPECIAL else mark for mark in text) for text in allowed)
    return Constraint(allowed, {"regex": f"({'|'.join(texts)})"})


CHAT = ChatServer(
    prefill={"continue_final_message": True, "add_generation_prompt": False},
    thinking=_thinking,
    constrain=_constraint,
)
