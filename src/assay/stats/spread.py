"""How far apart scores of equally good methods lie by sampling alone: what a spread, highest less lowest, must exceed.

The highest of several noisy scores is above the lowest even where all methods are equally good. Takes every method's
value of every document; gives the spread to expect, and one that 95 % of samples stay below.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.stats.absolute_gaps import bootstrap_gaps
from assay.stats.bootstrap import DEFAULT_REPLICATES, Seed
from assay.stats.inputs import length_error, require_finite
from assay.stats.means import LEVEL

# With fewer documents, or clusters, redrawn ones vary too little: methods that differ alike on all would have no error.
MIN_UNITS = 10


@dataclass(frozen=True, slots=True)
class ChanceSpread:
    """How far apart the scores of equally good methods lie by sampling alone, on as many documents.

    Attributes:
        expected: the mean over samples.
        reach: what 95 % of samples stay below.
    """

    expected: float
    reach: float


def chance_spread(
    methods: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None, seed: Seed = 0
) -> ChanceSpread | None:
    """Centred bootstrap: documents are redrawn, for all methods the same, and every method's own mean is subtracted.

    What is left is sampling error alone, with the correlations that methods have on the same documents: methods that
    agree on nearly all documents leave little. None below ten documents or two methods.

    Args:
        methods: per method, one value per document, documents in the same order.
        clusters: the cluster of each document, to redraw whole clusters; None for single documents.
        seed: of the bootstrap.
    """
    rows = [require_finite(method, f"method {place}") for place, method in enumerate(methods, 1)]
    for place, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise length_error(f"method {place}", len(row), len(rows[0]))
    units = len(rows[0] if clusters is None else set(clusters)) if rows else 0
    if len(rows) < 2 or units < MIN_UNITS:
        return None
    values = np.array(rows).T
    ((means, replicates),) = bootstrap_gaps([(values, np.ones(len(values)))], clusters, seed, DEFAULT_REPLICATES)
    # Redrawn means vary by (units − 1) / units of the variance that they should have.
    spreads = np.ptp(replicates - means, axis=1) * np.sqrt(units / (units - 1))
    return ChanceSpread(float(spreads.mean()), float(np.quantile(spreads, LEVEL)))
