"""The story of a run: resolve → pose → plan → execute → score → aggregate. No stage calls an earlier one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from assay.core.errors import Fault, StoreError
from assay.core.interrupts import Interrupted, defer_signals, received_signal
from assay.core.packages import RequiredPackage
from assay.core.protocols import Model, ReportsExecution, ReportsNotices
from assay.core.recorded_values import DocumentValues
from assay.core.requests import Request
from assay.core.responses import Failure
from assay.core.results import GroupResult, Problem, RequestCounts, RunResult, TaskResult
from assay.core.specs import RunSpec, VariationAxes
from assay.core.subsampling import ReferenceValues
from assay.core.variance_axes import TaskVariance
from assay.run.best_variant import best_of
from assay.run.build import BuiltTask, build_task
from assay.run.events import Listener, Noticed, Planned, StageStarted
from assay.run.execute import Executed, execute
from assay.run.gold_checks import check_golds
from assay.run.ignored_options import ignored_notices
from assay.run.manifest import make_manifest
from assay.run.notices import group_notices, part_notices, task_notices
from assay.run.open_model import trained_notices
from assay.run.plan import RequestPlan, make_plan
from assay.run.resolve import Setup, resolve
from assay.run.score import scored_task
from assay.run.slow_progress import delayed_report
from assay.run.trial_scoring import check_scorers
from assay.scoring.aggregate import aggregate_groups
from assay.scoring.document_values import document_values
from assay.store.response_table import ResponseWriter
from assay.store.run_records import FAILED, FINISHED, INCOMPLETE, INTERRUPTED
from assay.store.store import Store
from assay.studies.variance.prompts import prompt_axes
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.selection import Wanted


@dataclass(slots=True)
class Session:
    """What the stages of one run share: the specification, the open store, the listener and the clock.

    Attributes:
        needs: packages that are wanted after the run, such as that of a figure.
    """

    spec: RunSpec
    store: Store
    listener: Listener
    timings: dict[str, float] = field(default_factory=dict)
    references: Mapping[str, ReferenceValues] = field(default_factory=dict)
    needs: Sequence[RequiredPackage] = ()

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
    if session.spec.sparing.may_stop_early:
        from assay.studies.sampling.early_stopping import run_in_laps  # most runs have no use for it

        return run_in_laps(session, tasks, model)
    with prepared(session, tasks, model) as (setup, built, plan):
        if session.spec.sparing.reference is not None:
            _take_references(session, session.spec.sparing.reference, built)
        manifest = make_manifest(session.spec, setup.model.fingerprint, built)
        return run_stages(session, setup, built, plan, manifest)


def _take_references(session: Session, run: str, built: Sequence[BuiltTask]) -> None:
    """The runs that stand in for what a sample leaves out. The record keeps the whole name: `last` changes."""
    from assay.studies.sampling.estimates import sample_references

    session.references = sample_references(session.store, run, built)
    name = session.store.runs.get(run).id
    session.spec = replace(session.spec, sparing=replace(session.spec.sparing, reference=name))


def run_stages(
    session: Session, setup: Setup, built: Sequence[BuiltTask], plan: RequestPlan, manifest: Mapping[str, Any]
) -> RunResult:
    """The stages from the first question on, under a record of their own: execute, score, aggregate."""
    with recorded(session, setup.model, manifest) as run_id:
        # The last answers are committed while the first are scored; leaving the writer waits for them all.
        with ResponseWriter(session.store.responses, setup.model.fingerprint) as writer:
            with session.stage("execute"):
                executed = execute(plan, setup.model, writer, session.listener)
            if executed.failures:
                session.store.runs.add_failures(run_id, executed.failures.items())
            with session.stage("score"):
                results = score(session, setup, built, executed)
                groups = aggregate_groups(setup.groups, results)
        result = make_result(session, run_id, setup, plan, executed, results, groups, manifest)
        return end_record(session, result, built, executed)


def end_record(session: Session, result: RunResult, built: Sequence[BuiltTask], executed: Executed) -> RunResult:
    """Marks a run as ended, with what it found and the values of its documents.

    Gives the run with what of that could not be kept: a full disk must not hide the numbers.
    """
    run_problems: list[Problem] = []
    kept = [
        values
        for item, found in zip(built, result.tasks, strict=True)
        for values in tried(run_problems, f"the values of {found.name}", _kept_by(item, found))
    ]
    result = replace(result, run_problems=(*result.run_problems, *run_problems))
    status = FINISHED if result.is_whole else INCOMPLETE
    speed = {executed.unit: executed.work, "seconds": executed.seconds}
    try:
        session.store.runs.end(result.run_id, status, {**result.summary(), "speed": speed}, kept)
    except StoreError as error:
        return replace(result, run_problems=(*result.run_problems, Problem(error.faults, error)))
    return result


def _kept_by(built: BuiltTask, result: TaskResult) -> Callable[[], list[DocumentValues]]:
    return lambda: document_values(built.task.scoring, result)


_Made = TypeVar("_Made")


def tried(run_problems: list[Problem], what: str, make: Callable[[], Iterable[_Made]]) -> tuple[_Made, ...]:
    """What `make` gives. Where that raises, nothing, and the trouble is added: the scores are still reported."""
    try:
        return tuple(make())
    except Exception as error:  # a bug in what stands beside the scores
        run_problems.append(Problem((Fault(what, f"could not be made: {type(error).__name__}: {error}"),), error))
        return ()


@contextmanager
def prepared(
    session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None
) -> Iterator[tuple[Setup, list[BuiltTask], RequestPlan]]:
    """The stages before asking: resolve, pose, plan. Also the dry run."""
    with resolved(session, tasks, model) as setup:
        built = []
        for task in setup.tasks:
            with session.stage("pose", task.card.name):
                built.append(build_task(task, session.spec, setup.model.fingerprint.digest))
        check_golds(built, session.spec)
        check_scorers(built, setup.scorers)
        with session.stage("plan"):
            plan = plan_missing(session, built)
        yield setup, built, plan


@contextmanager
def resolved(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> Iterator[Setup]:
    """Tasks and model. A model opened here is closed afterwards."""
    with session.stage("resolve"):
        setup = resolve(session.spec, tasks, model, session.listener, session.store, session.needs)
    try:
        for notice in (*setup.notices, *session.store.notices):
            session.listener(Noticed(notice))
        yield setup
    finally:
        if model is None:
            setup.model.close()


def plan_missing(session: Session, built: Sequence[BuiltTask]) -> RequestPlan:
    """What is asked that the store cannot answer."""
    requests: dict[bytes, Request] = {}
    for item in built:
        requests.update(item.keys.requests)
    known = session.store.responses.known(requests)
    plan = make_plan(sum(item.keys.posed for item in built), requests, known)
    session.listener(Planned(plan.posed, plan.unique, plan.known, len(plan.missing), sum(plan.works)))
    return plan


@contextmanager
def recorded(session: Session, model: Model, manifest: Mapping[str, Any]) -> Iterator[str]:
    """A new run's record; marks it when the run does not get to its end. A killed run stays `running`."""
    run_id = None
    try:
        with defer_signals():
            run_id = session.store.runs.begin(model.fingerprint, session.spec.to_json(), manifest)
        yield run_id
    except BaseException as error:
        number = received_signal()
        is_stopped = isinstance(error, (KeyboardInterrupt, SystemExit)) or number is not None
        if run_id is not None:
            session.store.runs.abandon(run_id, INTERRUPTED if is_stopped else FAILED)
        if number is not None and isinstance(error, Exception):
            raise Interrupted(number) from error  # libraries make other errors of what a signal raised in them
        raise


