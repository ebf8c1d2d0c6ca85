"""Early stopping: documents in random order, in growing batches (laps), until a stopping rule is met.

The rules are anytime-valid (`assay.stats.sequential`): they hold after any number of looks. They depend on the answers
alone, so that repeating a command stops at the same document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, StoreError, UserError
from assay.core.protocols import Task
from assay.core.results import Problem, TaskResult
from assay.core.specs import RunSpec, SubsamplingOptions
from assay.run.build import BuiltTask, selected_documents, split_indices
from assay.run.execute import Executed
from assay.run.resolve import Setup
from assay.run.score import score_documents, without_score
from assay.run.session import Batch, Session
from assay.scoring.aggregate import first_mean_metric
from assay.scoring.document_scorer import DocumentScorer
from assay.scoring.problems import problem_of
from assay.stats.means import LEVEL, normal_quantile
from assay.stats.sampling import random_order
from assay.stats.sequential import decide, difference_bounds, mean_bounds
from assay.studies.sampling.estimates import with_subsample, with_subsample_estimates
from assay.studies.sampling.references import check_documents, load_references
from assay.studies.sampling.subsample_values import UNTIL_DECIDED, UNTIL_SE, EarlyStop, ReferenceValues

# Documents of the first lap, and the growth factor of all documents with each further lap: small laps stop soon after
# the rule is met, large ones fill the model's batches.
_FIRST_LAP, _GROWTH = 32, 1.25


def lap_end(asked: int) -> int:
    """Number of documents evaluated after the next lap: a pure function of the number before it."""
    return max(_FIRST_LAP, math.ceil(asked * _GROWTH))


@dataclass(slots=True)
class _TaskState:
    """The state of a task between laps.

    Attributes:
        order: its documents, in the order of evaluation.
        metric: the metric of the stopping rule.
        filter: its pipeline.
        reference: the other run; None for a rule without one.
        is_lower_better: whether lower values of the metric are better.
        lacking: number of documents that the other run lacks.
        asked: number of evaluated documents.
        own: values of those that were scored, in order.
        others: the other run's values for the same documents.
        laps: number of laps.
        stop: how it ended; None while it continues.
        problem: why its answers cannot be scored, which ends the task; None otherwise.
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
        """Adds the values of a lap, in the order of evaluation; a document that failed has none."""
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
        raise DataError(Fault(where, found, "values from 0 to 1, which stopping rules need", "Choose --metrics"))


class EarlyStopping:
    """Batches of documents in random order; every task continues until its stopping rule is met.

    Args:
        session: the run.
        setup: its tasks.
    """

    def __init__(self, session: Session, setup: Setup) -> None:
        self._session = session
        self._states = _task_states(session, setup)
        self._laps = 0

    def next_batch(self) -> Batch | None:
        """The next documents of every task that has not stopped; None if all have."""
        documents = {index: self._states[index].next_lap() for index in self._going()}
        if not documents:
            return None
        self._laps += 1
        title = f"{self._laps}: {sum(map(len, documents.values())):,} documents"
        return Batch({index: partial(list, own) for index, own in documents.items()}, title)

    def _going(self) -> list[int]:
        return [index for index, state in enumerate(self._states) if state.stop is None and state.problem is None]

    def observe(self, built: Sequence[BuiltTask], executed: Executed) -> None:
        """Scores the answers to a batch and applies the stopping rule."""
        with self._session.stage("score"):
            for index, item in zip(self._going(), built, strict=True):
                _judge(self._states[index], item, self._session, executed)

    def complete(self, built: Sequence[BuiltTask], results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        """The results with the documents, bounds and verdict at which each task stopped."""
        options = self._session.spec.subsampling
        estimated = with_subsample_estimates(built, results, options, {})
        return tuple(_stopped(result, state) for result, state in zip(estimated, self._states, strict=True))


def _stopped(result: TaskResult, state: _TaskState) -> TaskResult:
    if state.problem is not None:
        return without_score(result, state.problem)
    if result.subsample is None:  # it could not be scored
        return result
    return with_subsample(result, replace(result.subsample, stop=state.stop))


# Before the first batch


def _task_states(session: Session, setup: Setup) -> list[_TaskState]:
    """Every task with its documents in random order; a task that the rule does not fit is an error before the run."""
    other, references = session.spec.subsampling.until_decided, {}
    if other is not None:
        references = load_references(session.store, other, setup.tasks, f"--{UNTIL_DECIDED}")
    return [
        _task_state(task, scorer, session.spec, references.get(task.card.name))
        for task, scorer in zip(setup.tasks, setup.scorers, strict=True)
    ]


def _task_state(task: Task, scorer: DocumentScorer, spec: RunSpec, reference: ReferenceValues | None) -> _TaskState:
    where, everything = f"task {task.card.name}", task.documents()
    if spec.cluster is not None or task.card.config.get("cluster") is not None:
        found = "has clusters, and stopping rules need independent documents"
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
            found = f"has no value of {metric} ({pipeline}) for any document of this run"
            raise UserError(Fault(f"--{UNTIL_DECIDED} {reference.run}, {where}", found, "a run with the same metric"))
    lacking = len(everyone) - len(order)
    return _TaskState(
        task=task,
        scorer=scorer,
        order=order,
        metric=metric,
        filter=pipeline,
        reference=reference,
        is_lower_better=higher_is_better is False,
        lacking=lacking,
    )


def _ordered(task: Task, spec: RunSpec) -> list[Document]:
    """All documents that the run may evaluate, in random order; the first n are the sample of n."""
    place_of = {document.id: index for document, index in zip(task.documents(), split_indices(task), strict=True)}
    chosen = {place_of[document.id]: document for document in selected_documents(task, spec)}
    order = random_order(max(chosen, default=-1) + 1, spec.subsampling.seed)
    return [chosen[index] for index in order if index in chosen]


# The stopping rules


def _judge(state: _TaskState, built: BuiltTask, session: Session, executed: Executed) -> None:
    """Takes the values of a lap and applies the rule. A task that cannot be scored ends, and the others continue."""
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
    stop = _stopping_decision(state, session.spec.subsampling)
    if stop.is_reached or state.asked == len(state.order):
        state.stop = stop


def _stopping_decision(state: _TaskState, subsampling: SubsamplingOptions) -> EarlyStop:
    """The decision of the rule after the last lap."""
    head = (state.asked, len(state.order), state.laps)
    if subsampling.until_se is not None:
        bounds = mean_bounds(state.own)
        is_narrow = bounds.half_width <= normal_quantile() * subsampling.until_se
        ends = (bounds.low, bounds.high, LEVEL)
        return EarlyStop(UNTIL_SE, state.metric, state.filter, is_narrow, *head, *ends, wanted=subsampling.until_se)
    decision, bounds = decide(state.own, state.others), difference_bounds(state.own, state.others)
    return EarlyStop(
        UNTIL_DECIDED,
        state.metric,
        state.filter,
        decision.is_decided,
        *head,
        *(bounds.low, bounds.high, LEVEL),
        p=decision.p,
        is_better=None if decision.is_first_better is None else decision.is_first_better != state.is_lower_better,
        other=subsampling.until_decided,
        lacking=state.lacking,
    )
