"""Scores of single tokens: log-probability, rank, and the most likely tokens of each position.

In: encoded texts, of which the last tokens are scored. Out: `TokenScores`, over a prefix tree or in padded batches.
Full rows of logits are computed a few at a time, and log-sum-exps in float64 from sums that are shifted by the maximum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.core.protocols import TokenScores
from assay.core.responses import Failure
from assay.models.engine.c_kernels import CKernels, are_contiguous_float32
from assay.models.engine.forward import TreeReader
from assay.models.engine.prefix_tree import PrefixTree
from assay.models.engine.tree_scoring import PackTargets, ScoreTable
from assay.models.engine.vocabulary_head import OutputLayer, PrecomputedLogits
from assay.models.inference.batching import Batching, run_batches
from assay.models.inference.likelihood import NOT_FINITE, ScoringRow, group_rows
from assay.models.loading.network import Network
from assay.models.tokens.tokenization import EncodedText

if TYPE_CHECKING:
    from torch import Tensor

# Logits held at once: 64 MB in float32.
ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class TopTokens:
    """What is wanted beside log-probabilities: the number of most likely tokens per position, and whether ranks are."""

    count: int = 1
    ranked: bool = False


@dataclass(frozen=True, slots=True)
class TokenValues:
    """For every target: log-probability, rank, and the most likely tokens of its row with their log-probabilities.

    Ranks are 0 where they are not wanted: to count them takes as long as all the rest but the logits.
    """

    logprobs: Tensor
    ranks: Tensor
    top_ids: Tensor
    top_logprobs: Tensor


def token_values(
    head: OutputLayer | PrecomputedLogits,
    states: Tensor,
    which: Tensor,
    targets: Tensor,
    wanted: TopTokens,
    c_kernels: CKernels | None = None,
) -> TokenValues:
    """Scores of target tokens.

    Args:
        head: computes the logits.
        states: one row per position.
        which: for every target, the row that predicts it; in ascending order.
        targets: the target tokens.
        wanted: what is computed beside log-probabilities.
        c_kernels: compute the sums of exponentials, if available.
    """
    import torch

    step = max(ELEMENTS // head.columns, 1)
    parts = []
    for low in range(0, len(states), step):
        bounds = torch.searchsorted(which, torch.tensor([low, low + step], device=which.device)).tolist()
        inside = slice(*bounds)
        with torch.inference_mode():
            logits = head.block(states[low : low + step], 0, head.columns)
            parts.append(_measured(logits, which[inside] - low, targets[inside], wanted, c_kernels))
    columns = (torch.cat(list(column)) for column in zip(*parts, strict=True))
    return TokenValues(*columns)


def _measured(
    logits: Tensor, which: Tensor, targets: Tensor, wanted: TopTokens, c_kernels: CKernels | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    import torch

    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if logits.device.type == "mps":  # has no float64
        logits = logits.cpu()
    which, targets = which.to(logits.device), targets.to(logits.device)
    if wanted.count == 1:
        best, ids = (found.unsqueeze(1) for found in logits.max(dim=1))
    else:
        best, ids = logits.topk(wanted.count, dim=1)
    chosen = logits[which, targets]
    ranks = torch.zeros_like(targets)
    if wanted.ranked:
        ranks = (logits[which] > chosen.unsqueeze(1)).sum(dim=1) + 1
    whole = _log_sum_exp(logits, c_kernels)  # last, because it may overwrite the logits
    logprobs = chosen.double() - whole[which]
    tops = (best.double() - whole.unsqueeze(1))[which]
    return logprobs.cpu(), ranks.cpu(), ids[which].cpu(), tops.cpu()


def _log_sum_exp(logits: Tensor, c_kernels: CKernels | None) -> Tensor:
    if c_kernels is not None and are_contiguous_float32(logits):
        shift, total = c_kernels.exp_sums(logits)
        return shift.double() + total.double().log()
    shift = logits.amax(dim=1)
    total = logits.sub(shift.unsqueeze(1)).exp_().sum(dim=1)
    return shift.double() + total.double().log()


class TokenTable(ScoreTable[TokenScores]):
    """Scores of the single tokens of a tree's texts.

    Args:
        tree: their tree.
        wanted: what is computed beside log-probabilities.
    """

    def __init__(self, tree: PrefixTree, wanted: TopTokens) -> None:
        super().__init__(tree)
        self._wanted = wanted
        count = len(tree.rows)
        self._logprobs = np.zeros(count, dtype=np.float64)
        self._ranks = np.zeros(count, dtype=np.int64)
        self._top_ids = np.zeros((count, wanted.count), dtype=np.int64)
        self._top_logprobs = np.zeros((count, wanted.count), dtype=np.float64)

    def take(self, pack_targets: PackTargets, states: Tensor, reader: TreeReader) -> None:
        import torch

        which, tokens = torch.from_numpy(pack_targets.which), torch.from_numpy(self.tree.targets[pack_targets.pairs])
        found = token_values(reader.head, states, which, tokens, self._wanted, reader.c_kernels)
        self._logprobs[pack_targets.pairs] = found.logprobs.numpy()
        self._ranks[pack_targets.pairs] = found.ranks.numpy()
        self._top_ids[pack_targets.pairs] = found.top_ids.numpy()
        self._top_logprobs[pack_targets.pairs] = found.top_logprobs.numpy()

    def answer(self, number: int, text: EncodedText) -> TokenScores | Failure:
        own = self.own(number)
        if not np.isfinite(self._top_logprobs[own, 0]).all() or np.isnan(self._logprobs[own]).any():
            return NOT_FINITE
        columns = (self._logprobs, self._ranks, self._top_ids, self._top_logprobs)
        return TokenScores(*(column[own].tolist() for column in columns))


def score_padded(
    texts: Sequence[EncodedText], network: Network, batching: Batching, wanted: TopTokens
) -> Iterator[tuple[int, TokenScores | Failure]]:
    """The same in padded batches, for models that the engine cannot pack."""

    def work(rows: Sequence[ScoringRow]) -> list[tuple[int, TokenScores | Failure]]:
        return _padded_batch(rows, network, wanted)

    for rows, result in run_batches(group_rows(texts), lambda row: row.length, batching, work):
        if isinstance(result, Failure):
            yield from ((text.index, result) for row in rows for text in row.texts)
        else:
            yield from result


def _padded_batch(
    rows: Sequence[ScoringRow], network: Network, wanted: TopTokens
) -> list[tuple[int, TokenScores | Failure]]:
    import torch

    first = min(row.first for row in rows)
    logits = network.logits([row.inputs for row in rows], list(range(first, max(row.length for row in rows))))
    found: list[tuple[int, TokenScores | Failure]] = []
    for number, row in enumerate(rows):
        for text in row.texts:
            start = row.length - text.scored - first
            states = logits[number, start : start + text.scored]
            which, targets = torch.arange(text.scored), torch.tensor(text.ids[-text.scored :])
            values = token_values(PrecomputedLogits(logits.shape[-1]), states, which, targets, wanted)
            if not torch.isfinite(values.top_logprobs[:, 0]).all() or values.logprobs.isnan().any():
                found.append((text.index, NOT_FINITE))
                continue
            columns = (values.logprobs, values.ranks, values.top_ids, values.top_logprobs)
            found.append((text.index, TokenScores(*(column.tolist() for column in columns))))
    return found
