"""`/v1/completions`: prompts of text or token ids, log-probabilities of prompt and answer, generation.

In: a JSON body. Out: JSON data, or pieces of a stream. Greedy answers of at most one token whose log-probabilities are
wanted come from the scored prompt itself, which is what clients that score texts ask for; others are generated first.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.protocols import TokenRow, TokenScores
from assay.serve.api_errors import refused
from assay.serve.decoding import Decoding, read_decoding
from assay.serve.fields import Fields, checked_ids
from assay.serve.service import Asked, Service, answer_of
from assay.serve.streaming import pieces
from assay.serve.token_answers import (
    legacy_logprobs,
    names_of,
    part_of,
    prompt_logprobs,
    text_offsets,
    with_next,
)
from assay.serve.worker import Written

MOST_LOGPROBS = 20
MOST_PROMPTS = 4096
_USUAL_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True)
class GivenPrompt:
    """A prompt: its text, its ids, or both. A model that reads text has no ids."""

    text: str | None
    ids: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class CompletionCall:
    """A request for completions.

    Attributes:
        prompts: the prompts.
        decoding: how answers are generated.
        max_tokens: tokens of an answer.
        echo: whether the text of a choice begins with the prompt.
        logprobs: most likely tokens per position; None for no log-probabilities.
        prompt_logprobs: the same for vLLM's field.
        returns_ids: whether token ids are returned.
        names_ids: whether tokens are called by their id.
    """

    prompts: tuple[GivenPrompt, ...]
    decoding: Decoding
    max_tokens: int
    echo: bool
    logprobs: int | None
    prompt_logprobs: int | None
    returns_ids: bool
    names_ids: bool

    @property
    def scores_prompt(self) -> bool:
        return self.prompt_logprobs is not None or (self.echo and self.logprobs is not None)

    @property
    def is_scored_only(self) -> bool:
        """Whether the scored prompt has the answer: nothing is generated, or one greedy token with its probability."""
        if self.max_tokens == 0:
            return True
        is_wanted = self.scores_prompt or self.logprobs is not None
        return self.max_tokens == 1 and self.decoding.is_greedy and is_wanted


def read_completion(body: Any, service: Service) -> CompletionCall:
    """Reads and checks a body."""
    fields = Fields(body)
    service.check_model(fields.text("model"))
    adds_special = None if fields.get("add_special_tokens") is None else fields.flag("add_special_tokens")
    prompts = _prompts(fields.get("prompt"), service, adds_special)
    wanted = fields.count("max_tokens", 0)
    call = CompletionCall(
        prompts=prompts,
        decoding=read_decoding(fields),
        max_tokens=_max_tokens(wanted, prompts, service),
        echo=fields.flag("echo"),
        logprobs=fields.count("logprobs", 0, MOST_LOGPROBS),
        prompt_logprobs=fields.count("prompt_logprobs", 0, MOST_LOGPROBS),
        returns_ids=fields.flag("return_token_ids"),
        names_ids=fields.flag("return_tokens_as_token_ids"),
    )
    fields.finish()
    _check(call, service)
    return call


def _check(call: CompletionCall, service: Service) -> None:
    for name, value in (("logprobs", call.logprobs), ("prompt_logprobs", call.prompt_logprobs)):
        if value is not None:
            service.require_scores(name)
            if call.decoding.stream:
                raise refused(f"{name} together with stream is not supported", name)
    if call.returns_ids:
        service.require_scores("return_token_ids")
    if len(call.prompts) * call.decoding.choices > MOST_PROMPTS:
        raise refused(f"more than {MOST_PROMPTS} choices in one request; send several", "prompt")


def _max_tokens(wanted: int | None, prompts: Sequence[GivenPrompt], service: Service) -> int:
    """The limit of an answer, which must fit after every prompt."""
    longest = max(len(prompt.ids or ()) for prompt in prompts)
    most = service.facts.max_length
    room = _USUAL_MAX_TOKENS if most is None else max(most - longest, 1)
    limit = min(_USUAL_MAX_TOKENS, room) if wanted is None else wanted
    service.check_length(longest, limit)
    return limit


def _prompts(value: Any, service: Service, adds_special: bool | None) -> tuple[GivenPrompt, ...]:
    """The four forms of a prompt: text, texts, ids, lists of ids."""
    entries = value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]
    if all(isinstance(entry, str) for entry in entries):
        if not service.facts.reads_ids:
            return tuple(GivenPrompt(entry, None) for entry in entries)
        found = [GivenPrompt(entry, service.codec.encode(entry, adds_special)) for entry in entries]
    elif all(isinstance(entry, list) for entry in entries):
        if not service.facts.reads_ids:
            raise refused(f"{service.facts.name} is a {service.facts.family}: prompts must be text", "prompt")
        found = [GivenPrompt(None, checked_ids("prompt", entry, service.codec.vocabulary)) for entry in entries]
    else:
        raise refused("prompt must be a text, a list of texts, a list of token ids, or a list of such lists", "prompt")
    if not all(prompt.ids for prompt in found):
        raise refused("prompt is empty: it has no tokens", "prompt")
    return tuple(found)


async def complete(call: CompletionCall, service: Service) -> dict[str, Any]:
    """The answer to a request that is not streamed."""
    is_scored_only = call.is_scored_only and service.facts.scores
    choices, counts = await (_scored_choices if is_scored_only else _generated_choices)(call, service)
    numbered = [{"index": index, **choice} for index, choice in enumerate(choices)]
    return {**head(service), "choices": numbered, "usage": counts}


def head(service: Service) -> dict[str, Any]:
    """What every answer and every piece of one has."""
    return {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": service.facts.name,
        "system_fingerprint": service.facts.fingerprint,
    }


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


async def _scored_choices(call: CompletionCall, service: Service) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Choices from the scores of the prompts, and token counts."""
    follows = call.max_tokens == 1
    scores: Sequence[TokenScores] = [TokenScores((), (), (), ())] * len(call.prompts)
    if call.scores_prompt or follows:
        scores = await service.score([_row(call, prompt.ids or (), follows) for prompt in call.prompts])
    choices = []
    for prompt, found in zip(call.prompts, scores, strict=True):
        answer: tuple[int, ...] = ()
        if follows:
            token, found = with_next(found)
            answer = (token,)
        choices += [_choice(call, service, prompt, answer, found, None)] * call.decoding.choices
    return choices, usage(sum(len(prompt.ids or ()) for prompt in call.prompts), len(choices) * call.max_tokens)


