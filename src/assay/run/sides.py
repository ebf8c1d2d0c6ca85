"""The two sides of a comparison: a task of a recorded run with everything that can still be known of it.

Takes a record, gives per task its recorded numbers and, where the run can be reopened, documents, answers and samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import UserError
from assay.core.explanations import Score
from assay.core.identity import document_digest
from assay.core.protocols import Task
from assay.core.requests import Instance, Request
from assay.core.responses import Failure
from assay.core.results import Answered, TaskResult
from assay.core.scores import Estimate
from assay.core.specs import MetricSpec, PipelineSpec, RunSpec, Scoring
from assay.core.variance_axes import task_family
from assay.run.changing import Rescored
from assay.run.events import Listener
from assay.run.execute import Executed
from assay.run.posing import PosedTask, pose_task
from assay.run.reopen import as_argument, lacking_objects, recorded_spec, reopen, was_object
from assay.run.scoring import score_task, scored_task
from assay.run.session import Session
from assay.scoring.documents import document_scorer
from assay.store.runs import RunRecord
from assay.store.store import Store
from assay.tasks.harness.task import HarnessTask

_NOTHING_ASKED = Executed({}, {}, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Side:
    """A task of a recorded run.

    Attributes:
        spec: what the run asked for.
        posed: the task as asked; None where the run cannot be reopened.
        result: its answers scored today; None likewise.
        reason: why it cannot be reopened, or why its answers cannot be scored.
        needs_object: whether it cannot be reopened because it was an object in Python, and is not given.
    """

    store: Store
    record: RunRecord
    name: str
    spec: RunSpec
    posed: PosedTask | None = None
    result: TaskResult | None = None
    reason: str = ""
    needs_object: bool = False

    @property
    def told(self) -> str:
        """Why it cannot be reopened, and what helps."""
        advice = f". From Python, give it: {as_argument([task_family(self.name)])}" if self.needs_object else ""
        return self.reason + advice

    @property
    def entry(self) -> Mapping[str, Any]:
        """What the manifest says of the task."""
        return self.record.tasks[self.name]

    @property
    def config(self) -> Mapping[str, Any]:
        """The task's definition as recorded; records of older versions have none."""
        card = {} if self.posed is None else self.posed.task.card.config
        found: Mapping[str, Any] = self.entry.get("config", card)
        return found

    @property
    def summary(self) -> Mapping[str, Any]:
        """The task's recorded numbers; empty for a run that did not get to its end."""
        return self.record.numbers(self.name)

    @property
    def scoring(self) -> Scoring | None:
        return None if self.posed is None else self.posed.task.scoring

    def scores(self) -> list[Score]:
        """Every number of the task: today's where the answers are at hand, else the recorded ones."""
        if self.result is not None:
            return [Score(self.name, m.metric, m.filter, m.estimate) for m in self.result.metrics]
        return self.recorded_scores()

    def recorded_scores(self) -> list[Score]:
        """Every number as the record has it."""
        return [
            Score(self.name, item["metric"], item["filter"], Estimate(**item["estimate"]))
            for item in self.summary.get("metrics", ())
        ]

    def metric(self, name: str) -> MetricSpec | None:
        """The task's metric of this name."""
        listed = () if self.scoring is None else self.scoring.metrics
        return next((spec for spec in listed if spec.name == name), None)

    def pipeline(self, name: str) -> PipelineSpec | None:
        """The task's filter pipeline of this name."""
        listed = () if self.scoring is None else self.scoring.pipelines
        return next((spec for spec in listed if spec.name == name), None)


def load_sides(
    store: Store, record: RunRecord, names: list[str], listener: Listener, given: Sequence[Task] = ()
) -> dict[str, Side]:
    """The named tasks of a run. Each is scored anew from the store, without lm-eval's bootstrap.

    Args:
        store: holds the run.
        record: the run.
        names: its tasks that are wanted.
        listener: told of the stages.
        given: task objects, for runs of such; those that this one did not ask are left alone.
    """
    plain = RunSpec.from_json(record.spec)
    lacking: list[str] = []
    try:
        spec, lacking = recorded_spec(record), lacking_objects(record, given)
        reopened = reopen(Session(spec, store, listener), record, given, is_partial=True)
    except UserError as error:
        closed = {name: Side(store, record, name, plain, reason=str(error)) for name in names}
        return {**closed, **_objects(store, record, names, lacking)}
    found = _objects(store, record, names, lacking)
    for posed in reopened.posed:
        name = posed.task.card.name
        if name in names:
            found[name] = _side(store, record, posed, spec)
    return found


