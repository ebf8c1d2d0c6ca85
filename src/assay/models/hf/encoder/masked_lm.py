"""Pseudo-log-likelihoods of masked language models: each token is masked in turn and scored given all others.

In: encoded texts and a loaded network. Out: (index, Logprob | Failure) as texts finish. Equal rows are computed
once, so single-token choices share a row. Scoring by Salazar et al. 2020; the within-word variant by Kauf and Ivanova
2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from assay.core.responses import Failure, Logprob
from assay.models.hf.encoder.encoder_network import EncoderNetwork
from assay.models.hf.encoder.masked_encoding import MaskedText
from assay.models.inference.batching import Batching
from assay.models.inference.likelihood import ELEMENTS_PER_CHUNK, NOT_FINITE, Scored

# Tokens in the rows of the texts scored together; every scored token needs a row.
TOKENS_PER_CHUNK = 1 << 21


@dataclass(slots=True)
class TokenScores:
    """A text and the scores of its tokens so far: (log-probability, whether it is the argmax)."""

    text: MaskedText
    wanted: int
    found: list[tuple[float, bool]] = field(default_factory=list)


@dataclass(slots=True)
class MaskedRow:
    """A distinct masked row, and its target tokens: (scores of the text, position in the row, token)."""

    ids: tuple[int, ...]
    targets: list[tuple[TokenScores, int, int]] = field(default_factory=list)


def score_masked(
    texts: Iterable[MaskedText], network: EncoderNetwork, mask_id: int, batching: Batching
) -> Iterator[Scored]:
    """Pseudo-log-likelihoods of all texts."""
    for chunk in _chunks(texts):
        yield from _score_chunk(chunk, network, mask_id, batching)


def _chunks(texts: Iterable[MaskedText]) -> Iterator[list[MaskedText]]:
    chunk: list[MaskedText] = []
    size = 0
    for text in texts:
        if chunk and size + text.size > TOKENS_PER_CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += text.size
    if chunk:
        yield chunk


def _score_chunk(
    texts: Sequence[MaskedText], network: EncoderNetwork, mask_id: int, batching: Batching
) -> Iterator[Scored]:
    all_scores = [TokenScores(text, sum(len(window.masked) for window in text.windows)) for text in texts]
    yield from ((scores.text.index, _logprob(scores)) for scores in all_scores if not scores.wanted)
    failed: set[int] = set()

    def work(rows: Sequence[MaskedRow]) -> list[tuple[float, bool]]:
        return _values(rows, network)

    for rows, result in network.run(masked_rows(all_scores, mask_id), lambda row: len(row.ids), batching, work):
        targets = [scores for row in rows for scores, _, _ in row.targets]
        if isinstance(result, Failure):
            indices = {scores.text.index for scores in targets} - failed
            failed |= indices
            yield from ((index, result) for index in sorted(indices))
            continue
        for scores, value in zip(targets, result, strict=True):
            scores.found.append(value)
            if len(scores.found) == scores.wanted:
                yield scores.text.index, _logprob(scores)


def masked_rows(all_scores: Sequence[TokenScores], mask_id: int) -> list[MaskedRow]:
    """One row per distinct masked ids, longest first; ties by ids, so the order of requests has no effect."""
    found: dict[tuple[int, ...], MaskedRow] = {}
    for scores in all_scores:
        for window in scores.text.windows:
            for indices in window.masked:
                ids = list(window.ids)
                for index in indices:
                    ids[index] = mask_id
                row = found.setdefault(tuple(ids), MaskedRow(tuple(ids)))
                row.targets.append((scores, indices[0], window.ids[indices[0]]))
    return sorted(found.values(), key=lambda row: (-len(row.ids), row.ids))


def _values(rows: Sequence[MaskedRow], network: EncoderNetwork) -> list[tuple[float, bool]]:
    """The log-probability of every target token, and whether it is the argmax."""
    import torch

    wanted = [(number, index) for number, row in enumerate(rows) for _, index, _ in row.targets]
    tokens = torch.tensor([token for row in rows for _, _, token in row.targets])
    # Choices that share a row need the same position of it.
    distinct = list(dict.fromkeys(wanted))
    lines = {pair: line for line, pair in enumerate(distinct)}
    logits = network.logits_at([row.ids for row in rows], distinct)
    step = max(ELEMENTS_PER_CHUNK // logits.shape[-1], 1)
    values: list[tuple[float, bool]] = []
    for low in range(0, len(wanted), step):
        # `.cpu()` before float64, which not every device has.
        table = logits[[lines[pair] for pair in wanted[low : low + step]]].float().cpu().double()
        targets = tokens[low : low + step]
        chosen = table.log_softmax(dim=-1).gather(1, targets.unsqueeze(1)).squeeze(1)
        values.extend(zip(chosen.tolist(), (table.argmax(dim=-1) == targets).tolist(), strict=True))
    return values


def _logprob(scores: TokenScores) -> Logprob | Failure:
    # Sorted, because tokens of a text arrive in any order.
    total = math.fsum(sorted(value for value, _ in scores.found))
    if not math.isfinite(total):
        return NOT_FINITE
    text = scores.text
    is_greedy = all(is_best for _, is_best in scores.found)
    windows = len(text.windows) or None if text.is_whole else None
    return Logprob(
        total,
        scores.wanted,
        is_greedy,
        prompt_tokens=text.context,
        truncated=text.truncated,
        notes=text.notes,
        windows=windows,
    )
