"""Null distribution of the spread (highest minus lowest score) of equally good methods.

The highest of several noisy scores is above the lowest even if all methods are equally good. In: every method's value
for every document. Out: the expected spread under the null hypothesis, and its 95 % quantile.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.stats.absolute_gaps import bootstrap_gaps
from assay.stats.bootstrap import DEFAULT_REPLICATES, Seed
from assay.stats.inputs import length_error, require_finite
from assay.stats.means import LEVEL

# With fewer documents, or clusters, resamples vary too little: methods with a constant difference would have no error.
MIN_UNITS = 10


@dataclass(frozen=True, slots=True)
class ChanceSpread:
    """Expected range of the scores of equally good methods by sampling alone, on as many documents.

    Attributes:
        expected: the mean over samples.
        reach: the 95 % quantile over samples.
    """

    expected: float
    reach: float


def chance_spread(
    methods: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None, seed: Seed = 0
) -> ChanceSpread | None:
    """Centred bootstrap of the spread: documents are resampled jointly for all methods, their means subtracted.

    What remains is sampling error only, with the correlations of the methods on the same documents: methods that agree
    on nearly all documents have a small spread. None below ten documents or two methods.

    Args:
        methods: per method, one value per document, documents in the same order.
        clusters: the cluster of each document, to resample whole clusters; None to resample documents.
        seed: bootstrap seed.
    """
    rows = [require_finite(method, f"method {number}") for number, method in enumerate(methods, 1)]
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise length_error(f"method {number}", len(row), len(rows[0]))
    units = len(rows[0] if clusters is None else set(clusters)) if rows else 0
    if len(rows) < 2 or units < MIN_UNITS:
        return None
    values = np.array(rows).T
    ((means, replicates),) = bootstrap_gaps([(values, np.ones(len(values)))], clusters, seed, DEFAULT_REPLICATES)
    # Bootstrap means have (units − 1) / units of the variance that they should have.
    spreads = np.ptp(replicates - means, axis=1) * np.sqrt(units / (units - 1))
    return ChanceSpread(float(spreads.mean()), float(np.quantile(spreads, LEVEL)))
