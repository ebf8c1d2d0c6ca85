"""A run as one loop: resolve, then build → plan → execute batch by batch, then score, aggregate and record.

A full run is one batch. The caller of a run may pass a schedule, which returns the next batch given the answers so far,
and analyses, which add notices and numbers to the result. No stage calls an earlier one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, StoreError
from assay.core.interrupts import Interrupted, defer_signals, received_signal
from assay.core.packages import RequiredPackage
from assay.core.protocols import Model, ReportsExecution
from assay.core.requests import Request
from assay.core.responses import Failure
from assay.core.results import Contribution, GroupResult, Problem, RequestCounts, RunResult, TaskResult
from assay.core.scores import DocumentValues
from assay.core.specs import RunSpec
from assay.run.build import BuiltTask, build_documents, check_golds, selected_documents
from assay.run.events import Listener, Noticed, Planned, StageStarted, delayed_report
from assay.run.execute import Executed, execute
from assay.run.manifest import described_tasks, make_manifest
from assay.run.plan import RequestPlan, make_plan
from assay.run.resolve import Setup, TaskSelector, resolve
from assay.run.score import check_scorers, scored_task
from assay.scoring.aggregate import aggregate_groups, document_values
from assay.store.response_table import ResponseWriter
from assay.store.run_records import FAILED, FINISHED, INCOMPLETE, INTERRUPTED
from assay.store.store import Store
from assay.tasks.selection import Wanted

# What the caller adds to a run: which documents come next, and what is computed beside the scores.


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that are evaluated together.

    Attributes:
        documents: index of a task in the run → loads the task's documents of this batch.
        title: announces one batch of several; empty for a full run.
    """

    documents: Mapping[int, Callable[[], Sequence[Document]]]
    title: str = ""


