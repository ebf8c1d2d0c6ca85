"""The dry run: the requests that a run would execute, their tokens, and how long that would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.protocols import ExpectedSpending, Model, ReportsWorkload, SpendsTokens, Workload
from assay.core.requests import Request
from assay.core.specs import DetectOptions
from assay.run.build import BuiltTask
from assay.run.plan import RequestPlan
from assay.run.session import Session, prepared
from assay.tasks.selection import Wanted

EARLIER_RUNS, MEASUREMENT = "earlier runs", "measurement"


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The requests of one task. `missing` excludes requests that an earlier task of the run shares; `detection` says
    whether its documents suffice to detect a difference, if the caller adds it (`studies.compare.detectable`)."""

    name: str
    documents: int
    built: int
    unique: int
    missing: int
    detection: Any = None


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A dry run.

    Attributes:
        built: total number of requests.
        unique: distinct ones.
        known: distinct ones that the store can answer.
        missing: those that would be executed.
        kinds: missing requests by kind.
        tokens: tokens that the model would read, shared ones once; None if the model does not report it.
        tokens_alone: the same if each request were evaluated on its own.
        generated_tokens: upper bound of generated tokens.
        operations: total floating-point operations; None if the model does not report them.
        work: size of the missing work in characters, for models that do not count operations.
        seconds: forecast of the time; None if the model's speed is unknown.
        seconds_from: source of the forecast: `earlier runs` in the store, or a `measurement` of this machine.
        tasks: the same per task.
        detect: the difference that a comparison is to detect, with its assumptions; None if none was given.
        memory: peak memory of the run in bytes; None if the model does not report it.
        spending: what the missing requests would cost; None for models that cost nothing per token.
        budget: the most dollars that the run may spend; None for no limit.
        token_budget: the most tokens that it may read and write; None for no limit.
    """

    built: int
    unique: int
    known: int
    missing: int
    kinds: Mapping[str, int]
    tokens: int | None
    tokens_alone: int | None
    generated_tokens: int
    operations: float | None
    work: int
    seconds: float | None
    seconds_from: str | None
    tasks: tuple[TaskPlan, ...]
    detect: DetectOptions | None = None
    memory: int | None = None
    spending: ExpectedSpending | None = None
    budget: float | None = None
    token_budget: int | None = None


def forecast(session: Session, tasks: Sequence[Wanted], model: Model | None) -> PlanReport:
    """Resolves, builds and plans a run, and measures the remaining work. No weights are loaded.

    Args:
        session: the run.
        tasks: names or task objects.
        model: an opened model; None for the specification's model.
    """
    with prepared(session, tasks, model) as (setup, built, plan):
        return plan_report(session, setup.model, built, plan)


def plan_report(session: Session, model: Model, built: Sequence[BuiltTask], plan: RequestPlan) -> PlanReport:
    """The report of a planned run."""
    missing = list(plan.missing.values())
    load = _workload(model, missing)
    seconds, source = _seconds(session, model, plan, load)
    spending = model.expected_spending(missing) if isinstance(model, SpendsTokens) else None
    written = sum(getattr(item, "max_tokens", None) or 0 for item in missing)
    return PlanReport(
        built=plan.built,
        unique=plan.unique,
        known=plan.known,
        missing=len(missing),
        kinds=dict(Counter(request.kind for request in missing)),
        tokens=load.read if load else None,
        tokens_alone=load.alone if load else None,
        generated_tokens=load.written if load else written,
        operations=load.operations if load else None,
        work=sum(plan.works),
        seconds=seconds,
        seconds_from=source,
        tasks=tuple(_task_plans(built, plan)),
        memory=load.memory if load else None,
        spending=spending,
        budget=session.spec.settings.budget,
        token_budget=session.spec.settings.token_budget,
    )


def _workload(model: Model, missing: Sequence[Request]) -> Workload | None:
    if not isinstance(model, ReportsWorkload):
        return None
    return model.workload(missing) if missing else Workload(0, 0, 0, 0.0, 0.0)


def _seconds(
    session: Session, model: Model, plan: RequestPlan, load: Workload | None
) -> tuple[float | None, str | None]:
    """Estimated time of the missing requests, and the source of the estimate: earlier runs are the best guide."""
    size, unit = (load.operations, "operations") if load else (sum(plan.works), "work")
    speed = session.store.runs.speed(model.fingerprint, unit)
    if speed:
        return size / speed, EARLIER_RUNS
    if load and load.seconds is not None:
        return load.seconds, MEASUREMENT
    return None, None


def _task_plans(built: Sequence[BuiltTask], plan: RequestPlan) -> list[TaskPlan]:
    seen: set[bytes] = set()
    found = []
    for item in built:
        own = item.keys.requests.keys()
        new = sum(key in plan.missing and key not in seen for key in own)
        seen.update(own)
        found.append(TaskPlan(item.task.card.name, len(item.documents), item.keys.built, len(own), new))
    return found
