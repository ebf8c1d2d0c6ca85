"""Log-likelihoods of encoded texts in padded batches: equal inputs are forwarded once, long rows first.

In: encoded texts and a function that computes logits for rows of ids. Out: (index, Logprob | Failure) as batches
finish. The reference implementation for the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.responses import Failure, Logprob
from assay.models.inference.batching import Batching, run_batches
from assay.models.tokens.encoding import join_windows
from assay.models.tokens.tokenization import EncodedText

if TYPE_CHECKING:
    from torch import Tensor

# Logits converted to float64 at once: 32 MB.
ELEMENTS_PER_CHUNK = 1 << 22

NOT_FINITE = Failure(
    "not_finite",
    "logits are NaN or infinite; a wider dtype such as float32 may help",
    retryable=False,
)

# Rows of ids and the positions to compute → logits of shape (rows, positions, vocabulary).
LogitsOf = Callable[[Sequence[Sequence[int]], Sequence[int]], "Tensor"]
Scored = tuple[int, Logprob | Failure]


@dataclass(frozen=True, slots=True)
class ScoringRow:
    """One row to forward, shared by all texts with the same input.

    The texts may be split at different points: each has its own number of scored tokens.
    """

    inputs: tuple[int, ...]
    texts: tuple[EncodedText, ...]

    @property
    def first(self) -> int:
        """The first position whose prediction is needed."""
        return len(self.inputs) - max(text.scored for text in self.texts)

    @property
    def length(self) -> int:
        return len(self.inputs)


def group_rows(texts: Iterable[EncodedText]) -> list[ScoringRow]:
    """One row per distinct input, longest first; ties by ids, so the order of requests has no effect."""
    groups: dict[tuple[int, ...], list[EncodedText]] = {}
    for text in texts:
        groups.setdefault(text.inputs, []).append(text)
    rows = [ScoringRow(inputs, tuple(members)) for inputs, members in groups.items()]
    return sorted(rows, key=lambda row: (-row.length, row.inputs))


def score_pairs(
    texts: Iterable[EncodedText], logits_of: LogitsOf, batching: Batching, arithmetic: str = "exact"
) -> Iterator[Scored]:
    """Log-likelihoods of the scored parts of all texts."""

    def work(rows: Sequence[ScoringRow]) -> list[Scored]:
        return score_rows(rows, logits_of, arithmetic)

    for rows, result in run_batches(group_rows(texts), lambda row: row.length, batching, work):
        if isinstance(result, Failure):
            yield from ((text.index, result) for row in rows for text in row.texts)
        else:
            yield from result


def score_rolling(
    windows: Sequence[EncodedText], logits_of: LogitsOf, batching: Batching, arithmetic: str = "exact"
) -> Logprob | Failure:
    """The log-likelihood of one text, given as windows.

    The windows of a text are batched only with each other, so its result is independent of other texts.
    """
    numbered = [EncodedText(place, window.ids, window.scored) for place, window in enumerate(windows)]
    scored = sorted(score_pairs(numbered, logits_of, batching, arithmetic), key=lambda entry: entry[0])
    return join_windows(windows, [part for _, part in scored])


def score_rows(rows: Sequence[ScoringRow], logits_of: LogitsOf, arithmetic: str) -> list[Scored]:
    """Forwards one batch and scores the tokens of every text."""
    import torch

    positions = sorted({place for row in rows for place in range(row.first, row.length)})
    columns = {position: column for column, position in enumerate(positions)}
    logits = logits_of([row.inputs for row in rows], positions)
    slots: list[int] = []  # needed rows of the flattened logits, each once
    which: list[int] = []  # for every scored token: its index in `slots`
    greedy: list[int] = []  # the same, for the comparison with greedy decoding
    targets: list[int] = []
    for number, row in enumerate(rows):
        base = len(slots) - row.first
        slots.extend(number * len(positions) + columns[place] for place in range(row.first, row.length))
        for text in row.texts:
            places = range(base + row.length - text.scored, base + row.length)
            greedy.extend(places)
            if arithmetic == "lm_eval":
                # For texts with equal inputs and different splits, lm-eval 0.4.13 reads the shorter one from where
                # the longest begins (huggingface.py, the gather after get_cache).
                places = range(base + row.first, base + row.first + text.scored)
            which.extend(places)
            targets.extend(text.ids[-text.scored :])
    table = logits.reshape(-1, logits.shape[-1])
    if table.device.type == "mps":  # has no float64
        table = table.cpu()
    indices = [torch.tensor(numbers, device=table.device) for numbers in (slots, which, greedy, targets)]
    values, matches = _token_logprobs(table, *indices, arithmetic=arithmetic)
    return _collect(rows, values, matches, arithmetic)


def _token_logprobs(
    table: Tensor, slots: Tensor, which: Tensor, greedy: Tensor, targets: Tensor, *, arithmetic: str
) -> tuple[Tensor, list[bool]]:
    """The log-probability of every target and whether it is the argmax; in chunks, to save memory."""
    import torch

    measure = _lm_eval_values if arithmetic == "lm_eval" else _exact_values
    kind = table.dtype if arithmetic == "lm_eval" else torch.float64
    values = torch.empty(len(targets), dtype=kind, device=table.device)
    best = torch.empty(len(slots), dtype=torch.long, device=table.device)
    step = max(ELEMENTS_PER_CHUNK // table.shape[-1], 1)
    for low in range(0, len(slots), step):
        part = table[slots[low : low + step]]
        best[low : low + step] = part.argmax(dim=-1)
        inside = ((which >= low) & (which < low + step)).nonzero().squeeze(-1)
        values[inside] = measure(part, which[inside] - low, targets[inside])
    matches: list[bool] = (best[greedy] == targets).tolist()
    return values.cpu(), matches


def _exact_values(part: Tensor, lines: Tensor, targets: Tensor) -> Tensor:
    """Log-softmax with the log-sum-exp in float64, from logits in float32 or wider."""
    wide = part.float().double()
    return wide[lines, targets] - wide.logsumexp(dim=-1)[lines]


def _lm_eval_values(part: Tensor, lines: Tensor, targets: Tensor) -> Tensor:
    """Log-softmax in the data type of the logits, as in lm-eval."""
    import torch

    return torch.log_softmax(part, dim=-1)[lines, targets]


def _collect(rows: Sequence[ScoringRow], values: Tensor, matches: Sequence[bool], arithmetic: str) -> list[Scored]:
    results: list[Scored] = []
    start = 0
    for text in (text for row in rows for text in row.texts):
        end = start + text.scored
        part = values[start:end]
        total = float(part.sum()) if arithmetic == "lm_eval" else math.fsum(part.tolist())
        results.append((text.index, _logprob(text, total, all(matches[start:end]))))
        start = end
    return results


def _logprob(text: EncodedText, total: float, is_greedy: bool) -> Logprob | Failure:
    # NaN or +inf anywhere in a row of logits makes its log-sum-exp, and so the total, non-finite.
    if not math.isfinite(total):
        return NOT_FINITE
    return Logprob(total, text.scored, is_greedy, text.context_length, text.truncated, text.notes)