class Schedule(Protocol):
    """Which documents are evaluated next, given the answers so far."""

    def next_batch(self) -> Batch | None:
        """The next documents; None if the run is done."""

    def observe(self, built: Sequence[BuiltTask], executed: Executed) -> None:
        """Takes the answers to the last batch."""

    def complete(self, built: Sequence[BuiltTask], results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        """The results of all tasks, with what the schedule adds to them."""


class FullSchedule:
    """All documents that the specification selects, in one batch.

    Args:
        session: the run.
        setup: its tasks.
    """

    def __init__(self, session: Session, setup: Setup) -> None:
        documents = {index: partial(selected_documents, task, session.spec) for index, task in enumerate(setup.tasks)}
        self._batches = iter([Batch(documents)])

    def next_batch(self) -> Batch | None:
        return next(self._batches, None)

    def observe(self, built: Sequence[BuiltTask], executed: Executed) -> None:
        pass

    def complete(self, built: Sequence[BuiltTask], results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        return results


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A scored run, as analyses read it.

    Attributes:
        spec: the specification of the run.
        store: the open store.
        setup: tasks, scorers, groups and the model.
        requested: number of requests that were sent to the model.
        tasks: the results of the tasks.
        groups: the results of the groups.
    """

    spec: RunSpec
    store: Store
    setup: Setup
    requested: int
    tasks: tuple[TaskResult, ...]
    groups: tuple[GroupResult, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Computes what one feature adds to the result of a run.

    Attributes:
        title: name of its result, for the problem that is reported if it raises.
        analyse: the computation.
    """

    title: str
    analyse: Callable[[RunOutcome], Contribution]


@dataclass(frozen=True, slots=True)
class RunFeatures:
    """Features of a run besides scoring: its schedule, and its analyses in the order of their notices."""

    schedule: Callable[[Session, Setup], Schedule] = FullSchedule
    analyses: tuple[Analysis, ...] = ()


@dataclass(slots=True)
class Session:
    """State shared by the stages of one run: the specification, the open store, the listener and the clock.

    Attributes:
        needs: packages that are needed after the run, such as that of a figure.
        features: schedule and analyses; a full run without analyses by default.
        select: finds the tasks, for runs that share them; None for a single run.
    """

    spec: RunSpec
    store: Store
    listener: Listener
    timings: dict[str, float] = field(default_factory=dict)
    needs: Sequence[RequiredPackage] = ()
    features: RunFeatures = field(default_factory=RunFeatures)
    select: TaskSelector | None = None

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[None]:
        """Announces a stage and measures its time."""
        self.listener(StageStarted(name, detail))
        started = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - started


# The loop


def run(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> RunResult:
    """A whole run.

    Args:
        session: specification, store, listener, schedule and analyses.
        tasks: names or task objects; empty for the specification's names.
        model: a model object; None to open the specification's model.
    """
    with resolved(session, tasks, model) as setup:
        schedule = session.features.schedule(session, setup)
        first = prepare_batch(session, setup, schedule.next_batch() or Batch({}), is_first=True)
        # Until the end, the record of a run in several batches describes the first, so that a killed run is readable.
        manifest = make_manifest(session.spec, setup.model.fingerprint, first.built)
        return run_batches(session, setup, schedule, first, manifest)


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch whose requests are built and looked up in the store.

    Attributes:
        built: the tasks of the batch with their instances.
        plan: the requests that the store cannot answer.
        is_one_of_several: whether the run consists of several batches.
    """

    built: Sequence[BuiltTask]
    plan: RequestPlan
    is_one_of_several: bool = False


def prepare_batch(session: Session, setup: Setup, batch: Batch, is_first: bool = False) -> PreparedBatch:
    """Builds the requests of a batch and plans which of them to execute; the first batch is also checked.

    Faults in the data of several tasks are one error.
    """

    def step(name: str, detail: str = "") -> AbstractContextManager[None]:
        # One batch of several is announced as a whole.
        return nullcontext() if batch.title else session.stage(name, detail)

    built, errors = [], []
    with session.stage("lap", batch.title) if batch.title else nullcontext():
        for index, documents in batch.documents.items():
            task = setup.tasks[index]
            try:
                with step("pose", task.card.name):
                    built.append(build_documents(task, documents(), session.spec, setup.model.fingerprint.digest))
            except DataError as error:
                errors.append(error)
        if errors:
            faults = dict.fromkeys(fault for error in errors for fault in error.faults)
            raise DataError(*faults) if len(errors) > 1 else errors[0]
        if is_first:
            check_golds(built, session.spec)
            check_scorers(built, setup.scorers)
        with step("plan"):
            plan = plan_missing(session, built)
    return PreparedBatch(built, plan, bool(batch.title))


def run_batches(
    session: Session, setup: Setup, schedule: Schedule, first: PreparedBatch, manifest: Mapping[str, Any]
) -> RunResult:
    """Executes batch after batch under a record of their own, then scores and aggregates all of them."""
    with recorded(session, setup.model, manifest) as run_id:
        # The last answers are committed while the first are scored; leaving the writer waits for them all.
        with ResponseWriter(session.store.responses, setup.model.fingerprint) as writer:
            batches, plan, executed = _execute_batches(session, setup, schedule, first, writer)
            if executed.failures:
                session.store.runs.add_failures(run_id, executed.failures.items())
            built = first.built
            if first.is_one_of_several:
                built = _whole_tasks(session, setup, batches)
                manifest = {**manifest, "tasks": described_tasks(built, session.spec)}
                session.store.runs.describe(run_id, manifest)
            with session.stage("score"):
                results = schedule.complete(built, score(session, setup, built, executed))
                groups = aggregate_groups(setup.groups, results)
        outcome = RunOutcome(session.spec, session.store, setup, len(plan.missing), results, groups)
        result = make_result(session, run_id, outcome, plan, executed, manifest)
        return end_record(session, result, built, executed)


def _execute_batches(
    session: Session, setup: Setup, schedule: Schedule, first: PreparedBatch, writer: ResponseWriter
) -> tuple[list[PreparedBatch], RequestPlan, Executed]:
    """Executes batches until the schedule has no more; returns them with everything that was planned and executed."""
    batches, parts = [first], []
    while True:
        with session.stage("execute"):
            parts.append(execute(batches[-1].plan, setup.model, writer, session.listener))
            if first.is_one_of_several:
                writer.flush()  # the next batch must not ask for these answers again
        schedule.observe(batches[-1].built, parts[-1])
        batch = schedule.next_batch()
        if batch is None:
            break
        batches.append(prepare_batch(session, setup, batch))
    if not first.is_one_of_several:
        return batches, first.plan, parts[0]
    return batches, *_summed([batch.plan for batch in batches], parts)


def _whole_tasks(session: Session, setup: Setup, batches: Sequence[PreparedBatch]) -> list[BuiltTask]:
    """Every task with the documents of all batches, in the order of the task."""
    documents: dict[str, list[Document]] = {task.card.name: [] for task in setup.tasks}
    for batch in batches:
        for item in batch.built:
            documents[item.task.card.name] += item.documents
    digest = setup.model.fingerprint.digest
    return [
        build_documents(task, sorted(own, key=lambda document: document.id), session.spec, digest)
        for task, own in zip(setup.tasks, documents.values(), strict=True)
    ]


def _summed(plans: Sequence[RequestPlan], parts: Sequence[Executed]) -> tuple[RequestPlan, Executed]:
    missing = {key: request for plan in plans for key, request in plan.missing.items()}
    known = sum(plan.known for plan in plans)
    works = [work for plan in plans for work in plan.works]
    plan = RequestPlan(missing, works, sum(plan.built for plan in plans), len(missing) + known, known)
    answers = {key: answer for part in parts for key, answer in part.answers.items()}
    # A request that failed in one batch may be answered in a later one, where another document has the same request.
    failures = {key: answer for key, answer in answers.items() if isinstance(answer, Failure)}
    unit = next((part.unit for part in parts if part.work), "work")
    totals = (sum(part.work for part in parts), sum(part.seconds for part in parts), sum(part.tokens for part in parts))
    return plan, Executed(answers, failures, *totals, unit)


# The stages


@contextmanager
def prepared(
    session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None
) -> Iterator[tuple[Setup, Sequence[BuiltTask], RequestPlan]]:
    """The stages before the first request, for all documents: resolve, build, plan. Also the dry run."""
    with resolved(session, tasks, model) as setup:
        batch = FullSchedule(session, setup).next_batch() or Batch({})
        found = prepare_batch(session, setup, batch, is_first=True)
        yield setup, found.built, found.plan


@contextmanager
def resolved(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> Iterator[Setup]:
    """Tasks and model. A model opened here is closed afterwards."""
    with session.stage("resolve"):
        setup = resolve(
            spec=session.spec,
            given_tasks=tasks,
            given_model=model,
            listener=session.listener,
            store=session.store,
            needs=session.needs,
            select=session.select,
        )
    try:
        for notice in (*setup.notices, *session.store.notices):
            session.listener(Noticed(notice))
        yield setup
    finally:
        if model is None:
            setup.model.close()


def plan_missing(session: Session, built: Sequence[BuiltTask]) -> RequestPlan:
    """The requests that the store cannot answer."""
    requests: dict[bytes, Request] = {}
    for item in built:
        requests.update(item.keys.requests)
    known = session.store.responses.known(requests)
    plan = make_plan(sum(item.keys.built for item in built), requests, known)
    session.listener(Planned(plan.built, plan.unique, plan.known, len(plan.missing), sum(plan.works)))
    return plan


@contextmanager
def recorded(session: Session, model: Model, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The record of a new run; marks it when the run fails or is interrupted. A killed run stays `running`."""
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
            raise Interrupted(number) from error  # libraries turn what a signal raised in them into other errors
        raise


def score(session: Session, setup: Setup, built: Sequence[BuiltTask], executed: Executed) -> tuple[TaskResult, ...]:
    """Every task's result, from stored answers and those of this run."""
    report = delayed_report(session.listener)
    return tuple(
        scored_task(item, scorer, session.store.responses, executed, session.spec.bootstrap_iters, report)
        for item, scorer in zip(built, setup.scorers, strict=True)
    )


# The result


def make_result(
    session: Session,
    run_id: str,
    outcome: RunOutcome,
    plan: RequestPlan,
    executed: Executed,
    manifest: Mapping[str, Any],
) -> RunResult:
    """The result of a run, with what the analyses add. An analysis that raises loses only its own part."""
    run_problems: list[Problem] = []
    found: list[Contribution] = []
    for analysis in session.features.analyses:
        found.extend(tried(run_problems, analysis.title, partial(_contribution, analysis, outcome)))
    own = (*outcome.setup.notices, *session.store.notices)
    return RunResult(
        run_id=run_id,
        spec=session.spec,
        tasks=_with_additions(outcome.tasks, found),
        groups=outcome.groups,
        counts=RequestCounts(plan.built, plan.unique, plan.known, outcome.requested, len(executed.failures)),
        failures=_failure_counts(executed.failures),
        notices=(*own, *(line for contribution in found for line in contribution.notices)),
        manifest=manifest,
        timings=dict(session.timings),
        store=session.store.record_path,
        model_run=_model_run(outcome.setup.model, executed) if outcome.requested else {},
        contributions=tuple(item for item in found if item.values or item.lines),
        run_problems=tuple(run_problems),
        model=outcome.setup.model,
    )


def _contribution(analysis: Analysis, outcome: RunOutcome) -> tuple[Contribution]:
    return (analysis.analyse(outcome),)


def _with_additions(tasks: tuple[TaskResult, ...], found: Sequence[Contribution]) -> tuple[TaskResult, ...]:
    """The results of tasks, with what analyses add to single tasks."""
    added = [item for item in found if item.tasks]
    if not added:
        return tasks
    return tuple(
        replace(
            task, additions={**task.additions, **{i.key: i.tasks[task.name] for i in added if task.name in i.tasks}}
        )
        for task in tasks
    )


def end_record(session: Session, result: RunResult, built: Sequence[BuiltTask], executed: Executed) -> RunResult:
    """Marks a run as ended, with its summary and the values of its documents.

    Returns the run with problems for what could not be stored: a full disk must not hide the numbers.
    """
    run_problems: list[Problem] = []
    kept = [
        values
        for item, found in zip(built, result.tasks, strict=True)
        for values in tried(run_problems, f"the values of {found.name}", _values_of(item, found))
    ]
    result = replace(result, run_problems=(*result.run_problems, *run_problems))
    status = FINISHED if result.is_whole else INCOMPLETE
    speed = {executed.unit: executed.work, "seconds": executed.seconds}
    try:
        session.store.runs.end(result.run_id, status, {**result.summary(), "speed": speed}, kept)
    except StoreError as error:
        return replace(result, run_problems=(*result.run_problems, Problem(error.faults, error)))
    return result


def _values_of(built: BuiltTask, result: TaskResult) -> Callable[[], list[DocumentValues]]:
    return lambda: document_values(built.task.scoring, result)


_Made = TypeVar("_Made")


def tried(run_problems: list[Problem], what: str, make: Callable[[], Iterable[_Made]]) -> tuple[_Made, ...]:
    """The items that `make` returns; if it raises, none, with the problem added: the scores are still reported."""
    try:
        return tuple(make())
    except Exception as error:  # a bug in what is computed beside the scores
        run_problems.append(Problem((Fault(what, f"could not be made: {type(error).__name__}: {error}"),), error))
        return ()


def _failure_counts(failures: Mapping[bytes, Failure]) -> dict[str, tuple[int, str]]:
    counts = Counter(failure.kind for failure in failures.values())
    first = {failure.kind: failure.message for failure in reversed(list(failures.values()))}
    return {kind: (count, first[kind]) for kind, count in counts.items()}


def _model_run(model: Model, executed: Executed) -> dict[str, Any]:
    """Execution report of the model: measurements of the run, and its own report."""
    measured = {"tokens": executed.tokens, "seconds": executed.seconds} if executed.tokens else {}
    return {**measured, **(model.description() if isinstance(model, ReportsExecution) else {})}
