"""A run that may stop early: documents in random order, in growing laps, until the answers say enough.

Every lap is pose → plan → execute → score under one record. The rules hold however often one looks
(`assay.stats.sequential`), and depend on the answers alone, so that repeating a command stops at the same document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, StoreError, UserError
from assay.core.protocols import Model, Task
from assay.core.responses import Failure
from assay.core.results import Problem, RunResult, TaskResult
from assay.core.specs import RunSpec
from assay.core.subsampling import UNTIL_DECIDED, UNTIL_SE, EarlyStop, ReferenceValues, SubsamplingOptions
from assay.run.build import BuiltTask, build_documents, selected_documents, split_indices
from assay.run.execute import Executed, execute
from assay.run.gold_checks import check_golds
from assay.run.manifest import described_tasks, make_manifest
from assay.run.plan import RequestPlan
from assay.run.resolve import Setup
from assay.run.score import score_documents, without_score
from assay.run.session import Session, end_record, make_result, plan_missing, recorded, resolved, score
from assay.run.trial_scoring import check_scorers
from assay.scoring.aggregate import aggregate_groups, first_mean_metric
from assay.scoring.document_scorer import DocumentScorer
from assay.scoring.problems import problem_of
from assay.stats.means import LEVEL, normal_quantile
from assay.stats.sampling import random_order
from assay.stats.sequential import decide, difference_bounds, mean_bounds
from assay.store.response_table import ResponseWriter
from assay.studies.sampling.references import check_documents, load_references
from assay.tasks.selection import Wanted

# Documents of the first lap, and by how much the documents asked grow with each: small steps stop soon after it is
# enough, large ones fill the model's batches.
_FIRST_LAP, _GROWTH = 32, 1.25


def lap_end(asked: int) -> int:
    """How many documents will have been asked after the next lap: a pure function of how many were before it."""
    return max(_FIRST_LAP, math.ceil(asked * _GROWTH))


@dataclass(slots=True)
class _TaskState:
    """A task on its way.

    Attributes:
        order: its documents, in the order in which they are asked.
        metric: what the rule looks at.
        filter: its pipeline.
        reference: the other run; None for a rule that looks at one.
        is_lower_better: whether the metric counts what is wrong.
        lacking: documents that the other run lacks.
        asked: how many were asked.
        own: values of those that were scored, in order.
        others: the other run's values of the same.
        laps: how many laps were run.
        stop: how it ended; None while it goes on.
        problem: why its answers cannot be scored, so that no rule can be asked and nothing more is; None otherwise.
    """

    task: Task
    scorer: DocumentScorer
    order: Sequence[Document]
    metric: str
    filter: str
    reference: ReferenceValues | None = None
    is_lower_better: bool = False
    lacking: int = 0
    asked: int = 0
    own: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    laps: int = 0
    stop: EarlyStop | None = None
    problem: Problem | None = None

    def next_lap(self) -> Sequence[Document]:
        """The documents of the next lap."""
        return self.order[self.asked : lap_end(self.asked)]

    def take(self, documents: Sequence[Document], values: Mapping[int, float]) -> None:
        """Adds the values of a lap, in the order of asking; a document that failed has none."""
        self.asked, self.laps = self.asked + len(documents), self.laps + 1
        theirs = {} if self.reference is None else self.reference.values[self.metric, self.filter]
        for document in documents:
            if document.id in values:
                self.own.append(self._within(values[document.id], document.id))
                self.others += [self._within(theirs[document.id], document.id)] if self.reference else []

    def _within(self, value: float, index: int) -> float:
        if 0 <= value <= 1:
            return value
        where = f"task {self.task.card.name}, metric {self.metric}"
        found = f"document {index} has the value {value:g}"
        raise DataError(Fault(where, found, "values from 0 to 1, which the rules of stopping need", "Choose --metrics"))


def run_in_laps(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> RunResult:
    """A whole run, task by task as long as its rule asks for more. Arguments as in `assay.run.session.run`."""
    with resolved(session, tasks, model) as setup:
        states = _task_states(session, setup)
        digest = setup.model.fingerprint.digest
        first = [build_documents(one.task, one.next_lap(), session.spec, digest) for one in states]
        check_golds(first, session.spec)
        check_scorers(first, setup.scorers)
        # Until the end the record tells of the first lap, so that a killed run can be read, too.
        manifest = make_manifest(session.spec, setup.model.fingerprint, first)
        runs = session.store.runs
        with recorded(session, setup.model, manifest) as run_id:
            plan, executed = _laps(session, setup, states)
            if executed.failures:
                runs.add_failures(run_id, executed.failures.items())
            built = [build_documents(one.task, _evaluated_documents(one), session.spec, digest) for one in states]
            manifest = {**manifest, "tasks": described_tasks(built, session.spec)}
            runs.describe(run_id, manifest)
            with session.stage("score"):
                results = _stopped(score(session, setup, built, executed), states)
                groups = aggregate_groups(setup.groups, results)
            result = make_result(session, run_id, setup, plan, executed, results, groups, manifest)
            return end_record(session, result, built, executed)


def _evaluated_documents(state: _TaskState) -> list[Document]:
    """The documents asked about, in the order of the task."""
    return sorted(state.order[: state.asked], key=lambda document: document.id)


def _stopped(results: Sequence[TaskResult], states: Sequence[_TaskState]) -> tuple[TaskResult, ...]:
    found = []
    for result, state in zip(results, states, strict=True):
        if state.problem is not None:
            found.append(without_score(result, state.problem))
        elif result.subsample is not None:
            found.append(replace(result, subsample=replace(result.subsample, stop=state.stop)))
        else:  # it could not be scored
            found.append(result)
    return tuple(found)


# Before the first lap


def _task_states(session: Session, setup: Setup) -> list[_TaskState]:
    """Every task with its documents in random order; what no rule can be applied to is an error before asking."""
    other, references = session.spec.sparing.until_decided, {}
    if other is not None:
        references = load_references(session.store, other, setup.tasks, f"--{UNTIL_DECIDED}")
        # The record keeps the whole name: `last` changes.
        whole = replace(session.spec.sparing, until_decided=session.store.runs.get(other).id)
        session.spec = replace(session.spec, sparing=whole)
    return [
        _task_state(task, scorer, session.spec, references.get(task.card.name))
        for task, scorer in zip(setup.tasks, setup.scorers, strict=True)
    ]


def _task_state(task: Task, scorer: DocumentScorer, spec: RunSpec, reference: ReferenceValues | None) -> _TaskState:
    where, everything = f"task {task.card.name}", task.documents()
    if spec.cluster is not None or task.card.config.get("cluster") is not None:
        found = "has clusters, and the rules of stopping need documents that stand for themselves"
        raise UserError(Fault(where, found, "--sample N", "Leave out --until_se and --until_decided"))
    found_metric = first_mean_metric(task.scoring)
    if found_metric is None:
        listed = ", ".join(one.name for one in task.scoring.metrics)
        found = f"none of its metrics ({listed}) is a mean over documents of values from 0 to 1"
        raise UserError(Fault(where, found, "one that is", "Leave the task out, or choose a metric with --metrics"))
    metric, higher_is_better = found_metric
    pipeline = task.scoring.pipelines[0].name
    everyone = order = _ordered(task, spec)
    if reference is not None:
        check_documents(reference, everything, f"--{UNTIL_DECIDED}", is_whole=False)
        known = reference.values.get((metric, pipeline), {})
        order = [document for document in everyone if document.id in known]
        if not order:
            found = f"has no value of {metric} ({pipeline}) for any document that would be asked"
            raise UserError(Fault(f"--{UNTIL_DECIDED} {reference.run}, {where}", found, "a run with the same metric"))
    lacking = len(everyone) - len(order)
    return _TaskState(task, scorer, order, metric, pipeline, reference, higher_is_better is False, lacking)


def _ordered(task: Task, spec: RunSpec) -> list[Document]:
    """The documents that the run asks at most, in random order; the first n are the sample of n."""
    place_of = {document.id: index for document, index in zip(task.documents(), split_indices(task), strict=True)}
    chosen = {place_of[document.id]: document for document in selected_documents(task, spec)}
    order = random_order(max(chosen, default=-1) + 1, spec.sparing.seed)
    return [chosen[index] for index in order if index in chosen]


# Laps


def _laps(session: Session, setup: Setup, states: Sequence[_TaskState]) -> tuple[RequestPlan, Executed]:
    """Asks lap after lap until every task has stopped; gives what was asked in all."""
    plans: list[RequestPlan] = []
    parts: list[Executed] = []
    while going := [state for state in states if state.stop is None and state.problem is None]:
        documents = [state.next_lap() for state in going]
        with session.stage("lap", f"{len(plans) + 1}: {sum(map(len, documents)):,} documents"):
            built = [
                build_documents(state.task, own, session.spec, setup.model.fingerprint.digest)
                for state, own in zip(going, documents, strict=True)
            ]
            plan = plan_missing(session, built)
        # Each lap waits for its answers to be safe: the next must not ask for them again.
        with (
            session.stage("execute"),
            ResponseWriter(session.store.responses, setup.model.fingerprint) as writer,
        ):
            executed = execute(plan, setup.model, writer, session.listener)
        with session.stage("score"):
            for state, item in zip(going, built, strict=True):
                _judge(state, item, session, executed)
        plans.append(plan)
        parts.append(executed)
    return _summed(plans, parts)


def _judge(state: _TaskState, built: BuiltTask, session: Session, executed: Executed) -> None:
    """Takes a lap's values and asks the rule. A task that cannot be scored is asked no more, and the others go on."""
    end = state.asked + len(built.documents)
    try:
        _take(state, built, session, executed)
    except StoreError:
        raise
    except Exception as error:  # code of tasks and plugins may raise anything
        state.asked, state.problem = end, problem_of(error, f"task {state.task.card.name}")


