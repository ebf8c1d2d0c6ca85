"""Tasks of any make with other metrics than their own: those of task files have them already, objects get them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.documents import Document
from assay.core.errors import Fault, UserError
from assay.core.formats import Question
from assay.core.protocols import FewShotExample, HasFormat, ProvidesFewShotExamples, Task
from assay.core.recorded_values import BYPASS
from assay.core.requests import LONGEST_WINDOWS, Instance, RollingLoglikelihood, Windows
from assay.core.specs import MetricSpec, Scoring, TaskCard, TextOptions
from assay.tasks.corpora import KIND, TextTask, resolve_windows
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.metrics import ALL, changed_scoring


@dataclass(frozen=True, slots=True)
class RescoredTask:
    """A task of any make with another scoring. It asks what it always asks."""

    task: Task
    scoring: Scoring

    @property
    def card(self) -> TaskCard:
        return self.task.card

    def documents(self) -> Sequence[Document]:
        return self.task.documents()

    def build(self, document: Document) -> Instance:
        return self.task.build(document)

    def question(self, document: Document) -> Question | None:
        return self.task.question(document) if isinstance(self.task, HasFormat) else None

    def examples(self, document: Document) -> Sequence[FewShotExample]:
        return self.task.examples(document) if isinstance(self.task, ProvidesFewShotExamples) else ()


@dataclass(frozen=True, slots=True)
class WindowedTask:
    """A task of any make whose whole texts are read in the run's windows."""

    task: Task
    windows: Windows

    @property
    def card(self) -> TaskCard:
        card, windows = self.task.card, self.windows
        config = {**card.config, "perplexity": {"window": windows.length, "stride": windows.stride}}
        return replace(card, config=config)

    @property
    def scoring(self) -> Scoring:
        return self.task.scoring

    def documents(self) -> Sequence[Document]:
        return self.task.documents()

    def build(self, document: Document) -> Instance:
        instance = self.task.build(document)
        changed = tuple(
            replace(request, windows=self.windows) if isinstance(request, RollingLoglikelihood) else request
            for request in instance.requests
        )
        return replace(instance, requests=changed)

    def examples(self, document: Document) -> Sequence[FewShotExample]:
        return self.task.examples(document) if isinstance(self.task, ProvidesFewShotExamples) else ()


def windowed_tasks(tasks: Sequence[Task], texts: TextOptions) -> tuple[Task, ...]:
    """The tasks of a run that says how texts are cut. Those of task files and of texts have it already."""
    windows = resolve_windows(texts)
    if windows == LONGEST_WINDOWS:
        return tuple(tasks)
    if not any(task.card.kind == KIND for task in tasks):
        flag = "--stride" if texts.window is None else "--window"
        raise UserError(Fault(flag, "no task of this run reads whole texts", f"a task with output_type: {KIND}"))
    return tuple(
        task if isinstance(task, (LmEvalTask, TextTask)) or task.card.kind != KIND else WindowedTask(task, windows)
        for task in tasks
    )


def rescored_task(task: Task, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]) -> Task:
    """A task with the changes. Those of task files have them already; code that scores by itself takes none.

    Args:
        task: the task.
        changes: `metric_list` and the like, as `tasks.changes` makes them.
        metrics: metric → shapes that it scores.
    """
    is_done = isinstance(task, LmEvalTask) or changes.get("where_fitting")
    if is_done or not changes or task.scoring.process is not None:
        return task
    scoring = changed_scoring(task.scoring, task.scoring.scorer, changes, metrics)
    if scoring.nulls != task.scoring.nulls or scoring.reads_prompts != task.scoring.reads_prompts:
        found = "is written in Python, so requests that its own function does not pose cannot be added"
        names = ", ".join(f'"{entry["metric"]}"' for entry in changes.get("metric_list", ()))
        advice = f"Name them where the task is made, @assay.task(…, metrics=[{names}]), and run it anew"
        raise UserError(Fault(f"task {task.card.name}", found, "metrics that need no further request", advice))
    return RescoredTask(task, scoring)


def unscored_task(task: Task) -> Task:
    """A task that is asked and recorded only. Those of task files and of texts have it already."""
    if all(spec.name == BYPASS for spec in task.scoring.metrics):
        return task
    return RescoredTask(task, Scoring(task.scoring.scorer, (MetricSpec(BYPASS),)))


def check_metrics(tasks: Sequence[Task], scoring: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]) -> None:
    """A metric that the run asks for fits at least one task, unless it is meant for those that it fits.

    Args:
        tasks: the tasks of the run.
        scoring: what it asks for.
        metrics: metric → shapes that it scores, to say which would fit.
    """
    if scoring.get("where_fitting"):
        return
    known = {ALL, *(spec.name for task in tasks for spec in task.scoring.metrics)}
    unused = [entry["metric"] for entry in scoring.get("metric_list", ()) if entry["metric"] not in known]
    if unused:
        found = f"{', '.join(unused)}: no task of this run can be scored so"
        shapes = {task.scoring.scorer for task in tasks}
        fitting = sorted(name for name, scored in metrics.items() if scored & shapes and name != BYPASS)
        raise UserError(Fault("--metrics", found, f"some of: {', '.join(fitting)}", "See: assay ls metrics"))
