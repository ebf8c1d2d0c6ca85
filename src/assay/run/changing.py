"""Tasks of any make with other metrics than their own: those of task files have them already, objects get them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.documents import Document
from assay.core.errors import Fault, UserError
from assay.core.protocols import Example, ShowsExamples, Task
from assay.core.requests import Instance
from assay.core.specs import Scoring, TaskCard
from assay.tasks.harness.rescored import ALL, changed_scoring
from assay.tasks.harness.task import HarnessTask


@dataclass(frozen=True, slots=True)
class Rescored:
    """A task of any make with another scoring. It asks what it always asks."""

    task: Task
    scoring: Scoring

    @property
    def card(self) -> TaskCard:
        return self.task.card

    def documents(self) -> Sequence[Document]:
        return self.task.documents()

    def pose(self, document: Document) -> Instance:
        return self.task.pose(document)

    def examples(self, document: Document) -> Sequence[Example]:
        return self.task.examples(document) if isinstance(self.task, ShowsExamples) else ()


def rescored_task(task: Task, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]) -> Task:
    """A task with the changes. Those of task files have them already; code that scores by itself takes none.

    Args:
        task: the task.
        changes: `metric_list` and the like, as `tasks.changes` makes them.
        metrics: metric → shapes that it scores.
    """
    is_done = isinstance(task, HarnessTask) or changes.get("where_fitting")
    if is_done or not changes or task.scoring.process is not None:
        return task
    scoring = changed_scoring(task.scoring, task.scoring.scorer, changes, metrics)
    if scoring.nulls != task.scoring.nulls or scoring.reads_prompts != task.scoring.reads_prompts:
        found = "is written in Python, so requests that its own function does not pose cannot be added"
        raise UserError(Fault(f"task {task.card.name}", found, "metrics that need no further request"))
    return Rescored(task, scoring)


def check_metrics(tasks: Sequence[Task], scoring: Mapping[str, Any]) -> None:
    """A metric that the run asks for fits at least one task, unless it is meant for those that it fits."""
    if scoring.get("where_fitting"):
        return
    known = {ALL, *(spec.name for task in tasks for spec in task.scoring.metrics)}
    unused = [entry["metric"] for entry in scoring.get("metric_list", ()) if entry["metric"] not in known]
    if unused:
        found = f"{', '.join(unused)}: no task of this run can be scored so"
        raise UserError(Fault("--metrics", found, "metrics of the tasks' shape", "See: assay ls metrics"))
