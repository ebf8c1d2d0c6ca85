"""FLOP counts: tokens, rows of logits and attention pairs, planned and done, and their floating-point operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.core.protocols import Progress
from assay.models.engine.prefix_tree import PrefixTree
from assay.models.loading.network import config_number
from assay.models.tokens.tokenization import EncodedText

# Cost of generating a token relative to scoring one: a decode step of few rows reaches a third of peak speed.
GENERATION_COST_FACTOR = 3.0
# Expected answer length as a share of its limit, until some answers have ended.
EXPECTED_LENGTH_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class ComputeCounts:
    """An amount of computation.

    Attributes:
        tokens: tokens forwarded.
        rows: rows for which logits are computed.
        pairs: (query, key) attention pairs in one layer.
    """

    tokens: int = 0
    rows: int = 0
    pairs: int = 0

    def __add__(self, other: ComputeCounts) -> ComputeCounts:
        return ComputeCounts(self.tokens + other.tokens, self.rows + other.rows, self.pairs + other.pairs)


@dataclass(frozen=True, slots=True)
class FlopRates:
    """FLOPs of a model: per token, per row of logits, per attention pair in all layers."""

    token: float
    row: float
    pair: float

    def operations(self, counts: ComputeCounts) -> float:
        return counts.tokens * self.token + counts.rows * self.row + counts.pairs * self.pair


def tree_counts(tree: PrefixTree) -> ComputeCounts:
    """Cost of a prefix tree: the minimum, as every distinct prefix is computed once."""
    lengths = np.array([segment.end - segment.start for segment in tree.segments], dtype=np.int64)
    depths = np.array([segment.depth for segment in tree.segments], dtype=np.int64)
    pairs = int((lengths * (depths + 1) + lengths * (lengths - 1) // 2).sum())
    return ComputeCounts(len(tree), len(np.unique(tree.rows)), pairs)


def pack_counts(positions: npt.NDArray[np.int64], rows: int) -> ComputeCounts:
    """Cost of a pack: each row attends to itself and to its whole path."""
    return ComputeCounts(len(positions), rows, int(positions.sum()) + len(positions))


def unshared_counts(texts: Iterable[EncodedText]) -> ComputeCounts:
    """Cost without prefix sharing."""
    total = ComputeCounts()
    for text in texts:
        length = len(text.ids) - 1
        total = total + ComputeCounts(length, text.scored, length * (length + 1) // 2)
    return total


def flop_rates(module: Any) -> FlopRates:
    """FLOPs of a model, counted from its weight matrices; also for a model on the `meta` device."""
    config = module.config.get_text_config()
    inputs = module.get_input_embeddings()
    outputs = module.get_output_embeddings()
    skipped = {id(layer.weight) for layer in (inputs, outputs) if layer is not None}
    experts, chosen = (int(config_number(config, *names)) for names in (_EXPERTS, _CHOSEN))
    share = chosen / experts if experts and chosen else 1.0
    weights = 0.0
    for parameter in module.parameters():
        if id(parameter) not in skipped and parameter.ndim >= 2:
            weights += parameter.numel() * (share if parameter.ndim == 3 else 1.0)
    width, heads, layers = (
        config_number(config, name) for name in ("hidden_size", "num_attention_heads", "num_hidden_layers")
    )
    pair = 4.0 * layers * heads * (config_number(config, "head_dim") or width / max(heads, 1))
    row = 2.0 * outputs.weight.numel() if outputs is not None else 0.0
    return FlopRates(2.0 * weights, row, pair)


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_CHOSEN = ("num_experts_per_tok", "top_k_experts")


@dataclass(slots=True)
class Meter:
    """Counts completed against planned work.

    Attributes:
        rates: FLOPs of the model.
        listener: receives progress after every step.
        planned: planned scoring and prefill.
        done: completed scoring and prefill.
        generated: tokens generated.
        most: maximum number of tokens that unfinished prompts may generate.
        ended: (tokens, limits) of finished answers.
        seconds: time spent in forward passes.
    """

    rates: FlopRates
    listener: Callable[[Progress], None] = lambda _: None
    planned: ComputeCounts = ComputeCounts()
    done: ComputeCounts = ComputeCounts()
    generated: int = 0
    most: int = 0
    ended: tuple[int, int] = (0, 0)
    seconds: float = 0.0

    def read(self, counts: ComputeCounts) -> None:
        self.done = self.done + counts
        self.report_progress()

    def write(self, count: int) -> None:
        self.generated += count
        self.report_progress()

    def end(self, tokens: int, limit: int) -> None:
        """Counts a finished answer; unfinished ones are expected to use the same share of their limits."""
        self.most -= limit
        self.ended = self.ended[0] + tokens, self.ended[1] + limit

    @property
    def tokens(self) -> int:
        return self.done.tokens

    @property
    def head_rows(self) -> int:
        return self.done.rows

    @property
    def attention_pairs(self) -> int:
        return self.done.pairs

    @property
    def expected(self) -> float:
        """Expected total number of generated tokens."""
        tokens, limits = self.ended
        share = (tokens + EXPECTED_LENGTH_SHARE * self.most * 0.1) / max(limits + self.most * 0.1, 1)
        return max(tokens + share * self.most, self.generated)

    def report_progress(self) -> None:
        each = GENERATION_COST_FACTOR * (self.rates.token + self.rates.row)
        done = self.rates.operations(self.done) + each * self.generated
        total = self.rates.operations(self.planned) + each * self.expected
        tokens = self.done.tokens + self.generated
        self.listener(Progress(done, max(done, total), tokens, max(tokens, self.planned.tokens + round(self.expected))))