def score(session: Session, setup: Setup, built: Sequence[BuiltTask], executed: Executed) -> tuple[TaskResult, ...]:
    """Every task's result, from the store and what this run brought."""
    iterations, sparing = session.spec.bootstrap_iters, session.spec.sparing
    report = delayed_report(session.listener)
    results = tuple(
        scored_task(item, scorer, session.store.responses, executed, iterations, report)
        for item, scorer in zip(built, setup.scorers, strict=True)
    )
    if sparing.sample is None and not sparing.may_stop_early:
        return results
    from assay.studies.sampling.estimates import with_subsample_estimates

    return with_subsample_estimates(built, results, sparing, session.references)


def make_result(
    session: Session,
    run_id: str,
    setup: Setup,
    plan: RequestPlan,
    executed: Executed,
    results: tuple[TaskResult, ...],
    groups: tuple[GroupResult, ...],
    manifest: Mapping[str, Any],
) -> RunResult:
    """All that a run found, with what the user ought to know of it."""
    asked = len(plan.missing)
    counts = RequestCounts(plan.posed, plan.unique, plan.known, asked, len(executed.failures))
    run_problems: list[Problem] = []
    notices = _notices(session, setup, results, groups, asked, run_problems)
    prompts = tried(run_problems, "the lines of prompts", lambda: prompt_axes(setup.tasks, results))
    variance = tried(run_problems, "the sources of variance", lambda: _variance(session, setup, results))
    return RunResult(
        run_id=run_id,
        spec=session.spec,
        tasks=results,
        groups=groups,
        counts=counts,
        failures=_failure_counts(executed.failures),
        notices=notices,
        manifest=manifest,
        timings=dict(session.timings),
        store=session.store.record_path,
        model_run=_model_run(setup.model, executed) if asked else {},
        prompts=prompts,
        variance=variance,
        run_problems=tuple(run_problems),
        model=setup.model,
    )


