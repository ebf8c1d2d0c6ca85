"""A model that answers every request from a hash of it: no weights, no delay, the same bits everywhere.

In: a seed. Out: plausible-looking nonsense. For trying out tasks, stores and reports, never for scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.core.arguments import reject_unknown_arguments, whole_number
from assay.core.identity import Fingerprint, canonical_json, to_bytes
from assay.core.protocols import Capabilities
from assay.core.requests import (
    LONGEST_WINDOWS,
    REQUEST_KINDS,
    Demonstrated,
    Generation,
    Loglikelihood,
    Prompt,
    Request,
    RollingLoglikelihood,
)
from assay.core.responses import Failure, Logprob, Output, Text, unsupported
from assay.core.specs import ModelSettings

# Part of the fingerprint; raise it when an answer changes.
VERSION = 1

# Log-probability of the least likely word.
LOWEST_PER_WORD = -8.0

# Includes letters and numbers, so that answer-extraction filters sometimes find a match.
_WORDS = (
    "the answer is A B C D yes no true false so and then it was because of a small large red green "
    "stone river house paper 0 1 2 3 4 5 6 7 8 9 10 12 18 20 25 36 42 50 64 100 we they found gave "
    "took left right before after morning light water #### nothing maybe often under"
)
WORDS = tuple(_WORDS.split())
LONGEST_TEXT = 24


def _plain(prompt: Prompt) -> str:
    """A distinct text for each prompt; a conversation becomes JSON."""
    if isinstance(prompt, str):
        return "t" + prompt
    if isinstance(prompt, Demonstrated):
        return "d" + canonical_json(prompt.identity())
    return "m" + canonical_json([[message.role, message.text] for message in prompt])


def cut_at_stop(text: str, stop: Sequence[str]) -> str | None:
    """The text before the first stop string; None if no stop string occurs."""
    positions = [position for position in (text.find(string) for string in stop if string) if position >= 0]
    return text[: min(positions)] if positions else None


@dataclass(frozen=True)
class DummyModel:
    """Answers from a hash of (seed, request)."""

    seed: int = 0

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("dummy", settings={"seed": self.seed, "version": VERSION})

    @cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset(REQUEST_KINDS), has_chat=True, family="dummy")

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        key = hashlib.blake2b(str(self.seed).encode(), digest_size=16).digest()
        scorer = _Scorer(key)
        for index, request in enumerate(requests):
            if isinstance(request, (Loglikelihood, RollingLoglikelihood)):
                yield index, scorer.score(request)
            else:
                yield index, _write(request, key) if isinstance(request, Generation) else unsupported(request.kind)

    def close(self) -> None:
        pass


class _Scorer:
    """Log-likelihoods from a hash; a prompt shared by consecutive requests is hashed once."""

    def __init__(self, key: bytes) -> None:
        self._empty = hashlib.blake2b(digest_size=8, key=key)
        self._prompt: Prompt | None = None
        self._prompt_hash = self._empty

    def score(self, request: Loglikelihood | RollingLoglikelihood) -> Logprob:
        """A total drawn uniformly from (LOWEST_PER_WORD, 0] per word; exact arithmetic, the same on every machine."""
        given = 0
        if isinstance(request, Loglikelihood):
            scored = request.continuation
            state = self._after(request.prompt).copy()
        else:
            scored = request.text
            state = self._empty.copy()
            given = 0 if request.stands_on_prefix else 1
            state.update(b"%s%d:" % (b"w" if given else b"r", request.overlap))
            if request.windows != LONGEST_WINDOWS:
                state.update(to_bytes(f"{request.windows.length}/{request.windows.stride}:"))
        state.update(to_bytes(scored))
        value = int.from_bytes(state.digest(), "big")
        count = (len(scored.split()) or 1) - given
        windows = None if isinstance(request, Loglikelihood) else request.windows.count_windows(count)
        if not count:
            return Logprob(0.0, 0, True, prompt_tokens=given)
        share = (value >> 11) / (1 << 53)
        return Logprob(LOWEST_PER_WORD * count * share, count, bool(value & 1), given, windows=windows)

    def _after(self, prompt: Prompt) -> hashlib.blake2b:
        """The hash state after a prompt. The hashed length marks where the prompt ends."""
        if prompt != self._prompt:
            plain = _plain(prompt)
            self._prompt, self._prompt_hash = prompt, self._empty.copy()
            self._prompt_hash.update(to_bytes(f"c{len(plain)}:{plain}"))
        return self._prompt_hash


def _write(request: Generation, key: bytes) -> Text:
    """A few words. Token limit and stop strings only truncate, as they would with a real model."""
    drawn = [] if request.sampling.is_greedy else [request.sampling.identity(), request.draw]
    hashed = canonical_json([_plain(request.prompt), drawn])
    chosen = hashlib.blake2b(to_bytes(hashed), digest_size=1 + LONGEST_TEXT, key=key).digest()
    words = [WORDS[number % len(WORDS)] for number in chosen[1 : 2 + chosen[0] % LONGEST_TEXT]]
    limited = words if request.max_tokens is None else words[: request.max_tokens]
    text = " ".join(limited)
    cut = cut_at_stop(text, request.stop)
    if cut is not None:
        return Text(cut, "stop", len(cut.split()))
    return Text(text, "eos" if len(limited) == len(words) else "length", len(limited))


def open_dummy(args: Mapping[str, Any], settings: ModelSettings) -> DummyModel:
    """Opens `dummy` with its arguments: `seed`."""
    reject_unknown_arguments("dummy", args, ("seed",))
    return DummyModel(whole_number("dummy", args, "seed", 0))
