"""What ends an answer, and two observers of transformers' `generate`: one ends rows, one notices broken logits.

Takes the ids written so far; tells whether the last one ended the answer. The observers are called at every step, for
all rows of the batch together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.models.tokens import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

# Tokens decoded beyond the bytes of the longest stop: the first one may lose its leading space in decoding,
# and a character may be spread over four tokens.
MARGIN = 4


@dataclass(frozen=True)
class StopRule:
    """What ends an answer.

    Looking at text rather than tokens finds stops that span tokens or hide inside one.

    Attributes:
        tokenizer: decodes.
        stops: the stop strings.
        end_ids: tokens that end an answer.
        think_end: what ends the thinking part; stops count only after it.
    """

    tokenizer: Tokenizer
    stops: Sequence[str]
    end_ids: Sequence[int]
    think_end: str | int | None = None

    @cached_property
    def width(self) -> int:
        """Tokens at the end that may hold a stop string which was not there before the last token."""
        watched = [*self.stops, self.think_end] if isinstance(self.think_end, str) else list(self.stops)
        return max((len(stop.encode()) for stop in watched), default=0) + MARGIN


@dataclass
class StopState:
    """One answer, watched as it grows.

    Attributes:
        rule: what ends it.
        has_thought: whether its thinking part is over.
    """

    rule: StopRule
    has_thought: bool = False

    def ending(self, tail: Sequence[int]) -> str | None:
        """`eos` or `stop` when the last token ended the answer; else None.

        Args:
            tail: the last ids of the answer, `rule.width` of them or all.
        """
        if tail[-1] in self.rule.end_ids:
            return "eos"
        # Special tokens stay in: a stop may be one, such as <|im_end|>.
        return "stop" if self.rule.stops and self._has_stop(list(tail)) else None

    def _has_stop(self, tail: list[int]) -> bool:
        think_end, tokenizer = self.rule.think_end, self.rule.tokenizer
        text = tokenizer.decode(tail)
        if think_end is not None and not self.has_thought:
            self.has_thought = think_end in tail if isinstance(think_end, int) else think_end in text
            if not self.has_thought:
                return False
        if think_end is not None:
            mark = tokenizer.decode([think_end]) if isinstance(think_end, int) else think_end
            text = text.rsplit(mark, 1)[-1]
        return any(stop in text for stop in self.rule.stops)


@dataclass
class StopWatch:
    """Ends each row of transformers' `generate` by itself.

    Attributes:
        rule: what ends a row; of tokens that do, which transformers handles, only the place is kept.
        start: length of the (padded) prompt.
        is_single_line: whether a row stays the same answer over all steps, which beams do not.
        lengths: row → new tokens when it ended.
        stopped: rows that ended at a stop string.
    """

    rule: StopRule
    start: int
    is_single_line: bool = True
    lengths: dict[int, int] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    _states: dict[int, StopState] = field(default_factory=dict)

    def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Tensor:
        import torch

        count = input_ids.shape[1] - self.start
        width = min(count, self.rule.width)
        tails: list[list[int]] = input_ids[:, input_ids.shape[1] - width :].tolist() if count else []
        done = [self._is_done(row, tail, count) for row, tail in enumerate(tails)]
        return torch.tensor(done or [False] * len(input_ids), dtype=torch.bool, device=input_ids.device)

    def _is_done(self, row: int, tail: list[int], count: int) -> bool:
        if row in self.lengths:
            return True
        ending = self._states.setdefault(row, StopState(self.rule)).ending(tail)
        if self.is_single_line and ending:
            self.lengths[row] = count
            if ending == "stop":
                self.stopped.add(row)
        return ending is not None


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
