"""Which way a model is asked: the prefix tree, padded batches, or row by row; decided by asking it in all of them.

Takes a network and the user's wish; gives a choice with its reason. Every row of the probe is compared with a plain
forward pass of that text alone, so a wrong mask, position or cache shows before any number is made with it. How it
writes is tried in `dictation.py`, when it first writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assay.core.errors import Fault, ModelError
from assay.models.engine.attention import Unsupported
from assay.models.engine.c_kernels import CKernels, find_c_kernels
from assay.models.engine.cpu_layers import is_patchable, patch_layers
from assay.models.engine.forward import TreeReader, depends_on_batch_length, make_reader, reset_dynamic_rope
from assay.models.engine.length_limits import Limit, find_limit
from assay.models.engine.memory import LEAST_PACK
from assay.models.engine.probe import ProbeDifference, ProbeResult, compare, make_probe, read_rows, read_tree
from assay.models.engine.vocabulary_head import PrecomputedLogits
from assay.models.loading.arguments import PADDED, TREE
from assay.models.loading.network import Network
from assay.models.loading.quantization import rounds_inputs
from assay.models.tokens.tokenization import EncodedText

SINGLE = "single"

# Per scored token: what float32 may differ by. A wrong mask shows as a hundred times that and more.
TOLERANCE = 1e-4
# Of a row of logits: what float32 may differ by, as a share of the row's spread.
LOGITS_TOLERANCE = 3e-4
# Narrow formats round by far more: by some units of their last digit, or by several times what padding alone changes.
ROUNDING, LOGITS_ROUNDING = 2.0, 16.0
NOISE_FACTOR = 8.0
# Tokens of a probe of which nothing is known.
SHORT_PROBE = 32
BY_LENGTH = "its positions depend on the longest text in a batch"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """How a model is asked.

    Attributes:
        engine: `tree`, `padded` or `single`.
        reason: why.
        reader: reads packs; None for the other ways.
        worst: largest difference per token from a plain forward pass in the probe; None when nothing was compared.
        limit: most tokens of a text that may stand beside others; None when any may.
        longest: most tokens of a text of the probe.
    """

    engine: str
    reason: str
    reader: TreeReader | None = None
    max_difference: float | None = None
    limit: Limit | None = None
    longest: int = SHORT_PROBE

    def is_alone(self, tokens: int) -> bool:
        """Whether a text of this length is asked by itself."""
        return self.limit is not None and tokens > self.limit.tokens


def choose_engine(network: Network, requested: str, arithmetic: str, max_length: int) -> EngineChoice:
    """The way to ask a model.

    Args:
        network: the loaded model.
        asked: `auto`, `tree` or `padded`.
        arithmetic: `exact`, or `lm_eval`, whose batches are part of what it reproduces unless the tree is demanded.
        max_length: most tokens the model takes.

    Raises:
        ModelError: when the tree is demanded and cannot be had.
    """
    limit = find_limit(network.module.config.get_text_config())
    longest = max_length if limit is None else max(min(max_length, limit.tokens), 1)
    return replace(_choose_engine(network, requested, arithmetic, limit, longest), limit=limit, longest=longest)


def _choose_engine(
    network: Network, requested: str, arithmetic: str, limit: Limit | None, longest: int
) -> EngineChoice:
    if depends_on_batch_length(network):
        reset_dynamic_rope(network)
        if requested == PADDED:
            return EngineChoice(SINGLE, f"padded was asked for, but {BY_LENGTH}")
    if arithmetic == "lm_eval" and requested != TREE:
        return EngineChoice(
            PADDED, "asked for" if requested == PADDED else "lm-eval's arithmetic, which belongs to its batches"
        )
    if requested == PADDED and rounds_inputs(network.module):
        return EngineChoice(PADDED, "asked for")
    probe = make_probe(network, longest)
    truth = read_rows(network, probe, 1)
    if isinstance(truth, str):
        _require_tree(requested, truth)
        return EngineChoice(SINGLE, f"the probe failed: {truth}")
    padding = compare(truth, read_rows(network, probe, len(probe)))
    if requested == PADDED:
        return _without_packs(network, padding, "asked for")
    found = _try_tree(network, probe, truth, _allowed(network, padding), limit)
    if isinstance(found, EngineChoice):
        return found
    _require_tree(requested, found)
    return _without_packs(network, padding, found)


def _without_packs(network: Network, padding: ProbeDifference, reason: str) -> EngineChoice:
    """Padded batches where they agree with single rows; else single rows."""
    if not _padding_agrees(network, padding):
        found = f"padded batches differ from single rows by {padding.value:.1g} per token"
        return EngineChoice(
            SINGLE, f"{reason}; {found} and by {padding.logits:.1g} of the spread of logits", max_difference=0.0
        )
    if depends_on_batch_length(network):
        return EngineChoice(SINGLE, reason, max_difference=0.0)
    return EngineChoice(PADDED, reason, max_difference=padding.value)


def padding_noise(network: Network, max_length: int) -> tuple[float, int]:
    """The largest difference per token between padded batches and single rows of the probe; tokens of its texts."""
    probe = make_probe(network, max_length)
    truth = read_rows(network, probe, 1)
    max_difference = math.inf if isinstance(truth, str) else compare(truth, read_rows(network, probe, len(probe))).value
    return max_difference, max(text.scored for text in probe)


def may_share_prefixes(requested: str, arithmetic: str) -> bool:
    """Whether `choose` tries to read what texts share only once."""
    return requested == TREE or (requested != PADDED and arithmetic != "lm_eval")


def _require_tree(requested: str, reason: str) -> None:
    if requested == TREE:
        raise ModelError(Fault("engine", 'found "tree"', "a model that packs can be read with", f"{reason}. Use: auto"))


def _try_tree(
    network: Network, probe: Sequence[EncodedText], truth: ProbeResult, allowed: ProbeDifference, limit: Limit | None
) -> EngineChoice | str:
    """The tree in the fastest form that agrees; else why none can be used."""
    if limit is not None and limit.tokens < LEAST_PACK:
        return f"{limit.reason} from {limit.tokens + 1} tokens on, which is less than a pack"
    try:
        reader = make_reader(network)
    except Unsupported as error:
        return str(error)
    reason = ""
    for candidate in _candidates(reader):
        found = read_tree(candidate, probe)
        if isinstance(found, str):
            reason = reason or f"packs cannot be read: {found.removeprefix('Unsupported: ')}"
            continue
        gap = compare(truth, found)
        if gap.value <= allowed.value and gap.logits <= allowed.logits:
            agrees = f"agrees with single forward passes within {gap.value:.1g} per token"
            return EngineChoice(TREE, agrees, candidate, gap.value)
        differs = f"{gap.value:.1g} per token and {gap.logits:.1g} of the spread of logits"
        reason = f"packs differ from single forward passes by {differs}"
    return reason


def _candidates(reader: TreeReader) -> Iterator[TreeReader]:
    """With compiled loops and faster layers; with its own; with its own logits. Asking for the next gives one up."""
    module = reader.network.module
    found = find_c_kernels() if is_patchable(module) else None
    c_kernels = found if isinstance(found, CKernels) else None
    patches = patch_layers(module, c_kernels)
    if patches.layers or c_kernels is not None:
        yield replace(reader, c_kernels=c_kernels)
        patches.undo()
    yield reader
    yield replace(reader, head=PrecomputedLogits(reader.head.columns))


def _padding_agrees(network: Network, padding: ProbeDifference) -> bool:
    """Whether padding changes no more than rounding does."""
    step = precision(network)
    return padding.value <= max(TOLERANCE, 6.0 * step) and padding.logits <= logits_tolerance(network)


def _allowed(network: Network, padding: ProbeDifference) -> ProbeDifference:
    """What packs may differ by. When padding itself goes wrong, it is not a measure of rounding."""
    value, logits = max(TOLERANCE, ROUNDING * precision(network)), logits_tolerance(network)
    if not _padding_agrees(network, padding):
        return ProbeDifference(value, logits)
    return ProbeDifference(max(value, NOISE_FACTOR * padding.value), max(logits, NOISE_FACTOR * padding.logits))


def logits_tolerance(network: Network) -> float:
    """What a row of logits may change by rounding alone, as a share of its spread."""
    return max(LOGITS_TOLERANCE, LOGITS_ROUNDING * precision(network))


def precision(network: Network) -> float:
    """The step from 1 to the next number in the format of the weights."""
    import torch

    return float(torch.finfo(network.module.dtype).eps)
