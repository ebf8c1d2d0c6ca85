"""Two observers of a running generation: one ends a row at a stop string, one notices broken logits.

Both are called by transformers' `generate` at every step, for all rows of the batch together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.models.tokens import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

# Tokens decoded beyond the bytes of the longest stop: the first one may lose its leading space in decoding,
# and a character may be spread over four tokens.
MARGIN = 4


@dataclass
class StopWatch:
    """Ends each row by itself, as soon as its decoded tail holds a stop string.

    Looking at text rather than tokens finds stops that span tokens or hide inside one.

    Attributes:
        tokenizer: decodes.
        stops: the stop strings.
        end_ids: tokens that end a row; transformers handles them, here only their place is kept.
        start: length of the (padded) prompt.
        think_end: what ends the thinking part; stops count only after it.
        is_single_line: whether a row stays the same answer over all steps, which beams do not.
        lengths: row → new tokens when it ended.
        stopped: rows that ended at a stop string.
    """

    tokenizer: Tokenizer
    stops: Sequence[str]
    end_ids: Sequence[int]
    start: int
    think_end: str | int | None = None
    is_single_line: bool = True
    lengths: dict[int, int] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    _has_thought: set[int] = field(default_factory=set)

    def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Tensor:
        import torch

        count = input_ids.shape[1] - self.start
        width = min(count, max((len(stop.encode()) for stop in self._watched()), default=0) + MARGIN)
        tails: list[list[int]] = input_ids[:, input_ids.shape[1] - width :].tolist() if count else []
        done = [self._is_done(row, tail, count) for row, tail in enumerate(tails)]
        return torch.tensor(done or [False] * len(input_ids), dtype=torch.bool, device=input_ids.device)

    def _watched(self) -> list[str]:
        return [*self.stops, self.think_end] if isinstance(self.think_end, str) else list(self.stops)

    def _is_done(self, row: int, tail: list[int], count: int) -> bool:
        if row in self.lengths:
            return True
        is_ended = tail[-1] in self.end_ids
        # Special tokens stay in: a stop may be one, such as <|im_end|>.
        is_stopped = not is_ended and self._has_stop(row, tail)
        if self.is_single_line and (is_ended or is_stopped):
            self.lengths[row] = count
            if is_stopped:
                self.stopped.add(row)
        return is_ended or is_stopped

    def _has_stop(self, row: int, tail: list[int]) -> bool:
        text = self.tokenizer.decode(tail)
        if self.think_end is not None and row not in self._has_thought:
            is_over = self.think_end in tail if isinstance(self.think_end, int) else self.think_end in text
            if not is_over:
                return False
            self._has_thought.add(row)
        if self.think_end is not None:
            mark = self.tokenizer.decode([self.think_end]) if isinstance(self.think_end, int) else self.think_end
            text = text.rsplit(mark, 1)[-1]
        return any(stop in text for stop in self.stops)


@dataclass
class FiniteGuard:
    """Notes the first step at which a row's logits are NaN or +inf; -inf is how tokens are ruled out.

    Attributes:
        start: length of the (padded) prompt.
        first_bad: row → new tokens written before its logits broke.
    """

    start: int
    first_bad: dict[int, int] = field(default_factory=dict)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        bad = (scores.isnan() | scores.isposinf()).any(dim=-1)
        if not bool(bad.any()):
            return scores
        for row in bad.nonzero().squeeze(-1).tolist():
            self.first_bad.setdefault(row, input_ids.shape[1] - self.start)
        # Level scores keep sampling from raising; the row's answer is dropped afterwards.
        return scores.masked_fill(bad.unsqueeze(-1), 0.0)