def _objects(store: Store, record: RunRecord, names: list[str], lacking: Sequence[str]) -> dict[str, Side]:
    """The tasks that were objects in Python, and are not given."""
    spec, families = RunSpec.from_json(record.spec), {name: task_family(name) for name in names}
    return {
        name: Side(store, record, name, spec, reason=was_object(record, family), needs_object=True)
        for name, family in families.items()
        if family in lacking
    }


def _side(store: Store, record: RunRecord, posed: PosedTask, spec: RunSpec) -> Side:
    """A task scored anew; one that cannot be scored leaves the others theirs."""
    name, where = posed.task.card.name, f"task {posed.task.card.name}"
    try:
        scorer = document_scorer(posed.task.scoring, where)
    except UserError as error:  # a metric that is not to be had, say
        return Side(store, record, name, spec, reason=str(error))
    result = scored_task(posed, scorer, store.responses, _NOTHING_ASKED, 0)
    if result.problem is not None and not result.metrics:
        return Side(store, record, name, spec, reason=result.problem.text)
    return Side(store, record, name, spec, posed, result)


def under(side: Side, metric: MetricSpec, pipeline: PipelineSpec | None) -> TaskResult | None:
    """The side's answers under another metric or pipeline; None where the stored answers do not allow it."""
    own = side.scoring
    if own is None or side.posed is None or metric.function is not None:
        return None
    pipelines = own.pipelines if pipeline is None else (pipeline,)
    scoring = replace(own, metrics=(metric,), pipelines=pipelines, process=None)
    try:
        posed = _posed_for(side, side.posed, scoring)
        scorer = document_scorer(scoring, f"task {side.name}")
        return None if posed is None else score_task(posed, scorer, side.store.responses, _NOTHING_ASKED, 0)
    except Exception:  # the metric does not fit this shape of question, or not what this pipeline gives
        return None


def _posed_for(side: Side, posed: PosedTask, scoring: Scoring) -> PosedTask | None:
    """The task as a scoring needs it asked; None where that takes requests without an answer."""
    own, task = posed.task.scoring, posed.task
    if set(scoring.nulls) <= set(own.nulls) and (own.reads_prompts or not scoring.reads_prompts):
        return replace(posed, task=Rescored(task, scoring))
    if not isinstance(task, HarnessTask):
        return None
    changed = HarnessTask(replace(task.definition, scoring=scoring), task.options)
    again = pose_task(changed, side.spec, side.record.fingerprint.digest)
    keys = again.keys.requests
    return again if len(side.store.responses.known(keys)) == len(keys) else None


def paired_documents(first: Side, second: Side) -> list[tuple[int, int]]:
    """Places of the documents that both sides have, by their content; equal ones one by one."""
    if first.posed is None or second.posed is None:
        return []
    if first.posed.fingerprint == second.posed.fingerprint:
        return [(place, place) for place in range(len(first.posed.documents))]
    places: dict[str, list[int]] = defaultdict(list)
    for place, document in enumerate(second.posed.documents):
        places[document_digest(document)].append(place)
    pairs = []
    for place, document in enumerate(first.posed.documents):
        others = places[document_digest(document)]
        if others:
            pairs.append((place, others.pop(0)))
    return pairs


def asked(instance: Instance) -> tuple[Request, ...]:
    """What a document asks, without what only some metrics ask besides."""
    if instance.choices and not instance.orders and (instance.nulls or instance.prompts):
        return instance.requests[: len(instance.choices) * instance.draws]
    return instance.requests


def values_of(result: TaskResult, score: Score) -> dict[int, float]:
    """Document → its value, for metrics whose values are numbers."""
    found = {}
    for sample in result.samples:
        value = sample.values.get(score.metric)
        if sample.filter == score.filter and isinstance(value, (int, float)):
            found[sample.document_id] = float(value)
    return found


def is_whole(item: Answered) -> bool:
    """Whether every request of a document was answered."""
    return not any(isinstance(output, Failure) for output in item.outputs)
