"""Encoded requests of masked language models: rows of ids, and the positions to mask for each scored token.

In: `Loglikelihood` and `RollingLoglikelihood` requests. Out: windows of ids, or refusals. Needs no weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from assay.core.errors import Fault, ModelError
from assay.core.requests import Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, unsupported
from assay.models.hf.encoder.head_encoding import clean_text
from assay.models.loading.hf_arguments import ORIGINAL, CausalArguments
from assay.models.loading.tokenizer import PROBE_TEXT
from assay.models.tokens.chat import ChatRenderer, Rendered
from assay.models.tokens.tokenization import TEXTS_PER_CALL, Refused, Tokenizer, as_context, join


@dataclass(frozen=True, slots=True)
class Window:
    """One row with its special tokens.

    Attributes:
        ids: the row, unmasked.
        masked: for each scored token, the positions to mask; its own position comes first.
    """

    ids: tuple[int, ...]
    masked: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class MaskedText:
    """A request as windows; a continuation has one.

    Attributes:
        index: index of the request.
        windows: its windows.
        context: number of tokens that are not scored, special tokens of a continuation included.
        truncated: number of prompt tokens removed.
        notes: names of irregularities.
        is_whole: whether it is a whole text, whose answer reports the number of windows.
    """

    index: int
    windows: tuple[Window, ...]
    context: int
    truncated: int = 0
    notes: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def size(self) -> int:
        """Number of tokens in all rows needed to score it."""
        return sum(len(window.ids) * len(window.masked) for window in self.windows)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Tokens of a text, and for each the index of its word; None if it belongs to no word."""

    ids: list[int]
    words: list[int | None]


