"""Values of subsampled tasks: estimates for all documents, and the result of early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from assay.core.scores import Estimate

UNTIL_SE, UNTIL_DECIDED = "until_se", "until_decided"


@dataclass(frozen=True, slots=True)
class AdditionalEstimate:
    """Another estimate of a metric, beside its usual one."""

    metric: str
    filter: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """When a task stopped, by which rule, and its anytime-valid bounds.

    Attributes:
        rule: `until_se` or `until_decided`.
        metric: the metric of the rule.
        filter: its pipeline.
        is_reached: whether the rule stopped the task; otherwise all documents were evaluated.
        documents: evaluated documents.
        most: documents that would have been evaluated without the rule.
        laps: number of laps.
        low: lower anytime-valid bound of the mean, or of the difference from the other run.
        high: upper bound.
        level: probability that the bounds hold at all times simultaneously.
        p: anytime-valid p-value of the difference; None for `until_se`.
        is_better: whether this run is the better one; None if undecided, and for `until_se`.
        wanted: the requested standard error; None for `until_decided`.
        other: the other run; None for `until_se`.
        lacking: documents that were skipped because the other run lacks them.
    """

    rule: str
    metric: str
    filter: str
    is_reached: bool
    documents: int
    most: int
    laps: int
    low: float
    high: float
    level: float
    p: float | None = None
    is_better: bool | None = None
    wanted: float | None = None
    other: str | None = None
    lacking: int = 0


@dataclass(frozen=True, slots=True)
class SubsampleResult:
    """Estimates from a random sample of a task's documents.

    Attributes:
        asked: number of evaluated documents.
        available: number of documents of the task.
        seed: seed of the sample.
        whole: per metric that is a mean, the estimated mean over all documents of the task.
        differences: the same with the reference run as control variate.
        reference: the id of that run.
        stop: when and why the task stopped early.
    """

    asked: int
    available: int
    seed: int
    whole: tuple[AdditionalEstimate, ...] = ()
    differences: tuple[AdditionalEstimate, ...] = ()
    reference: str | None = None
    stop: EarlyStop | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubsampleResult:
        """The estimates of a recorded run; the inverse of `to_json`."""
        whole, differences = (
            tuple(AdditionalEstimate(one["metric"], one["filter"], Estimate(**one["estimate"])) for one in data[name])
            for name in ("whole", "differences")
        )
        stop = None if data["stop"] is None else EarlyStop(**data["stop"])
        return cls(**{**data, "whole": whole, "differences": differences, "stop": stop})


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """A task of a recorded run, document by document.

    Attributes:
        run: the run's name.
        task: the task's name.
        contents: document → digest of its content.
        values: (metric, pipeline) → document → value, for metrics whose values are numbers.
    """

    run: str
    task: str
    contents: Mapping[int, str]
    values: Mapping[tuple[str, str], Mapping[int, float]]
