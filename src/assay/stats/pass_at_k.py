"""Unbiased estimators over several draws per document: pass@k, pass^k, G-pass@k, mean@k, maj@k.

Each is the expectation over k of the document's n draws, sampled without replacement; None if n is below k. The
document is the unit: standard errors are over documents.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.inputs import require_finite
from assay.stats.means import mean_estimate

if TYPE_CHECKING:
    import numpy as np

MAJORITY_DRAWS = 10_000
# maj@k is computed exactly while draws × k² is at most this (some hundredths of a second).
MAX_EXACT_WORK = 100_000


@dataclass(frozen=True, slots=True)
class DrawsEstimate:
    """A mean over documents of a statistic of k draws.

    Attributes:
        estimate: the mean over the documents with at least k draws.
        left_out: number of documents with fewer.
    """

    estimate: Estimate
    left_out: int


def pass_at_k(n: int, right: int, k: int) -> float | None:
    """pass@k, the probability that one of k draws is right: 1 − C(n−c, k)/C(n, k), as in Chen et al. (2021)."""
    if not _enough(n, right, k):
        return None
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)


def pass_hat_k(n: int, right: int, k: int) -> float | None:
    """pass^k, the probability that all of k draws are right: C(c, k)/C(n, k)."""
    return math.comb(right, k) / math.comb(n, k) if _enough(n, right, k) else None


def g_pass_at_k(n: int, right: int, k: int, share: float) -> float | None:
    """G-pass@k, the probability that at least this share of k draws is right; a share of 0 means at least one.

    Args:
        n: number of draws.
        right: number of right draws.
        k: number of draws taken.
        share: share of the k, rounded up; 1 is pass^k.
    """
    if not 0 <= share <= 1:
        raise DataError(Fault("G-pass@k", f"a share of {share}", "a number from 0 to 1"))
    if not _enough(n, right, k):
        return None
    least = max(1, math.ceil(share * k - 1e-9))  # 0.1 · 10 must not become 2
    ways = sum(math.comb(right, hits) * math.comb(n - right, k - hits) for hits in range(least, k + 1))
    return ways / math.comb(n, k)


def mean_at_k(scores: Sequence[float], k: int) -> float | None:
    """mean@k, the expected mean of k draws, which is the mean of all; None if there are fewer than k."""
    data = require_finite(scores, "mean@k")
    return math.fsum(data) / len(data) if _enough(len(data), 0, k) else None


def majority_at_k(
    answers: Sequence[Hashable | None], right: Sequence[bool], k: int, generator: np.random.Generator
) -> float | None:
    """maj@k, the expected correctness of the majority answer of k draws.

    Ties between answers are broken uniformly at random. A draw without an answer (None) casts no vote, and without any
    vote the majority is wrong. Computed exactly if that is cheap, otherwise over 10,000 random sets of k draws.

    Args:
        answers: the answer extracted from each draw.
        right: whether it is right; equal answers are equally right.
        k: number of draws that vote.
        generator: for documents with too many draws to enumerate.
    """
    if len(answers) != len(right):
        raise DataError(Fault("maj@k", f"{len(answers)} answers and {len(right)} marks", "one mark for each answer"))
    if not _enough(len(answers), 0, k):
        return None
    counts: dict[Hashable, int] = {}
    marks: dict[Hashable, bool] = {}
    for answer, mark in zip(answers, right, strict=True):
        if answer is None:
            continue
        counts[answer] = counts.get(answer, 0) + 1
        if marks.setdefault(answer, bool(mark)) != bool(mark):
            raise DataError(Fault("maj@k", f"answer {answer!r} is both right and wrong", "one mark for equal answers"))
    votes = [(count, marks[answer]) for answer, count in counts.items()]
    silent = len(answers) - sum(counts.values())
    if len(answers) * k * k <= MAX_EXACT_WORK:
        return _counted_majority(votes, silent, k)
    return _drawn_majority(votes, silent, k, generator)


def draws_estimate(values: Sequence[float | None]) -> DrawsEstimate:
    """The mean over documents of one of the above, with standard error and interval."""
    known = require_finite([value for value in values if value is not None], "draws")
    return DrawsEstimate(mean_estimate(known), len(values) - len(known))


def _enough(n: int, right: int, k: int) -> bool:
    if k < 1 or not 0 <= right <= n:
        raise DataError(
            Fault("draws", f"k = {k}, {right} right of {n}", "k of 1 or more, and no more right than drawn")
        )
    return n >= k


def _counted_majority(votes: Sequence[tuple[int, bool]], silent: int, k: int) -> float:
    """Counts the sets of k draws that each right answer wins; ties count by their share."""
    total = math.comb(sum(count for count, _ in votes) + silent, k)
    won = 0.0
    for index, (count, is_right) in enumerate(votes):
        if not is_right:
            continue
        others = [other for rank, (other, _) in enumerate(votes) if rank != index]
        for own in range(1, min(count, k) + 1):
            ways = _ways_below(others, silent, own, k - own)
            tied = sum(number / (1 + ties) for ties, number in ways.items())
            won += math.comb(count, own) * tied / total
    return won


def _ways_below(others: Sequence[int], silent: int, most: int, left: int) -> dict[int, int]:
    """Number of sets of `left` draws with no other answer above `most` votes, by how many have exactly `most`."""
    ways = {(0, 0): 1}  # (draws taken, answers with `most` votes) → sets
    for count in others:
        grown: dict[tuple[int, int], int] = {}
        for (taken, ties), number in ways.items():
            for own in range(min(count, most, left - taken) + 1):
                key = (taken + own, ties + (own == most))
                grown[key] = grown.get(key, 0) + number * math.comb(count, own)
        ways = grown
    found: dict[int, int] = {}
    for (taken, ties), number in ways.items():
        found[ties] = found.get(ties, 0) + number * math.comb(silent, left - taken)
    return found


def _drawn_majority(votes: Sequence[tuple[int, bool]], silent: int, k: int, generator: np.random.Generator) -> float:
    import numpy as np

    counts = [count for count, _ in votes] + [silent]
    is_right = np.array([mark for _, mark in votes])
    cast = generator.multivariate_hypergeometric(counts, k, size=MAJORITY_DRAWS)[:, :-1]
    if not cast.size:
        return 0.0
    top = cast.max(axis=1, keepdims=True)
    winners = (cast == top) & (top > 0)
    return float(np.mean((winners & is_right).sum(axis=1) / np.maximum(winners.sum(axis=1), 1)))
