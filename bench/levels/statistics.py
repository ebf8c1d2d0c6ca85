"""Coverage of the intervals of scores that are not means: ratios, F1, correlation, medians, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from bench.levels.evaluating import EVALUATIONS, Floats, Rate, coverage, score_of

Drawn = Callable[[np.random.Generator, int], list[Any]]
SIZES = (30, 100, 1000)
# Redrawn thousands of times in every evaluation.
RESAMPLED_SIZES = (30, 100)


# Perplexities and other ratios


def _texts(generator: np.random.Generator, n: int) -> list[Any]:
    """Log-likelihoods and lengths of texts: lengths are skewed, and longer texts are easier per byte."""
    return [tuple(row) for row in _text_rows(generator, n).tolist()]


def _text_rows(generator: np.random.Generator, n: int) -> Floats:
    lengths = np.ceil(generator.lognormal(5, 0.8, size=n))
    rates = 1.2 - 0.05 * (np.log(lengths) - 5) + generator.normal(0, 0.3, size=n)
    return np.stack([-rates * lengths, lengths], axis=1)


@cache
def _nats() -> float:
    """Nats per byte over all texts there might be: over five million of them."""
    rows = _text_rows(np.random.default_rng(1), 5_000_000)
    return float(-rows[:, 0].sum() / rows[:, 1].sum())


def _likelihoods(generator: np.random.Generator, n: int) -> list[Any]:
    """Log-likelihoods of answers: a skewed law with a mean of −2."""
    return list((-generator.gamma(2, size=n)).tolist())


def ratio_coverages(evaluations: int) -> Iterator[Rate]:
    settings: dict[str, tuple[str, Callable[[], float], Drawn]] = {
        "perplexity of answers": ("perplexity", lambda: math.exp(2.0), _likelihoods),
        "perplexity per byte": ("weighted_perplexity", lambda: math.exp(_nats()), _texts),
        "bits per byte": ("bits_per_byte", lambda: _nats() / math.log(2), _texts),
    }
    for name, (aggregation, truth, law) in settings.items():
        for n in SIZES:
            yield _coverage(name, aggregation, n, truth(), law, evaluations)


def _coverage(name: str, aggregation: str, n: int, truth: float, law: Drawn, evaluations: int) -> Rate:
    return coverage(name, n, truth, lambda generator: score_of(aggregation, law(generator, n)), evaluations)


# Right and predicted labels


def labels(generator: np.random.Generator, n: int, share: float, right: float) -> list[Any]:
    """(right label, predicted label): label 1 in this share, predicted correctly with this probability."""
    truth = generator.random(n) < share
    picked = truth == (generator.random(n) < right)
    return list(zip(truth.astype(float).tolist(), picked.astype(float).tolist(), strict=True))


def f1_truth(share: float, right: float) -> float:
    return 2 * share * right / (share + share * right + (1 - share) * (1 - right))


def matthews_truth(share: float, right: float) -> float:
    picked = share * right + (1 - share) * (1 - right)
    return (share * right - share * picked) / math.sqrt(share * (1 - share) * picked * (1 - picked))


def kappa_truth(share: float, right: float) -> float:
    picked = share * right + (1 - share) * (1 - right)
    chance = share * picked + (1 - share) * (1 - picked)
    return (right - chance) / (1 - chance)


LABELS = {"f1": f1_truth, "matthews_corrcoef": matthews_truth, "cohen_kappa": kappa_truth}


def label_coverage(aggregation: str, how: tuple[float, float], n: int, evaluations: int = EVALUATIONS) -> Rate:
    name = f"{aggregation}, label 1 in {how[0]:.0%}, {how[1]:.0%} right"
    law = _labelled(how)
    return _coverage(name, aggregation, n, LABELS[aggregation](*how), law, evaluations)


def _labelled(how: tuple[float, float]) -> Drawn:
    return lambda generator, n: labels(generator, n, *how)


def label_coverages(evaluations: int) -> Iterator[Rate]:
    for aggregation in LABELS:
        for how in ((0.5, 0.8), (0.2, 0.9)):
            for n in RESAMPLED_SIZES:
                yield label_coverage(aggregation, how, n, evaluations)


def median_coverages(evaluations: int) -> Iterator[Rate]:
    for n in RESAMPLED_SIZES:
        law = lambda generator, size: generator.lognormal(size=size).tolist()  # noqa: E731
        yield _coverage("median of log-normal values", "median_of_known", n, 1.0, law, evaluations)


# Confidence against hits


def confident(generator: np.random.Generator, n: int, slope: float) -> list[Any]:
    """(confidence, hit): confidence uniform from .5 to 1; right with ¾ + slope · (confidence − ¾)."""
    sure = 0.5 + generator.random(n) / 2
    hit = generator.random(n) < 0.75 + slope * (sure - 0.75)
    return list(zip(sure.tolist(), hit.astype(float).tolist(), strict=True))


def calibration_truth(aggregation: str, slope: float) -> float:
    """Mean distance of a bin's middle from ¾, times |1 − slope|: five bins of width .1, or ten of equal mass."""
    bins = 5 if aggregation == "ece" else 10
    middles = 0.5 + (np.arange(bins) + 0.5) / (2 * bins)
    return float(np.mean(np.abs(middles - 0.75)) * abs(1 - slope))


def calibration_coverages(evaluations: int) -> Iterator[Rate]:
    for aggregation in ("ece", "ece_adaptive"):
        for slope, described in ((0.0, "far off"), (1.0, "calibrated")):
            truth = calibration_truth(aggregation, slope)
            for n in RESAMPLED_SIZES:
                law = _confident(aggregation, slope)
                yield _coverage(f"{aggregation}, {described} ({truth:.3f})", aggregation, n, truth, law, evaluations)


def _confident(aggregation: str, slope: float) -> Drawn:
    if aggregation != "selective_acc":
        return lambda generator, n: confident(generator, n, slope)
    return lambda generator, n: [(sure, hit, 0.8) for sure, hit in confident(generator, n, slope)]


def confidence_truth(aggregation: str) -> float:
    """Closed forms for calibrated confidences c, uniform from .5 to 1."""
    if aggregation == "selective_acc":
        return 0.8  # the surest 80 % are those from .6 on
    if aggregation == "aurc":
        return 0.125  # the surest share s has a mean of 1 − s/4
    # P(a hit is surer than a miss): ∫∫ over c > d of c(1 − d), over ¾ · ¼, in units of (½)²; by parts 17/27.
    steps = 0.5 + (np.arange(20_000) + 0.5) / 40_000
    missed = np.cumsum(1 - steps) - (1 - steps) / 2
    return float((steps * missed).sum() / (steps.sum() * (1 - steps).sum()))


def confidence_coverages(evaluations: int) -> Iterator[Rate]:
    for aggregation in ("auroc", "aurc", "selective_acc"):
        for n in RESAMPLED_SIZES:
            truth = confidence_truth(aggregation)
            yield _coverage(aggregation, aggregation, n, truth, _confident(aggregation, 1.0), evaluations)