@dataclass(frozen=True, slots=True)
class MaskedEncoder:
    """Encodes requests for one masked language model.

    Attributes:
        tokenizer: the tokenizer.
        renderer: turns conversations into text.
        max_length: maximum sequence length in tokens.
        before: special tokens before a text.
        after: special tokens after it.
        by_word: whether the later tokens of a token's word are masked with it.
    """

    tokenizer: Tokenizer
    renderer: ChatRenderer
    max_length: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    by_word: bool

    def encode(self, requests: Sequence[Request]) -> Iterator[MaskedText | Refused]:
        """All requests, in order."""
        rendered = [self._render(request) for request in requests]
        pieces = self._pieces(text for entry in rendered if not isinstance(entry, Failure) for text in entry[0])
        for index, (request, entry) in enumerate(zip(requests, rendered, strict=True)):
            if isinstance(entry, Failure):
                yield Refused(index, entry)
                continue
            texts, notes = entry
            if isinstance(request, RollingLoglikelihood):
                yield self._roll(index, request, pieces[texts[0]])
            else:
                yield self._pair(index, [pieces[text] for text in texts], notes)

    def _render(self, request: Request) -> tuple[tuple[str, ...], tuple[str, ...]] | Failure:
        """The texts of a request to encode, and notes."""
        if isinstance(request, RollingLoglikelihood):
            return (request.text if request.stands_on_prefix else as_context(request.text),), ()
        if not isinstance(request, Loglikelihood):
            return unsupported(request.kind)
        if not request.continuation:
            return Failure("empty", "the continuation is empty: nothing to score", retryable=False)
        prompt: Rendered | Failure = self.renderer.render(request.prompt)
        if isinstance(prompt, Failure):
            return prompt
        return (as_context(prompt.text), prompt.text + request.continuation), prompt.notes

    def given_text(self, request: Request) -> str | None:
        """The prompt before the continuation, or the whole text."""
        if not isinstance(request, Loglikelihood):
            return request.text if isinstance(request, RollingLoglikelihood) else None
        prompt = self.renderer.render(request.prompt)
        return None if isinstance(prompt, Failure) else prompt.text

    def _pieces(self, texts: Iterable[str]) -> dict[str, Pieces]:
        """Tokens of every distinct text, without special tokens."""
        distinct = list(dict.fromkeys(texts))
        found: dict[str, Pieces] = {}
        for start in range(0, len(distinct), TEXTS_PER_CALL):
            chunk = distinct[start : start + TEXTS_PER_CALL]
            encoded: Any = self.tokenizer(list(map(clean_text, chunk)), add_special_tokens=False, verbose=False)
            for number, text in enumerate(chunk):
                ids = list(encoded["input_ids"][number])
                found[text] = Pieces(ids, encoded.word_ids(number) if self.by_word else [None] * len(ids))
        return found

    def _pair(self, index: int, texts: Sequence[Pieces], notes: tuple[str, ...]) -> MaskedText | Refused:
        """A continuation after its prompt, which is truncated on the left if both do not fit."""
        prompt, whole = texts
        ids, start, found = join(prompt.ids, whole.ids)
        scored, room = len(ids) - start, self.max_length - len(self.before) - len(self.after)
        if scored <= 0:
            return Refused(index, Failure("empty", "the continuation has no tokens: nothing to score", False))
        if scored > room:
            message = f"the continuation has {scored} tokens, but the model takes {room} between its special tokens"
            return Refused(index, Failure("too_long", message, retryable=False))
        cut = max(len(ids) - room, 0)
        window = self._window(ids[cut:], whole.words[cut:], range(start - cut, len(ids) - cut))
        return MaskedText(index, (window,), len(window.ids) - scored, cut, (*notes, *found))

    def _roll(self, index: int, request: RollingLoglikelihood, text: Pieces) -> MaskedText | Refused:
        """A whole text as windows; each token is scored in the first window that contains it."""
        length = self.max_length if request.windows.length is None else request.windows.length
        room = length - len(self.before) - len(self.after)
        stride = request.windows.stride
        if length > self.max_length or room < 1 or (stride or 0) > room:
            message = (
                f"a window of {length} tokens with stride {stride} does not fit: the model takes {self.max_length}"
            )
            return Refused(index, Failure("too_long", message, retryable=False))
        given = 0 if request.stands_on_prefix else min(len(text.ids), 1)
        step = max(room - request.overlap, 1) if stride is None else stride
        windows, start, end = [], given, min(room, len(text.ids))
        while start < end:
            low = max(end - room, 0)
            windows.append(self._window(text.ids[low:end], text.words[low:end], range(start - low, end - low)))
            start, end = end, min(end + step, len(text.ids))
        context = 1 if request.stands_on_prefix else given
        return MaskedText(index, tuple(windows), context, is_whole=True)

    def _window(self, ids: Sequence[int], words: Sequence[int | None], scored: range) -> Window:
        """A row between its special tokens; the `scored` positions of `ids` are masked in turn."""
        shift = len(self.before)

        def later(index: int) -> Iterator[int]:
            word = words[index]
            for other in range(index + 1, len(ids)):
                if word is None or words[other] != word:
                    return
                yield other

        masked = (tuple(shift + other for other in (index, *later(index))) for index in scored)
        return Window((*self.before, *ids, *self.after), tuple(masked))


def make_masked_encoder(tokenizer: Tokenizer, max_length: int, args: CausalArguments) -> MaskedEncoder:
    """The encoder of a masked language model.

    Raises:
        ModelError: if the tokenizer has no mask token, or no word ids where `pll` needs them.
    """
    by_word = (args.pll or ORIGINAL) != ORIGINAL
    if by_word and not getattr(tokenizer, "is_fast", False):
        found = "the tokenizer does not report which word a token belongs to"
        raise ModelError(Fault("model_args.pll", found, f"a fast tokenizer (tokenizer.json), or pll={ORIGINAL}"))
    mask_id(tokenizer, args)
    framed, bare = (tokenizer([PROBE_TEXT], add_special_tokens=flag)["input_ids"][0] for flag in (True, False))
    start = next((index for index in range(len(framed)) if framed[index : index + len(bare)] == bare), 0)
    before, after = tuple(framed[:start]), tuple(framed[start + len(bare) :])
    return MaskedEncoder(tokenizer, ChatRenderer(tokenizer, args.template_options), max_length, before, after, by_word)


def mask_id(tokenizer: Tokenizer, args: CausalArguments) -> int:
    """The id of the mask token."""
    found = getattr(tokenizer, "mask_token_id", None)
    if found is None:
        raise ModelError(Fault(args.pretrained, "its tokenizer has no mask token", "the tokenizer it was trained with"))
    return cast(int, found)
