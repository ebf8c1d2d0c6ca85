"""Two runs on the same documents: coverage of the difference's interval, and how often tests find what is not there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import binom

from assay.core.scores import Estimate
from assay.studies.paired.paired_values import CompareOptions, PairedScore
from bench.levels.evaluating import EVALUATIONS, Floats, Rate, comparison_of, comparisons_of, coverage, findings
from bench.levels.scores import cluster_names, clustered_outcomes
from bench.levels.statistics import labels

Pair = tuple[list[Any], list[Any]]
Drawn = Callable[[np.random.Generator, int], Pair]
ALPHA = 0.05
OUTCOME_TESTS = ("exact", "midp", "permutation")


# Outcomes of 0 and 1


def outcomes(generator: np.random.Generator, n: int, discordance: float, difference: float = 0.0) -> Pair:
    """Two runs that disagree on this share of documents; the second is better by this much. Where they agree, ⅗ are
    right."""
    kind, right = generator.random(n), (generator.random(n) < 0.6).astype(np.float64)
    wins = (discordance + difference) / 2
    first = np.where(kind < discordance, (kind >= wins).astype(np.float64), right)
    second = np.where(kind < discordance, (kind < wins).astype(np.float64), right)
    return first.tolist(), second.tolist()


@cache
def _outcome_p(test: str, wins: int, losses: int) -> float:
    """The p that `assay compare` gives; of outcomes it depends on wins and losses alone."""
    first, second = [0.0] * wins + [1.0] * losses + [1.0], [1.0] * wins + [0.0] * losses + [1.0]
    found = comparison_of(first, second, CompareOptions(test=test))
    assert found.p is not None
    return found.p


def exact_level(test: str, n: int, discordance: float) -> float:
    """The probability to find a difference between equal runs, summed over all tables."""
    weights = binom.pmf(np.arange(n + 1), n, discordance)
    return float(sum(w * _level_of(test, count) for count, w in enumerate(weights) if w > 1e-12))


@cache
def _level_of(test: str, discordant: int) -> float:
    """The same with this many discordant documents."""
    # p rises with the rarer of wins and losses, so that bisection finds the first split that is not significant.
    low, high = 0, discordant // 2 + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _outcome_p(test, middle, discordant - middle) < ALPHA else (low, middle)
    return 2 * float(binom.cdf(low - 1, discordant, 0.5)) if low else 0.0


def outcome_rate(
    test: str, n: int, discordance: float, difference: float = 0.0, evaluations: int = EVALUATIONS
) -> Rate:
    """How often a difference is found in simulated comparisons."""

    def finds(generator: np.random.Generator) -> bool:
        first, second = (np.array(side) for side in outcomes(generator, n, discordance, difference))
        return _outcome_p(test, int((second > first).sum()), int((second < first).sum())) < ALPHA

    return findings(f"{test}, {discordance:.0%} discordant, {difference:g}", n, finds, evaluations)


# Other values


def _measured(noise: Callable[[np.random.Generator, int], Floats]) -> Drawn:
    def draw(generator: np.random.Generator, n: int) -> Pair:
        first = generator.normal(size=n)
        return first.tolist(), (first + noise(generator, n)).tolist()

    return draw


def _text_pairs(generator: np.random.Generator, n: int) -> Pair:
    """Log-likelihoods and lengths of the same texts by two models that are equally good."""
    lengths = np.ceil(generator.lognormal(5, 0.8, size=n))
    ease = 1.2 + generator.normal(0, 0.3, size=n)
    sides = [-(ease + generator.normal(0, 0.1, size=n)) * lengths for _ in range(2)]
    return tuple(list(zip(side.tolist(), lengths.tolist(), strict=True)) for side in sides)  # type: ignore[return-value]


def _label_pairs(generator: np.random.Generator, n: int) -> Pair:
    """Right and predicted labels of two models that are each right in 80 %, independently."""
    first = labels(generator, n, 0.3, 0.8)
    right = generator.random(n) < 0.8
    second = [(truth, truth if hit else 1 - truth) for (truth, _), hit in zip(first, right.tolist(), strict=True)]
    return first, second


def _calibrated(generator: np.random.Generator, n: int) -> Pair:
    """Confidences and outcomes of two calibrated models: noise makes the error of the unsure one larger."""
    sides = []
    for low, high in ((0.4, 0.6), (0.95, 1.0)):
        sure = generator.uniform(low, high, size=n)
        sides.append(list(zip(sure.tolist(), (generator.random(n) < sure).astype(float).tolist(), strict=True)))
    return sides[0], sides[1]


# Setting → (test, aggregation, equal runs).
EQUAL: dict[str, tuple[str | None, str, Drawn]] = {
    "sign flips, symmetric differences": (None, "mean", _measured(lambda own, n: own.laplace(size=n))),
    "sign flips, skewed differences": (None, "mean", _measured(lambda own, n: own.exponential(size=n) - 1)),
    "bootstrap of means": ("bootstrap", "mean", _measured(lambda own, n: own.laplace(size=n))),
    "bootstrap of F1": (None, "f1", _label_pairs),
    "bootstrap of MCC": (None, "matthews_corrcoef", _label_pairs),
    "bootstrap of ECE, an unsure and a sure model": (None, "ece", _calibrated),
    "bootstrap of adaptive ECE, the same": (None, "ece_adaptive", _calibrated),
    "sign flips of bits per byte": (None, "bits_per_byte", _text_pairs),
    "sign flips of perplexities per byte": (None, "weighted_perplexity", _text_pairs),
}
PAIR_SIZES = (30, 100)
_SLOW = ("bootstrap of MCC",)


def is_found(score: PairedScore) -> bool:
    return score.outcome not in ("none", "same")


def equal_rate(name: str, n: int, evaluations: int) -> tuple[Rate, Rate]:
    """Of equal runs: how often a difference is found, and how often its interval holds 0."""
    test, aggregation, law = EQUAL[name]
    found: list[bool] = []

    def evaluate(generator: np.random.Generator) -> Estimate:
        score = comparison_of(*law(generator, n), CompareOptions(test=test), aggregation)
        found.append(is_found(score))
        return score.difference

    covered = coverage(name, n, 0.0, evaluate, evaluations)
    return Rate(name, n, float(np.mean(found)), evaluations), covered


def equal_rates(evaluations: int) -> Iterator[tuple[Rate, Rate]]:
    for name in EQUAL:
        for n in PAIR_SIZES[:1] if name in _SLOW else PAIR_SIZES:
            yield equal_rate(name, n, evaluations)


def clustered_rate(clusters: int, evaluations: int = EVALUATIONS) -> tuple[Rate, Rate]:
    """The same for outcomes of 0 and 1 in clusters of five that two runs have right or wrong together."""
    names = cluster_names(clusters)
    found: list[bool] = []

    def evaluate(generator: np.random.Generator) -> Estimate:
        first, second = (clustered_outcomes(generator, clusters, 0.7).tolist() for _ in range(2))
        score = comparison_of(first, second, clusters=names)
        found.append(is_found(score))
        return score.difference

    name = f"sign flips of {clusters} clusters"
    covered = coverage(name, len(names), 0.0, evaluate, evaluations)
    return Rate(name, len(names), float(np.mean(found)), evaluations), covered


def clustered_rates(evaluations: int) -> Iterator[tuple[Rate, Rate]]:
    for clusters in (10, 20, 50):
        yield clustered_rate(clusters, evaluations)


# The interval of a difference


def difference_coverage(
    test: str, n: int, discordance: float, difference: float, evaluations: int = EVALUATIONS
) -> Rate:
    """How often the interval of two proportions that differ by this much contains the difference."""

    def evaluate(generator: np.random.Generator) -> Estimate:
        first, second = (np.array(side) for side in outcomes(generator, n, discordance, difference))
        return _outcome_difference(test, int((second > first).sum()), int((second < first).sum()), n)

    name = f"{test}, {discordance:.0%} discordant, difference {difference:g}"
    return coverage(name, n, difference, evaluate, evaluations)


@cache
def _outcome_difference(test: str, wins: int, losses: int, n: int) -> Estimate:
    """The difference as `assay compare` gives it; of outcomes it depends on these counts alone."""
    same = [1.0] * (n - wins - losses)
    first, second = [0.0] * wins + [1.0] * losses + same, [1.0] * wins + [0.0] * losses + same
    return comparison_of(first, second, CompareOptions(test=test)).difference


def difference_coverages(evaluations: int) -> Iterator[Rate]:
    for test in ("exact", "midp"):
        for discordance, difference in ((0.1, 0.0), (0.1, 0.05), (0.1, 0.1), (0.3, 0.0), (0.3, 0.1), (0.3, 0.25)):
            for n in (30, 100, 1000):
                yield difference_coverage(test, n, discordance, difference, evaluations)


def _with_equals(generator: np.random.Generator, n: int) -> Pair:
    """Values of which three in ten differ at all, by 0.2 on average."""
    first = generator.random(n)
    moved = np.where(generator.random(n) < 0.3, generator.normal(0.2, 0.3, size=n), 0.0)
    return first.tolist(), (first + moved).tolist()


def _worse_texts(generator: np.random.Generator, n: int) -> Pair:
    """Texts whose log-likelihood per byte is lower by 0.05 in the second."""
    first, second = _text_pairs(generator, n)
    return first, [(sum_ - 0.05 * length, length) for sum_, length in second]


# Setting → (aggregation, true difference, runs).
DIFFERENT: dict[str, tuple[str, float, Drawn]] = {
    "symmetric differences, 0.5": ("mean", 0.5, _measured(lambda own, n: own.laplace(0.5, size=n))),
    "skewed differences, 0.5": ("mean", 0.5, _measured(lambda own, n: own.exponential(size=n) - 0.5)),
    "three in ten differ, 0.06": ("mean", 0.06, _with_equals),
    "bits per byte, 0.05 nats": ("bits_per_byte", 0.05 / math.log(2), _worse_texts),
}


def different_coverages(evaluations: int) -> Iterator[Rate]:
    for name, (aggregation, truth, law) in DIFFERENT.items():
        for n in PAIR_SIZES:
            yield coverage(name, n, truth, _differing(aggregation, law, n), evaluations)


def _differing(aggregation: str, law: Drawn, n: int) -> Callable[[np.random.Generator], Estimate]:
    return lambda generator: comparison_of(*law(generator, n), aggregation=aggregation).difference


# Many tests, margins, power


def any_finding(tasks: int, n: int, correction: str = "holm", evaluations: int = EVALUATIONS) -> Rate:
    """How often any of several tasks shows a difference between equal runs, after correction."""

    def finds(generator: np.random.Generator) -> bool:
        values = [outcomes(generator, n, 0.3) for _ in range(tasks)]
        return any(map(is_found, comparisons_of(values, CompareOptions(correction=correction, test="midp"))))

    return findings(f"{tasks} tasks, {correction}", n, finds, evaluations)


def margin_rate(n: int, discordance: float, difference: float, evaluations: int = EVALUATIONS) -> Rate:
    """How often two runs that differ by this much are called equivalent within 5 points."""
    options = CompareOptions(margin=0.05)

    def finds(generator: np.random.Generator) -> bool:
        margin = comparison_of(*outcomes(generator, n, discordance, difference), options).margin
        return margin is not None and margin.is_equivalent

    return findings(f"{discordance:.0%} discordant, difference {difference:g}", n, finds, evaluations)


def shown_effect(n: int, discordance: float) -> float:
    """The difference that n documents show with 80 % power, as `assay compare` reports it."""
    wins = round(n * discordance / 2)
    first, second = [0.0] * wins + [1.0] * (n - wins), [1.0] * wins + [0.0] * wins + [1.0] * (n - 2 * wins)
    found = comparison_of(first, second)
    return math.nan if found.detectable is None else found.detectable
