"""Log-probabilities as JSON: the legacy form of completions, vLLM's `prompt_logprobs`, and the form of chat.

In: token ids and their scores. Out: JSON data. JSON has no infinity: a probability of 0 is written as
-9999, as vLLM does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.core.protocols import TokenCodec, TokenScores

_ZERO_PROBABILITY = -9999.0
_NOT_A_CHARACTER = "\ufffd"

# Token ids → the text of each.
Names = Callable[[Sequence[int]], Sequence[str]]


def names_of(codec: TokenCodec, as_ids: bool) -> Names:
    """How tokens are called: by their text, or as `token_id:N`, which is never the same for two."""
    return (lambda ids: [f"token_id:{number}" for number in ids]) if as_ids else codec.pieces


def legacy_logprobs(
    ids: Sequence[int], scores: TokenScores, start: int, top: int, names: Names, offsets: Sequence[int]
) -> dict[str, Any]:
    """The `logprobs` of a choice of completions.

    Args:
        ids: the ids that are shown; of the first `start` there are no scores.
        scores: scores of the others, in order.
        start: ids without scores: 1 for a whole prompt, 0 for an answer.
        top: most likely tokens per position beside the token itself.
        names: how tokens are called.
        offsets: index of each token's first character.
    """
    tokens = list(names(ids))
    values: list[float | None] = [None] * start
    tops: list[dict[str, float] | None] = [None] * start
    for place, value in enumerate(scores.logprobs):
        shown = _finite(value)
        values.append(shown)
        entry: dict[str, float] = {}
        if top:
            best_ids, best = scores.top_ids[place][:top], scores.top_logprobs[place]
            # Of tokens with the same text the most likely one counts, so that the largest number is that of the best.
            for name, number in zip(names(best_ids), best, strict=False):
                entry.setdefault(name, _finite(number))
        entry.setdefault(tokens[start + place], shown)
        tops.append(entry)
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": list(offsets)}


def text_offsets(codec: TokenCodec, ids: Sequence[int], start: int = 0) -> list[int]:
    """Index of each token's first character in the text; all tokens of one character have the same."""
    offsets: list[int] = []
    run: list[int] = []
    place = start
    for identifier, piece in zip(ids, codec.pieces(ids), strict=True):
        is_byte = not piece.isascii() or piece.startswith("<0x")
        is_whole = not run and (not is_byte or codec.decode([identifier]) == piece)
        offsets.append(place)
        if is_whole:
            place += len(piece)
            continue
        run.append(identifier)
        text = codec.decode(run)
        if not text.endswith(_NOT_A_CHARACTER):
            place, run = place + len(text), []
    return offsets


def prompt_logprobs(ids: Sequence[int], scores: TokenScores, top: int, codec: TokenCodec) -> list[Any]:
    """vLLM's `prompt_logprobs`: for each id but the first the tokens of its position, by id and with rank."""
    found: list[Any] = [None]
    for place, identifier in enumerate(ids[1:]):
        best = zip(scores.top_ids[place][:top], scores.top_logprobs[place], strict=False)
        entries = {str(other): _ranked(other, value, rank, codec) for rank, (other, value) in enumerate(best, 1)}
        own = _ranked(identifier, scores.logprobs[place], scores.ranks[place], codec)
        found.append({str(identifier): own, **entries})
    return found


def _ranked(identifier: int, value: float, rank: int, codec: TokenCodec) -> dict[str, Any]:
    return {"logprob": _finite(value), "rank": rank, "decoded_token": codec.pieces([identifier])[0]}


def chat_logprobs(ids: Sequence[int], scores: TokenScores, top: int, names: Names) -> dict[str, Any]:
    """The `logprobs` of a choice of chat completions."""
    content = []
    for place, (name, value) in enumerate(zip(names(ids), scores.logprobs, strict=True)):
        best = zip(names(scores.top_ids[place][:top]), scores.top_logprobs[place], strict=False)
        content.append({**_entry(name, value), "top_logprobs": [_entry(*pair) for pair in best]})
    return {"content": content, "refusal": None}


def _entry(name: str, value: float) -> dict[str, Any]:
    return {"token": name, "logprob": _finite(value), "bytes": list(name.encode("utf-8", "replace"))}


def _finite(value: float) -> float:
    return value if value > _ZERO_PROBABILITY else _ZERO_PROBABILITY


def part_of(scores: TokenScores, start: int, end: int) -> TokenScores:
    """The scores of some positions."""
    own = slice(start, end)
    return TokenScores(scores.logprobs[own], scores.ranks[own], scores.top_ids[own], scores.top_logprobs[own])


def with_next(scores: TokenScores) -> tuple[int, TokenScores]:
    """The most likely token after a row that asks for it, and the row's scores with that token's."""
    token, logprob = scores.top_ids[-1][0], scores.top_logprobs[-1][0]
    ranks = [*scores.ranks, 1] if scores.ranks else ()
    return token, TokenScores([*scores.logprobs, logprob], ranks, scores.top_ids, scores.top_logprobs)
