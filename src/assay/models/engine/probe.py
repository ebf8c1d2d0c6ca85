"""The scoring probe: texts of random tokens, scored with every backend.

In: a network. Out: comparable log-likelihoods and logits per backend. Logits are compared row by row, relative to
their standard deviation, so that a wrong mask, position or scale also shows in a model with small logits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from assay.core.responses import Failure, Logprob
from assay.models.engine.forward import TreeReader, using_attention
from assay.models.engine.packs import make_pack
from assay.models.engine.prefix_tree import IntArray, PrefixTree
from assay.models.engine.tree_scoring import LikelihoodTable, TreeScorer
from assay.models.engine.vocabulary_head import token_logprobs
from assay.models.inference.batching import Batching, BatchLimit, attempt
from assay.models.inference.likelihood import score_pairs
from assay.models.loading.network import Network, config_number, config_value
from assay.models.tokens.tokenization import EncodedText

if TYPE_CHECKING:
    from torch import Tensor

# Lengths of a tree with two levels of branches; longer than a sliding window if affordable.
TRUNK, BRANCH, TWIG = 72, 5, 4
LONGEST_TRUNK = 320
PACK = 48
# Logits stored per backend: 16 MB.
ELEMENTS = 1 << 22
LEAST_ROWS = 8

# Logits by preceding ids.
LogitsByPrefix = dict[tuple[int, ...], "Tensor"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Probe results of one backend.

    Attributes:
        values: log-likelihood per token of every text.
        logits: logits by preceding ids.
    """

    values: Sequence[float]
    logits: LogitsByPrefix


@dataclass(frozen=True, slots=True)
class ProbeDifference:
    """Difference between two backends.

    Attributes:
        value: largest difference of a text's log-likelihood per token.
        logits: mean over rows of the RMS difference of logits, relative to the row's standard deviation. The mean,
            because in 16-bit types rounding sometimes routes a token to other experts, which changes its whole row.
    """

    value: float
    logits: float


def make_probe(network: Network, max_length: int) -> list[EncodedText]:
    """Texts of random tokens in a tree with two levels of branches, every token scored."""
    config = network.module.config.get_text_config()
    generator = random.Random(0)
    vocabulary = int(config_number(config, "vocab_size"))
    window = _window(config)
    trunk = 2 * window if window is not None and 2 * window <= LONGEST_TRUNK else TRUNK
    trunk = max(min(trunk, max_length - BRANCH - TWIG - 1), 1)

    def draw(count: int) -> tuple[int, ...]:
        return tuple(generator.randrange(vocabulary) for _ in range(count))

    stem = draw(trunk)
    texts: list[EncodedText] = []
    for branch in (draw(BRANCH), draw(BRANCH - 2)):
        for twig in (draw(TWIG), draw(TWIG - 1)):
            ids = (*stem, *branch, *twig)[: max_length + 1]
            texts.append(EncodedText(len(texts), ids, len(ids) - 1))
    return texts


def has_window(network: Network) -> bool:
    """Whether the probe exceeds the model's sliding window."""
    window = _window(network.module.config.get_text_config())
    return window is not None and 2 * window <= LONGEST_TRUNK


def _window(config: Any) -> int | None:
    for name in ("sliding_window", "attention_chunk_size", "sliding_window_size", "window_size"):
        value = config_value(config, name)
        if isinstance(value, int) and value > 0:
            return value
    return None


def read_rows(network: Network, texts: Sequence[EncodedText], rows: int) -> ProbeResult | str:
    """Probe results of right-padded batches of `rows` rows; or an error message."""
    stored: LogitsByPrefix = {}

    def logits_of(inputs: Sequence[Sequence[int]], positions: Sequence[int]) -> Tensor:
        found = network.logits(inputs, positions)
        for ids, lines in zip(inputs, found, strict=True):
            _store_logits(stored, tuple(ids), lines[: len(ids)])
        return found

    batching = Batching(BatchLimit(rows=rows))
    answers = attempt(lambda: list(score_pairs(texts, logits_of, batching)))
    if isinstance(answers, Failure):
        return answers.message
    values = [math.nan] * len(texts)
    for index, answer in answers:
        if isinstance(answer, Failure):
            return answer.message
        assert isinstance(answer, Logprob)
        values[index] = answer.total / answer.token_count
    return ProbeResult(values, stored)


def _store_logits(stored: LogitsByPrefix, ids: tuple[int, ...], lines: Tensor) -> None:
    """Stores logits of the last positions of a text, as many as are affordable."""
    for index in _stored_positions(len(ids), lines.shape[-1]):
        # A copy: a view would keep the logits of the whole text alive.
        stored[ids[: index + 1]] = lines[index].float().cpu().clone()


