"""What answering would take, before any weights are loaded: tokens, operations, and a guess of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from assay.core.protocols import Workload
from assay.models.causal_arguments import CausalArguments
from assay.models.checkpoints import Checkpoint, precision
from assay.models.encoding import Job
from assay.models.engine.account import USUAL_SHARE, WRITING_WORTH, Amount, Rates, alone_amount, rates_of, tree_amount
from assay.models.engine.tree import build_tree
from assay.models.logs import unlogged
from assay.models.network import choose_device, quiet
from assay.models.tokens import as_texts

if TYPE_CHECKING:
    import torch

# Share of the speed of a bare matrix product that a whole pass reaches (bench/vs_lm_eval.py prints it per workload).
REACHED = 0.7
MEASURE_SECONDS = 0.3
ROWS = 1024


def forecast(
    job: Job, checkpoint: Checkpoint, args: CausalArguments, device: str | None, shares_prefixes: bool = True
) -> Workload:
    """The work of a job, and how long it may take; in padded batches nothing that texts share is read only once."""
    groups = list(job.groups())
    if job.prompts:
        groups.append(as_texts(job.prompts))
    shared, alone = Amount(), Amount()
    for group in groups:
        shared = shared + (tree_amount(build_tree(group)) if shares_prefixes else alone_amount(group))
        alone = alone + alone_amount(group)
    written = sum(prompt.max_tokens for prompt in job.prompts)
    rates = _rates(checkpoint, args)
    operations = rates.operations(shared) + WRITING_WORTH * USUAL_SHARE * written * (rates.token + rates.row)
    seconds = None
    if operations:
        seconds = operations / (REACHED * _speed(choose_device(device)[0], precision(checkpoint, args)))
    return Workload(shared.tokens, alone.tokens, written, operations, seconds)


def _rates(checkpoint: Checkpoint, args: CausalArguments) -> Rates:
    """The model's operations, from its shape: built without memory for weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    options: dict[str, Any] = {"trust_remote_code": args.trust_remote_code, "local_files_only": True}
    if args.gguf_file:
        options["gguf_file"] = args.gguf_file
    with quiet(), unlogged(), torch.device("meta"):
        config = AutoConfig.from_pretrained(str(checkpoint.folder), **options)
        return rates_of(AutoModelForCausalLM.from_config(config, trust_remote_code=args.trust_remote_code))


def _speed(device: torch.device, dtype: str) -> float:
    """Operations per second of a matrix product on this machine, the best of a few."""
    import torch

    width = 1024
    left = torch.randn(ROWS, width, device=device).to(getattr(torch, dtype))
    right = torch.randn(width, 4 * width, device=device).to(getattr(torch, dtype))
    product = left @ right  # its memory is used again: new memory for each would be measured too
    best, until = float("inf"), time.perf_counter() + MEASURE_SECONDS
    while time.perf_counter() < until:
        started = time.perf_counter()
        torch.mm(left, right, out=product)
        product[0, 0].item()  # waits for the device
        best = min(best, time.perf_counter() - started)
    return 2.0 * ROWS * width * 4 * width / best
