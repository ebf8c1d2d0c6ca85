"""Resampling: our seeded percentile interval, and lm-eval's bootstrap error with its very random stream.

lm-eval draws with Python's generator in chunks of 1000 replicates, chunk i seeded with i. numpy's Mersenne
Twister, given the same state, yields the same numbers, so the replicates agree and come many at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.stats.means import LEVEL, nothing

Values = NDArray[np.float64]
# Takes resampled values of shape (replicates, n) or (replicates, n, columns), gives one number per replicate.
Statistic = Callable[[Values], Values]

_CHUNK = 1000
_CELLS_AT_ONCE = 2_000_000
OWN_REPLICATES = 2000


def percentile_estimate(values: Values, statistic: Statistic, seed: int = 0) -> Estimate:
    """A statistic of the values, its bootstrap error (not divided again) and percentile interval."""
    n = len(values)
    if n == 0:
        return nothing("bootstrap")
    value = float(statistic(values[None])[0])
    if n == 1:
        return Estimate(value, None, None, None, 1, "bootstrap", LEVEL)
    generator = np.random.default_rng(seed)
    parts = []
    for rows in _row_blocks(OWN_REPLICATES, n):
        parts.append(statistic(values[generator.integers(0, n, size=(rows, n))]))
    replicates = np.concatenate(parts)
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(np.std(replicates, ddof=1)), float(low), float(high), n, "bootstrap", LEVEL)


def harness_stderr(values: Values, statistic: Statistic, iterations: int) -> float | None:
    """lm-eval's bootstrap standard error: same seeds, same chunks, the remainder of the last chunk dropped."""
    n = len(values)
    if n <= 1 or iterations <= 1:
        return None
    chunk = min(_CHUNK, iterations)
    parts = []
    for number in range(iterations // chunk):
        generator = _python_stream(number)
        for rows in _row_blocks(chunk, n):
            places = np.floor(generator.random_sample((rows, n)) * n).astype(np.int64)
            parts.append(statistic(values[places]))
    return float(np.std(np.concatenate(parts), ddof=1))


def _python_stream(seed: int) -> np.random.RandomState:
    """numpy's generator in the state of Python's after seeding."""
    _, words, _ = random.Random(seed).getstate()
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(words[:-1], dtype=np.uint32), int(words[-1]), 0, 0.0))
    return stream


def _row_blocks(rows: int, n: int) -> list[int]:
    """Row counts that add up to `rows` and keep each block's memory bounded."""
    most = max(1, _CELLS_AT_ONCE // n)
    full, rest = divmod(rows, most)
    return [most] * full + ([rest] if rest else [])
