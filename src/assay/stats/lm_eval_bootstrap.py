"""lm-eval's bootstrap standard error, reproduced with the same random stream.

lm-eval draws with Python's generator in chunks of 1000 replicates, chunk i seeded with i. numpy's Mersenne Twister in
the same state yields the same numbers, so the replicates agree and are drawn many at a time. Chunks are independent:
they are drawn in threads on all processor cores, since numpy releases the GIL.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.protocols import ProgressCallback, ignore_progress
from assay.stats.bootstrap import Values, row_blocks, take_rows

_CHUNK = 1000
_MOST_THREADS = 16
RESAMPLES = "resamples for lm-eval's standard error (none with --bootstrap_iters 0)"


def lm_eval_stderr(
    values: NDArray[Any],
    statistic: Callable[[Any], Values],
    iterations: int,
    report: ProgressCallback = ignore_progress,
) -> float | None:
    """lm-eval's bootstrap standard error: same seeds, same chunks, the remainder of the last chunk dropped.

    Args:
        values: one row per document.
        statistic: vectorised over resamples of documents.
        iterations: replicates.
        report: progress callback; called from this thread.
    """
    n = len(values)
    if n <= 1 or iterations <= 1:
        return None
    chunk = min(_CHUNK, iterations)
    chunks = iterations // chunk
    stopped = Event()

    def replicates(number: int) -> list[Values]:
        blocks = takewhile(lambda block: not stopped.is_set(), _resample_indices(number, chunk, n))
        with np.errstate(invalid="ignore"):  # infinite values give NaN, as in lm-eval
            return [statistic(take_rows(values, block)) for block in blocks]

    parts: list[Values] = []
    with ThreadPoolExecutor(min(chunks, _MOST_THREADS, _cores())) as pool:
        try:
            for number, found in enumerate(pool.map(replicates, range(chunks)), start=1):
                parts.extend(found)
                report(RESAMPLES, number * chunk, chunks * chunk)
        except BaseException:  # including Ctrl-C: chunks that have started finish their block
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    with np.errstate(invalid="ignore"):
        return float(np.std(np.concatenate(parts), ddof=1))


def _resample_indices(seed: int, replicates: int, n: int) -> Iterator[NDArray[np.int64]]:
    """The document indices of each replicate, in blocks of rows."""
    generator = _python_stream(seed)
    for rows in row_blocks(replicates, n):
        shares = generator.random_sample((rows, n))
        shares *= n
        yield shares.astype(np.int64)


def _python_stream(seed: int) -> np.random.RandomState:
    """numpy's generator in the state of Python's generator after seeding."""
    _, words, _ = random.Random(seed).getstate()
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(words[:-1], dtype=np.uint32), int(words[-1]), 0, 0.0))
    return stream


def _cores() -> int:
    """Processor cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
