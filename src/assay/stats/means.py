"""Means, proportions and ratios of sums, each with standard error and a suitable confidence interval.

The Wilson interval for proportions, because the normal interval covers 40 to 90 % instead of 95 % near 0 and 1; the
same, with the effective sample size that the standard error implies, for other values from 0 to 1; Student's t for
other means; the delta method for ratios of sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

from assay.core.scores import Estimate

LEVEL = 0.95
# Rounding error of a standard error of 0, relative to the value.
_TOLERANCE = 1e-12


def normal_quantile(level: float = LEVEL) -> float:
    """Normal quantile: half-width of a two-sided interval in standard errors."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def t_quantile(degrees: float, level: float = LEVEL) -> float:
    """The same for Student's t distribution."""
    from scipy.special import stdtrit  # imported here: importing scipy takes longer than a small run

    return float(stdtrit(degrees, 0.5 + level / 2))


def empty_estimate(method: str) -> Estimate:
    """The estimate on no documents: None, never zero."""
    return Estimate(None, None, None, None, n=0, method=method, level=LEVEL)


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean: sample standard deviation over √n; None below two values."""
    n = len(values)
    if n < 2:
        return None
    try:
        mean = math.fsum(values) / n
        return math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / (n - 1)) / math.sqrt(n)
    except ValueError:  # infinities of both signs
        return math.nan
    except OverflowError:  # squares of extreme perplexities
        largest = max(map(abs, values))
        return largest * (standard_error([value / largest for value in values]) or 0.0)


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean. Wilson interval for 0/1 values, Wilson-t interval for values from 0 to 1, Student's t otherwise."""
    data = [float(value) for value in values]
    if data and set(data) <= {0.0, 1.0}:
        low, high = wilson_interval(sum(data), len(data))
        return Estimate(
            sum(data) / len(data), standard_error(data), low, high, n=len(data), method="wilson", level=LEVEL
        )
    return _measured(data, may_be_share=True)


def measured_estimate(values: Sequence[float]) -> Estimate:
    """The mean of values that are no shares, with Student's t interval, even if all happen to be from 0 to 1."""
    return _measured([float(value) for value in values])


def _measured(data: Sequence[float], may_be_share: bool = False) -> Estimate:
    """The mean with Student's t interval; with the Wilson-t interval if allowed and all values are from 0 to 1."""
    if len(data) == 0:
        return empty_estimate("t")
    if not all(map(math.isfinite, data)):
        return infinite_estimate(data, "t")
    mean, error = _mean(data), standard_error(data)
    if error is None or min(data) == max(data):  # equal values do not allow an estimate of the error
        return Estimate(mean, None, None, None, n=len(data), method="t", level=LEVEL)
    if may_be_share and is_bounded(data):
        ends = bounded_interval(mean, error, len(data) - 1)
        return Estimate(mean, error, *ends, n=len(data), method="wilson-t", level=LEVEL)
    half_width = t_quantile(len(data) - 1) * error
    return Estimate(mean, error, mean - half_width, mean + half_width, n=len(data), method="t", level=LEVEL)


def infinite_estimate(data: Sequence[float], method: str) -> Estimate:
    """The mean of values of which some are not finite, such as a likelihood of 0: infinite, or None."""
    signs = {value for value in data if not math.isfinite(value)}
    value = signs.pop() if len(signs) == 1 else math.nan
    return Estimate(None if math.isnan(value) else value, None, None, None, n=len(data), method=method, level=LEVEL)


def _mean(data: Sequence[float]) -> float:
    try:
        return math.fsum(data) / len(data)
    except OverflowError:
        return math.fsum([value / len(data) for value in data])


def is_rounding_error(error: float, value: float) -> bool:
    """Whether a standard error is 0 up to rounding."""
    return error <= _TOLERANCE * abs(value)


