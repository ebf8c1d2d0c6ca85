"""The dry run: what would be asked, how many tokens that is, and how long it would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.core.protocols import Model, Tokenizes
from assay.core.requests import Request
from assay.plan.planning import Plan
from assay.run.posing import PosedTask
from assay.run.session import Session, prepared
from assay.tasks.selection import Wanted


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What one task would ask: `missing` counts requests that no earlier task of the run asks too."""

    name: str
    documents: int
    posed: int
    unique: int
    missing: int


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A dry run.

    Attributes:
        posed: requests in all.
        unique: distinct ones.
        known: distinct ones that the store can answer.
        missing: those that would be asked.
        kinds: missing requests by kind.
        tokens: tokens that the missing requests hold; None when the model cannot say.
        generated_tokens: most tokens that would be written.
        work: size of the missing work, as measured against earlier runs.
        seconds: forecast from this model's earlier runs in the store; None when there are none.
        tasks: the same per task.
    """

    posed: int
    unique: int
    known: int
    missing: int
    kinds: Mapping[str, int]
    tokens: int | None
    generated_tokens: int
    work: int
    seconds: float | None
    tasks: tuple[TaskPlan, ...]


def forecast(session: Session, tasks: Sequence[Wanted], model: Model | None) -> PlanReport:
    """Resolves, poses and plans a run, and measures what is left to ask. No weights are loaded."""
    with prepared(session, tasks, model) as (setup, posed, plan):
        missing = list(plan.missing.values())
        speed = session.store.runs.speed(setup.model.fingerprint)
        total = sum(plan.works)
        return PlanReport(
            posed=plan.posed,
            unique=plan.unique,
            known=plan.known,
            missing=len(missing),
            kinds=dict(Counter(request.kind for request in missing)),
            tokens=_count_tokens(setup.model, missing),
            generated_tokens=sum(getattr(request, "max_tokens", None) or 0 for request in missing),
            work=total,
            seconds=total / speed if speed else None,
            tasks=tuple(_task_plans(posed, plan)),
        )


def _count_tokens(model: Model, missing: Sequence[Request]) -> int | None:
    if model.capabilities.can_tokenize and isinstance(model, Tokenizes):
        return model.count_tokens(missing) if missing else 0
    return None


def _task_plans(posed: Sequence[PosedTask], plan: Plan) -> list[TaskPlan]:
    seen: set[bytes] = set()
    found = []
    for item in posed:
        own = item.keys.requests.keys()
        new = sum(key in plan.missing and key not in seen for key in own)
        seen.update(own)
        found.append(TaskPlan(item.task.card.name, len(item.documents), item.keys.posed, len(own), new))
    return found
