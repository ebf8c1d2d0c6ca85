"""Two or more methods on the same documents: the difference with its interval, and whether chance explains it.

Outcomes of 0 and 1 get McNemar's exact test and Newcombe's interval, other values sign flips and Student's t.
All take one value per document, in the same order of documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.inputs import finite, is_binary, row_blocks, unequal
from assay.stats.means import LEVEL, nothing, t_quantile, wilson_interval
from assay.stats.multiple import SMALLEST_P

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FLIPS = 10_000
MOST_ENUMERATED = 12
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class CochranTest:
    """Whether any of several methods differs from the others. None where there is nothing to compare.

    Attributes:
        q: Cochran's statistic.
        degrees: methods less one.
        p: its upper tail under chi-square.
        n: documents.
    """

    q: float | None
    degrees: int
    p: float | None
    n: int


def paired_difference(
    differences: NDArray[np.float64], spread: float, outcomes: tuple[int, int, int] | None = None
) -> Estimate:
    """The mean difference: with Newcombe's interval of outcomes of 0 and 1, with Student's t of other values.

    Args:
        differences: one per document.
        spread: their standard deviation.
        outcomes: documents that both have right, that only the first has, that only the second has; None for values
            other than 0 and 1.
    """
    n, method = len(differences), "t" if outcomes is None else "newcombe"
    if n == 0:
        return nothing(method)
    mean = float(differences.mean()) if outcomes is None else (outcomes[1] - outcomes[2]) / n
    if n == 1:
        return Estimate(mean, None, None, None, 1, method, LEVEL)
    error = spread / math.sqrt(n)
    if outcomes is not None:
        low, high = newcombe_interval(*outcomes, n)
    else:
        reach = t_quantile(n - 1) * error
        low, high = mean - reach, mean + reach
    return Estimate(mean, error, low, high, n, method, LEVEL)


def newcombe_interval(both: float, wins: float, losses: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Interval for the difference of two proportions of the same documents.

    Method 10 of Newcombe (1998), Statistics in Medicine 17, 2635-2650: Wilson's intervals of both proportions,
    joined by their correlation, which is shrunk towards 0 by half a document.

    Args:
        both: documents that both have right.
        wins: documents that only the first has right.
        losses: documents that only the second has right.
        n: all documents.
        level: probability that the interval claims to cover.
    """
    right_a, right_b = both + wins, both + losses
    p_a, p_b = right_a / n, right_b / n
    low_a, high_a = wilson_interval(right_a, n, level)
    low_b, high_b = wilson_interval(right_b, n, level)
    neither = n - both - wins - losses
    link = float(both * neither - wins * losses)
    link = link if link < 0 else max(0.0, link - n / 2)
    spread = math.sqrt(right_a) * math.sqrt(n - right_a) * math.sqrt(right_b) * math.sqrt(n - right_b)
    phi = link / spread if spread else 0.0
    difference = (wins - losses) / n
    below = _joined(p_a - low_a, high_b - p_b, phi)
    above = _joined(high_a - p_a, p_b - low_b, phi)
    return max(-1.0, difference - below), min(1.0, difference + above)


def _joined(one: float, other: float, phi: float) -> float:
    # Rounding can leave a hair below 0 where the two reaches cancel.
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def mcnemar_p(wins: int, losses: int) -> float:
    """McNemar's exact test: are wins and losses a fair coin's? Two-sided; 1 without either, never 0."""
    from scipy.special import bdtr

    return min(1.0, max(2 * float(bdtr(min(wins, losses), wins + losses, 0.5)), SMALLEST_P))


def mcnemar_mid_p(wins: int, losses: int) -> float:
    """McNemar's test with the observed split counted half, so that its level is nearer to α; 1 without either, never 0.

    Fagerland, Lydersen and Laake (2013), BMC Medical Research Methodology 13:91. The exact test's level is far below
    α with few discordant documents; this one's is near it, and may pass it slightly.
    """
    from scipy.special import bdtr

    few, count = min(wins, losses), wins + losses
    below = float(bdtr(few - 1, count, 0.5)) if few else 0.0
    return min(1.0, max(float(bdtr(few, count, 0.5)) + below, SMALLEST_P))


def sign_flip_p(differences: Sequence[float], generator: np.random.Generator) -> float:
    """Share of sign flips of the differences whose sum is at least as far from 0 as theirs.

    Every flip is tried up to 12 differences other than 0. Above that 10,000 are drawn, and the data itself counts
    as one more, so that the result is never 0. Where the share of all flips is below what so many draws can show, it
    is bounded instead, see `flip_bound`.
    """
    import numpy as np

    values = np.array([value for value in differences if value != 0], dtype=np.float64)
    count = len(values)
    if count == 0:
        return 1.0
    total = float(values.sum())
    # Sums of the same numbers in another order differ in the last digits; those are ties.
    bar = abs(total) - 1e-12 * float(np.abs(values).sum())
    if count <= MOST_ENUMERATED:
        every = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float(np.mean(np.abs(2 * (every @ values) - total) >= bar))
    hits = 0
    for rows in row_blocks(FLIPS, count, _CELLS_AT_ONCE):
        flips = generator.integers(0, 2, size=(rows, count), dtype=np.int8).astype(np.float64)
        hits += int(np.sum(np.abs(2 * (flips @ values) - total) >= bar))
    return min((hits + 1) / (FLIPS + 1), flip_bound(values))


