"""Log-likelihoods of encoded texts: equal inputs are forwarded once, long rows first.

Takes encoded texts and a function that gives logits for rows of ids; gives (place, Logprob | Failure) as
batches finish. A faster engine has the same two functions, `score_pairs` and `score_rolling`.
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

# Numbers of the vocabulary widened to float64 at once: 32 MB.
ELEMENTS_PER_CHUNK = 1 << 22

NOT_FINITE = Failure(
    "not_finite",
    "the model's logits hold NaN or infinite numbers here; a wider dtype such as float32 may help",
    retryable=False,
)

# Rows of ids and the positions wanted of all of them → logits of shape (rows, positions, vocabulary).
LogitsOf = Callable[[Sequence[Sequence[int]], Sequence[int]], "Tensor"]
Scored = tuple[int, Logprob | Failure]


@dataclass(frozen=True, slots=True)
class ScoringRow:
    """One row to forward, for all texts that have the same input.

    The texts may be split at different points: each keeps its own number of scored tokens.
    """

    inputs: tuple[int, ...]
    texts: tuple[EncodedText, ...]

    @property
    def first(self) -> int:
        """The earliest position whose prediction is asked for."""
        return len(self.inputs) - max(text.scored for text in self.texts)

    @property
    def length(self) -> int:
        return len(self.inputs)


def group_rows(texts: Iterable[EncodedText]) -> list[ScoringRow]:
    """One row per distinct input, longest first; ties by ids, so the order of asking changes nothing."""
    groups: dict[tuple[int, ...], list[EncodedText]] = {}
    for text in texts:
        groups.setdefault(text.inputs, []).append(text)
    rows = [ScoringRow(inputs, tuple(members)) for inputs, members in groups.items()]
    return sorted(rows, key=lambda row: (-row.length, row.inputs))


def score_pairs(
    texts: Iterable[EncodedText], logits_of: LogitsOf, batching: Batching, arithmetic: str = "exact"
) -> Iterator[Scored]:
    """The log-likelihood of every text's scored part."""

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

    A text's windows are batched among themselves only, so its result cannot depend on its neighbours.
    """
    numbered = [EncodedText(place, window.ids, window.scored) for place, window in enumerate(windows)]
    scored = sorted(score_pairs(numbered, logits_of, batching, arithmetic), key=lambda entry: entry[0])
    return join_windows(windows, [part for _, part in scored])


def score_rows(rows: Sequence[ScoringRow], logits_of: LogitsOf, arithmetic: str) -> list[Scored]:
    """Forwards one batch and reads every text's tokens from it."""
    import torch

    positions = sorted({place for row in rows for place in range(row.first, row.length)})
    columns = {position: column for column, position in enumerate(positions)}
    logits = logits_of([row.inputs for row in rows], positions)
    slots: list[int] = []  # rows of the flattened logits that are needed, each once
    which: list[int] = []  # for every scored token: its place in `slots`
    greedy: list[int] = []  # the same for the question whether greedy decoding says it
    targets: list[int] = []
    for number, row in enumerate(rows):
        base = len(slots) - row.first
        slots.extend(number * len(positions) + columns[place] for place in range(row.first, row.length))
        for text in row.texts:
            places = range(base + row.length - text.scored, base + row.length)
            greedy.extend(places)
            if arithmetic == "lm_eval":
                # Of texts with one input and different splits lm-eval 0.4.13 reads the shorter one from where the
                # longest begins (huggingface.py, the gather after get_cache).
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
    """The log-probability of every target, and whether it was the likeliest token. Chunks save memory."""
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
    """Logits rounded to float32 at the least, then log-sum-exp in float64: nothing is lost in the sum."""
    wide = part.float().double()
    return wide[lines, targets] - wide.logsumexp(dim=-1)[lines]


def _lm_eval_values(part: Tensor, lines: Tensor, targets: Tensor) -> Tensor:
    """lm-eval's way: log-softmax in the number format of the logits."""
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
    # NaN or +inf anywhere in a line of logits makes its log-sum-exp, and so the total, not finite.
    if not math.isfinite(total):
        return NOT_FINITE
    return Logprob(total, text.scored, is_greedy, text.context_length, text.truncated, text.notes)