def _take(state: _TaskState, built: BuiltTask, session: Session, executed: Executed) -> None:
    _, samples = score_documents(built, state.scorer, session.store.responses, executed)
    values = {
        sample.document_id: float(sample.values[state.metric])
        for sample in samples
        if sample.filter == state.filter and isinstance(sample.values.get(state.metric), (int, float))
    }
    state.take(built.documents, values)
    stop = _stopping_decision(state, session.spec.sparing)
    if stop.is_reached or state.asked == len(state.order):
        state.stop = stop


def _stopping_decision(state: _TaskState, sparing: SubsamplingOptions) -> EarlyStop:
    """What the rule says now."""
    head = (state.asked, len(state.order), state.laps)
    if sparing.until_se is not None:
        bounds = mean_bounds(state.own)
        is_narrow = bounds.half_width <= normal_quantile() * sparing.until_se
        ends = (bounds.low, bounds.high, LEVEL)
        return EarlyStop(UNTIL_SE, state.metric, state.filter, is_narrow, *head, *ends, wanted=sparing.until_se)
    decision, bounds = decide(state.own, state.others), difference_bounds(state.own, state.others)
    return EarlyStop(
        UNTIL_DECIDED,
        state.metric,
        state.filter,
        decision.is_decided,
        *head,
        bounds.low,
        bounds.high,
        LEVEL,
        p=decision.p,
        is_better=None if decision.is_first_better is None else decision.is_first_better != state.is_lower_better,
        other=sparing.until_decided,
        lacking=state.lacking,
    )


def _summed(plans: Sequence[RequestPlan], parts: Sequence[Executed]) -> tuple[RequestPlan, Executed]:
    missing = {key: request for plan in plans for key, request in plan.missing.items()}
    known = sum(plan.known for plan in plans)
    works = [work for plan in plans for work in plan.works]
    plan = RequestPlan(missing, works, sum(plan.posed for plan in plans), len(missing) + known, known)
    answers = {key: answer for part in parts for key, answer in part.answers.items()}
    # A request that failed in one lap may be answered in a later one, where another document asks it too.
    failures = {key: answer for key, answer in answers.items() if isinstance(answer, Failure)}
    unit = next((part.unit for part in parts if part.work), "work")
    totals = (sum(part.work for part in parts), sum(part.seconds for part in parts), sum(part.tokens for part in parts))
    return plan, Executed(answers, failures, *totals, unit)
