"""Stop rules of generation, and two hooks for transformers' `generate`: one ends rows, one detects NaN logits.

Takes the ids generated so far; decides if the last one ended the answer. The hooks are called at every step with all
rows of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.models.tokens.tokenization import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

# Tokens decoded beyond the bytes of the longest stop string: the first may lose its leading space in decoding, and a
# character may span four tokens.
MARGIN = 4
# Bytes that are not UTF-8 decode to this. Vocabularies with byte fallback decode a run of bytes together, and one
# invalid byte affects the whole run, so a tail that starts inside a run may contain more or fewer of these than the
# text.
NOT_A_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class StopRule:
    """Stop rule of an answer.

    Works on text rather than tokens, to find stop strings that span tokens or lie inside one.

    Attributes:
        tokenizer: decodes the ids.
        stops: the stop strings.
        end_ids: tokens that end an answer.
        think_end: text or id that ends the thinking part; stop strings count only after it.
    """

    tokenizer: Tokenizer
    stops: Sequence[str]
    end_ids: Sequence[int]
    think_end: str | int | None = None

    @cached_property
    def width(self) -> int:
        """Number of trailing tokens that may contain a stop string completed by the last token."""
        watched = [*self.stops, self.think_end] if isinstance(self.think_end, str) else list(self.stops)
        return max((len(stop.encode()) for stop in watched), default=0) + MARGIN


@dataclass
class StopState:
    """Stop state of one growing answer.

    Attributes:
        rule: its stop rule.
        has_thought: whether its thinking part is over.
    """

    rule: StopRule
    has_thought: bool = False

    def ending(self, tail: Sequence[int], whole: Callable[[], Sequence[int]]) -> str | None:
        """`eos` or `stop` if the last token ended the answer; else None.

        Args:
            tail: the last ids of the answer, at most `rule.width`.
            whole: returns all ids of the answer. They decide when the tail contains a stop string or starts inside a
                character, because a tail decoded alone may differ from the end of the text.
        """
        if tail[-1] in self.rule.end_ids:
            return "eos"
        if not self.rule.stops:
            return None
        text = self._decode(tail)
        self.has_thought = self.has_thought or self._ends_thinking(tail, text)
        if not text.startswith(NOT_A_CHARACTER) and not (self.has_thought and self._has_stop(text)):
            return None
        ids = whole()
        text = self._decode(ids)
        return "stop" if self._ends_thinking(ids, text) and self._has_stop(text) else None

    def _decode(self, ids: Sequence[int]) -> str:
        # Keeps special tokens: a stop string may be one, such as <|im_end|>.
        return self.rule.tokenizer.decode(list(ids))

    def _ends_thinking(self, ids: Sequence[int], text: str) -> bool:
        think_end = self.rule.think_end
        return think_end is None or (think_end in ids if isinstance(think_end, int) else think_end in text)

    def _has_stop(self, text: str) -> bool:
        """Whether a stop string occurs after the thinking part."""
        think_end = self.rule.think_end
        if think_end is not None:
            mark = self._decode([think_end]) if isinstance(think_end, int) else think_end
            text = text.rsplit(mark, 1)[-1]
        return any(stop in text for stop in self.rule.stops)


@dataclass
class StopCriteria:
    """Stopping criterion that ends each row of transformers' `generate` independently.

    Attributes:
        rule: the stop rule of a row; for EOS tokens, which transformers handles, only the length is recorded.
        start: length of the (padded) prompt.
        is_single_line: whether a row is the same answer at all steps; False for beam search.
        lengths: row → number of new tokens when it ended.
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
        done = [self._is_done(row, tail, input_ids) for row, tail in enumerate(tails)]
        return torch.tensor(done or [False] * len(input_ids), dtype=torch.bool, device=input_ids.device)

    def _is_done(self, row: int, tail: list[int], input_ids: Tensor) -> bool:
        if row in self.lengths:
            return True
        state = self._states.setdefault(row, StopState(self.rule))
        ending = state.ending(tail, lambda: input_ids[row, self.start :].tolist())
        if self.is_single_line and ending:
            self.lengths[row] = input_ids.shape[1] - self.start
            if ending == "stop":
                self.stopped.add(row)
        return ending is not None


@dataclass
class FiniteGuard:
    """Logits processor that records the first step with NaN or +inf logits per row; -inf is legitimate masking.

    Attributes:
        start: length of the (padded) prompt.
        first_bad: row → number of new tokens before its logits became non-finite.
    """

    start: int
    first_bad: dict[int, int] = field(default_factory=dict)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        bad = (scores.isnan() | scores.isposinf()).any(dim=-1)
        if not bool(bad.any()):
            return scores
        for row in bad.nonzero().squeeze(-1).tolist():
            self.first_bad.setdefault(row, input_ids.shape[1] - self.start)
        # Uniform scores prevent sampling errors; the row's answer is discarded afterwards.
        return scores.masked_fill(bad.unsqueeze(-1), 0.0)
