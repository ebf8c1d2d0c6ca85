"""Batch sizes, and the way back when memory runs out; the work is injected, no model needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from assay.core.errors import ModelError
from assay.core.responses import Failure
from assay.models.inference.batching import Batching, BatchLimit, is_out_of_memory, read_batch_size, run_batches


def failing_above(rows: int, calls: list[int], error: type[Exception] = MemoryError) -> Callable[[Sequence[int]], int]:
    def work(batch: Sequence[int]) -> int:
        calls.append(len(batch))
        if len(batch) > rows:
            raise error("out of memory")
        return sum(batch)

    return work


@pytest.mark.parametrize(("text", "limit"), [("8", BatchLimit(rows=8)), ("auto", None), ("auto:4", None)])
def test_batch_sizes_are_read(text: str, limit: BatchLimit | None) -> None:
    assert read_batch_size(text) == limit


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", ""])
def test_other_batch_sizes_are_refused(text: str) -> None:
    with pytest.raises(ModelError, match="batch_size"):
        read_batch_size(text)


def test_limits_count_rows_or_padded_tokens() -> None:
    lengths = [10, 9, 3, 3, 3]
    assert BatchLimit(rows=2).take(lengths, 0) == 2
    assert BatchLimit(tokens=20).take(lengths, 0) == 2
    assert BatchLimit(tokens=20).take(lengths, 2) == 3
    assert BatchLimit(tokens=5).take(lengths, 0) == 1


def test_rows_that_grow_are_counted_at_their_longest() -> None:
    assert BatchLimit(tokens=20).take([2, 2, 10, 10], 0) == 2


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_memory_error_halves_and_tries_the_same_rows(error: type[Exception]) -> None:
    calls: list[int] = []
    shrunk: list[BatchLimit] = []
    batching = Batching(BatchLimit(rows=8), shrunk.append)
    done = list(run_batches(range(10), lambda _: 1, batching, failing_above(3, calls, error)))
    assert [item for batch, _ in done for item in batch] == list(range(10))
    assert calls == [8, 4, 2, 2, 2, 2, 2] and shrunk == [BatchLimit(rows=4), BatchLimit(rows=2)]


def test_token_budget_shrinks_too() -> None:
    shrunk: list[BatchLimit] = []
    batching = Batching(BatchLimit(tokens=80), shrunk.append)
    list(run_batches(range(8), lambda _: 10, batching, failing_above(4, [])))
    assert shrunk == [BatchLimit(tokens=40)]


def test_row_that_never_fits_is_a_failure_and_the_rest_goes_on() -> None:
    def work(batch: Sequence[int]) -> str:
        if 3 in batch:
            raise MemoryError
        return "done"

    found = run_batches(range(6), lambda _: 1, Batching(BatchLimit(rows=1)), work)
    done = {batch[0]: result for batch, result in found}
    assert isinstance(done[3], Failure) and done[3].kind == "out_of_memory"
    assert [done[item] for item in (0, 1, 2, 4, 5)] == ["done"] * 5


def test_other_error_costs_only_its_own_row() -> None:
    def work(batch: Sequence[int]) -> str:
        if 3 in batch:
            raise IndexError("index out of range in self")
        return "done"

    done = list(run_batches(range(8), lambda _: 1, Batching(BatchLimit(rows=4)), work))
    failed = [batch[0] for batch, result in done if isinstance(result, Failure)]
    assert failed == [3] and len(done[-1][0]) == 4


def test_interruption_is_not_swallowed() -> None:
    def work(batch: Sequence[int]) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_batches(range(2), lambda _: 1, Batching(BatchLimit(rows=1)), work))


def test_torch_errors_are_recognised() -> None:
    import torch

    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    message = "[enforce fail at alloc_cpu.cpp:128] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
