"""Scores of texts over a prefix tree: every distinct prefix is computed once, in packed sequences.

In: encoded texts, a reader, and a table that collects scores: log-likelihoods here, single tokens in `token_scoring`.
Out: (index, score | Failure) as packs finish. A pack that fails or does not fit into memory is halved and retried; only
texts that contain a failing row fail.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from assay.core.responses import Failure, Logprob
from assay.models.engine.flops import ComputeCounts, pack_counts, tree_counts
from assay.models.engine.forward import TreeReader
from assay.models.engine.memory import CPU_PACK
from assay.models.engine.packs import make_pack
from assay.models.engine.prefix_tree import IntArray, PrefixTree, build_tree
from assay.models.engine.vocabulary_head import PrecomputedLogits, token_logprobs
from assay.models.inference.batching import Batching, BatchLimit, attempt
from assay.models.inference.likelihood import NOT_FINITE
from assay.models.tokens.tokenization import EncodedText

if TYPE_CHECKING:
    from torch import Tensor

Answer = TypeVar("Answer")
Scored = tuple[int, Logprob | Failure]
# Maximum logits per pack if the model computes them itself: 256 MB.
READY_ELEMENTS = 1 << 26
# After this many texts give NaN logits alone, a model without any finite result is not retried further.
CONFIRMATIONS = 8


@dataclass(frozen=True, slots=True)
class ScoringGroup:
    """Texts that run together, their prefix tree if one is used, and the cost."""

    texts: Sequence[EncodedText]
    tree: PrefixTree | None
    counts: ComputeCounts


def make_scoring_group(texts: Sequence[EncodedText]) -> ScoringGroup:
    tree = build_tree(texts)
    return ScoringGroup(texts, tree, tree_counts(tree))


@dataclass(slots=True)
class TreeScorer(Generic[Answer]):
    """Scores texts through one reader.

    Attributes:
        reader: runs packed forward passes.
        table: makes the table that collects the scores of a tree.
        batching: maximum tokens (or sequences) of a pack, and a callback for when it shrinks.
        on_read: receives the cost of each completed pack.
        most_tokens: maximum tokens of a pack if the limit is in sequences.
    """

    reader: TreeReader
    table: Callable[[PrefixTree], ScoreTable[Answer]]
    batching: Batching
    on_read: Callable[[ComputeCounts], None] = lambda _: None
    most_tokens: int = CPU_PACK

    def plan(self, texts: Sequence[EncodedText]) -> list[ScoringGroup]:
        """The trees to compute: one, or two if the model behaves differently above some length."""
        threshold = self.reader.length_threshold
        if threshold is None:
            return [make_scoring_group(texts)] if texts else []
        short = [text for text in texts if len(text.ids) - 1 <= threshold]
        long = [text for text in texts if len(text.ids) - 1 > threshold]
        return [make_scoring_group(group) for group in (short, long) if group]

    def score(self, scoring_groups: Sequence[ScoringGroup]) -> Iterator[tuple[int, Answer | Failure]]:
        """Scores of the scored parts of all texts; each must score at least one token."""
        broken: list[EncodedText] = []
        is_sound = False
        for scoring_group in scoring_groups:
            for text, answer in self._score(scoring_group):
                if isinstance(answer, Failure) and answer.kind == "not_finite" and len(scoring_group.texts) > 1:
                    broken.append(text)
                    continue
                is_sound = is_sound or not isinstance(answer, Failure)
                yield text.index, answer
        yield from self._confirm(broken, is_sound)

    def _confirm(self, broken: Sequence[EncodedText], is_sound: bool) -> Iterator[tuple[int, Answer | Failure]]:
        """Rescores texts with NaN logits alone, because one text may affect others in its pack.

        Args:
            broken: the texts.
            is_sound: whether the model has given a finite result; if it never has, only a few texts are rescored.
        """
        confirmed = 0
        for text in broken:
            if confirmed >= CONFIRMATIONS and not is_sound:
                yield text.index, NOT_FINITE
                continue
            ((_, answer),) = self._score(make_scoring_group([text]))
            confirmed += isinstance(answer, Failure)
            is_sound = is_sound or not isinstance(answer, Failure)
            yield text.index, answer

    def _score(self, scoring_group: ScoringGroup) -> Iterator[tuple[EncodedText, Answer | Failure]]:
        tree = scoring_group.tree
        assert tree is not None
        table = self.table(tree)
        self.reader.path.clear()
        try:
            for done, failure in self._walk(tree, table):
                for number in table.finished(done):
                    text = scoring_group.texts[int(tree.order[number])]
                    yield text, failure or table.answer(number, text)
        finally:
            self.reader.path.clear()

    def _walk(self, tree: PrefixTree, table: ScoreTable[Answer]) -> Iterator[tuple[int, Failure | None]]:
        """Computes the tree pack by pack; returns the row up to which it is done, and the failure if there was one."""
        low, halved = 0, 0
        limit = self.batching.limit
        while low < len(tree):
            high = self._end(tree, low, limit)
            if halved:
                high = min(high, low + halved)
            failure = attempt(partial(self._read, tree, table, low, high))
            if failure is None:
                low, halved = high, 0
                yield low, None
            elif high - low > 1:
                halved = (high - low) // 2
                if failure.kind == "out_of_memory":
                    limit = BatchLimit(tokens=halved)
                    self.batching.on_shrink(limit)
            else:
                low, halved = _end_of_subtree(tree, low), 0
                yield low, failure

    def _end(self, tree: PrefixTree, low: int, limit: BatchLimit) -> int:
        """The end of a pack that begins at `low`."""
        most = self.most_tokens if limit.tokens is None else limit.tokens
        if isinstance(self.reader.head, PrecomputedLogits):
            most = min(most, READY_ELEMENTS // self.reader.head.columns)
        # Full packs, for which the weights may be packed. Short packs are slow, so the last two share the remaining
        # rows.
        left, most = len(tree) - low, max(most, 1)
        high = low + (min(left, most) if left <= most or 2 * left >= 3 * most else -(-left // 2))
        if limit.rows is not None:
            index = int(np.searchsorted(tree.ends, low, side="right")) + limit.rows - 1
            high = min(high, int(tree.ends[min(index, len(tree.ends) - 1)]))
        return high

    def _read(self, tree: PrefixTree, table: ScoreTable[Answer], low: int, high: int) -> None:
        pack = make_pack(tree, low, high)
        pack_targets = table.pack_targets(low, high)
        states = self.reader.read(pack, pack_targets.rows - low, reach=tree.depth)
        if len(pack_targets.rows):
            table.take(pack_targets, states, self.reader)
        self.on_read(pack_counts(pack.positions, len(pack_targets.rows)))


def _end_of_subtree(tree: PrefixTree, row: int) -> int:
    """The first row after `row` that does not descend from it."""
    index = int(np.searchsorted(tree.ends, row, side="right"))
    depth = tree.segments[index].depth + row - tree.segments[index].start
    for segment in tree.segments[index + 1 :]:
        if segment.depth <= depth:
            return segment.start
    return len(tree)


@dataclass(frozen=True, slots=True)
class PackTargets:
    """Targets of a pack: indices of scored tokens, the distinct rows that predict them, and the row of each."""

    pairs: IntArray
    rows: IntArray
    which: IntArray


class ScoreTable(ABC, Generic[Answer]):
    """Collects the scores of a tree's texts as its rows are computed."""

    def __init__(self, tree: PrefixTree) -> None:
        self.tree = tree
        self._by_row = np.argsort(tree.rows, kind="stable")
        self._sorted_rows = tree.rows[self._by_row]
        self._next = 0

    @abstractmethod
    def take(self, pack_targets: PackTargets, states: Tensor, reader: TreeReader) -> None:
        """Scores the targets of a pack.

        Args:
            pack_targets: the targets.
            states: last hidden states of their rows (or logits, if the model computes them itself).
            reader: has the head that turns states into logits.
        """

    @abstractmethod
    def answer(self, number: int, text: EncodedText) -> Answer | Failure:
        """The score of a text that is complete, by its number in the tree's order."""

    def pack_targets(self, low: int, high: int) -> PackTargets:
        """The targets of rows `low` to `high`, in row order."""
        first, last = np.searchsorted(self._sorted_rows, [low, high])
        pairs = self._by_row[first:last]
        rows, which = np.unique(self.tree.rows[pairs], return_inverse=True)
        return PackTargets(pairs, rows, which)

    def finished(self, done: int) -> Iterator[int]:
        """Texts that are complete now that all rows before `done` are computed, each once."""
        while self._next < len(self.tree.last_rows) and self.tree.last_rows[self._next] < done:
            yield self._next
            self._next += 1

    def own(self, number: int) -> slice:
        """The targets of a text, by its number in the tree's order."""
        return slice(int(self.tree.bounds[number]), int(self.tree.bounds[number + 1]))


