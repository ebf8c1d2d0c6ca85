"""Means, proportions and ratios of sums, each with standard error and an interval fitted to the data.

Wilson's interval for proportions, because the normal one covers 40 to 90 % instead of 95 % near 0 and 1;
Student's t for other means; the delta method for ratios of sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from assay.core.scores import Estimate

LEVEL = 0.95


def normal_quantile(level: float = LEVEL) -> float:
    """How many standard errors a two-sided interval of this level reaches."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def t_quantile(degrees: int, level: float = LEVEL) -> float:
    """The same under Student's t."""
    from scipy.special import stdtrit  # imported here: scipy costs more to import than a small run takes

    return float(stdtrit(degrees, 0.5 + level / 2))


def nothing(method: str) -> Estimate:
    """The estimate on no documents: nulls, never a zero."""
    return Estimate(None, None, None, None, 0, method, LEVEL)


def standard_error(values: Sequence[float]) -> float | None:
    """Sample standard deviation over the root of n; None below two values."""
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / (n - 1)) / math.sqrt(n)


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean. Wilson's interval when every value is 0 or 1, Student's t otherwise."""
    data = [float(value) for value in values]
    if data and set(data) <= {0.0, 1.0}:
        low, high = wilson_interval(sum(data), len(data))
        return Estimate(sum(data) / len(data), standard_error(data), low, high, len(data), "wilson", LEVEL)
    return _measured(data)


def _measured(data: Sequence[float]) -> Estimate:
    """The mean of measurements, with Student's interval."""
    if len(data) == 0:
        return nothing("t")
    mean, error = math.fsum(data) / len(data), standard_error(data)
    if error is None or _tells_nothing(error, len(data)):
        return Estimate(mean, None, None, None, len(data), "t", LEVEL)
    reach = t_quantile(len(data) - 1) * error
    return Estimate(mean, error, mean - reach, mean + reach, len(data), "t", LEVEL)


def _tells_nothing(error: float, n: int) -> bool:
    """Two equal measurements say nothing of how far a third would lie from them."""
    return n == 2 and error == 0


def wilson_interval(successes: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's score interval for a proportion."""
    z = normal_quantile(level)
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    # Exactly 0 and 1 at the ends, where rounding would leave a hair's breadth on either side.
    low = max(0.0, centre - reach) if successes > 0 else 0.0
    high = min(1.0, centre + reach) if successes < n else 1.0
    return low, high


def perplexity_estimate(log_probabilities: Sequence[float]) -> Estimate:
    """exp(−mean). The interval is that of the mean, carried through the exponential."""
    return exponential(_measured([-float(value) for value in log_probabilities]))


def ratio_estimate(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Σa/Σb. Error by the delta method: the residuals a − r·b, document by document."""
    top, bottom = [float(value) for value in numerators], [float(value) for value in denominators]
    total = math.fsum(bottom)
    n = len(top)
    if n == 0 or total == 0:
        return nothing("delta")
    ratio = math.fsum(top) / total
    if n == 1:
        return Estimate(ratio, None, None, None, 1, "delta", LEVEL)
    squares = math.fsum([(a - ratio * b) ** 2 for a, b in zip(top, bottom, strict=True)])
    error = math.sqrt(n / (n - 1) * squares) / abs(total)
    if _tells_nothing(error, n):
        return Estimate(ratio, None, None, None, n, "delta", LEVEL)
    reach = t_quantile(n - 1) * error
    return Estimate(ratio, error, ratio - reach, ratio + reach, n, "delta", LEVEL)


def ratio_perplexity_estimate(log_probabilities: Sequence[float], weights: Sequence[float]) -> Estimate:
    """exp(−Σa/Σb), the perplexity per word or byte."""
    return exponential(negated(ratio_estimate(log_probabilities, weights)))


def nats_estimate(log_probabilities: Sequence[float], weights: Sequence[float]) -> Estimate:
    """−Σa/Σb, the cross-entropy in nats."""
    return negated(ratio_estimate(log_probabilities, weights))


def bits_estimate(log_probabilities: Sequence[float], weights: Sequence[float]) -> Estimate:
    """−(Σa/Σb)/ln 2, bits per byte."""
    return scaled(negated(ratio_estimate(log_probabilities, weights)), 1 / math.log(2))


def exponential(inner: Estimate) -> Estimate:
    """exp of an estimate: ends are carried over, the error is multiplied by the slope."""
    if inner.value is None:
        return inner
    value = perplexity_of(inner.value)
    error = None if inner.stderr is None or math.isinf(value) else value * inner.stderr
    low = None if inner.low is None else perplexity_of(inner.low)
    high = None if inner.high is None else perplexity_of(inner.high)
    return Estimate(value, error, low, high, inner.n, "log-" + inner.method, inner.level, inner.clusters)


def perplexity_of(value: float) -> float:
    """exp of a mean negative log-likelihood."""
    # A document of hopeless likelihood gives an infinite perplexity, not a crash.
    return math.exp(value) if value < 709.0 else math.inf


def negated(inner: Estimate) -> Estimate:
    """An estimate with its sign turned."""
    return scaled(inner, -1.0)


def scaled(inner: Estimate, factor: float) -> Estimate:
    """An estimate times a number."""
    if inner.value is None:
        return inner
    error = None if inner.stderr is None else abs(factor) * inner.stderr
    ends = sorted(factor * end for end in (inner.low, inner.high) if end is not None)
    low, high = ends if len(ends) == 2 else (None, None)
    return Estimate(factor * inner.value, error, low, high, inner.n, inner.method, inner.level, inner.clusters)