async def _generated_choices(call: CompletionCall, service: Service) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Choices from generated texts, whose tokens are scored afterwards if that is wanted."""
    pairs = [(prompt, asked) for prompt in call.prompts for asked in generations_of(call, service, prompt)]
    needs_ids = call.logprobs is not None or call.returns_ids
    written = await asyncio.gather(*(service.begin(asked, needs_ids) for _, asked in pairs))
    answers = [answer_of(one) for one in written]
    scores: list[TokenScores | None] = [None] * len(pairs)
    if call.logprobs is not None or call.scores_prompt:
        rows = [_row(call, (*(prompt.ids or ()), *(one.ids or ())), answered=len(one.ids or ())) for (prompt, _), one in
                zip(pairs, written, strict=True)]  # fmt: skip
        scores = [*await service.score(rows)]
    choices = []
    copies = call.decoding.choices if call.decoding.is_greedy else 1
    for (prompt, _), one, found in zip(pairs, written, scores, strict=True):
        choices += [_choice(call, service, prompt, one.ids or (), found, one)] * copies
    prompt_tokens = sum(answer.prompt_tokens for answer in answers[:: len(answers) // len(call.prompts)])
    return choices, usage(prompt_tokens, sum(answer.token_count for answer in answers) * copies)


def generations_of(call: CompletionCall, service: Service, prompt: GivenPrompt) -> list[Asked]:
    """The generations of one prompt; stored if they are repeatable and their prompt is what a text is encoded as."""
    text = prompt.text if prompt.ids is None else service.text_of(prompt.ids, prompt.text)
    is_stored = call.decoding.is_repeatable and text is not None
    requests = call.decoding.requests(text or "", call.max_tokens)
    return [Asked(request, prompt.ids, is_stored) for request in requests]


def _row(call: CompletionCall, ids: tuple[int, ...], follows: bool = False, answered: int = 0) -> TokenRow:
    """What is scored of a prompt, or of a prompt with its answer."""
    scored = len(ids) - 1 if call.scores_prompt else answered
    top = max(call.logprobs or 0, call.prompt_logprobs or 0, 1)
    return TokenRow(ids, scored, top, follows, ranked=call.prompt_logprobs is not None)


def _choice(
    call: CompletionCall,
    service: Service,
    prompt: GivenPrompt,
    answer: tuple[int, ...],
    scores: TokenScores | None,
    written: Written | None,
) -> dict[str, Any]:
    """One choice.

    Args:
        call: the request.
        service: the model.
        prompt: its prompt.
        answer: ids of the answer.
        scores: of the scored ids of prompt and answer.
        written: the generated answer; None for one that comes from the scores.
    """
    ids = prompt.ids or ()
    text, reason = _ending(call, service, answer) if written is None else finished(written)
    choice: dict[str, Any] = {"text": text, "logprobs": None, "finish_reason": reason, "stop_reason": None}
    if call.echo:
        choice["text"] = shown_prompt(service, prompt) + text
    if scores is not None and call.logprobs is not None:
        own = (*(ids if call.echo else ()), *answer)
        from_start = 0 if call.echo else len(scores.logprobs) - len(answer)
        part = part_of(scores, from_start, len(scores.logprobs))
        names = names_of(service.codec, call.names_ids)
        offsets = text_offsets(service.codec, own)
        choice["logprobs"] = legacy_logprobs(own, part, int(call.echo), call.logprobs, names, offsets)
    if scores is not None and call.prompt_logprobs is not None:
        part = part_of(scores, 0, len(ids) - 1)
        choice["prompt_logprobs"] = prompt_logprobs(ids, part, call.prompt_logprobs, service.codec)
    if call.returns_ids:
        choice["prompt_token_ids"] = list(ids)
    if call.returns_ids or call.logprobs is not None:
        choice["token_ids"] = list(answer)  # the texts of tokens may be ambiguous
    return choice


def shown_prompt(service: Service, prompt: GivenPrompt) -> str:
    """A prompt as text."""
    return prompt.text if prompt.text is not None else service.codec.decode(prompt.ids or ())


def finished(written: Written) -> tuple[str, str]:
    """Text and finish reason of a generated answer."""
    answer = answer_of(written)
    return answer.text, "length" if answer.finish_reason == "length" else "stop"


def _ending(call: CompletionCall, service: Service, answer: tuple[int, ...]) -> tuple[str, str]:
    """Text and finish reason of an answer of no token or one that comes from scores."""
    if not answer:
        return "", "length"
    text = service.codec.decode(answer, skips_special=True)
    cut = min((text.find(stop) for stop in call.decoding.stop if stop in text), default=-1)
    ends = answer[0] == service.codec.special["eos_token"]
    return (text if cut < 0 else text[:cut]), "stop" if cut >= 0 or ends else "length"


async def stream_completion(call: CompletionCall, service: Service) -> AsyncIterator[dict[str, Any]]:
    """The frames of a streamed answer."""
    copies = call.decoding.choices if call.decoding.is_greedy else 1
    answers = [asked for prompt in call.prompts for asked in generations_of(call, service, prompt)]
    per_prompt = len(answers) // len(call.prompts)
    common, more = head(service), {"usage": None} if call.decoding.include_usage else {}

    def frame(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        own = range(index * copies, (index + 1) * copies)
        choices = [{"index": copy, "text": text, "logprobs": None, "finish_reason": reason} for copy in own]
        return {**common, "choices": choices, **more}

    begun: set[int] = set()
    prompt_tokens = completion_tokens = 0
    async for piece in pieces(answers, service):
        opening = ""
        if call.echo and piece.index not in begun:
            begun.add(piece.index)
            opening = shown_prompt(service, call.prompts[piece.index // per_prompt])
        if piece.finished is None:
            yield frame(piece.index, opening + piece.text)
            continue
        answer = answer_of(piece.finished)
        prompt_tokens += answer.prompt_tokens if piece.index % per_prompt == 0 else 0
        completion_tokens += answer.token_count * copies
        yield frame(piece.index, opening + piece.text, finished(piece.finished)[1])
    if call.decoding.include_usage:
        yield {**common, "choices": [], "usage": usage(prompt_tokens, completion_tokens)}
