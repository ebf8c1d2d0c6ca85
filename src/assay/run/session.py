"""The story of a run: resolve → pose → plan → execute → score → aggregate. No stage calls an earlier one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from assay.core.protocols import Advises, Describes, Model
from assay.core.requests import Request
from assay.core.responses import Failure
from assay.core.results import GroupResult, RequestCounts, RunResult, TaskResult
from assay.core.sparing import Reference
from assay.core.specs import Axes, RunSpec
from assay.core.variance_axes import TaskVariance
from assay.plan.planning import Plan, make_plan
from assay.run.combining import best_of
from assay.run.events import Listener, Noticed, Planned, StageStarted
from assay.run.execute import Executed, execute
from assay.run.golds import check_golds
from assay.run.ignored import ignored_notices
from assay.run.manifest import make_manifest, redacted
from assay.run.notices import group_notices, part_notices, task_notices
from assay.run.opening import trained_notices
from assay.run.posing import PosedTask, pose_task
from assay.run.prompting import prompt_axes
from assay.run.resolve import Setup, resolve
from assay.run.scoring import score_task
from assay.scoring.aggregate import aggregate_groups
from assay.scoring.keeping import kept_values
from assay.store.responses import ResponseWriter
from assay.store.runs import FAILED, FINISHED, INCOMPLETE, INTERRUPTED
from assay.store.store import Store
from assay.tasks.harness.task import HarnessTask
from assay.tasks.selection import Wanted


@dataclass(slots=True)
class Session:
    """What the stages of one run share: the specification, the open store, the listener and the clock."""

    spec: RunSpec
    store: Store
    listener: Listener
    timings: dict[str, float] = field(default_factory=dict)
    references: Mapping[str, Reference] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[None]:
        """Announces a stage and takes its time."""
        self.listener(StageStarted(name, detail))
        started = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - started


def run(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> RunResult:
    """A whole run.

    Args:
        session: specification, store and listener.
        tasks: names or task objects; the specification's names when empty.
        model: a model object; the specification's model is opened when None.
    """
    if session.spec.sparing.may_stop:
        from assay.run.stopping import run_in_laps  # most runs have no use for it

        return run_in_laps(session, tasks, model)
    with prepared(session, tasks, model) as (setup, posed, plan):
        if session.spec.sparing.reference is not None:
            _take_references(session, session.spec.sparing.reference, posed)
        manifest = make_manifest(session.spec, setup.model.fingerprint, posed)
        return conduct(session, setup, posed, plan, manifest)


def _take_references(session: Session, run: str, posed: Sequence[PosedTask]) -> None:
    """The runs that stand in for what a sample leaves out. The record keeps the whole name: `last` changes."""
    from assay.run.sparing import sample_references

    session.references = sample_references(session.store, run, posed)
    name = session.store.runs.get(run).id
    session.spec = replace(session.spec, sparing=replace(session.spec.sparing, reference=name))


def conduct(
    session: Session, setup: Setup, posed: Sequence[PosedTask], plan: Plan, manifest: Mapping[str, Any]
) -> RunResult:
    """The stages from the first question on, under a record of their own: execute, score, aggregate."""
    run_id = session.store.runs.begin(setup.model.fingerprint, redacted(session.spec.to_json()), manifest)
    with recorded(session, run_id):
        # The last answers are committed while the first are scored; leaving the writer waits for them all.
        with ResponseWriter(session.store.responses, setup.model.fingerprint) as writer:
            with session.stage("execute"):
                executed = execute(plan, setup.model, writer, session.listener)
            if executed.failures:
                session.store.runs.add_failures(run_id, executed.failures.items())
            with session.stage("score"):
                results = score(session, setup, posed, executed)
                groups = aggregate_groups(setup.groups, results)
        result = make_result(session, run_id, setup, plan, executed, results, groups, manifest)
    end_record(session, result, posed, executed)
    return result


def end_record(session: Session, result: RunResult, posed: Sequence[PosedTask], executed: Executed) -> None:
    """Marks a run as ended, with what it found and the values of its documents."""
    kept = [
        values
        for item, found in zip(posed, result.tasks, strict=True)
        for values in kept_values(item.task.scoring, found)
    ]
    status = INCOMPLETE if executed.failures else FINISHED
    speed = {executed.unit: executed.work, "seconds": executed.seconds}
    session.store.runs.end(result.run_id, status, {**result.summary(), "speed": speed}, kept)


@contextmanager
def prepared(
    session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None
) -> Iterator[tuple[Setup, list[PosedTask], Plan]]:
    """The stages before asking: resolve, pose, plan. Also the dry run."""
    with resolved(session, tasks, model) as setup:
        posed = []
        for task in setup.tasks:
            with session.stage("pose", task.card.name):
                posed.append(pose_task(task, session.spec, setup.model.fingerprint.digest))
        check_golds(posed, session.spec)
        with session.stage("plan"):
            plan = plan_missing(session, posed)
        yield setup, posed, plan


@contextmanager
def resolved(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> Iterator[Setup]:
    """Tasks and model. A model opened here is closed afterwards."""
    with session.stage("resolve"):
        setup = resolve(session.spec, tasks, model, session.listener, session.store)
    try:
        for notice in (*setup.notices, *session.store.notices):
            session.listener(Noticed(notice))
        yield setup
    finally:
        if model is None:
            setup.model.close()


def plan_missing(session: Session, posed: Sequence[PosedTask]) -> Plan:
    """What is asked that the store cannot answer."""
    requests: dict[bytes, Request] = {}
    for item in posed:
        requests.update(item.keys.requests)
    known = session.store.responses.known(requests)
    plan = make_plan(sum(item.keys.posed for item in posed), requests, known)
    session.listener(Planned(plan.posed, plan.unique, plan.known, len(plan.missing), sum(plan.works)))
    return plan


@contextmanager
def recorded(session: Session, run_id: str) -> Iterator[None]:
    """Marks the run's record when it does not get to its end; a killed run stays `running`."""
    try:
        yield
    except KeyboardInterrupt:
        session.store.runs.end(run_id, INTERRUPTED)
        raise
    except Exception:
        session.store.runs.end(run_id, FAILED)
        raise


