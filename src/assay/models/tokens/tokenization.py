"""Tokenisation rules of causal models: text to token ids and back.

In: texts and a tokenizer. Out: encoded requests or failures. Independent of weights and batches. The rules are
lm-eval's (golden vectors in `tests/models/tokens/test_tokenization.py`); where lm-eval fails an assertion, the request
is scored from the split point on, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from assay.core.requests import LONGEST_WINDOWS, Generation, Windows
from assay.core.responses import Failure, Text

# Encodings of fast tokenizers include offsets and masks; small chunks limit their memory.
TEXTS_PER_CALL = 512


class Tokenizer(Protocol):
    """The interface used of a transformers tokenizer."""

    chat_template: Any

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def eos_token_id(self) -> int | None: ...

    @property
    def pad_token_id(self) -> int | None: ...

    def __call__(self, text: list[str], **options: Any) -> Mapping[str, list[list[int]]]: ...

    def decode(self, token_ids: Sequence[int], **options: Any) -> str: ...

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]: ...

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Tokenisation rules of one model.

    Attributes:
        tokenizer: the tokenizer.
        max_length: maximum sequence length in tokens.
        add_special_tokens: the user's `add_bos_token`; None for the tokenizer's default.
        prefix_id: the token used as an empty context.
        prefix_text: that token as text. A text that starts with it gets no special tokens, to avoid a double BOS.
        prepended: ids prepended to texts that get special tokens, for tokenizers that do not add BOS themselves.
    """

    tokenizer: Tokenizer
    max_length: int
    add_special_tokens: bool | None = None
    prefix_id: int | None = None
    prefix_text: str = ""
    prepended: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedText:
    """Token ids of which the last `scored` are to be scored.

    Attributes:
        index: index of the request.
        ids: context and continuation, truncated on the left to the maximum length plus the last token.
        scored: number of ids at the end that are scored.
        truncated: number of context tokens removed.
        notes: names of irregularities.
    """

    index: int
    ids: tuple[int, ...]
    scored: int
    truncated: int = 0
    notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """The model's input: all ids but the last, which is only predicted."""
        return self.ids[:-1]

    @property
    def context_length(self) -> int:
        return len(self.ids) - self.scored


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A generation request with the ids of its prompt."""

    index: int
    ids: tuple[int, ...]
    request: Generation
    max_tokens: int
    truncated: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that cannot be encoded, and the reason."""

    index: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class TextPair:
    """A context as text, its continuation, and notes from rendering.

    Attributes:
        is_bare: whether there is no context at all. Then no special tokens are added; a whitespace-only context, which
            is empty once its whitespace has moved, is encoded like any other.
        is_demonstrated: whether the context consists of demonstrations truncated as in MetaICL. Then context and
            continuation together must fit the maximum length; otherwise the last token, which is only predicted, may
            exceed it.
    """

    index: int
    context: str
    continuation: str
    notes: tuple[str, ...] = ()
    is_bare: bool = False
    is_demonstrated: bool = False


Scorable = EncodedText | Refused


def encode_texts(rules: TokenRules, texts: Iterable[str], special: bool | None = None) -> dict[str, list[int]]:
    """Ids of every distinct text, identical to encoding the texts one by one.

    Args:
        special: whether the tokenizer adds its special tokens; None for the model's rule.
    """
    distinct = dict.fromkeys(texts)
    groups: dict[bool | None, list[str]] = {}
    for text in distinct:
        groups.setdefault(special if special is not None else _special(rules, text), []).append(text)
    encoded: dict[str, list[int]] = {}
    for flag, members in groups.items():
        # None omits add_special_tokens, so that the tokenizer's default applies.
        options = {} if flag is None else {"add_special_tokens": flag}
        prepended = [] if flag is False else list(rules.prepended)
        for start in range(0, len(members), TEXTS_PER_CALL):
            chunk = members[start : start + TEXTS_PER_CALL]
            rows = _call(rules.tokenizer, chunk, options)
            encoded.update((text, prepended + list(row)) for text, row in zip(chunk, rows, strict=True))
    return encoded


def _special(rules: TokenRules, text: str) -> bool | None:
    if rules.prefix_text and text.startswith(rules.prefix_text):
        return False
    return rules.add_special_tokens


def _call(tokenizer: Tokenizer, texts: list[str], options: Mapping[str, bool]) -> list[list[int]]:
    clean = [without_surrogates(text) for text in texts]
    # verbose=False silences the warning about long texts; truncation is counted and reported elsewhere.
    return tokenizer(clean, return_attention_mask=False, return_token_type_ids=False, verbose=False, **options)[
        "input_ids"
    ]


