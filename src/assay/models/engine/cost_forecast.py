"""Cost forecast before weights are loaded: tokens, FLOPs, estimated time and peak memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.protocols import Workload
from assay.models.engine import memory
from assay.models.engine.cpu_layers import fits_packed, packed_bytes
from assay.models.engine.flops import (
    EXPECTED_LENGTH_SHARE,
    GENERATION_COST_FACTOR,
    ComputeCounts,
    flop_rates,
    tree_counts,
    unshared_counts,
)
from assay.models.engine.prefix_tree import build_tree
from assay.models.loading.checkpoint import Checkpoint, precision
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.network import choose_device
from assay.models.runtime import quiet, unlogged
from assay.models.tokens.encoding import Job
from assay.models.tokens.tokenization import as_texts

if TYPE_CHECKING:
    import torch

# Share of GEMM speed that a whole forward pass reaches (bench/vs_lm_eval.py prints it per workload).
EFFICIENCY = 0.7
MEASURE_SECONDS = 0.3
ROWS = 1024
# Rows of logits that the probe compares at once, bytes per logit in the probe, and bytes per logit in generation.
PROBE_ROWS, PROBE_BYTES, WRITTEN_BYTES = 330, 12, 12


def forecast(
    job: Job, checkpoint: Checkpoint, args: CausalArguments, device: str | None, shares_prefixes: bool = True
) -> Workload:
    """Forecasts tokens, FLOPs, time and memory of a job; padded batches do not share prefixes."""
    groups = list(job.groups())
    if job.prompts:
        groups.append(as_texts(job.prompts))
    shared, alone = ComputeCounts(), ComputeCounts()
    for group in groups:
        shared = shared + (tree_counts(build_tree(group)) if shares_prefixes else unshared_counts(group))
        alone = alone + unshared_counts(group)
    generated = sum(prompt.max_tokens for prompt in job.prompts)
    module, torch_device = _meta_model(checkpoint, args), choose_device(device)[0]
    rates = flop_rates(module)
    operations = rates.operations(shared) + GENERATION_COST_FACTOR * EXPECTED_LENGTH_SHARE * generated * (
        rates.token + rates.row
    )
    seconds = None
    if operations:
        seconds = operations / (EFFICIENCY * _speed(torch_device, precision(checkpoint, args)))
    held = None
    if (
        shares_prefixes and args.quantize is None
    ):  # padded batches and quantised weights have a different memory profile
        held = peak_memory(module, torch_device, shared.tokens, [len(one.ids) + one.max_tokens for one in job.prompts])
    return Workload(shared.tokens, alone.tokens, generated, operations, seconds, held)


def peak_memory(module: Any, device: torch.device, tokens: int, lengths: Sequence[int]) -> int | None:
    """Peak memory: what the process holds now, the weights, and the largest of probe, scoring and generation.

    None if the memory of the process is unknown.

    Args:
        module: the model, possibly without weights (`meta`).
        device: its device.
        tokens: tokens to score or prefill.
        lengths: lengths of the answers, prompts included.
    """
    held = memory.peak_bytes(device)
    if held is None:
        return None
    room = memory.memory_budget(module, memory.free_bytes(device))
    rows, vocabulary = memory.pack_tokens(module, device, room), _columns(module)
    copy = packed_bytes(module) if device.type == "cpu" and fits_packed(module, room) and _is_wide(module) else 0
    reading = min(rows, tokens) * memory.pack_bytes(module) + (copy if tokens >= memory.WORTH_PACKING * rows else 0)
    writing = 0
    if lengths:
        slots = memory.slots_for(module, max(lengths), len(lengths), room)
        own_bytes = sum(sorted(lengths)[-slots:]) * memory.token_bytes(module)
        writing = copy + own_bytes + slots * vocabulary * WRITTEN_BYTES + min(rows, tokens) * memory.pack_bytes(module)
    probing = PROBE_ROWS * vocabulary * PROBE_BYTES
    return held + memory.weight_bytes(module) + max(probing, reading, writing)


def _is_wide(module: Any) -> bool:
    """Whether weights are packed: only float32 weights are."""
    import torch

    return bool(module.dtype == torch.float32)


def _columns(module: Any) -> int:
    head = module.get_output_embeddings()
    return 0 if head is None else int(head.weight.shape[0])


def _meta_model(checkpoint: Checkpoint, args: CausalArguments) -> Any:
    """The model on the `meta` device, without weights, in its target precision."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    options: dict[str, Any] = {"trust_remote_code": args.trust_remote_code, "local_files_only": True}
    if args.gguf_file:
        options["gguf_file"] = args.gguf_file
    with quiet(), unlogged(), torch.device("meta"):
        config = AutoConfig.from_pretrained(str(checkpoint.folder), **options)
        dtype = getattr(torch, precision(checkpoint, args))
        return AutoModelForCausalLM.from_config(config, trust_remote_code=args.trust_remote_code, dtype=dtype)


def _speed(device: torch.device, dtype: str) -> float:
    """FLOP/s of a matrix product on this machine, the best of several."""
    import torch

    width = 1024
    left = torch.randn(ROWS, width, device=device).to(getattr(torch, dtype))
    right = torch.randn(width, 4 * width, device=device).to(getattr(torch, dtype))
    product = left @ right  # reused as output: allocation must not be measured
    best, until = float("inf"), time.perf_counter() + MEASURE_SECONDS
    while time.perf_counter() < until:
        started = time.perf_counter()
        torch.mm(left, right, out=product)
        product[0, 0].item()  # waits for the device
        best = min(best, time.perf_counter() - started)
    return 2.0 * ROWS * width * 4 * width / best
