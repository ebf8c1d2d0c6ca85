"""Text Generation Inference: generation and log-likelihoods by its own `/generate`, with texts as prompts.

Token ids are not accepted. The text of the ids is sent, and the ids that the server reports must be those ids. Since
version 3.0 log-probabilities of prompts need the launcher's `--enable-prefill-logprobs`, and are silently missing else.
The server does not say which tokens of a prompt are the most likely ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assay.core.requests import Message
from assay.core.responses import Failure, Text
from assay.models.http.dialects.reading import (
    OPTIONAL,
    Written,
    generated_text,
    list_of,
    logprob_of,
    mapping_of,
    sampling_fields,
    sent_stops,
)
from assay.models.http.exchange import Exchange, GenerationCall, OptionalField, Step, TokenScore, Unreadable

_OPTIONS = frozenset({"top_p", "top_k", "repetition_penalty", "frequency_penalty"})
_OPTIONAL = tuple(OptionalField(f"parameters.{entry.path}", entry.note) for entry in OPTIONAL)
_PATH = "/generate"
_REASONS = {"length": "length", "eos_token": "stop", "stop_sequence": "stop"}


@dataclass(frozen=True, slots=True)
class Tgi:
    """Requests to a TGI server.

    Attributes:
        model: the model's name, which the server does not need.
        seed: seed of sampled generations whose request has none.
        decode: token ids → their text, without the tokens that the server adds itself.
    """

    name: ClassVar[str] = "tgi"
    model: str
    seed: int | None = None
    decode: Callable[[Sequence[int]], str] | None = None

    def score(self, ids: Sequence[int], scored: int) -> Exchange[list[TokenScore]]:
        body = self._body(ids, decoder_input_details=True)
        return Exchange(_PATH, body, partial(_read_prefill, ids=list(ids), scored=scored))

    def batch(self, rows: Sequence[Sequence[int]]) -> Exchange[list[list[TokenScore]]] | None:
        return None

    def step(self, ids: Sequence[int]) -> Exchange[Step]:
        return Exchange(_PATH, self._body(ids), _read_step)

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text after a prompt of text or token ids; ids are sent as their text."""
        if isinstance(call.sent, tuple) and call.sent and isinstance(call.sent[0], Message):
            return Failure("unsupported", "conversations are not sent to /generate; use --model openai-chat", False)
        fields = sampling_fields(call.request, _OPTIONS, self.seed)
        if isinstance(fields, Failure):
            return fields
        is_greedy = fields.pop("temperature") == 0  # a temperature of 0 is refused
        stops = sent_stops(call)
        temperature = call.request.sampling.temperature
        chosen = {"do_sample": False} if is_greedy else {"do_sample": True, "temperature": temperature}
        parameters = {
            "max_new_tokens": call.max_tokens,
            "details": True,
            "return_full_text": False,
            **chosen,
            **fields,
            **({"stop": list(stops)} if stops else {}),
        }
        text = call.sent if isinstance(call.sent, str) else self._text(call.sent)

        def read(data: Mapping[str, Any]) -> Text | Failure:
            details = mapping_of(data.get("details"), "details", "malformed")
            reason = details.get("finish_reason")
            count = details.get("generated_tokens")
            written = Written(
                data.get("generated_text"),
                _REASONS.get(str(reason), reason),
                new_tokens=count if type(count) is int and count >= 0 else 0,
                stops=stops,
                limit=call.max_tokens,
            )
            return generated_text(written, call)

        return Exchange(_PATH, {"inputs": text, "parameters": parameters}, read, _OPTIONAL)

    def _text(self, ids: Sequence[int] | tuple[Message, ...]) -> str:
        assert self.decode is not None, "ids are scored only with a tokenizer"
        return self.decode([entry for entry in ids if isinstance(entry, int)])

    def _body(self, ids: Sequence[int], **details: bool) -> dict[str, Any]:
        parameters = {"max_new_tokens": 1, "do_sample": False, "details": True, **details}
        return {"inputs": self._text(ids), "parameters": parameters}


def _read_prefill(data: Mapping[str, Any], ids: Sequence[int], scored: int) -> list[TokenScore]:
    details = mapping_of(data.get("details"), "details")
    entries = [mapping_of(entry, "details.prefill") for entry in list_of(details.get("prefill"), "details.prefill")]
    if not entries:
        found = "details.prefill is empty: its launcher has the option enable-prefill-logprobs for it"
        raise Unreadable("no_logprobs", found, repeats=0)
    if [entry.get("id") for entry in entries] != list(ids):
        found = "the server read other tokens than were meant: it takes texts only, and tokenizes them otherwise"
        raise Unreadable("other_tokens", found, repeats=0)
    if entries[0].get("logprob") is not None:
        raise Unreadable("shifted", "the first token has a log-probability; expected null")
    values = [logprob_of(entry.get("logprob"), f"of token {place}") for place, entry in enumerate(entries) if place]
    return [TokenScore(value, None) for value in values[len(values) - scored :]]


def _read_step(data: Mapping[str, Any]) -> Step:
    details = mapping_of(data.get("details"), "details")
    (entry,) = list_of(details.get("tokens"), "details.tokens", 1)
    token = mapping_of(entry, "details.tokens")
    token_id = token.get("id")
    if type(token_id) is not int:
        raise Unreadable("other_tokens", f"the generated token has the id {token_id!r}; expected a number")
    return Step(token_id, str(token.get("text")), logprob_of(token.get("logprob"), "of the generated token"))
