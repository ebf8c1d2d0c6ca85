"""Encoded requests: renders prompts, then encodes all texts in batches.

In: (index, request) pairs. Out: encoded requests or refusals. The tokenisation rules are in `tokenization.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from assay.core.errors import Fault, ModelError
from assay.core.protocols import TokenView
from assay.core.requests import (
    HEAD_KINDS,
    Demonstrated,
    Generation,
    Loglikelihood,
    Prompt,
    Request,
    RollingLoglikelihood,
)
from assay.core.responses import Failure, Logprob, Text, unsupported
from assay.models.tokens.chat import ChatRenderer
from assay.models.tokens.tokenization import (
    EncodedPrompt,
    EncodedText,
    Refused,
    Scorable,
    TextPair,
    TokenRules,
    as_context,
    empty_generation,
    encode_pairs,
    encode_prompt,
    encode_rolling,
    encode_texts,
    show_pieces,
)

# Tokens of whole texts in one scoring group.
GROUP_TOKENS = 8192

Encoded = TypeVar("Encoded")
# Context ids, scored ids, tokens cut from the context, the prompt as text.
TokenizedRequest = tuple[tuple[int, ...], tuple[int, ...], int, str]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes requests for one model.

    Attributes:
        rules: the model's tokenisation rules.
        renderer: turns conversations into text.
        max_new_tokens: maximum number of new tokens if a generation request sets none.
    """

    rules: TokenRules
    renderer: ChatRenderer
    max_new_tokens: int

    def pairs(self, requests: Sequence[tuple[int, Loglikelihood]]) -> Iterator[Scorable]:
        """Encoded contexts and continuations, in order."""
        pairs: list[TextPair] = []
        for index, request in requests:
            rendered = self.renderer.render(request.prompt)
            if isinstance(rendered, Failure):
                yield Refused(index, rendered)
            else:
                is_cut = isinstance(request.prompt, Demonstrated)
                text, answer = rendered.text, request.continuation
                pairs.append(TextPair(index, text, answer, rendered.notes, is_demonstrated=is_cut))
        yield from self.split(pairs)

    def split(self, pairs: Iterable[TextPair]) -> Iterator[Scorable]:
        """Encodes contexts and continuations."""
        return encode_pairs(self.rules, pairs)

    def rolling(self, requests: Sequence[tuple[int, RollingLoglikelihood]]) -> Iterator[WholeText | Refused]:
        """The windows of every text."""
        encoded = encode_texts(self.rules, (_read_text(request) for _, request in requests))
        for index, request in requests:
            ids = encoded[_read_text(request)]
            stands = request.stands_on_prefix
            windows = encode_rolling(self.rules, index, ids, request.overlap, stands, request.windows)
            given = 0 if request.stands_on_prefix else len(ids[:1])
            yield windows if isinstance(windows, Refused) else WholeText(index, tuple(windows), given)

    def prompts(self, requests: Sequence[tuple[int, Generation]]) -> Iterator[EncodedPrompt | Refused]:
        """Encoded prompts, in order."""
        rendered = [(index, request, self.renderer.render(request.prompt)) for index, request in requests]
        encoded = encode_texts(self.rules, (seen.text for _, _, seen in rendered if not isinstance(seen, Failure)))
        for index, request, seen in rendered:
            if isinstance(seen, Failure):
                yield Refused(index, seen)
                continue
            most = self.max_new_tokens if request.max_tokens is None else request.max_tokens
            yield self.fit(EncodedPrompt(index, tuple(encoded[seen.text]), request, most, notes=seen.notes))

    def fit(self, prompt: EncodedPrompt) -> EncodedPrompt | Refused:
        """A prompt, truncated to the model's maximum length."""
        return encode_prompt(self.rules, prompt.index, prompt.request, prompt.ids, prompt.max_tokens, prompt.notes)

    def view(self, request: Request) -> TokenizedRequest | Refused:
        """One request as token ids."""
        if isinstance(request, RollingLoglikelihood):
            ids = next(iter(encode_texts(self.rules, [_read_text(request)]).values()))
            if not request.stands_on_prefix:
                return tuple(ids[:1]), tuple(ids[1:]), 0, request.text
            prefix = () if self.rules.prefix_id is None else (self.rules.prefix_id,)
            return prefix, tuple(ids), 0, request.text
        if not isinstance(request, (Loglikelihood, Generation)):
            return Refused(0, unsupported(request.kind))
        rendered = self.renderer.render(request.prompt)
        if isinstance(rendered, Failure):
            return Refused(0, rendered)
        if isinstance(request, Loglikelihood):
            pair = next(self.pairs([(0, request)]))
            if isinstance(pair, Refused):
                return pair
            return pair.ids[: -pair.scored], pair.ids[-pair.scored :], pair.truncated, rendered.text
        prompt = next(self.prompts([(0, request)]))
        return prompt if isinstance(prompt, Refused) else (prompt.ids, (), prompt.truncated, rendered.text)

    def render(self, prompt: Prompt) -> str | None:
        """The prompt as text; None if the template rejects it."""
        rendered = self.renderer.render(prompt)
        return None if isinstance(rendered, Failure) else rendered.text

    def encode(self, requests: Sequence[Request]) -> Job:
        """Encodes all requests."""
        numbered = list(enumerate(requests))
        answered: list[tuple[int, Text | Failure]] = [
            (index, unsupported(entry.kind)) for index, entry in numbered if entry.kind in HEAD_KINDS
        ]

        def accepted(entries: Iterable[Encoded | Refused]) -> Iterator[Encoded]:
            for entry in entries:
                if isinstance(entry, Refused):
                    answered.append((entry.index, entry.failure))
                else:
                    yield entry

        pairs = [(index, entry) for index, entry in numbered if isinstance(entry, Loglikelihood)]
        texts = [(index, entry) for index, entry in numbered if isinstance(entry, RollingLoglikelihood)]
        prompts = [(index, entry) for index, entry in numbered if isinstance(entry, Generation)]
        encoded = list(accepted(self.prompts(prompts)))
        answered.extend((prompt.index, empty_generation(prompt)) for prompt in encoded if not prompt.max_tokens)
        written = [prompt for prompt in encoded if prompt.max_tokens]
        return Job(answered, list(accepted(self.pairs(pairs))), list(accepted(self.rolling(texts))), written)


