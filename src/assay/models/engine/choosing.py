"""Which way a model is asked: the prefix tree, padded batches, or row by row; decided by asking it in all of them.

Takes a network and the user's wish; gives a choice with its reason. Every row of the probe is compared with a plain
forward pass of that text alone, so a wrong mask, position or cache shows before any number is made with it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.core.errors import Fault, ModelError
from assay.core.responses import Failure, Logprob
from assay.models.batches import Batching, BatchLimit, attempt
from assay.models.causal_arguments import PADDED, TREE
from assay.models.engine.attention import Unsupported
from assay.models.engine.head import ReadyLogits
from assay.models.engine.loops import Loops, find_loops
from assay.models.engine.reader import (
    TreeReader,
    forget_lengths,
    make_reader,
    minds_length,
    using_attention,
)
from assay.models.engine.scoring import TreeScorer
from assay.models.engine.tuning import is_tunable, tune
from assay.models.likelihood import Scored, score_pairs
from assay.models.network import Network
from assay.models.tokens import EncodedText

if TYPE_CHECKING:
    from collections.abc import Callable

SINGLE = "single"

# Per scored token: what float32 may differ by. A wrong mask shows as a hundred times that and more.
TOLERANCE = 1e-4
# Narrow formats round by far more: by some units of their last digit, or by several times what padding alone changes.
ROUNDING = 2.0
NOISE_FACTOR = 8.0
# The probe: a trunk, branches and twigs, longer than a window where that is affordable.
TRUNK, BRANCH, TWIG = 72, 5, 4
LONGEST_TRUNK = 320
PACK = 48
BY_LENGTH = "its positions depend on the longest text in a batch"


@dataclass(frozen=True, slots=True)
class Choice:
    """How a model is asked.

    Attributes:
        engine: `tree`, `padded` or `single`.
        reason: why.
        reader: reads packs; None for the other ways.
        worst: largest difference per token from a plain forward pass in the probe; None when nothing was compared.
    """

    engine: str
    reason: str
    reader: TreeReader | None = None
    worst: float | None = None


def choose(network: Network, asked: str, arithmetic: str, max_length: int) -> Choice:
    """The way to ask a model.

    Args:
        network: the loaded model.
        asked: `auto`, `tree` or `padded`.
        arithmetic: `exact`, or `lm_eval`, whose batches are part of what it reproduces unless the tree is demanded.
        max_length: most tokens the model takes.

    Raises:
        ModelError: when the tree is demanded and cannot be had.
    """
    is_mixable = not minds_length(network)
    if not is_mixable:
        forget_lengths(network)
    if asked == PADDED:
        return Choice(PADDED, "asked for") if is_mixable else Choice(SINGLE, f"padded was asked for, but {BY_LENGTH}")
    if arithmetic == "lm_eval" and asked != TREE:
        return Choice(PADDED, "lm-eval's arithmetic, which belongs to its batches")
    probe = make_probe(network, max_length)
    truth = _differences(probe, lambda: _by_batches(network, probe, 1))
    if isinstance(truth, str):
        _demand(asked, truth)
        return Choice(SINGLE, f"the probe failed: {truth}")
    noise = _compare(truth, _differences(probe, lambda: _by_batches(network, probe, len(probe))))
    # When padding itself goes wrong, it is no measure of rounding.
    is_padding_sound = noise <= _most_noise(network)
    least = max(TOLERANCE, ROUNDING * _precision(network))
    tolerance = max(least, NOISE_FACTOR * noise) if is_padding_sound else least
    found = _try_tree(network, probe, truth, tolerance)
    if isinstance(found, Choice):
        return found
    _demand(asked, found)
    if is_padding_sound and is_mixable:
        return Choice(PADDED, found, worst=noise)
    if not is_padding_sound:
        found = f"{found}; padded batches differ from single rows by {noise:.1g} per token"
    return Choice(SINGLE, found, worst=0.0)


def padding_noise(network: Network, max_length: int) -> tuple[float, int]:
    """The largest difference per token between padded batches and single rows of the probe; tokens of its texts."""
    probe = make_probe(network, max_length)
    truth = _differences(probe, lambda: _by_batches(network, probe, 1))
    batched = _differences(probe, lambda: _by_batches(network, probe, len(probe)))
    worst = math.inf if isinstance(truth, str) else _compare(truth, batched)
    return worst, max(text.scored for text in probe)


def may_share(asked: str, arithmetic: str) -> bool:
    """Whether `choose` tries to read what texts share only once."""
    return asked == TREE or (asked != PADDED and arithmetic != "lm_eval")


def _demand(asked: str, reason: str) -> None:
    if asked == TREE:
        raise ModelError(Fault("engine", 'found "tree"', "a model that packs can be read with", f"{reason}. Use: auto"))


def _try_tree(network: Network, probe: Sequence[EncodedText], truth: Sequence[float], limit: float) -> Choice | str:
    """The tree in the fastest form that agrees; else why none can be used."""
    try:
        reader = make_reader(network)
    except Unsupported as error:
        return str(error)
    reason = ""
    for candidate in _forms(reader):
        found = _differences(probe, partial(_by_tree, candidate, probe))
        if isinstance(found, str):
            reason = reason or found
            continue
        worst = _compare(truth, found)
        if worst <= limit:
            return Choice(TREE, f"agrees with single forward passes within {worst:.1g} per token", candidate, worst)
        reason = f"packs differ from single forward passes by {worst:.1g} per token"
    return reason


def _forms(reader: TreeReader) -> Iterator[TreeReader]:
    """With compiled loops and faster layers; with its own; with its own logits. Asking for the next gives one up."""
    module = reader.network.module
    found = find_loops() if is_tunable(module) else None
    loops = found if isinstance(found, Loops) else None
    tuning = tune(module, loops)
    if tuning.layers or loops is not None:
        yield replace(reader, loops=loops)
        tuning.undo()
    yield reader
    yield replace(reader, head=ReadyLogits(reader.head.columns))


def make_probe(network: Network, max_length: int) -> list[EncodedText]:
    """Texts of random tokens with two levels of branches, every token scored."""
    config = network.module.config.get_text_config()
    generator = random.Random(0)
    vocabulary = int(config.vocab_size)
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


def _window(config: Any) -> int | None:
    for name in ("sliding_window", "attention_chunk_size", "sliding_window_size", "window_size"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def _by_batches(network: Network, probe: Sequence[EncodedText], rows: int) -> list[Scored]:
    return list(score_pairs(probe, network.logits, Batching(BatchLimit(rows=rows))))


def _by_tree(reader: TreeReader, probe: Sequence[EncodedText]) -> list[Scored]:
    with using_attention(reader.network):
        scorer = TreeScorer(reader, Batching(BatchLimit(tokens=PACK)))
        return list(scorer.score(scorer.plan(probe)))


def _differences(probe: Sequence[EncodedText], ask: Callable[[], list[Scored]]) -> list[float] | str:
    """Log-likelihoods per token, or what went wrong."""
    answers = attempt(ask)
    if isinstance(answers, Failure):
        return answers.message
    values = [math.nan] * len(probe)
    for place, answer in answers:
        if isinstance(answer, Failure):
            return answer.message
        assert isinstance(answer, Logprob)
        values[place] = answer.total / answer.token_count
    return values


def _compare(truth: Sequence[float], found: Sequence[float] | str) -> float:
    """The largest difference; infinite where a number is missing or none."""
    if isinstance(found, str):
        return math.inf
    return max(
        abs(left - right) if math.isfinite(right) else math.inf for left, right in zip(truth, found, strict=True)
    )


def _most_noise(network: Network) -> float:
    """What padding may change by rounding alone, per token."""
    return max(TOLERANCE, 6.0 * _precision(network))


def _precision(network: Network) -> float:
    """The step from 1 to the next number in the format of the weights."""
    import torch

    return float(torch.finfo(network.module.dtype).eps)