def without_surrogates(text: str) -> str:
    """Replaces lone surrogates, which occur in datasets and which the Rust tokenizer rejects, by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_pairs(rules: TokenRules, pairs: Iterable[TextPair]) -> Iterator[Scorable]:
    """Contexts and continuations, encoded together; every distinct text is encoded once."""
    shifted = [_shift(pair) for pair in pairs]
    texts: set[str] = set()
    for pair in shifted:
        texts.update(() if pair.is_bare else (pair.context, pair.context + pair.continuation))
    ruled = encode_texts(rules, sorted(texts))
    bare = encode_texts(rules, (pair.continuation for pair in shifted if pair.is_bare), special=False)
    for pair in shifted:
        yield _encode_pair(rules, pair, ruled, bare)


def _shift(pair: TextPair) -> TextPair:
    """Moves trailing whitespace of the context to the continuation, where tokenizers expect it."""
    if not pair.continuation or not pair.context:
        return replace(pair, is_bare=True)
    context = as_context(pair.context)
    return replace(pair, context=context, continuation=pair.context[len(context) :] + pair.continuation)


def as_context(prompt: str) -> str:
    """The part of a prompt that is encoded as the context of its continuations."""
    return prompt.rstrip()


def _encode_pair(
    rules: TokenRules, pair: TextPair, ruled: Mapping[str, list[int]], bare: Mapping[str, list[int]]
) -> Scorable:
    if not pair.continuation:
        return Refused(pair.index, Failure("empty", "the continuation is empty: nothing to score", retryable=False))
    if pair.is_bare:
        whole, start, notes = bare[pair.continuation], 0, pair.notes
    else:
        whole, start, found = join(ruled[pair.context], ruled[pair.context + pair.continuation])
        notes = (*pair.notes, *found)
    if start == 0:
        notes = (*notes, "empty_prompt")
        if rules.prefix_id is None:
            return Refused(pair.index, no_prefix())
        if whole[:1] != [rules.prefix_id]:
            whole = [rules.prefix_id, *whole]
        start = 1
    # MetaICL, metaicl/data.py, prepro_sentence_pair_single: `ids1[len(ids1)+len(ids2)-max_length:]`; Catwalk,
    # models/metaicl.py, does the same with the model's length. lm-eval allows one token more.
    room = rules.max_length if pair.is_demonstrated else rules.max_length + 1
    return _cut(rules, EncodedText(pair.index, tuple(whole), len(whole) - start, notes=notes), room)


def join(context: Sequence[int], whole: Sequence[int]) -> tuple[list[int], int, tuple[str, ...]]:
    """The ids to score, how many of them are context, and a note if a token spans the boundary.

    lm-eval encodes context + continuation, skips as many tokens as the context alone has, and scores the rest after the
    context's own ids. If a token spans the boundary, these are not quite the ids of the text; they are used anyway, so
    that numbers agree, with a note. If no token is left, lm-eval fails; here the scored part begins where the two
    encodings diverge, at the latest at the last token.
    """
    if len(whole) > len(context):
        is_clean = whole[: len(context)] == context
        return [*context, *whole[len(context) :]], len(context), () if is_clean else ("joined_token",)
    common = 0
    for left, right in zip(context, whole, strict=False):
        if left != right:
            break
        common += 1
    return list(whole), max(min(common, len(whole) - 1), 0), ("split_token",)


def _cut(rules: TokenRules, text: EncodedText, room: int) -> Scorable:
    """Truncates a text on the left to `room` tokens; keeps at least one context token."""
    if text.scored <= 0:
        message = "the continuation has no tokens: nothing to score"
        return Refused(text.index, Failure("empty", message, retryable=False))
    if text.scored > rules.max_length:
        message = f"the continuation has {text.scored} tokens, but the model takes {rules.max_length}"
        return Refused(text.index, Failure("too_long", message, retryable=False))
    kept = text.ids[-max(room, text.scored + 1) :]
    notes = (*text.notes, *start_notes(rules, kept))
    return replace(text, ids=kept, truncated=len(text.ids) - len(kept), notes=notes)


def start_notes(rules: TokenRules, ids: Sequence[int]) -> tuple[str, ...]:
    """`double_bos` if the input starts with two BOS tokens."""
    bos = rules.tokenizer.bos_token_id
    return ("double_bos",) if bos is not None and tuple(ids[:2]) == (bos, bos) else ()


def no_prefix() -> Failure:
    """The failure for an empty context if the model has no prefix token."""
    message = "the context is empty and the tokenizer has no BOS and no EOS; set prefix_token_id"
    return Failure("unsupported", message, retryable=False)


def rolling_windows(
    ids: Sequence[int], prefix: int, max_length: int, overlap: int = 1, stride: int | None = None
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """(context, scored) for every window; every token is scored once.

    The first window has the prefix token as context. Each later window scores the next `stride` tokens, or if None as
    many as fit after `overlap` tokens of context, and is filled with context to the full length.
    """
    if ids:
        yield [prefix], ids[:max_length]
    step = max(max_length - max(overlap, 1) + 1, 1) if stride is None else stride
    start = max_length
    while start < len(ids):
        end = min(start + step, len(ids))
        yield ids[end - max_length - 1 : start], ids[start:end]
        start = end


def encode_rolling(
    rules: TokenRules,
    index: int,
    ids: Sequence[int],
    overlap: int,
    stands_on_prefix: bool = True,
    windows: Windows = LONGEST_WINDOWS,
) -> list[EncodedText] | Refused:
    """The windows of one text, in order; empty for a text without tokens to score.

    A text without the prefix token has its own first token as context.
    """
    length = rules.max_length if windows.length is None else windows.length
    stride = windows.stride
    if length > rules.max_length:
        return _too_wide(index, f"a window of {length} tokens is requested, but the model takes {rules.max_length}")
    if stride is not None and stride > length:
        return _too_wide(index, f"a stride of {stride} tokens would skip tokens: a window has {length}")
    if not stands_on_prefix:
        first_id, ids = (ids[0], ids[1:]) if ids else (0, ids)
    elif rules.prefix_id is None:
        return Refused(index, no_prefix())
    else:
        first_id = rules.prefix_id
    cut = rolling_windows(ids, first_id, length, overlap, stride)
    encoded = [EncodedText(index, (*context, *scored), len(scored)) for context, scored in cut]
    if encoded:
        first = encoded[0]
        encoded[0] = EncodedText(index, first.ids, first.scored, 0, start_notes(rules, first.ids))
    return encoded


def _too_wide(index: int, message: str) -> Refused:
    return Refused(index, Failure("too_long", message, retryable=False))


def encode_prompt(
    rules: TokenRules,
    index: int,
    request: Generation,
    ids: Sequence[int],
    most: int,
    notes: tuple[str, ...] = (),
) -> EncodedPrompt | Refused:
    """A prompt truncated on the left, so that `most` new tokens fit after it."""
    room = rules.max_length - most
    if room <= 0:
        message = f"{most} new tokens leave no room for a prompt: the model takes {rules.max_length} in all"
        return Refused(index, Failure("too_long", message, retryable=False))
    if not ids:
        if rules.prefix_id is None:
            return Refused(index, no_prefix())
        ids, notes = [rules.prefix_id], (*notes, "empty_prompt")
    kept = tuple(ids[-room:])
    return EncodedPrompt(index, kept, request, most, len(ids) - len(kept), (*notes, *start_notes(rules, kept)))


def empty_generation(prompt: EncodedPrompt) -> Text:
    """The answer to a prompt with a limit of 0 new tokens: the empty text."""
    notes = (*prompt.notes, "stop_at_limit")
    return Text("", "length", 0, len(prompt.ids), prompt.truncated, notes)


def as_texts(prompts: Sequence[EncodedPrompt]) -> list[EncodedText]:
    """Prompts as texts with one scored token; which token does not matter."""
    return [EncodedText(prompt.index, (*prompt.ids, 0), 1) for prompt in prompts]


def cut_at_stops(text: str, stops: Iterable[str], think_end: str | None = None) -> str:
    """Generated text up to the first stop string, without the thinking part."""
    if think_end and think_end in text:
        text = text.rsplit(think_end, 1)[1].lstrip()
    for stop in stops:
        # An empty stop string would remove everything; lm-eval skips it too.
        if stop:
            text = text.split(stop, 1)[0]
    return text


def show_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """Each id as readable text; the raw token if an id is only part of a character."""
    pieces: list[str] = []
    for identifier, raw in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True):
        if "▁" in raw:
            # SentencePiece's space marker, which decoding a single id would drop.
            pieces.append(raw.replace("▁", " "))
            continue
        text = tokenizer.decode([identifier])
        pieces.append(raw if not text or "\ufffd" in text else text)
    return tuple(pieces)