def token_view(encoder: Encoder, request: Request) -> TokenView:
    """A request as token ids and pieces; raises an error if it cannot be encoded."""
    seen = encoder.view(request)
    if isinstance(seen, Refused):
        raise ModelError(Fault(f"{request.kind} request", seen.failure.message))
    context, scored, truncated, text = seen
    tokenizer = encoder.rules.tokenizer
    pieces = show_pieces(tokenizer, context), show_pieces(tokenizer, scored)
    return TokenView(context, scored, *pieces, truncated, text)


def _read_text(request: RollingLoglikelihood) -> str:
    """The text to encode; without a prefix token, the same as the context of a prompt with this text."""
    return request.text if request.stands_on_prefix else as_context(request.text)


@dataclass(frozen=True, slots=True)
class WholeText:
    """A whole text to score.

    Attributes:
        index: index of its request.
        windows: its windows.
        given: number of its own tokens that are not scored: 1 if it has no prefix token, else 0.
    """

    index: int
    windows: tuple[EncodedText, ...]
    given: int = 0

    @property
    def is_context(self) -> bool:
        """Whether its ids equal the context of a prompt with the same text, so that both share a prefix."""
        return self.given > 0 and len(self.windows) == 1

    @property
    def length(self) -> int:
        return sum(len(window.ids) for window in self.windows)


@dataclass(frozen=True, slots=True)
class Job:
    """Encoded requests.

    Attributes:
        answered: answers that need no forward pass: refusals, and empty texts for a limit of 0 new tokens.
        texts: continuations to score.
        whole_texts: whole texts to score.
        prompts: prompts to generate at least one token for.
    """

    answered: Sequence[tuple[int, Text | Failure]]
    texts: Sequence[EncodedText]
    whole_texts: Sequence[WholeText]
    prompts: Sequence[EncodedPrompt]

    def groups(self, shares_prefixes: bool = True) -> Iterator[list[EncodedText]]:
        """Groups to score together: all continuations, then a few whole texts at a time.

        A whole text is answered when all its windows are scored. Small groups are answered early, so that little is
        lost if the process dies.

        Args:
            shares_prefixes: whether common prefixes are computed once. If so, texts that are the context of
                continuations join their group; without sharing, they would only force logits at every position of those
                batches.
        """
        early = {
            number for number, whole_text in enumerate(self.whole_texts) if shares_prefixes and whole_text.is_context
        }
        contexts = (replace(self.whole_texts[number].windows[0], index=-1 - number) for number in sorted(early))
        if together := [*self.texts, *contexts]:
            yield together
        group: list[EncodedText] = []
        size = 0
        for number, whole_text in enumerate(self.whole_texts):
            if number in early:
                continue
            group.extend(replace(window, index=-1 - number) for window in whole_text.windows)
            size += whole_text.length
            if size >= GROUP_TOKENS:
                yield group
                group, size = [], 0
        if group:
            yield group

    def collect(self, answers: Iterable[tuple[int, Logprob | Failure]]) -> Iterator[tuple[int, Logprob | Failure]]:
        """Answers by request index; a whole text is answered when its last window arrives.

        Answers of windows carry the number of their text, so windows may arrive in any order.
        """
        parts: list[list[Logprob | Failure]] = [[] for _ in self.whole_texts]
        for whole_text in self.whole_texts:
            if not whole_text.windows:
                yield whole_text.index, Logprob(0.0, 0, True, prompt_tokens=whole_text.given)
        for index, answer in answers:
            if index >= 0:
                yield index, answer
                continue
            whole_text, found = self.whole_texts[-1 - index], parts[-1 - index]
            found.append(answer)
            if len(found) == len(whole_text.windows):
                yield whole_text.index, join_windows(whole_text.windows, found)


def join_windows(windows: Sequence[EncodedText], parts: Sequence[Logprob | Failure]) -> Logprob | Failure:
    """The log-likelihood of a text from those of its windows; one failed window fails the text."""
    whole: list[Logprob] = []
    for part in parts:
        if isinstance(part, Failure):
            return part
        whole.append(part)
    return Logprob(
        total=math.fsum(part.total for part in whole),
        token_count=sum(part.token_count for part in whole),
        is_greedy=all(part.is_greedy for part in whole),
        prompt_tokens=1 if windows else 0,
        notes=tuple(note for window in windows for note in window.notes),
        windows=len(windows) or None,
    )
