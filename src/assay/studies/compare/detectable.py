"""Power analysis of a planned run: whether its documents suffice to detect a given difference between two runs.

In: a built task and the assumptions about two runs on it. Out: the documents needed and the detectable difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.core.errors import Fault, UserError
from assay.core.protocols import Model
from assay.core.specs import DetectOptions, MetricSpec
from assay.run.build import BuiltTask
from assay.run.forecast import PlanReport, plan_report
from assay.run.session import Session, prepared
from assay.scoring.metrics.aggregations import MEAN_AGGREGATIONS
from assay.scoring.registry import METRICS, metric_definition
from assay.stats.power import (
    MIN_ALPHA,
    detectable_outcomes,
    documents_needed,
    min_documents,
    minimum_detectable_effect,
    outcomes_needed,
)
from assay.tasks.selection import Wanted


@dataclass(frozen=True, slots=True)
class Detection:
    """Power of a paired comparison of two runs on these documents.

    Attributes:
        metric: the task's first metric that is a mean over documents; None if it has none.
        needed: documents needed to detect the requested difference; None if unknown.
        available: documents that the task has.
        is_enough: whether the planned documents suffice; None if unknown.
        detectable: the smallest difference that they can detect; None if there is none.
    """

    metric: str | None
    needed: int | None
    available: int
    is_enough: bool | None
    detectable: float | None


def forecast_detection(
    session: Session, tasks: Sequence[Wanted], model: Model | None, detect: DetectOptions
) -> PlanReport:
    """The plan of a run, with the power analysis of every task.

    Args:
        session: the run.
        tasks: names or task objects.
        model: an opened model; None for the specification's model.
        detect: the difference between two runs, and the assumptions about them.
    """
    check_detection(detect)
    with prepared(session, tasks, model) as (setup, built, plan):
        report = plan_report(session, setup.model, built, plan)
        own = [replace(task, detection=detection(item, detect)) for task, item in zip(report.tasks, built, strict=True)]
    return replace(report, detect=detect, tasks=tuple(own))


def check_detection(detect: DetectOptions) -> None:
    """Raises one error that lists every invalid assumption."""
    faults = []
    if not 0 < detect.difference < (1 if detect.deviation is None else float("inf")):
        faults.append(
            Fault("--detect", f"{detect.difference:g}", "a difference above 0 and below 1", "0.02 is 2 points")
        )
    if not MIN_ALPHA <= detect.alpha < 0.5:
        faults.append(Fault("--alpha", f"{detect.alpha:g}", f"a number from {MIN_ALPHA:g} to 0.5, such as 0.05"))
    if detect.discordance is not None and not 0 < detect.discordance <= 1:
        faults.append(Fault("--discordance", f"{detect.discordance:g}", "a share of documents, above 0 and at most 1"))
    if detect.deviation is not None and not 0 < detect.deviation < float("inf"):
        faults.append(Fault("--sd", f"{detect.deviation:g}", "a standard deviation above 0"))
    if not -1 <= detect.correlation < 1:
        faults.append(Fault("--correlation", f"{detect.correlation:g}", "a number from -1 to below 1"))
    if detect.discordance is not None and (detect.deviation is not None or detect.correlation):
        found = "given together with --sd or --correlation"
        faults.append(Fault("--discordance", found, "either: both say how much a document's difference varies"))
    if faults:
        raise UserError(*faults)
    if detect.deviation is None and detect.variance < detect.difference and (detect.discordance or detect.correlation):
        option = "--correlation" if detect.discordance is None else "--discordance"
        found = f"two runs that differ on {100 * detect.variance:g} % of the documents"
        raise UserError(Fault(option, found, f"{100 * detect.difference:g} % or more, the difference of --detect"))


def detection(built: BuiltTask, detect: DetectOptions) -> Detection:
    """The documents that a task needs to detect the requested difference, and the difference that it can detect."""
    n = len(built.documents)
    metric = next((own.name for own in built.task.scoring.metrics if _aggregation(own) in MEAN_AGGREGATIONS), None)
    if metric is None:
        return Detection(None, None, built.available, None, None)
    if detect.deviation is None:
        needed = outcomes_needed(detect.difference, detect.variance, alpha=detect.alpha)
        least = detectable_outcomes(detect.variance, n, alpha=detect.alpha)
    else:
        exact = documents_needed(detect.difference, detect.variance, alpha=detect.alpha)
        needed = None if exact is None else max(exact, min_documents(detect.alpha))
        least = minimum_detectable_effect(detect.variance, n, alpha=detect.alpha)
        least = least if n >= min_documents(detect.alpha) else None
    return Detection(metric, needed, built.available, needed is not None and needed <= n, least)


def _aggregation(metric: MetricSpec) -> object:
    if metric.aggregation is None and metric.name in METRICS:
        return metric_definition(metric.name).aggregation
    return metric.aggregation
