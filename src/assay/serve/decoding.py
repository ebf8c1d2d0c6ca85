"""How an answer is generated, as completions and chat share it: sampling, length, stop strings, number, streaming."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from assay.core.requests import Generation, Prompt, Sampling
from assay.serve.api_errors import refused
from assay.serve.fields import Fields, strings_of

MOST_CHOICES = 128
MOST_STOPS = 64
_HIGHEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Decoding:
    """Settings of a generation.

    Attributes:
        temperature: 0 for greedy.
        options: further settings of sampling, as in `Sampling`.
        seed: None for another answer each time.
        stop: stop strings.
        choices: answers per prompt.
        stream: whether answers are sent in pieces.
        include_usage: whether the last piece counts tokens.
    """

    temperature: float
    options: tuple[tuple[str, Any], ...]
    seed: int | None
    stop: tuple[str, ...]
    choices: int
    stream: bool
    include_usage: bool

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def is_repeatable(self) -> bool:
        """Whether the same request has the same answer."""
        return self.is_greedy or self.seed is not None

    def requests(self, prompt: Prompt, max_tokens: int) -> list[Generation]:
        """The generations of one prompt: one per choice, and for a greedy one just one."""
        if self.is_greedy:
            return [Generation(prompt, self.stop, max_tokens)]
        seed = secrets.randbits(62) if self.seed is None else self.seed
        sampling = Sampling(self.temperature, seed, self.options)
        return [Generation(prompt, self.stop, max_tokens, sampling, draw) for draw in range(self.choices)]


def read_decoding(fields: Fields) -> Decoding:
    """Reads the fields that completions and chat share."""
    temperature = fields.number("temperature", 1.0, 0.0, 100.0)
    top_p = fields.number("top_p", 1.0, 0.0, 1.0)
    if top_p == 0:
        raise refused("top_p is 0; expected a number above 0, at most 1", "top_p", "invalid_value")
    top_k = fields.count("top_k", -1)
    min_p = fields.number("min_p", 0.0, 0.0, 1.0)
    penalty = fields.number("repetition_penalty", 1.0, 0.0, 100.0)
    if penalty != 1.0:
        raise refused("repetition_penalty is not supported; leave it out", "repetition_penalty")
    # Said in any case, since a model's own settings would apply otherwise; 0 for no limit.
    options: dict[str, Any] = {"top_k": max(top_k or 0, 0), "top_p": top_p}
    options |= {"min_p": min_p} if min_p > 0 else {}
    stop = tuple(text for text in strings_of("stop", fields.get("stop")) if text)
    if len(stop) > MOST_STOPS:
        raise refused(f"stop has {len(stop)} strings; expected at most {MOST_STOPS}", "stop")
    stream = fields.flag("stream")
    choices = fields.count("n", 1, MOST_CHOICES) or 1
    best_of = fields.count("best_of", 1)
    if best_of is not None and best_of != choices:
        raise refused("best_of is not supported; leave it out", "best_of", "unsupported_parameter")
    return Decoding(
        temperature=temperature,
        options=tuple(sorted(options.items())),
        seed=fields.count("seed", -_HIGHEST_SEED, _HIGHEST_SEED),
        stop=stop,
        choices=choices,
        stream=stream,
        include_usage=_includes_usage(fields, stream),
    )


def _includes_usage(fields: Fields, stream: bool) -> bool:
    options = fields.mapping("stream_options")
    if options and not stream:
        raise refused("stream_options needs stream: true", "stream_options")
    inner = Fields(dict(options))
    wanted = inner.flag("include_usage")
    inner.finish()
    return wanted
