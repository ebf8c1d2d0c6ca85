"""Coverage of the intervals of scores: shares, other means, clusters, groups, draws, samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from scipy.stats import binom

from assay.core.results import TaskResult
from assay.core.scores import Denominators, Estimate, MetricResult
from assay.core.specs import GroupMetricSpec, GroupSpec, TaskCard
from assay.scoring.aggregate import aggregate_groups
from assay.stats.pass_at_k import pass_at_k
from assay.stats.sampling import difference_estimate, finite_estimate
from bench.levels.evaluating import EVALUATIONS, Floats, Rate, coverage, generator_of, score_of

SIZES = (30, 100, 1000)
SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))
Law = Callable[[np.random.Generator, int], Floats]


# Shares of right answers


@cache
def share_intervals(n: int) -> Floats:
    """The reported interval of every possible number of right answers, as rows (low, high)."""
    found = [score_of("mean", [1.0] * right + [0.0] * (n - right)) for right in range(n + 1)]
    return np.array([(estimate.low, estimate.high) for estimate in found], dtype=np.float64)


def exact_share_coverage(n: int, share: float) -> float:
    """The probability that the interval holds the share, summed over all numbers of right answers."""
    return _exact_coverage(share_intervals(n), share)


def coverage_range(method: str, n: int) -> tuple[float, float]:
    """Lowest and highest exact coverage at the same shares of an interval of statsmodels."""
    from statsmodels.stats.proportion import proportion_confint

    ends = np.stack(proportion_confint(np.arange(n + 1), n, 0.05, method), axis=1)
    found = [_exact_coverage(ends, share) for share in SHARES]
    return min(found), max(found)


def _exact_coverage(ends: Floats, share: float) -> float:
    n = len(ends) - 1
    inside = (ends[:, 0] <= share) & (share <= ends[:, 1])
    return float(binom.pmf(np.arange(n + 1), n, share)[inside].sum())


def share_coverage(n: int, share: float, evaluations: int = EVALUATIONS) -> Rate:
    """The same in simulated evaluations, document by document. The interval depends on how many are right alone."""
    generator, ends = generator_of("share", share, n), share_intervals(n)
    right = (generator.random((evaluations, n)) < share).sum(axis=1)
    inside = (ends[right, 0] <= share) & (share <= ends[right, 1])
    return Rate(f"p = {share:.2f}", n, float(inside.mean()), evaluations)


# Means of other values


def _f1_like(generator: np.random.Generator, n: int) -> Floats:
    """Scores of spans or overlaps: 3 in 10 are 0, 3 are 1, the rest is between."""
    kind, between = generator.random(n), generator.random(n)
    return np.where(kind < 0.3, 0.0, np.where(kind < 0.6, 1.0, between))


def _mostly_zero(generator: np.random.Generator, n: int) -> Floats:
    return np.where(generator.random(n) < 0.9, 0.0, generator.random(n))


MEAN_AGGREGATIONS: dict[str, tuple[float, Law]] = {
    "uniform from 0 to 1": (0.5, lambda generator, n: generator.random(n)),
    "0, 1 and between, as F1 of answers": (0.5, _f1_like),
    "9 of 10 are 0, the rest from 0 to 1": (0.05, _mostly_zero),
    "exponential": (1.0, lambda generator, n: generator.exponential(size=n)),
    "log-normal, σ = 1": (math.exp(0.5), lambda generator, n: generator.lognormal(size=n)),
}


def mean_coverage(name: str, n: int, evaluations: int = EVALUATIONS) -> Rate:
    truth, law = MEAN_AGGREGATIONS[name]
    return coverage(name, n, truth, lambda generator: score_of("mean", law(generator, n).tolist()), evaluations)


def mean_coverages(evaluations: int) -> Iterator[Rate]:
    for name in MEAN_AGGREGATIONS:
        for n in SIZES:
            yield mean_coverage(name, n, evaluations)


# Clusters

_IN_CLUSTER, _ALIKE = 5, 0.3


def clustered_outcomes(generator: np.random.Generator, clusters: int, share: float) -> Floats:
    """Outcomes of clusters of five, each with a share of its own; outcomes of one cluster correlate by .3."""
    strength = 1 / _ALIKE - 1
    own = generator.beta(share * strength, (1 - share) * strength, size=clusters)
    return (generator.random((clusters, _IN_CLUSTER)) < own[:, None]).astype(np.float64).reshape(-1)


def cluster_names(clusters: int) -> list[str]:
    return [str(place // _IN_CLUSTER) for place in range(clusters * _IN_CLUSTER)]


def clustered_coverage(clusters: int, share: float, evaluations: int = EVALUATIONS) -> Rate:
    names = cluster_names(clusters)

    def evaluate(generator: np.random.Generator) -> Estimate:
        return score_of("mean", clustered_outcomes(generator, clusters, share).tolist(), names)

    return coverage(f"p = {share:.2f}", clusters, share, evaluate, evaluations)


def clustered_coverages(evaluations: int) -> Iterator[Rate]:
    for share in (0.5, 0.8, 0.9, 0.95):
        for clusters in (10, 20, 50, 200):
            yield clustered_coverage(clusters, share, evaluations)


# Groups


def group_coverage(shares: tuple[float, ...], n: int, evaluations: int = EVALUATIONS) -> Rate:
    """A group that counts its leaf tasks alike, each with n documents and a share of its own."""
    names = tuple(f"leaf{place}" for place in range(len(shares)))
    group = GroupSpec("group", "group", names, (GroupMetricSpec("acc", weight_by_size=False),))

    def evaluate(generator: np.random.Generator) -> Estimate:
        tasks = []
        for name, share in zip(names, shares, strict=True):
            own = score_of("mean", (generator.random(n) < share).astype(float).tolist())
            card = TaskCard(name, 1, name, "multiple_choice", 0, {}, "simulated")
            tasks.append(TaskResult(card, (MetricResult("acc", "none", own, True),), Denominators(n, n, n), "", ""))
        (found,) = aggregate_groups([group], tasks)
        return found.metrics[0].estimate

    described = ", ".join(f"{share:g}" for share in shares) if len(set(shares)) > 1 else f"{shares[0]:g} each"
    return coverage(f"{len(shares)} leaves with {described}", n, sum(shares) / len(shares), evaluate, evaluations)


def group_coverages(evaluations: int) -> Iterator[Rate]:
    for shares in ((0.3, 0.5, 0.7), (0.9, 0.95, 0.98), (0.25,) * 10):
        for n in (30, 100):
            yield group_coverage(shares, n, evaluations)


# Draws

_DRAWS = 10


def draws_coverage(name: str, skill: tuple[float, float], n: int, evaluations: int = EVALUATIONS) -> Rate:
    """pass@5 from ten draws of each document, whose chance to be solved has a beta law."""
    table = np.array([pass_at_k(_DRAWS, right, 5) for right in range(_DRAWS + 1)], dtype=np.float64)

    def values(generator: np.random.Generator, count: int) -> Floats:
        return table[generator.binomial(_DRAWS, generator.beta(*skill, size=count))]

    # 1 − E(1 − p)⁵ of a beta law.
    a, b = skill
    truth = 1 - math.prod((b + step) / (a + b + step) for step in range(5))
    return coverage(name, n, truth, lambda own: score_of("draws", values(own, n).tolist()), evaluations)


def draws_coverages(evaluations: int) -> Iterator[Rate]:
    for name, skill in {"pass@5, half solved": (0.5, 0.5), "pass@5, few solved": (0.1, 2.0)}.items():
        for n in SIZES:
            yield draws_coverage(name, skill, n, evaluations)


# Samples of a task, with and without a reference run

_TASK = 1000


def sample_coverage(n: int, has_reference: bool, is_binary: bool, evaluations: int = EVALUATIONS) -> Rate:
    """What a full run on 1,000 documents would score, from a sample of n. A new task and reference every time."""

    def evaluate(generator: np.random.Generator) -> Estimate:
        ease = generator.beta(2, 1, size=_TASK)
        own, other = (generator.random((2, _TASK)) < ease).astype(np.float64)
        if not is_binary:
            own, other = (own + ease) / 2, (other + ease) / 2
        places = generator.permutation(_TASK)[:n].tolist()
        chosen = {place: float(own[place]) for place in places}
        found = (
            difference_estimate(other.tolist(), chosen)
            if has_reference
            else finite_estimate(list(chosen.values()), _TASK)
        )
        return _moved(found, float(own.mean()))

    kind = "0 and 1" if is_binary else "from 0 to 1"
    name = f"{kind}, {'with' if has_reference else 'without'} a reference"
    return coverage(name, n, 0.0, evaluate, evaluations)


def _moved(found: Estimate, truth: float) -> Estimate:
    """The estimate less the truth, which differs from one task to the next."""
    if found.low is None or found.high is None:
        return found
    return Estimate(0.0, found.stderr, found.low - truth, found.high - truth, found.n, found.method)


def sample_coverages(evaluations: int) -> Iterator[Rate]:
    for is_binary in (True, False):
        for has_reference in (False, True):
            for n in (30, 100, 300):
                yield sample_coverage(n, has_reference, is_binary, evaluations)