def _notices(
    session: Session,
    setup: Setup,
    results: tuple[TaskResult, ...],
    groups: tuple[GroupResult, ...],
    asked: int,
    run_problems: list[Problem],
) -> tuple[str, ...]:
    """What the user ought to know: of the run, the model, the answers, the options and the tasks, in this order."""
    is_trained = setup.model.fingerprint.parent is not None
    parts: list[Callable[[], Iterable[str]]] = [
        lambda: _model_notices(setup.model, asked),
        lambda: task_notices(results, is_trained),
        lambda: group_notices(groups, results),
        lambda: trained_notices(session.spec, session.store, [result.name for result in results]),
        lambda: part_notices(results, session.spec),
        lambda: ignored_notices(setup.tasks, results, session.spec),
        lambda: best_of(setup.combined, results, groups),
        lambda: [line for task in setup.tasks if isinstance(task, ReportsNotices) for line in task.notices()],
    ]
    known = (*setup.notices, *session.store.notices)
    return (*known, *(line for part in parts for line in tried(run_problems, "the notices", part)))


def _variance(session: Session, setup: Setup, results: tuple[TaskResult, ...]) -> tuple[TaskVariance, ...]:
    """Where scores vary, of tasks that were asked in several ways; most runs have none and pay nothing."""
    is_varied = session.spec.options.axes != VariationAxes()
    if not is_varied and not any(isinstance(t, LmEvalTask) and t.definition.prompt for t in setup.tasks):
        return ()
    from assay.studies.variance.decomposition import task_variances

    return task_variances(setup.tasks, setup.scorers, results)


def _failure_counts(failures: Mapping[bytes, Failure]) -> dict[str, tuple[int, str]]:
    counts = Counter(failure.kind for failure in failures.values())
    first = {failure.kind: failure.message for failure in reversed(list(failures.values()))}
    return {kind: (count, first[kind]) for kind, count in counts.items()}


def _model_run(model: Model, executed: Executed) -> dict[str, Any]:
    """How the model ran: what was measured, and what it tells of itself."""
    measured = {"tokens": executed.tokens, "seconds": executed.seconds} if executed.tokens else {}
    return {**measured, **(model.description() if isinstance(model, ReportsExecution) else {})}


def _model_notices(model: Model, asked: int) -> list[str]:
    """What a model says of itself; it has only something to say when it was loaded."""
    return list(model.notices()) if asked and isinstance(model, ReportsNotices) else []
