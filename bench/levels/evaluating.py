"""Simulated evaluations through the functions that make the numbers of a run and of `assay compare`.

In: documents' values, drawn from a known law. Out: the estimate or the comparison that a user would see, and how often
such an interval held the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.recorded_values import DocumentValues
from assay.core.scores import Estimate, Sample
from assay.core.specs import MetricSpec, Scoring
from assay.scoring.aggregate import aggregate_task
from assay.studies.paired.differences import compare_pairs, with_adjusted_intervals
from assay.studies.paired.matching import SystemEntry, match_documents
from assay.studies.paired.paired_values import CompareOptions, PairedScore
from assay.studies.paired.verdicts import with_verdicts

Floats = NDArray[np.float64]
EVALUATIONS = 2000
_SEED = 20260801


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something happened.

    Attributes:
        setting: what was simulated.
        n: documents of an evaluation.
        share: of the evaluations in which it happened.
        evaluations: how many were simulated.
        without: of them, those that gave no interval or no p.
    """

    setting: str
    n: int
    share: float
    evaluations: int
    without: int = 0

    @property
    def error(self) -> float:
        """The simulation's own standard error."""
        return math.sqrt(self.share * (1 - self.share) / self.evaluations)


def generator_of(*names: object) -> np.random.Generator:
    """A separate generator for every setting, so that one can be simulated without the others."""
    return np.random.default_rng([_SEED, *"|".join(map(str, names)).encode()])


def score_of(aggregation: str, values: Sequence[Any], clusters: Sequence[str] | None = None) -> Estimate:
    """What a run reports for a metric with these documents' values."""
    spec = MetricSpec("simulated", aggregation, True)
    samples = [Sample(place, "none", (), {"simulated": value}) for place, value in enumerate(values)]
    by_document = None if clusters is None else dict(enumerate(clusters))
    (found,) = aggregate_task(Scoring("multiple_choice", (spec,)), samples, None, clusters=by_document)
    return found.estimate


def comparison_of(
    first: Sequence[Any],
    second: Sequence[Any],
    options: CompareOptions | None = None,
    aggregation: str = "mean",
    clusters: Sequence[str] | None = None,
) -> PairedScore:
    """What `assay compare` says of two runs with these documents' values."""
    return comparisons_of([(first, second)], options, aggregation, clusters)[0]


def comparisons_of(
    tasks: Sequence[tuple[Sequence[Any], Sequence[Any]]],
    options: CompareOptions | None = None,
    aggregation: str = "mean",
    clusters: Sequence[str] | None = None,
) -> list[PairedScore]:
    """The same for several tasks of the two runs, corrected over all of them."""
    options = CompareOptions() if options is None else options
    items = []
    for place, values in enumerate(tasks):
        first, second = (
            SystemEntry(label, DocumentValues(f"task{place}", "m", "none", aggregation, range(len(own)), own, clusters))
            for label, own in zip("ab", values, strict=True)
        )
        items += compare_pairs([match_documents(first, second)], True, options)
    return with_verdicts(with_adjusted_intervals(items, options), options)


def holds(estimate: Estimate, truth: float) -> bool | None:
    """Whether an interval contains the true value; None if there is no interval."""
    if estimate.low is None or estimate.high is None:
        return None
    # A hair's breadth for the rounding of sums, as where the interval is one point and the truth that point.
    hair = 1e-12 * max(1.0, abs(truth))
    return estimate.low - hair <= truth <= estimate.high + hair


def coverage(
    setting: str, n: int, truth: float, evaluate: Callable[[np.random.Generator], Estimate], evaluations: int
) -> Rate:
    """How often the interval of an evaluation holds the truth, among those that have one."""
    generator = generator_of(setting, n)
    return _rate(setting, n, [holds(evaluate(generator), truth) for _ in range(evaluations)])


def findings(setting: str, n: int, test: Callable[[np.random.Generator], bool], evaluations: int) -> Rate:
    """How often a test finds something."""
    generator = generator_of(setting, n)
    return _rate(setting, n, [test(generator) for _ in range(evaluations)])


def _rate(setting: str, n: int, marks: Iterable[bool | None]) -> Rate:
    every = list(marks)
    known = [mark for mark in every if mark is not None]
    share = sum(known) / len(known) if known else math.nan
    return Rate(setting, n, share, len(known), len(every) - len(known))
