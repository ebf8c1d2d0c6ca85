"""Subsampling: nested random samples, finite-population estimates, and a reference run as a control variate."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.inputs import is_binary
from assay.stats.means import (
    LEVEL,
    bounded_interval,
    empty_estimate,
    infinite_estimate,
    is_bounded,
    is_rounding_error,
    standard_error,
    t_quantile,
    wilson_interval,
)
from assay.stats.paired import newcombe_interval


def nested_sample(n: int, total: int, seed: int | bytes) -> tuple[int, ...]:
    """A random sample of n of `total` indices, in ascending order; samples of the same seed are nested.

    Indices are ordered by digests of seed and index, so that the sample does not depend on any library's generator.

    Args:
        n: sample size; everything if there are no more.
        total: number of indices to choose from.
        seed: a number, or bytes such as a dataset's digest.
    """
    if n < 0 or total < 0:
        raise DataError(Fault("sample", f"{n} of {total} documents", "numbers of 0 or more"))
    return tuple(sorted(random_order(total, seed)[:n]))


def random_order(total: int, seed: int | bytes) -> tuple[int, ...]:
    """All indices in random order: the first n are the nested sample of size n."""
    head = seed if isinstance(seed, bytes) else str(seed).encode()
    key = hashlib.sha256(head).digest()
    ranked = sorted(
        range(total), key=lambda index: hashlib.blake2b(str(index).encode(), digest_size=16, key=key).digest()
    )
    return tuple(ranked)


def finite_estimate(values: Sequence[float], total: int) -> Estimate:
    """Finite-population mean over all `total` documents, of which these are a simple random sample.

    The standard error of a mean times √(1 − n/N), which is 0 when all were evaluated (Cochran 1977, Sampling
    Techniques, 2.6). 0/1 outcomes have the Wilson interval of n·(N − 1)/(N − n) documents, other values from 0 to 1 the
    Wilson-t interval (`means.bounded_interval`); evaluated documents are known, so neither leaves the range that the
    rest can still produce. Valid whatever the clustering of the documents, because documents were sampled and not
    clusters; it does not extend to documents other than the task's.
    """
    data, n = [float(value) for value in values], len(values)
    if n > total:
        raise DataError(Fault("sample", f"{n} values of {total} documents", "no more values than those"))
    if n == 0:
        return empty_estimate("finite-t")
    if not all(map(math.isfinite, data)):
        return infinite_estimate(data, "finite-t")
    mean, spread = math.fsum(data) / n, standard_error(data)
    method = "finite-wilson" if is_binary(data) else "finite-wilson-t" if is_bounded(data) else "finite-t"
    if n == total:
        return Estimate(mean, 0.0, mean, mean, n=n, method=method, level=LEVEL)
    error = None if spread is None else spread * math.sqrt(1 - n / total)
    if method == "finite-wilson":
        worth = n * (total - 1) / (total - n)
        ends = wilson_interval(mean * worth, worth)
    elif error is None or is_rounding_error(error, mean):
        return Estimate(mean, None, None, None, n=n, method=method, level=LEVEL)
    elif method == "finite-wilson-t":
        ends = bounded_interval(mean, error, n - 1)
    else:
        half_width = t_quantile(n - 1) * error
        return Estimate(mean, error, mean - half_width, mean + half_width, n=n, method=method, level=LEVEL)
    least, most = _possible(data, total)
    return Estimate(mean, error, max(ends[0], least), min(ends[1], most), n=n, method=method, level=LEVEL)


def _possible(seen: Sequence[float], total: int) -> tuple[float, float]:
    """The possible range of the mean over all documents, of values from 0 to 1 of which these were evaluated."""
    return math.fsum(seen) / total, (math.fsum(seen) + total - len(seen)) / total


def difference_estimate(reference: Sequence[float], sampled: Mapping[int, float]) -> Estimate:
    """Control variate (difference) estimator of the mean over all documents of a system evaluated on a random sample.

    The reference's mean over all, plus the mean of (system − reference) over the sample. The standard error is that of
    the second part, times √(1 − n/N): a sample of all documents has none. Newcombe's interval, shrunk likewise, if
    all values are 0 or 1, Student's t otherwise. For values from 0 to 1, neither the estimate nor its interval leaves
    the range that the documents not evaluated can still produce.

    Args:
        reference: a recorded full run's value per document.
        sampled: document index → the system's value.
    """
    whole, total, n = [float(value) for value in reference], len(reference), len(sampled)
    if any(not 0 <= index < total for index in sampled):
        raise DataError(Fault("sample", "documents that the reference lacks", f"indices from 0 to {total - 1}"))
    own, theirs = [float(value) for value in sampled.values()], [whole[index] for index in sampled]
    method = "difference-newcombe" if is_binary(whole) and is_binary(own) else "difference-t"
    if n == 0:
        return empty_estimate(method)
    if not all(map(math.isfinite, (*own, *whole))):  # nothing can be estimated from an infinite reference
        return infinite_estimate(own if all(map(math.isfinite, whole)) else [math.nan] * n, method)
    differences = [x - y for x, y in zip(own, theirs, strict=True)]
    shift, spread = math.fsum(differences) / n, standard_error(differences)
    value, unseen = math.fsum(whole) / total + shift, math.sqrt(1 - n / total)
    if n == total:
        return Estimate(value, 0.0, value, value, n=n, method=method, level=LEVEL)
    error = None if spread is None or is_rounding_error(spread, value) else spread * unseen
    if method == "difference-newcombe" and n > 1:
        both = sum(x * y for x, y in zip(own, theirs, strict=True))
        low, high = newcombe_interval(both, sum(own) - both, sum(theirs) - both, n)
        found = Estimate(
            value,
            error,
            value - (shift - low) * unseen,
            value + (high - shift) * unseen,
            n=n,
            method=method,
            level=LEVEL,
        )
    elif error is None:
        found = Estimate(value, None, None, None, n=n, method=method, level=LEVEL)
    else:
        half_width = t_quantile(n - 1) * error
        found = Estimate(value, error, value - half_width, value + half_width, n=n, method=method, level=LEVEL)
    return _clipped(found, own, total) if is_bounded(whole) and is_bounded(own) else found


def _clipped(found: Estimate, seen: Sequence[float], total: int) -> Estimate:
    """An estimate of values from 0 to 1, clipped to the possible range. An estimate outside means that the sample is
    unlike the rest, so the reference misleads: its interval is then at least as wide as that of the sample alone."""
    least, most = _possible(seen, total)
    value = min(max(found.value or 0.0, least), most)
    if found.low is None or found.high is None:
        return replace(found, value=value)
    low, high = min(max(found.low, least), most), max(min(found.high, most), least)
    if value == found.value:
        return replace(found, low=low, high=high)
    alone = finite_estimate(seen, total)
    if alone.low is None or alone.high is None:
        return replace(found, value=value, stderr=None, low=None, high=None)
    return replace(found, value=value, low=min(low, alone.low), high=max(high, alone.high))