class LikelihoodTable(ScoreTable[Logprob]):
    """Log-likelihoods of texts.

    Args:
        tree: their tree.
        arithmetic: `exact` or `lm_eval`, see `token_logprobs`.
    """

    def __init__(self, tree: PrefixTree, arithmetic: str = "exact") -> None:
        super().__init__(tree)
        self._arithmetic = arithmetic
        self._values = np.zeros(len(tree.rows), dtype=np.float64)
        self._matches = np.zeros(len(tree.rows), dtype=np.bool_)

    def take(self, pack_targets: PackTargets, states: Tensor, reader: TreeReader) -> None:
        import torch

        which, tokens = torch.from_numpy(pack_targets.which), torch.from_numpy(self.tree.targets[pack_targets.pairs])
        found = token_logprobs(reader.head, states, which, tokens, self._arithmetic, reader.c_kernels)
        self._values[pack_targets.pairs] = found.values.numpy()
        self._matches[pack_targets.pairs] = found.is_best.numpy()

    def answer(self, number: int, text: EncodedText) -> Logprob | Failure:
        own = self.own(number)
        total = math.fsum(self._values[own])
        if not math.isfinite(total):
            return NOT_FINITE
        is_greedy = bool(self._matches[own].all())
        return Logprob(total, text.scored, is_greedy, text.context_length, text.truncated, text.notes)