def sign_flip_ps(pairs: Sequence[NDArray[np.float64]], generator: np.random.Generator) -> list[float]:
    """As `sign_flip_p` of each pair's differences; one draw of flips serves all pairs, whatever documents they have.

    A flip is a fair coin per difference, so that it does not matter which document a coin belongs to in which pair.
    """
    import numpy as np

    known = [differences[differences != 0] for differences in pairs]
    found = [sign_flip_p(own.tolist(), generator) if len(own) <= MOST_ENUMERATED else 1.0 for own in known]
    large = [place for place, own in enumerate(known) if len(own) > MOST_ENUMERATED]
    if not large:
        return found
    size = max(len(known[place]) for place in large)
    columns = max(1, _CELLS_AT_ONCE // size)
    hits = np.zeros(len(large), dtype=np.int64)
    for rows in row_blocks(FLIPS, size, _CELLS_AT_ONCE):
        flips = generator.integers(0, 2, size=(rows, size), dtype=np.int8).astype(np.float64)
        for start in range(0, len(large), columns):
            block = [known[place] for place in large[start : start + columns]]
            hits[start : start + len(block)] += _hits(flips, block)
    for place, count in zip(large, hits.tolist(), strict=True):
        found[place] = min((count + 1) / (FLIPS + 1), flip_bound(known[place]))
    return found


def _hits(flips: NDArray[np.float64], pairs: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Per pair, how many of these flips leave its sum at least as far from 0; further coins turn nothing."""
    import numpy as np

    values = np.zeros((flips.shape[1], len(pairs)))
    for column, own in enumerate(pairs):
        values[: len(own), column] = own
    totals = values.sum(axis=0)
    bars = np.abs(totals) - 1e-12 * np.abs(values).sum(axis=0)
    return np.asarray(np.sum(np.abs(2 * (flips @ values) - totals) >= bars, axis=0))


def flip_bound(differences: NDArray[np.float64]) -> float:
    """What the share of all flips, of any differences, is at most: 2·exp(−(Σd)²/2Σd²), by Hoeffding's inequality.

    Without it a hundred systems could not be told apart, however far they are: the smallest share that 10,000 draws
    show is not small enough for a correction over thousands of pairs.
    """
    import numpy as np

    most = float(np.abs(differences).max())
    scaled = differences / most  # squares of very large or small numbers are none
    bound = 2 * math.exp(-(float(scaled.sum()) ** 2) / (2 * float((scaled * scaled).sum())))
    return min(1.0, max(bound, SMALLEST_P))


def sign_flip_table(systems: Sequence[Sequence[float]], generator: np.random.Generator) -> list[list[float]]:
    """The p of sign flips of every two systems on the same documents: one draw of flips serves all pairs.

    As `sign_flip_p` of each pair's differences, in a fraction of the time.

    Args:
        systems: per system, one value per document, documents in the same order.
        generator: of the flips.
    """
    import numpy as np

    rows = [finite(system, f"system {place}") for place, system in enumerate(systems, 1)]
    for place, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise unequal(f"system {place}", len(row), len(rows[0]))
    count, n = len(rows), len(rows[0]) if rows else 0
    values = np.array(rows, dtype=np.float64).reshape(count, n).T
    found = np.ones((count, count))
    if count < 2 or n == 0:
        return [[float(p) for p in row] for row in found]
    hits = _flipped_hits(values, generator)
    for first in range(count):
        for second in range(first + 1, count):
            differences = values[:, first] - values[:, second]
            if np.count_nonzero(differences) <= MOST_ENUMERATED:
                p = sign_flip_p(differences.tolist(), generator)
            else:
                p = min((float(hits[first, second]) + 1) / (FLIPS + 1), flip_bound(differences))
            found[first, second] = found[second, first] = p
    return [[float(p) for p in row] for row in found]


def _flipped_hits(values: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Per pair of columns, how many of 10,000 flips leave their difference at least as far from 0."""
    import numpy as np

    n, count = values.shape
    totals = values.sum(axis=0)
    # As in sign_flip_p, sums that differ in the last digits only are ties; those of both columns add up here.
    bars = np.abs(np.subtract.outer(totals, totals)) - 1e-12 * np.add.outer(*[np.abs(values).sum(axis=0)] * 2)
    hits = np.zeros((count, count), dtype=np.int64)
    for rows in row_blocks(FLIPS, max(n, count), _CELLS_AT_ONCE):
        flips = generator.integers(0, 2, size=(rows, n), dtype=np.int8).astype(np.float64)
        sums = 2 * (flips @ values) - totals
        for first in range(count - 1):
            apart = np.abs(sums[:, first : first + 1] - sums[:, first + 1 :])
            hits[first, first + 1 :] += np.sum(apart >= bars[first, first + 1 :], axis=0)
    return hits


def cochran_q(methods: Sequence[Sequence[float]]) -> CochranTest:
    """Cochran's Q: does it matter which method is used? With two methods, McNemar's test without its exactness.

    Args:
        methods: per method, one 0 or 1 per document, documents in the same order.
    """
    rows = [finite(method, f"method {place}") for place, method in enumerate(methods, 1)]
    for place, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise unequal(f"method {place}", len(row), len(rows[0]))
        if not is_binary(row):
            raise DataError(Fault(f"Cochran's Q: method {place}", "values other than 0 and 1", "0 or 1 per document"))
    k, n = len(rows), len(rows[0]) if rows else 0
    if k < 2 or n == 0:
        return CochranTest(None, max(0, k - 1), None, n)
    per_method = [int(sum(row)) for row in rows]
    per_document = [int(sum(column)) for column in zip(*rows, strict=True)]
    total = sum(per_method)
    below = k * total - sum(count * count for count in per_document)
    if below == 0:  # every document is right or wrong by all methods alike
        return CochranTest(0.0, k - 1, 1.0, n)
    q = (k - 1) * (k * sum(count * count for count in per_method) - total * total) / below
    from scipy.special import chdtrc

    return CochranTest(q, k - 1, float(chdtrc(k - 1, q)), n)
