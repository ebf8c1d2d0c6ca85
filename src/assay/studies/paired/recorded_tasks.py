"""Tasks of recorded runs, reopened: recorded numbers and, where possible, documents, answers and samples.

In: the record of a run. Out: a `ReopenedTask` per task; its `reason` says why a task cannot be reopened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import UserError
from assay.core.identity import document_digest
from assay.core.protocols import Rescorable, Task
from assay.core.requests import Instance, Request
from assay.core.responses import Failure
from assay.core.results import AnsweredDocument, TaskResult
from assay.core.scores import Estimate
from assay.core.specs import MetricSpec, PipelineSpec, RunSpec, Scoring
from assay.core.task_variants import task_family
from assay.run.build import BuiltTask, build_task
from assay.run.events import Listener
from assay.run.execute import NOTHING_EXECUTED
from assay.run.reopen import as_argument, missing_task_objects, object_task_text, recorded_spec, reopen
from assay.run.resolve import RescoredTask
from assay.run.score import scored_task
from assay.run.session import Session
from assay.scoring.document_scorer import document_scorer
from assay.store.run_records import RunRecord
from assay.store.store import Store
from assay.studies.paired.paired_values import Score


@dataclass(frozen=True, slots=True)
class ReopenedTask:
    """A task of a recorded run.

    Attributes:
        spec: the specification of the run.
        built: the task as built; None if the run cannot be reopened.
        result: its answers scored today; None if the run cannot be reopened.
        reason: why it cannot be reopened, or why its answers cannot be scored.
        needs_object: whether it cannot be reopened because it was a Python object and is not given.
    """

    store: Store
    record: RunRecord
    name: str
    spec: RunSpec
    built: BuiltTask | None = None
    result: TaskResult | None = None
    reason: str = ""
    needs_object: bool = False

    @property
    def explanation(self) -> str:
        """Why it cannot be reopened, and what to do."""
        advice = f". From Python, give it: {as_argument([task_family(self.name)])}" if self.needs_object else ""
        return self.reason + advice

    @property
    def entry(self) -> Mapping[str, Any]:
        """The task's entry in the manifest."""
        return self.record.tasks[self.name]

    @property
    def config(self) -> Mapping[str, Any]:
        """The task's definition as recorded; records of older versions have none."""
        card = {} if self.built is None else self.built.task.card.config
        found: Mapping[str, Any] = self.entry.get("config", card)
        return found

    @property
    def summary(self) -> Mapping[str, Any]:
        """The task's recorded numbers; empty for an unfinished run."""
        return self.record.numbers(self.name)

    @property
    def scoring(self) -> Scoring | None:
        return None if self.built is None else self.built.task.scoring

    def scores(self) -> list[Score]:
        """Every number of the task: today's if the answers are available, else the recorded ones."""
        if self.result is not None:
            return [Score(self.name, m.metric, m.filter, m.estimate) for m in self.result.metrics]
        return self.recorded_scores()

    def recorded_scores(self) -> list[Score]:
        """Every number as recorded."""
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


def reopen_tasks(
    store: Store, record: RunRecord, names: list[str], listener: Listener, given: Sequence[Task] = ()
) -> dict[str, ReopenedTask]:
    """The named tasks of a run. Each is rescored from the store, without lm-eval's bootstrap.

    Args:
        store: holds the run.
        record: the run.
        names: names of the tasks to reopen.
        listener: receives the events.
        given: task objects, for runs of task objects; others are ignored.
    """
    plain = RunSpec.from_json(record.spec)
    lacking: list[str] = []
    try:
        spec, lacking = recorded_spec(record), missing_task_objects(record, given)
        reopened = reopen(Session(spec, store, listener), record, given, is_partial=True)
    except UserError as error:
        closed = {name: ReopenedTask(store, record, name, plain, reason=str(error)) for name in names}
        return {**closed, **_objects(store, record, names, lacking)}
    found = _objects(store, record, names, lacking)
    for built in reopened.built:
        name = built.task.card.name
        if name in names:
            found[name] = _reopened_task(store, record, built, spec)
    return found


def _objects(store: Store, record: RunRecord, names: list[str], lacking: Sequence[str]) -> dict[str, ReopenedTask]:
    """The tasks that were Python objects and are not given."""
    spec, families = RunSpec.from_json(record.spec), {name: task_family(name) for name in names}
    return {
        name: ReopenedTask(store, record, name, spec, reason=object_task_text(record, family), needs_object=True)
        for name, family in families.items()
        if family in lacking
    }


def _reopened_task(store: Store, record: RunRecord, built: BuiltTask, spec: RunSpec) -> ReopenedTask:
    """A rescored task; a task that cannot be scored does not affect the others."""
    name, where = built.task.card.name, f"task {built.task.card.name}"
    try:
        scorer = document_scorer(built.task.scoring, where)
    except UserError as error:  # such as a metric that is not installed
        return ReopenedTask(store, record, name, spec, reason=str(error))
    result = scored_task(built, scorer, store.responses, NOTHING_EXECUTED, 0)
    if result.problem is not None and not result.metrics:
        return ReopenedTask(store, record, name, spec, reason=result.problem.text)
    return ReopenedTask(store, record, name, spec, built, result)


def rescored_under(reopened: ReopenedTask, metric: MetricSpec, pipeline: PipelineSpec | None) -> TaskResult | None:
    """The task's answers under another metric or pipeline; None if the stored answers do not allow it."""
    own = reopened.scoring
    if own is None or reopened.built is None or metric.function is not None:
        return None
    pipelines = own.pipelines if pipeline is None else (pipeline,)
    scoring = replace(own, metrics=(metric,), pipelines=pipelines, process=None)
    try:
        built = _built_for(reopened, reopened.built, scoring)
        scorer = document_scorer(scoring, f"task {reopened.name}")
    except Exception:  # the metric does not fit this output type, or the output of this pipeline
        return None
    if built is None:
        return None
    result = scored_task(built, scorer, reopened.store.responses, NOTHING_EXECUTED, 0)
    return result if result.problem is None or result.metrics else None


def _built_for(reopened: ReopenedTask, built: BuiltTask, scoring: Scoring) -> BuiltTask | None:
    """The task built for a scoring; None if that needs requests without a stored answer."""
    own, task = built.task.scoring, built.task
    if set(scoring.nulls) <= set(own.nulls) and (own.reads_prompts or not scoring.reads_prompts):
        return replace(built, task=RescoredTask(task, scoring))
    if not isinstance(task, Rescorable):
        return None
    again = build_task(task.with_scoring(scoring), reopened.spec, reopened.record.fingerprint.digest)
    keys = again.keys.requests
    return again if len(reopened.store.responses.known(keys)) == len(keys) else None


def paired_documents(first: ReopenedTask, second: ReopenedTask) -> list[tuple[int, int]]:
    """Positions of the common documents, matched by content; equal ones one by one."""
    if first.built is None or second.built is None:
        return []
    if first.built.fingerprint == second.built.fingerprint:
        return [(index, index) for index in range(len(first.built.documents))]
    places: dict[str, list[int]] = defaultdict(list)
    for index, document in enumerate(second.built.documents):
        places[document_digest(document)].append(index)
    pairs = []
    for index, document in enumerate(first.built.documents):
        others = places[document_digest(document)]
        if others:
            pairs.append((index, others.pop(0)))
    return pairs


def main_requests(instance: Instance) -> tuple[Request, ...]:
    """The requests of a document, without those that only some metrics need."""
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


def is_whole(item: AnsweredDocument) -> bool:
    """Whether every request of a document was answered."""
    return not any(isinstance(output, Failure) for output in item.outputs)
