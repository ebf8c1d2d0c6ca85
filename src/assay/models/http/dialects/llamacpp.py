"""llama.cpp: log-likelihoods by forcing the continuation with a grammar of token ids.

Its `/v1/completions` ignores echo. `/completion` with `root ::= <[id1]> <[id2]> …` generates exactly the continuation
and reports each token's log-probability from the raw logits. The prompt cache stays usable: one request per
continuation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assay.core.responses import Failure, Text
from assay.models.http.dialects.chat_completions import ChatServer, no_budget, template_switch
from assay.models.http.dialects.completions import completion
from assay.models.http.dialects.reading import Constraint, list_of, logprob_of, mapping_of
from assay.models.http.exchange import Exchange, GenerationCall, Step, Thinking, TokenScore, Unreadable

_OPTIONS = frozenset({"top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"})
_PATH = "/completion"


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """Requests to a llama.cpp server.

    Attributes:
        model: the model's name at the server.
        seed: seed of sampled generations whose request has none.
    """

    name: ClassVar[str] = "llamacpp"
    model: str
    seed: int | None = None

    def score(self, ids: Sequence[int], scored: int) -> Exchange[list[TokenScore]]:
        context, forced = list(ids[: len(ids) - scored]), list(ids[len(ids) - scored :])
        grammar = "root ::= " + " ".join(f"<[{token_id}]>" for token_id in forced)
        body = {**self._body(context, scored), "grammar": grammar}
        return Exchange(_PATH, body, partial(_read_forced, forced=forced))

    def batch(self, rows: Sequence[Sequence[int]]) -> Exchange[list[list[TokenScore]]] | None:
        return None

    def step(self, ids: Sequence[int]) -> Exchange[Step]:
        return Exchange(_PATH, self._body(list(ids), 1), _read_step)

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text after a prompt of text or token ids, by `/v1/completions`."""
        return completion(call, self.model, _OPTIONS, self.seed)

    def _body(self, prompt: list[int], count: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": prompt,
            "n_predict": count,
            "n_probs": 1,
            "temperature": 0,
            "return_tokens": True,
            "cache_prompt": True,
            "post_sampling_probs": False,
        }


def _read_forced(data: Mapping[str, Any], forced: Sequence[int]) -> list[TokenScore]:
    entries = list_of(data.get("completion_probabilities"), "completion_probabilities", len(forced))
    scores = []
    for place, (entry, token_id) in enumerate(zip(entries, forced, strict=True)):
        read = mapping_of(entry, "completion_probabilities")
        if read.get("id") != token_id:
            raise Unreadable("other_tokens", f"token {place} of the continuation is {read.get('id')!r}, not {token_id}")
        best = _first(read.get("top_logprobs"))
        scores.append(TokenScore(logprob_of(read.get("logprob"), f"of token {place}"), best.get("id") == token_id))
    return scores


def _read_step(data: Mapping[str, Any]) -> Step:
    (entry,) = list_of(data.get("completion_probabilities"), "completion_probabilities", 1)
    read = mapping_of(entry, "completion_probabilities")
    token_id = read.get("id")
    if type(token_id) is not int:
        raise Unreadable("other_tokens", f"the generated token has the id {token_id!r}; expected a number")
    return Step(token_id, str(read.get("token")), logprob_of(read.get("logprob"), "of the generated token"))


def _first(tops: Any) -> Mapping[str, Any]:
    """The most likely token of a position."""
    found = list_of(tops, "top_logprobs")
    return mapping_of(found[0] if found else None, "top_logprobs")


# Chat


def _thinking(thinking: Thinking) -> Mapping[str, Any]:
    if thinking.extra_tokens:
        raise no_budget("thinking=off or thinking=auto; a budget is set when the server starts")
    arguments = dict(template_switch(thinking).get("chat_template_kwargs", {}))
    if thinking.effort:
        arguments["reasoning_effort"] = thinking.effort
    return {"chat_template_kwargs": arguments} if arguments else {}


def _constraint(allowed: tuple[str, ...]) -> Constraint:
    texts = (json.dumps(text, ensure_ascii=False) for text in allowed)
    return Constraint(allowed, {"grammar": f"root ::= {' | '.join(texts)}"})


# A last message of the assistant is continued without being asked, and the answer repeats it.
CHAT = ChatServer(prefill={}, repeats_prefill=True, thinking=_thinking, constrain=_constraint)
