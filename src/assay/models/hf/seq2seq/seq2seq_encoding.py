"""Encoded requests of encoder-decoders: the prompt goes to the encoder, the continuation to the decoder.

In: requests. Out: encoded requests or refusals. The rules are lm-eval's for this family: both parts are encoded
separately, the prompt with the tokenizer's special tokens, the continuation without any, so without EOS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from assay.core.requests import Request, RollingLoglikelihood
from assay.core.responses import Failure
from assay.models.tokens.encoding import Encoder, TokenizedRequest, WholeText
from assay.models.tokens.tokenization import (
    EncodedPrompt,
    EncodedText,
    Refused,
    Scorable,
    TextPair,
    TokenRules,
    as_context,
    encode_prompt,
    encode_texts,
    no_prefix,
    start_notes,
)

NO_ROLLING = Failure(
    "unsupported",
    "an encoder-decoder cannot score a whole text: its decoder continues the encoder's input",
    retryable=False,
)


class Seq2SeqEncoder(Encoder):
    """Encodes requests for one encoder-decoder model.

    In its encoded texts, the scored ids belong to the decoder and the ids before them to the encoder.
    """

    def split(self, pairs: Iterable[TextPair]) -> Iterator[Scorable]:
        return encode_apart(self.rules, pairs)

    def rolling(self, requests: Sequence[tuple[int, RollingLoglikelihood]]) -> Iterator[WholeText | Refused]:
        return (Refused(index, NO_ROLLING) for index, _ in requests)

    def fit(self, prompt: EncodedPrompt) -> EncodedPrompt | Refused:
        """A prompt, truncated to the encoder's maximum length; the answer has the decoder's whole length."""
        most, room = prompt.max_tokens, self.rules.max_length
        if most > room:
            message = f"{most} new tokens are requested, but the decoder takes {room}"
            return Refused(prompt.index, Failure("too_long", message, retryable=False))
        wide = replace(self.rules, max_length=room + most)
        return encode_prompt(wide, prompt.index, prompt.request, prompt.ids, most, prompt.notes)

    def view(self, request: Request) -> TokenizedRequest | Refused:
        return Refused(0, NO_ROLLING) if isinstance(request, RollingLoglikelihood) else super().view(request)


def encode_apart(rules: TokenRules, pairs: Iterable[TextPair]) -> Iterator[Scorable]:
    """Contexts and continuations, encoded separately; every distinct text once."""
    # Trailing whitespace moves to the continuation here too, as in lm-eval for every family.
    parted = [(pair, as_context(pair.context)) for pair in pairs]
    moved = [pair.context[len(context) :] + pair.continuation for pair, context in parted]
    # A whitespace-only context is encoded, which may give special tokens; a missing context is not.
    contexts = encode_texts(rules, (context for pair, context in parted if pair.context))
    continuations = encode_texts(rules, moved, special=False)
    for (pair, context), continuation in zip(parted, moved, strict=True):
        yield _scorable(rules, pair, contexts[context] if pair.context else [], continuations[continuation])


def _scorable(rules: TokenRules, pair: TextPair, context: Sequence[int], scored: Sequence[int]) -> Scorable:
    notes = pair.notes
    if not pair.continuation:
        return Refused(pair.index, Failure("empty", "the continuation is empty: nothing to score", retryable=False))
    if not context:
        if rules.prefix_id is None:
            return Refused(pair.index, no_prefix())
        context, notes = [rules.prefix_id], (*notes, "empty_prompt")
        # As in lm-eval: if the continuation starts with the prefix token, that token moves to the encoder.
        scored = scored[1:] if scored[:1] == context else scored
    if not scored:
        return Refused(
            pair.index, Failure("empty", "the continuation has no tokens: nothing to score", retryable=False)
        )
    if len(scored) > rules.max_length:
        message = f"the continuation has {len(scored)} tokens, but the decoder takes {rules.max_length}"
        return Refused(pair.index, Failure("too_long", message, retryable=False))
    kept = context[-rules.max_length :]
    cut = len(context) - len(kept)
    return EncodedText(pair.index, (*kept, *scored), len(scored), cut, (*notes, *start_notes(rules, kept)))