def score(session: Session, setup: Setup, posed: Sequence[PosedTask], executed: Executed) -> tuple[TaskResult, ...]:
    """Every task's result, from the store and what this run brought."""
    iterations, sparing = session.spec.bootstrap_iters, session.spec.sparing
    results = tuple(
        score_task(item, scorer, session.store.responses, executed, iterations)
        for item, scorer in zip(posed, setup.scorers, strict=True)
    )
    if sparing.sample is None and not sparing.may_stop:
        return results
    from assay.run.sparing import with_spared

    return with_spared(posed, results, sparing, session.references)


def make_result(
    session: Session,
    run_id: str,
    setup: Setup,
    plan: Plan,
    executed: Executed,
    results: tuple[TaskResult, ...],
    groups: tuple[GroupResult, ...],
    manifest: Mapping[str, Any],
) -> RunResult:
    """All that a run found, with what the user ought to know of it."""
    asked = len(plan.missing)
    counts = RequestCounts(plan.posed, plan.unique, plan.known, asked, len(executed.failures))
    return RunResult(
        run_id=run_id,
        spec=session.spec,
        tasks=results,
        groups=groups,
        counts=counts,
        failures=_failure_counts(executed.failures),
        notices=_notices(session, setup, results, groups, asked),
        manifest=manifest,
        timings=dict(session.timings),
        store=session.store.path,
        model_run=_model_run(setup.model, executed) if asked else {},
        prompts=prompt_axes(setup.tasks, results),
        variance=_variance(session, setup, results),
    )


def _notices(
    session: Session, setup: Setup, results: tuple[TaskResult, ...], groups: tuple[GroupResult, ...], asked: int
) -> tuple[str, ...]:
    """What the user ought to know: of the run, the model, the answers, the options and the tasks, in this order."""
    is_trained = setup.model.fingerprint.parent is not None
    return (
        *setup.notices,
        *session.store.notices,
        *_model_notices(setup.model, asked),
        *task_notices(results, is_trained),
        *group_notices(groups, results),
        *trained_notices(session.spec, session.store, [result.name for result in results]),
        *part_notices(results, session.spec),
        *ignored_notices(setup.tasks, results, session.spec),
        *best_of(setup.combined, results, groups),
        *(line for task in setup.tasks if isinstance(task, Advises) for line in task.notices()),
    )


def _variance(session: Session, setup: Setup, results: tuple[TaskResult, ...]) -> tuple[TaskVariance, ...]:
    """Where scores vary, of tasks that were asked in several ways; most runs have none and pay nothing."""
    is_varied = session.spec.options.axes != Axes()
    if not is_varied and not any(isinstance(t, HarnessTask) and t.definition.prompt for t in setup.tasks):
        return ()
    from assay.run.varying import task_variances

    return task_variances(setup.tasks, setup.scorers, results)


def _failure_counts(failures: Mapping[bytes, Failure]) -> dict[str, tuple[int, str]]:
    counts = Counter(failure.kind for failure in failures.values())
    first = {failure.kind: failure.message for failure in reversed(list(failures.values()))}
    return {kind: (count, first[kind]) for kind, count in counts.items()}


def _model_run(model: Model, executed: Executed) -> dict[str, Any]:
    """How the model ran: what was measured, and what it tells of itself."""
    measured = {"tokens": executed.tokens, "seconds": executed.seconds} if executed.tokens else {}
    return {**measured, **(model.description() if isinstance(model, Describes) else {})}


def _model_notices(model: Model, asked: int) -> list[str]:
    """What a model says of itself; it has only something to say when it was loaded."""
    return list(model.notices()) if asked and isinstance(model, Advises) else []
