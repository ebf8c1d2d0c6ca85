"""lm-eval's bootstrap error, with its very random stream.

lm-eval draws with Python's generator in chunks of 1000 replicates, chunk i seeded with i. numpy's Mersenne Twister,
given the same state, yields the same numbers, so the replicates agree and come many at a time.
"""

from __future__ import annotations

import random

import numpy as np

from assay.stats.bootstrap import Statistic, Values, redrawn, row_blocks

_CHUNK = 1000


def harness_stderr(values: Values, statistic: Statistic, iterations: int) -> float | None:
    """lm-eval's bootstrap standard error: same seeds, same chunks, the remainder of the last chunk dropped."""
    n = len(values)
    if n <= 1 or iterations <= 1:
        return None
    chunk = min(_CHUNK, iterations)
    parts = []
    with np.errstate(invalid="ignore"):  # infinite values give NaN, as in lm-eval
        for number in range(iterations // chunk):
            generator = _python_stream(number)
            for rows in row_blocks(chunk, n):
                places = (generator.random_sample((rows, n)) * n).astype(np.int64)
                parts.append(statistic(redrawn(values, places)))
        return float(np.std(np.concatenate(parts), ddof=1))


def _python_stream(seed: int) -> np.random.RandomState:
    """numpy's generator in the state of Python's after seeding."""
    _, words, _ = random.Random(seed).getstate()
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(words[:-1], dtype=np.uint32), int(words[-1]), 0, 0.0))
    return stream
