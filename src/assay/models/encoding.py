"""Requests of every kind as encoded requests: prompts are rendered, then all texts are encoded in batches.

Takes (place, request) pairs; gives encoded requests or refusals. The rules themselves are in `tokens.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure
from assay.models.chat import ChatRenderer
from assay.models.tokens import (
    EncodedPrompt,
    EncodedText,
    Refused,
    Scorable,
    TextPair,
    TokenRules,
    encode_pairs,
    encode_prompt,
    encode_rolling,
    encode_texts,
)

# Context ids, scored ids, tokens cut from the context, the prompt as text.
Seen = tuple[tuple[int, ...], tuple[int, ...], int, str]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes requests for one model.

    Attributes:
        rules: the model's tokenisation rules.
        renderer: turns conversations into text.
        max_new_tokens: most new tokens when a generation request does not say.
    """

    rules: TokenRules
    renderer: ChatRenderer
    max_new_tokens: int

    def pairs(self, requests: Sequence[tuple[int, Loglikelihood]]) -> Iterator[Scorable]:
        """Encoded contexts and continuations, in order."""
        pairs: list[TextPair] = []
        for place, request in requests:
            rendered = self.renderer.render(request.prompt)
            if isinstance(rendered, Failure):
                yield Refused(place, rendered)
            else:
                pairs.append(TextPair(place, rendered.text, request.continuation, rendered.notes))
        yield from encode_pairs(self.rules, pairs)

    def rolling(
        self, requests: Sequence[tuple[int, RollingLoglikelihood]]
    ) -> Iterator[tuple[int, list[EncodedText] | Refused]]:
        """The windows of every text."""
        encoded = encode_texts(self.rules, (request.text for _, request in requests))
        for place, request in requests:
            yield place, encode_rolling(self.rules, place, encoded[request.text], request.overlap)

    def prompts(self, requests: Sequence[tuple[int, Generation]]) -> Iterator[EncodedPrompt | Refused]:
        """Encoded prompts, in order."""
        rendered = [(place, request, self.renderer.render(request.prompt)) for place, request in requests]
        encoded = encode_texts(self.rules, (seen.text for _, _, seen in rendered if not isinstance(seen, Failure)))
        for place, request, seen in rendered:
            if isinstance(seen, Failure):
                yield Refused(place, seen)
                continue
            most = self.max_new_tokens if request.max_tokens is None else request.max_tokens
            yield encode_prompt(self.rules, place, request, encoded[seen.text], most, seen.notes)

    def view(self, request: Request) -> Seen | Refused:
        """One request as the model sees it."""
        if isinstance(request, RollingLoglikelihood):
            ids = encode_texts(self.rules, [request.text])[request.text]
            prefix = () if self.rules.prefix_id is None else (self.rules.prefix_id,)
            return prefix, tuple(ids), 0, request.text
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

    def count(self, requests: Sequence[Request]) -> int:
        """Tokens read for all requests, each by itself; what is generated is not counted."""
        numbered = list(enumerate(requests))
        pairs = self.pairs([(place, entry) for place, entry in numbered if isinstance(entry, Loglikelihood)])
        texts = self.rolling([(place, entry) for place, entry in numbered if isinstance(entry, RollingLoglikelihood)])
        prompts = self.prompts([(place, entry) for place, entry in numbered if isinstance(entry, Generation)])
        total = sum(len(pair.ids) - 1 for pair in pairs if not isinstance(pair, Refused))
        for _, windows in texts:
            total += 0 if isinstance(windows, Refused) else sum(len(window.ids) - 1 for window in windows)
        return total + sum(len(prompt.ids) for prompt in prompts if not isinstance(prompt, Refused))
