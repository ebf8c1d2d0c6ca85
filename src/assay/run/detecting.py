"""Whether a planned run has enough documents to find a difference of a wished size between two runs.

Takes a task as posed and what is assumed of two runs on it, gives the documents needed and what the planned ones show.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.core.comparisons import LEAST_ALPHA, DetectWish
from assay.core.errors import Fault, UserError
from assay.core.specs import MetricSpec
from assay.run.posing import PosedTask
from assay.scoring.keeping import MEANS
from assay.scoring.registry import METRICS, metric_definition
from assay.stats.power import (
    detectable_outcomes,
    documents_needed,
    fewest_to_show,
    minimum_detectable_effect,
    outcomes_needed,
)


@dataclass(frozen=True, slots=True)
class Detection:
    """What a paired comparison of two runs on these documents would show.

    Attributes:
        metric: the task's first that is a mean over documents; None where it has none, and nothing is known.
        needed: documents that the wished difference needs; None where nothing is known.
        available: documents that the task has.
        is_enough: whether the planned documents suffice; None where nothing is known.
        detectable: the smallest difference for which they do; None where there is none.
    """

    metric: str | None
    needed: int | None
    available: int
    is_enough: bool | None
    detectable: float | None


def check_detection(wish: DetectWish) -> None:
    """Every assumption that means nothing, at once."""
    faults = []
    if not 0 < wish.difference < (1 if wish.deviation is None else float("inf")):
        faults.append(Fault("--detect", f"{wish.difference:g}", "a difference above 0 and below 1", "0.02 is 2 points"))
    if not LEAST_ALPHA <= wish.alpha < 0.5:
        faults.append(Fault("--alpha", f"{wish.alpha:g}", f"a number from {LEAST_ALPHA:g} to 0.5, such as 0.05"))
    if wish.discordance is not None and not 0 < wish.discordance <= 1:
        faults.append(Fault("--discordance", f"{wish.discordance:g}", "a share of documents, above 0 and at most 1"))
    if wish.deviation is not None and not 0 < wish.deviation < float("inf"):
        faults.append(Fault("--sd", f"{wish.deviation:g}", "a standard deviation above 0"))
    if not -1 <= wish.correlation < 1:
        faults.append(Fault("--correlation", f"{wish.correlation:g}", "a number from -1 to below 1"))
    if wish.discordance is not None and (wish.deviation is not None or wish.correlation):
        found = "given together with --sd or --correlation"
        faults.append(Fault("--discordance", found, "either: both say how much a document's difference varies"))
    if faults:
        raise UserError(*faults)
    if wish.deviation is None and wish.variance < wish.difference and (wish.discordance or wish.correlation):
        option = "--correlation" if wish.discordance is None else "--discordance"
        found = f"two runs that differ on {100 * wish.variance:g} % of the documents"
        raise UserError(Fault(option, found, f"{100 * wish.difference:g} % or more, the difference of --detect"))


def detection(posed: PosedTask, wish: DetectWish) -> Detection:
    """The documents that a task needs for the wished difference, and the difference that it shows."""
    n = len(posed.documents)
    metric = next((own.name for own in posed.task.scoring.metrics if _aggregation(own) in MEANS), None)
    if metric is None:
        return Detection(None, None, posed.available, None, None)
    if wish.deviation is None:
        needed = outcomes_needed(wish.difference, wish.variance, alpha=wish.alpha)
        least = detectable_outcomes(wish.variance, n, alpha=wish.alpha)
    else:
        exact = documents_needed(wish.difference, wish.variance, alpha=wish.alpha)
        needed = None if exact is None else max(exact, fewest_to_show(wish.alpha))
        least = minimum_detectable_effect(wish.variance, n, alpha=wish.alpha)
        least = least if n >= fewest_to_show(wish.alpha) else None
    return Detection(metric, needed, posed.available, needed is not None and needed <= n, least)


def _aggregation(metric: MetricSpec) -> object:
    if metric.aggregation is None and metric.name in METRICS:
        return metric_definition(metric.name).aggregation
    return metric.aggregation
