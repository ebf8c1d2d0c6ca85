"""Evaluating part of a benchmark: nested random samples, and a stored reference run that stands in for the rest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from assay.core.errors import DataError, Fault
from assay.core.scores import Estimate
from assay.stats.inputs import finite, is_binary
from assay.stats.means import LEVEL, is_hair, nothing, standard_error, t_quantile, wilson_interval
from assay.stats.paired import newcombe_interval


def nested_sample(n: int, total: int, seed: int | bytes) -> tuple[int, ...]:
    """n of `total` places at random, in rising order; a smaller sample of the same seed lies inside a larger one.

    Places are ordered by digests of seed and place, so that the sample does not depend on any library's generator.

    Args:
        n: how many; all, where there are no more.
        total: places to choose from.
        seed: a number, or bytes such as a dataset's digest.
    """
    if n < 0 or total < 0:
        raise DataError(Fault("sample", f"{n} of {total} documents", "numbers of 0 or more"))
    return tuple(sorted(random_order(total, seed)[:n]))


def random_order(total: int, seed: int | bytes) -> tuple[int, ...]:
    """All places in random order: the first n are the nested sample of n."""
    head = seed if isinstance(seed, bytes) else str(seed).encode()
    key = hashlib.sha256(head).digest()
    ranked = sorted(
        range(total), key=lambda place: hashlib.blake2b(str(place).encode(), digest_size=16, key=key).digest()
    )
    return tuple(ranked)


def finite_estimate(values: Sequence[float], total: int) -> Estimate:
    """The mean over all `total` documents, of which these are a random sample without replacement.

    The error of a mean times √(1 − n/N), which is 0 when all were asked (Cochran 1977, Sampling Techniques, 2.6).
    Outcomes of 0 and 1 have Wilson's interval, as of n·(N − 1)/(N − n) documents; what is seen is known, so that the
    interval never leaves what the rest can still make of it. It holds whatever clusters the documents lie in, because
    documents were drawn and not clusters; and it says nothing of documents beside those of the task.
    """
    data, n = finite(values, "sample"), len(values)
    binary = is_binary(data)
    method = "finite-wilson" if binary else "finite-t"
    if n > total:
        raise DataError(Fault("sample", f"{n} values of {total} documents", "no more values than those"))
    if n == 0:
        return nothing("finite-t")
    mean, spread = math.fsum(data) / n, standard_error(data)
    if n == total:
        return Estimate(mean, 0.0, mean, mean, n, method, LEVEL)
    error = None if spread is None else spread * math.sqrt(1 - n / total)
    if not binary:
        if error is None or is_hair(error, mean):
            return Estimate(mean, None, None, None, n, method, LEVEL)
        reach = t_quantile(n - 1) * error
        return Estimate(mean, error, mean - reach, mean + reach, n, method, LEVEL)
    worth = n * (total - 1) / (total - n)
    low, high = wilson_interval(mean * worth, worth)
    seen = sum(data)
    return Estimate(mean, error, max(low, seen / total), min(high, (seen + total - n) / total), n, method, LEVEL)


def difference_estimate(reference: Sequence[float], sampled: Mapping[int, float]) -> Estimate:
    """The mean over all documents of a system that answered a random sample of them.

    The reference's mean over all, plus the mean of (system − reference) over the sample. The error is that of the
    second part, times √(1 − n/N): a sample of all documents leaves none. Newcombe's interval, shrunk likewise, where
    all values are 0 or 1, Student's t otherwise.

    Args:
        reference: a stored full run's value per document.
        sampled: document's place → the system's value.
    """
    whole, total = finite(reference, "reference"), len(reference)
    places = list(sampled)
    if any(not 0 <= place < total for place in places):
        raise DataError(Fault("sample", "documents that the reference lacks", f"places from 0 to {total - 1}"))
    own, theirs = finite([sampled[place] for place in places], "sample"), [whole[place] for place in places]
    binary, n = is_binary(whole) and is_binary(own), len(places)
    method = "difference-newcombe" if binary else "difference-t"
    if n == 0:
        return nothing(method)
    differences = [x - y for x, y in zip(own, theirs, strict=True)]
    base, shift = math.fsum(whole) / total, math.fsum(differences) / n
    value, unseen = base + shift, math.sqrt(1 - n / total)
    spread = standard_error(differences)
    if n == total:
        return Estimate(value, 0.0, value, value, n, method, LEVEL)
    if spread is None or (not binary and is_hair(spread, value)):
        return Estimate(value, None, None, None, n, method, LEVEL)
    if not binary:
        reach = t_quantile(n - 1) * spread * unseen
        return Estimate(value, spread * unseen, value - reach, value + reach, n, method, LEVEL)
    both = sum(x * y for x, y in zip(own, theirs, strict=True))
    low, high = newcombe_interval(both, sum(own) - both, sum(theirs) - both, n)
    ends = value - (shift - low) * unseen, value + (high - shift) * unseen
    return Estimate(value, spread * unseen, max(0.0, ends[0]), min(1.0, ends[1]), n, method, LEVEL)
