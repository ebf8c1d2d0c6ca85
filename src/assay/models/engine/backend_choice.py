"""Backend choice: prefix tree, padded batches, or single rows, decided by a probe.

In: a network and the requested engine. Out: a choice with its reason. Every row of the probe is compared with a
plain forward pass of that text alone, so that a wrong mask, position or cache shows before any result depends on it.
Generation is probed in `generation_probe.py`, on first use.
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
from assay.models.loading.hf_arguments import PADDED, TREE
from assay.models.loading.network import Network
from assay.models.loading.quantization import rounds_inputs
from assay.models.tokens.tokenization import EncodedText

SINGLE = "single"

# Allowed difference per scored token in float32. A wrong mask causes a hundred times as much.
TOLERANCE = 1e-4
# Allowed difference of a row of logits in float32, relative to its standard deviation.
LOGITS_TOLERANCE = 3e-4
# 16-bit types round far more: by a few units of the last digit, or several times the effect of padding alone.
ROUNDING, LOGITS_ROUNDING = 2.0, 16.0
NOISE_FACTOR = 8.0
# Assumed length of an unknown probe.
SHORT_PROBE = 32
BY_LENGTH = "its positions depend on the longest text in a batch"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The chosen backend.

    Attributes:
        engine: `tree`, `padded` or `single`.
        reason: why it was chosen.
        reader: runs packed forward passes; None for the other backends.
        max_difference: largest difference per token from a plain forward pass in the probe; None if not compared.
        limit: maximum length of a text that may share a batch; None for no limit.
        longest: maximum length of a probe text.
    """

    engine: str
    reason: str
    reader: TreeReader | None = None
    max_difference: float | None = None
    limit: Limit | None = None
    longest: int = SHORT_PROBE

    def is_alone(self, tokens: int) -> bool:
        """Whether a text of this length must run alone."""
        return self.limit is not None and tokens > self.limit.tokens


def choose_engine(network: Network, requested: str, arithmetic: str, max_length: int) -> EngineChoice:
    """Chooses the backend of a model.

    Args:
        network: the loaded model.
        requested: `auto`, `tree` or `padded`.
        arithmetic: `exact`, or `lm_eval`, which reproduces lm-eval's padded batches unless the tree is requested.
        max_length: maximum sequence length in tokens.

    Raises:
        ModelError: if the tree is requested and cannot be used.
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
            return EngineChoice(SINGLE, f"padded was requested, but {BY_LENGTH}")
    if arithmetic == "lm_eval" and requested != TREE:
        return EngineChoice(
            PADDED, "requested" if requested == PADDED else "lm-eval's arithmetic, which includes its padded batches"
        )
    if requested == PADDED and rounds_inputs(network.module):
        return EngineChoice(PADDED, "requested")
    probe = make_probe(network, longest)
    truth = read_rows(network, probe, 1)
    if isinstance(truth, str):
        _require_tree(requested, truth)
        return EngineChoice(SINGLE, f"the probe failed: {truth}")
    padding = compare(truth, read_rows(network, probe, len(probe)))
    if requested == PADDED:
        return _without_packs(network, padding, "requested")
    found = _try_tree(network, probe, truth, _allowed(network, padding), limit)
    if isinstance(found, EngineChoice):
        return found
    _require_tree(requested, found)
    return _without_packs(network, padding, found)


def _without_packs(network: Network, padding: ProbeDifference, reason: str) -> EngineChoice:
    """Padded batches if they agree with single rows; else single rows."""
    if not _padding_agrees(network, padding):
        found = f"padded batches differ from single rows by {padding.value:.1g} per token"
        return EngineChoice(
            SINGLE, f"{reason}; {found} and by {padding.logits:.1g} of the spread of logits", max_difference=0.0
        )
    if depends_on_batch_length(network):
        return EngineChoice(SINGLE, reason, max_difference=0.0)
    return EngineChoice(PADDED, reason, max_difference=padding.value)


def padding_noise(network: Network, max_length: int) -> tuple[float, int]:
    """The largest difference per token between padded batches and single rows of the probe, and its scored tokens."""
    probe = make_probe(network, max_length)
    truth = read_rows(network, probe, 1)
    max_difference = math.inf if isinstance(truth, str) else compare(truth, read_rows(network, probe, len(probe))).value
    return max_difference, max(text.scored for text in probe)


def may_share_prefixes(requested: str, arithmetic: str) -> bool:
    """Whether `choose_engine` would try to compute shared prefixes once."""
    return requested == TREE or (requested != PADDED and arithmetic != "lm_eval")


def _require_tree(requested: str, reason: str) -> None:
    if requested == TREE:
        raise ModelError(
            Fault("engine", 'found "tree"', "a model that supports packed sequences", f"{reason}. Use: auto")
        )


def _try_tree(
    network: Network, probe: Sequence[EncodedText], truth: ProbeResult, allowed: ProbeDifference, limit: Limit | None
) -> EngineChoice | str:
    """The fastest tree variant that agrees with single forward passes; else the reason why none does."""
    if limit is not None and limit.tokens < LEAST_PACK:
        return f"{limit.reason} from {limit.tokens + 1} tokens on, which is less than a packed sequence"
    try:
        reader = make_reader(network)
    except Unsupported as error:
        return str(error)
    reason = ""
    for candidate in _candidates(reader):
        found = read_tree(candidate, probe)
        if isinstance(found, str):
            reason = reason or f"packed sequences fail: {found.removeprefix('Unsupported: ')}"
            continue
        gap = compare(truth, found)
        if gap.value <= allowed.value and gap.logits <= allowed.logits:
            agrees = f"agrees with single forward passes within {gap.value:.1g} per token"
            return EngineChoice(TREE, agrees, candidate, gap.value)
        differs = f"{gap.value:.1g} per token and {gap.logits:.1g} of the spread of logits"
        reason = f"packed sequences differ from single forward passes by {differs}"
    return reason


def _candidates(reader: TreeReader) -> Iterator[TreeReader]:
    """Variants in order of speed: C kernels and patched layers, the model's own layers, the model's own logits.

    Advancing to the next variant undoes the previous one.
    """
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
    """Whether padding changes results by no more than rounding."""
    step = precision(network)
    return padding.value <= max(TOLERANCE, 6.0 * step) and padding.logits <= logits_tolerance(network)


def _allowed(network: Network, padding: ProbeDifference) -> ProbeDifference:
    """Allowed difference of packed sequences. If padding itself is wrong, it does not measure rounding."""
    value, logits = max(TOLERANCE, ROUNDING * precision(network)), logits_tolerance(network)
    if not _padding_agrees(network, padding):
        return ProbeDifference(value, logits)
    return ProbeDifference(max(value, NOISE_FACTOR * padding.value), max(logits, NOISE_FACTOR * padding.logits))


def logits_tolerance(network: Network) -> float:
    """Allowed rounding difference of a row of logits, relative to its standard deviation."""
    return max(LOGITS_TOLERANCE, LOGITS_ROUNDING * precision(network))


def precision(network: Network) -> float:
    """Machine epsilon of the data type of the weights."""
    import torch

    return float(torch.finfo(network.module.dtype).eps)
