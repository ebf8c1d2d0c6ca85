"""Batch sizes, and recovery when a batch does not fit into memory.

In: rows in order, their lengths and a function that processes a batch. Out: (batch, result) pairs as they finish.
Independent of what the function does.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from assay.core.errors import Fault, ModelError
from assay.core.responses import Failure

if TYPE_CHECKING:
    from assay.models.loading.network import Network

# Padded tokens per batch on a CPU: enough to use all cores, few enough to keep the logits small.
CPU_TOKENS = 2048
# Generation processes one token per row and step, so more rows pay off; the KV cache of the prompts limits them.
CPU_GENERATION_TOKENS = 8192
# Share of a GPU's free memory that a batch may fill, by a rough estimate.
MEMORY_SHARE = 0.5
MOST_TOKENS = 1 << 17

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """Maximum size of a batch: in rows, or in tokens including padding."""

    rows: int | None = None
    tokens: int | None = None

    def take(self, lengths: Sequence[int], start: int) -> int:
        """Number of rows from `start` that fit into one batch; at least one."""
        longest = count = 0
        for length in lengths[start : None if self.rows is None else start + self.rows]:
            longest = max(longest, length)
            if count and self.tokens is not None and (count + 1) * longest > self.tokens:
                break
            count += 1
        return max(count, 1)

    def halved(self, count: int, longest: int) -> BatchLimit:
        """The smaller limit after `count` rows of up to `longest` tokens did not fit."""
        if self.tokens is not None:
            return BatchLimit(tokens=max(count // 2 * longest, 1))
        return BatchLimit(rows=max(count // 2, 1))

    def __str__(self) -> str:
        return f"{self.tokens} tokens" if self.tokens is not None else f"{self.rows} rows"


@dataclass(frozen=True, slots=True)
class Batching:
    """A limit, and a callback for when it has to shrink."""

    limit: BatchLimit
    on_shrink: Callable[[BatchLimit], None] = lambda _: None


def read_batch_size(value: str) -> BatchLimit | None:
    """Parses a batch size: `8` means rows per batch; `auto` and lm-eval's `auto:4` give None, a token budget by device.

    Raises:
        ModelError: for anything else.
    """
    if re.fullmatch(r"auto(:\d+(\.\d+)?)?", value):
        return None
    if value.isdecimal() and int(value) > 0:
        return BatchLimit(rows=int(value))
    raise ModelError(Fault("batch_size", f'found "{value}"', '"auto", "auto:N" or a whole number, at least 1'))


def run_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    batching: Batching,
    work: Callable[[Sequence[Item]], Result],
) -> Iterator[tuple[Sequence[Item], Result | Failure]]:
    """Processes all items in order, batch by batch.

    If memory runs out, the batch is halved and retried, and later batches stay that small. A batch that fails for
    another reason is retried row by row, so that one bad row does not fail the others.
    """
    lengths = [length(item) for item in items]
    limit, start, single_until = batching.limit, 0, 0
    while start < len(items):
        count = 1 if start < single_until else limit.take(lengths, start)
        batch = items[start : start + count]
        result = attempt(partial(work, batch))
        if isinstance(result, Failure) and count > 1:
            if result.kind == "out_of_memory":
                limit = limit.halved(count, max(lengths[start : start + count]))
                batching.on_shrink(limit)
            else:
                single_until = start + count
            continue
        yield batch, result
        start += count


def attempt(work: Callable[[], Result]) -> Result | Failure:
    """The result of `work`, or its error as a `Failure`; releases memory after an out-of-memory error."""
    try:
        return work()
    except Exception as error:
        failure = _failure(error)
    # Outside `except`, because the traceback keeps the tensors of the failed attempt alive.
    if failure.kind == "out_of_memory":
        _release_memory()
    return failure


def _failure(error: Exception) -> Failure:
    if is_out_of_memory(error):
        return Failure("out_of_memory", f"a single row does not fit into memory: {_first_line(error)}")
    return Failure("error", f"{type(error).__name__}: {_first_line(error)}", retryable=False)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory, on any device. Does not import torch."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory", "failed to allocate")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)


def _release_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def automatic_limit(network: Network, for_generation: bool) -> BatchLimit:
    """Token budget for the model's device."""
    import torch

    if network.device.type != "cuda":
        return BatchLimit(tokens=CPU_GENERATION_TOKENS if for_generation else CPU_TOKENS)
    free, _ = torch.cuda.mem_get_info(network.device)
    return BatchLimit(tokens=_tokens_for(free, network.module, for_generation))


def _tokens_for(free: int, module: Any, for_generation: bool) -> int:
    """Rough number of tokens whose states, KV cache and logits fit into `free` bytes; halving corrects errors."""
    from assay.models.loading.network import config_number

    config = module.config.get_text_config()
    names = ("hidden_size", "num_hidden_layers", "vocab_size")
    width, layers, vocabulary = (int(config_number(config, name)) for name in names)
    per_token = 4 * (2 * width * layers if for_generation else 16 * width + 3 * vocabulary)
    return max(min(int(free * MEMORY_SHARE) // max(per_token, 1), MOST_TOKENS), CPU_TOKENS)