def _stored_positions(length: int, columns: int) -> range:
    return range(max(length - max(ELEMENTS // (4 * columns), LEAST_ROWS), 0), length)


def read_tree(reader: TreeReader, texts: Sequence[EncodedText], most_tokens: int = PACK) -> ProbeResult | str:
    """Probe results of small packed sequences; or an error message.

    Args:
        reader: runs the packs.
        texts: texts with all tokens scored.
        most_tokens: maximum number of tokens in a pack.
    """
    stored: LogitsByPrefix = {}
    values = [math.nan] * len(texts)

    def work() -> None:
        for scoring_group in TreeScorer(reader, LikelihoodTable, Batching(BatchLimit())).plan(texts):
            assert scoring_group.tree is not None
            scores, logits = _read_packs(reader, scoring_group.tree, min(PACK, most_tokens))
            for number, index in enumerate(scoring_group.tree.order):
                text, own = scoring_group.texts[int(index)], slice(*scoring_group.tree.bounds[number : number + 2])
                values[text.index] = math.fsum(scores[own]) / text.scored
                for position in _stored_positions(len(text.inputs), reader.head.columns):
                    stored[text.inputs[: position + 1]] = logits[int(scoring_group.tree.rows[own][position])]

    with using_attention(reader.network):
        failure = attempt(work)
    reader.path.clear()
    return failure.message if isinstance(failure, Failure) else ProbeResult(values, stored)


def _read_packs(
    reader: TreeReader, tree: PrefixTree, most_tokens: int
) -> tuple[npt.NDArray[np.float64], dict[int, Tensor]]:
    """The log-probability of every scored token of a tree, and the logits of the stored rows."""
    import torch

    scores = np.zeros(len(tree.rows))
    lines: dict[int, Tensor] = {}
    wanted = _stored_rows(tree, reader.head.columns)
    reader.path.clear()
    for low in range(0, len(tree), most_tokens):
        high = min(low + most_tokens, len(tree))
        states = reader.read(make_pack(tree, low, high), np.arange(high - low), reach=tree.depth)
        # A copy: `token_logprobs` modifies precomputed logits in place.
        rows = wanted[(wanted >= low) & (wanted < high)]
        with torch.inference_mode():
            logits = reader.head.block(states[torch.from_numpy(rows - low)], 0, reader.head.columns).float().cpu()
        lines |= dict(zip(rows.tolist(), logits.clone(), strict=True))
        pairs = np.flatnonzero((tree.rows >= low) & (tree.rows < high))
        pairs = pairs[np.argsort(tree.rows[pairs], kind="stable")]
        which, targets = torch.from_numpy(tree.rows[pairs] - low), torch.from_numpy(tree.targets[pairs])
        scores[pairs] = token_logprobs(reader.head, states, which, targets, c_kernels=reader.c_kernels).values.numpy()
    return scores, lines


def _stored_rows(tree: PrefixTree, columns: int) -> IntArray:
    """Rows whose logits are stored; all tokens of the tree are scored."""
    ends = zip(tree.bounds[:-1], tree.bounds[1:], strict=True)
    stored = [tree.rows[low:high][_stored_positions(high - low, columns)] for low, high in ends]
    return np.unique(np.concatenate(stored))


def compare(truth: ProbeResult, found: ProbeResult | str) -> ProbeDifference:
    """The difference between two results; infinite if a value is missing."""
    if isinstance(found, str):
        return ProbeDifference(math.inf, math.inf)
    differences = (abs(left - right) for left, right in zip(truth.values, found.values, strict=True))
    value = max(difference if math.isfinite(difference) else math.inf for difference in differences)
    return ProbeDifference(value, logits_gap(truth.logits, found.logits))


def logits_gap(truth: LogitsByPrefix, found: LogitsByPrefix) -> float:
    """Mean relative RMS difference of rows of logits; infinite if a row is missing."""
    import torch

    if truth.keys() - found.keys():
        return math.inf
    shares: list[float] = []
    for ids, right in truth.items():
        # Masked tokens have infinite logits, whose difference would be NaN.
        off = torch.where(found[ids] == right, 0.0, found[ids] - right)
        spread = float(right[right.isfinite()].std()) if len(right) > 1 else 1.0
        shares.append(float(off.square().mean().sqrt()) / max(spread, 1e-30))
    share = math.fsum(shares) / max(len(shares), 1)
    return share if math.isfinite(share) else math.inf
