"""A byte n-gram language model: real but weak; needs numpy and no download.

In: a training text and an order. Out: exact log-likelihoods and generated text. Let h be the last k bytes, c(h) the
number of times h occurs before any byte, c(hb) before byte b, and T(h) the number of distinct bytes that follow h.
Witten-Bell interpolation (1991, method C) gives

    P_k(b | h) = (c(hb) + T(h) · P_{k-1}(b | h without its first byte)) / (c(h) + T(h))

down to P_{-1}(b) = 1/256. For an unseen context, P_k = P_{k-1}.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.arguments import reject_unknown_arguments, whole_number
from assay.core.errors import Fault, ModelError
from assay.core.identity import Fingerprint, canonical_json, to_bytes
from assay.core.protocols import Capabilities
from assay.core.requests import (
    REQUEST_KINDS,
    Generation,
    Loglikelihood,
    Prompt,
    Request,
    RollingLoglikelihood,
    untruncated_prompt,
)
from assay.core.responses import Failure, Logprob, Output, Text, unsupported
from assay.core.specs import ModelSettings
from assay.models.tokens.tokenization import rolling_windows

# Part of the fingerprint; raise it when an answer changes.
VERSION = 1

# At most 8 bytes fit one 64-bit code.
HIGHEST_ORDER = 8
DEFAULT_MAX_TOKENS = 128

# Cached distributions take 2 KB each; a long corpus has more contexts than fit in memory.
MOST_DISTRIBUTIONS = 20_000
MOST_STEPS = 1_000_000

# Accepts only values that do not change the distribution; any other setting is refused rather than ignored.
NEUTRAL_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (True, False),
    "num_beams": (1,),
    "repetition_penalty": (1, 1.0),
    "top_k": (),
    "top_p": (),
}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Followers:
    """The distinct bytes that follow a context in the training text, and their counts."""

    values: NDArray[np.uint8]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class NgramTable:
    """Byte counts of a text and the probabilities computed from them.

    Attributes:
        text: the training text.
        order: n of the n-gram; contexts have up to `order - 1` bytes.
    """

    text: bytes
    order: int
    _distributions: dict[bytes, Floats] = field(default_factory=dict, repr=False)
    _steps: dict[bytes, tuple[float, bool]] = field(default_factory=dict, repr=False)

    @cached_property
    def followers(self) -> dict[bytes, Followers]:
        """Counts by context, for contexts of every length; computed on first use."""
        found: dict[bytes, Followers] = {}
        for length in range(self.order):
            found.update(_count(self.text, length))
        return found

    def distribution(self, context: bytes) -> Floats:
        """P over the 256 bytes after a context; only its last `order - 1` bytes matter."""
        context = context[len(context) - min(len(context), self.order - 1) :]
        known = self._distributions.get(context)
        if known is not None:
            return known
        followers = self.followers.get(context)
        shorter = self.distribution(context[1:]) if context else np.full(256, 1 / 256)
        if followers is None:
            return shorter
        kinds, total = len(followers.values), int(followers.counts.sum())
        result = shorter * (kinds / (total + kinds))
        result[followers.values] += followers.counts / (total + kinds)
        if len(self._distributions) >= MOST_DISTRIBUTIONS:
            self._distributions.clear()
        result.flags.writeable = False  # shared by all callers
        self._distributions[context] = result
        return result

    def step(self, window: bytes) -> tuple[float, bool]:
        """log P of the last byte of a window given the others, and whether it is the most likely byte."""
        known = self._steps.get(window)
        if known is not None:
            return known
        distribution = self.distribution(window[:-1])
        byte = window[-1]
        result = (math.log(distribution[byte]), int(distribution.argmax()) == byte)
        if len(self._steps) >= MOST_STEPS:
            self._steps.clear()
        self._steps[window] = result
        return result

    def score(self, context: bytes, scored: bytes) -> tuple[float, bool]:
        """log P of a text after a context, and whether greedy decoding would generate it."""
        context = context[len(context) - min(len(context), self.order - 1) :]
        whole, start, order, step = context + scored, len(context), self.order, self.step
        steps = [step(whole[max(0, end - order) : end]) for end in range(start + 1, len(whole) + 1)]
        return math.fsum(value for value, _ in steps), all(likeliest for _, likeliest in steps)


def _count(text: bytes, length: int) -> Iterator[tuple[bytes, Followers]]:
    """Followers of every context of a given length."""
    data = np.frombuffer(text, np.uint8)
    windows = len(data) - length
    if windows <= 0:
        return
    codes = np.zeros(windows, np.uint64)
    for place in range(length + 1):
        codes = (codes << np.uint64(8)) | data[place : place + windows]
    unique, counts = np.unique(codes, return_counts=True)
    contexts, starts = np.unique(unique >> np.uint64(8), return_index=True)
    ends = [*starts[1:].tolist(), len(unique)]
    values = (unique & np.uint64(255)).astype(np.uint8)
    for context, start, end in zip(contexts.tolist(), starts.tolist(), ends, strict=True):
        yield (
            int(context).to_bytes(length, "big"),
            Followers(values[start:end], counts[start:end].astype(np.int64)),
        )


def sharpened(distribution: Floats, request: Generation) -> Floats:
    """A distribution after temperature, top_k and top_p, applied in the order of transformers."""
    logits = np.log(distribution) / request.sampling.temperature
    weights: Floats = np.exp(logits - logits.max())
    options = dict(request.sampling.options)
    order = np.argsort(-weights, kind="stable")
    top_k = int(options.get("top_k") or 0)
    if top_k:
        weights[order[top_k:]] = 0.0
    weights /= weights.sum()
    top_p = float(options.get("top_p") or 1.0)
    if top_p < 1.0:
        # The byte that crosses top_p is included.
        before = np.cumsum(weights[order]) - weights[order]
        weights[order[before >= top_p]] = 0.0
        weights /= weights.sum()
    return weights


def to_text(prompt: Prompt) -> str:
    """A prompt as text, demonstrations untruncated; a conversation becomes `role: text` lines, then `assistant: `."""
    whole = untruncated_prompt(prompt)
    if isinstance(whole, str):
        return whole
    return "".join(f"{message.role}: {message.text}\n" for message in whole) + "assistant: "


@dataclass(frozen=True)
class NgramModel:
    """A byte n-gram model; trained on first use.

    Attributes:
        text: the training text.
        order: n of the n-gram.
    """

    text: bytes
    order: int = 3

    @cached_property
    def table(self) -> NgramTable:
        return NgramTable(self.text, self.order)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        corpus = hashlib.sha256(self.text).hexdigest()
        return Fingerprint(
            "ngram", weights=corpus, settings={"model": "ngram", "order": self.order, "version": VERSION}
        )

    @cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset(REQUEST_KINDS), has_chat=True, family="n-gram")

    def render(self, prompt: Prompt) -> str | None:
        """The prompt as the text that the model reads."""
        return to_text(prompt)

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        for index, request in enumerate(requests):
            yield index, self._answer(request)

    def close(self) -> None:
        pass

    def _answer(self, request: Request) -> Output | Failure:
        if isinstance(request, Loglikelihood):
            prompt, scored = to_bytes(to_text(request.prompt)), to_bytes(request.continuation)
            return self._score(prompt, scored)
        if isinstance(request, RollingLoglikelihood):
            return self._read(request)
        return self._generate(request) if isinstance(request, Generation) else unsupported(request.kind)

    def _read(self, request: RollingLoglikelihood) -> Logprob:
        """Scores a whole text; tokens are bytes, and one window covers the text unless the request says otherwise."""
        text, windows = to_bytes(request.text), request.windows
        given = 0 if request.stands_on_prefix else 1
        first, rest = text[:given], text[given:]
        length = len(rest) if windows.length is None else windows.length
        cut = rolling_windows(rest, 0, length, request.overlap, windows.stride)
        # There is no prefix byte: the first window has an empty context.
        parts = [
            self._score(bytes(context) if number else first, bytes(scored))
            for number, (context, scored) in enumerate(cut)
        ]
        total = math.fsum(part.total for part in parts)
        is_greedy = all(part.is_greedy for part in parts)
        return Logprob(total, len(rest), is_greedy, prompt_tokens=len(first), windows=len(parts) or None)

    def _score(self, prompt: bytes, scored: bytes) -> Logprob:
        total, is_greedy = self.table.score(prompt, scored)
        return Logprob(total, len(scored), is_greedy, prompt_tokens=len(prompt))

    def _generate(self, request: Generation) -> Output | Failure:
        for name, value in request.sampling.options:
            neutral = NEUTRAL_OPTIONS.get(name)
            if neutral is None or (neutral and value not in neutral):
                return Failure("unsupported", f"ngram cannot generate with {name}={value!r}", retryable=False)
        prompt = to_bytes(to_text(request.prompt))
        generated, ending = self._generate_bytes(request, prompt)
        text = generated[: len(generated) - len(ending)].decode("utf-8", "replace")
        return Text(text, "stop" if ending else "length", len(generated), prompt_tokens=len(prompt))

    def _generate_bytes(self, request: Generation, prompt: bytes) -> tuple[bytes, bytes]:
        """Generated bytes up to and including the first stop string, or up to the limit; and that stop string.

        There is no end-of-text byte.
        """
        stops = tuple(to_bytes(string) for string in request.stop if string)
        limit = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
        generator = None if request.sampling.is_greedy else _generator(request)
        context, generated = prompt[-HIGHEST_ORDER:], bytearray()
        while len(generated) < limit:
            distribution = self.table.distribution(context)
            if generator is None:
                byte = int(distribution.argmax())
            else:
                sums = np.cumsum(sharpened(distribution, request))
                byte = int(np.searchsorted(sums, generator.random() * sums[-1], side="right"))
            generated.append(byte)
            context = (context + bytes((byte,)))[-HIGHEST_ORDER:]
            if stops and generated.endswith(stops):
                return bytes(generated), max((stop for stop in stops if generated.endswith(stop)), key=len)
        return bytes(generated), b""


def _generator(request: Generation) -> np.random.Generator:
    """A random stream per request, independent of batching, order and limits."""
    identity = canonical_json([to_text(request.prompt), request.sampling.identity(), request.draw])
    seed = int.from_bytes(hashlib.sha256(to_bytes(identity)).digest()[:16], "big")
    return np.random.Generator(np.random.PCG64(seed))


def open_ngram(args: Mapping[str, Any], settings: ModelSettings) -> NgramModel:
    """Opens `ngram`. Arguments: `order`, and `corpus`, a text file to train on."""
    reject_unknown_arguments("ngram", args, ("corpus", "order"))
    order = whole_number("ngram", args, "order", 3)
    if not 1 <= order <= HIGHEST_ORDER:
        raise ModelError(Fault("model_args", f"ngram: order={order}", f"a number from 1 to {HIGHEST_ORDER}"))
    return NgramModel(_read(args.get("corpus")), order)


def _read(corpus: Any) -> bytes:
    if corpus is None:
        return (resources.files("assay.models") / "data" / "ngram.txt").read_bytes()
    try:
        return Path(str(corpus)).expanduser().read_bytes()
    except OSError as error:
        found = f"ngram: corpus={corpus}: {error.strerror or error}"
        raise ModelError(Fault("model_args", found, "a text file to train on")) from error