def wilson_interval(successes: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Wilson score interval for a proportion."""
    low, high = _wilson(successes / n, n, normal_quantile(level))
    # Exactly 0 and 1 at the ends, where rounding would leave a tiny gap.
    return low if successes > 0 else 0.0, high if successes < n else 1.0


def exact_interval(successes: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Clopper-Pearson (exact) interval for a proportion: coverage is at least its level, and mostly well above it.

    Counts need not be whole numbers, since those of weighted documents are not.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return low, high


def is_bounded(data: Sequence[float]) -> bool:
    """Whether every value is from 0 to 1."""
    return min(data) >= 0.0 and max(data) <= 1.0


def bounded_interval(mean: float, error: float, degrees: float) -> tuple[float, float]:
    """Wilson-t interval for the mean of values from 0 to 1, or of clustered outcomes, from its standard error.

    The Wilson interval with Student's quantile and the effective sample size m(1 − m)/error², the number of independent
    0/1 outcomes with the same standard error. The standard error of few values near 0 or 1 is too small just when the
    mean is too, which Student's t ignores: with 9 of 10 values 0 on 100 documents it covers 91 %, this one 94 %. It
    never leaves the range from 0 to 1.

    Args:
        mean: from 0 to 1.
        error: its standard error.
        degrees: degrees of freedom: documents, or clusters, minus one.
    """
    if error == 0 or not 0 < mean < 1:  # a mean that rounds to 1 leaves a tiny error
        return mean, mean
    return _wilson(mean, mean * (1 - mean) / error / error, t_quantile(degrees))


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half_width = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    return max(0.0, centre - half_width), min(1.0, centre + half_width)


def perplexity_estimate(log_probabilities: Sequence[float]) -> Estimate:
    """Perplexity exp(−mean), with the exponential of the mean's interval."""
    return exponential(above_zero(_measured([-float(value) for value in log_probabilities]), log_probabilities))


def ratio_estimate(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Ratio of sums Σa/Σb, with the delta-method standard error from the residuals a − r·b."""
    top, bottom = [float(value) for value in numerators], [float(value) for value in denominators]
    total = math.fsum(bottom)
    n = len(top)
    if n == 0 or total == 0:
        return empty_estimate("delta")
    if not all(map(math.isfinite, top)):
        return infinite_estimate(top, "delta")
    ratio = math.fsum(top) / total
    if n == 1:
        return Estimate(ratio, None, None, None, n=1, method="delta", level=LEVEL)
    squares = math.fsum([(a - ratio * b) ** 2 for a, b in zip(top, bottom, strict=True)])
    error = math.sqrt(n / (n - 1) * squares) / abs(total)
    if is_rounding_error(error, ratio):
        return Estimate(ratio, None, None, None, n=n, method="delta", level=LEVEL)
    half_width = t_quantile(n - 1) * error
    return Estimate(ratio, error, ratio - half_width, ratio + half_width, n=n, method="delta", level=LEVEL)


def share_estimate(parts: Sequence[float], wholes: Sequence[float]) -> Estimate:
    """Ratio of sums Σa/Σb with every a from 0 to b, such as instructions followed of those given."""
    return as_share(ratio_estimate(parts, wholes), parts, wholes, len(parts))


def as_share(found: Estimate, parts: Sequence[float], wholes: Sequence[float], units: int) -> Estimate:
    """A ratio with an interval that stays within 0 and 1: Wilson-t from its standard error.

    If every part is 0 or every part is its whole, it is the Wilson interval of one outcome per unit, as for equal 0/1
    values.

    Args:
        found: the ratio.
        parts: one per document.
        wholes: one per document.
        units: documents, or clusters.
    """
    if found.value is None or not all(0 <= part <= whole for part, whole in zip(parts, wholes, strict=True)):
        return found
    if found.stderr:
        low, high = bounded_interval(found.value, found.stderr, units - 1)
        method = "delta-wilson" if found.clusters is None else "clustered-delta-wilson"
        return replace(found, low=low, high=high, method=method)
    if any(parts) and list(parts) != list(wholes):
        return found
    low, high = wilson_interval(units * round(found.value), units)
    return replace(found, stderr=0.0 if units > 1 else None, low=low, high=high, method="wilson")


def ratio_perplexity_estimate(log_probabilities: Sequence[float], weights: Sequence[float]) -> Estimate:
    """Perplexity per word or byte, exp(−Σa/Σb)."""
    return exponential(nats_estimate(log_probabilities, weights))


def nats_estimate(log_probabilities: Sequence[float], weights: Sequence[float]) -> Estimate:
    """Cross-entropy in nats, −Σa/Σb."""
    return above_zero(negated(ratio_estimate(log_probabilities, weights)), log_probabilities)


def bits_estimate(log_probabilities: Sequence[float], weights: Sequence[float]) -> Estimate:
    """Bits per byte, −(Σa/Σb)/ln 2."""
    return scaled(nats_estimate(log_probabilities, weights), 1 / math.log(2))


def above_zero(nats: Estimate, log_probabilities: Sequence[float]) -> Estimate:
    """A cross-entropy with its interval cut at 0, since no probability exceeds 1; unchanged for densities."""
    if nats.low is None or any(value > 0 for value in log_probabilities):
        return nats
    return replace(nats, low=max(0.0, nats.low))


def exponential(inner: Estimate) -> Estimate:
    """exp of an estimate: the ends are transformed, the standard error is multiplied by the slope."""
    if inner.value is None:
        return inner
    value = perplexity_of(inner.value)
    if math.isinf(value):
        return Estimate(
            value, None, None, None, n=inner.n, method="log-" + inner.method, level=inner.level, clusters=inner.clusters
        )
    error = None if inner.stderr is None else value * inner.stderr
    low = None if inner.low is None else perplexity_of(inner.low)
    high = None if inner.high is None else perplexity_of(inner.high)
    return Estimate(
        value, error, low, high, n=inner.n, method="log-" + inner.method, level=inner.level, clusters=inner.clusters
    )


def perplexity_of(value: float) -> float:
    """exp of a mean negative log-likelihood."""
    # A document of likelihood 0 gives an infinite perplexity, not a crash.
    return math.exp(value) if value < 709.0 else math.inf


def negated(inner: Estimate) -> Estimate:
    """The negative of an estimate."""
    return scaled(inner, -1.0)


def scaled(inner: Estimate, factor: float) -> Estimate:
    """An estimate times a constant."""
    if inner.value is None:
        return inner
    error = None if inner.stderr is None else abs(factor) * inner.stderr
    ends = sorted(factor * end for end in (inner.low, inner.high) if end is not None)
    low, high = ends if len(ends) == 2 else (None, None)
    return Estimate(
        factor * inner.value,
        error,
        low,
        high,
        n=inner.n,
        method=inner.method,
        level=inner.level,
        clusters=inner.clusters,
    )
