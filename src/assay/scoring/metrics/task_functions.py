"""Aggregations defined by a task: their value, and a bootstrap standard error.

Such a function is a black box, so it is called on every resample; lm-eval reports no standard error. A function that is
slow, not deterministic, or fails on resamples has none here either.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assay.core.scores import Estimate
from assay.scoring.metrics import value_types
from assay.scoring.metrics.aggregations import Aggregation, no_stderr
from assay.stats import means

METHOD = "custom"
REPLICATES = 300
# CPU time for all replicates together: other load on the machine must not decide whether there is a standard error.
_MOST_SECONDS = 15.0

Function = Callable[[list[Any]], Any]


def custom_aggregation(function: Function) -> Aggregation:
    """The aggregation of a task's own function of all values."""

    def estimate(values: Sequence[Any]) -> Estimate:
        return _estimate(function, values, None)

    def clustered(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
        return _estimate(function, values, clusters)

    return Aggregation(estimate, no_stderr, list, clustered=clustered)


def _estimate(function: Function, values: Sequence[Any], clusters: Sequence[str] | None) -> Estimate:
    if not values:
        return means.empty_estimate(METHOD)
    started = time.process_time()
    value = value_types.as_number(function(list(values)))
    is_long = time.process_time() - started > _MOST_SECONDS
    found = None if is_long else _bootstrap_estimate(function, values, clusters, value)
    return (
        Estimate(value, None, None, None, n=len(values), method=METHOD, level=means.LEVEL) if found is None else found
    )


def _bootstrap_estimate(
    function: Function, values: Sequence[Any], clusters: Sequence[str] | None, value: float
) -> Estimate | None:
    """The bootstrap estimate; None if it cannot be computed."""
    import numpy as np

    from assay.stats import bootstrap

    def of_rows(rows: Any) -> Any:
        return np.array(
            [value_types.as_number(function([values[index] for index in row])) for row in rows.astype(int).tolist()]
        )

    indices, how = np.arange(len(values), dtype=np.float64), bootstrap.Resampling(0, REPLICATES)
    try:
        with _silenced():
            if not _is_deterministic(function, values, value):
                return None
            if clusters is None:
                found = bootstrap.bootstrap_statistic(indices, of_rows, how)
            else:
                found = bootstrap.cluster_bootstrap(indices, clusters, of_rows, how)
    except Exception:  # a resample may lack a label, for example; task code may raise anything
        return None
    return None if found.low is None else bootstrap.spread(found)


def _is_deterministic(function: Function, values: Sequence[Any], value: float) -> bool:
    """Whether the same values give the same number again, and quickly."""
    started = time.process_time()
    again = value_types.as_number(function(list(values)))
    return again == value and (time.process_time() - started) * REPLICATES <= _MOST_SECONDS


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Silences warnings: the first call has already shown them."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
