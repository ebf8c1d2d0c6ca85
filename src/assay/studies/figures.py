"""Figures of a run by name: `assay plot RUN KIND`, and the same figures straight after a run.

In: a run that has just ended, or a record in the store, which is reopened and rescored without its model.
Out: one file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.errors import Fault, MissingExtra, UserError
from assay.core.packages import missing_packages
from assay.core.protocols import Task
from assay.core.results import RunResult, TaskResult
from assay.core.specs import RunSpec
from assay.report.figures.sheet import check_figure
from assay.run.events import Listener
from assay.run.reopen import recorded_spec, reopen
from assay.run.rescore import score_reopened
from assay.run.resolve import resolve_tasks
from assay.run.session import RunOutcome, Session
from assay.store.store import Store
from assay.studies.calibration.reliability import tasks_with_reliability, write_reliability_figure
from assay.studies.paired.predictions import gold_choices_of, predictions_of
from assay.studies.variance.variance_values import PromptAxis, TaskVariance
from assay.tasks.catalog import open_catalog

RELIABILITY, AXES, PROMPTS, LENGTHS, POSITIONS = KINDS = ("reliability", "axes", "prompts", "lengths", "positions")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The data that the figures of a run are drawn from."""

    tasks: tuple[Task, ...]
    results: tuple[TaskResult, ...]
    prompts: tuple[PromptAxis, ...]
    variance: tuple[TaskVariance, ...]


def figures_of(result: RunResult) -> RunFigures:
    """The figures of a run that has just ended; those of predictions need its tasks, and so a recorded run."""
    return RunFigures((), result.tasks, result.prompts, result.variance)


def draw(kind: str, found: RunFigures, path: str | Path) -> Path:
    """Draws a figure; raises if the run has nothing to show in it.

    Args:
        kind: one of `KINDS`.
        found: the data of the run.
        path: file that ends in `.svg` or `.png`.
    """
    if kind == RELIABILITY:
        return write_reliability_figure(tasks_with_reliability(found.results), path)
    if kind in (PROMPTS, AXES):
        from assay.studies.variance.variance_figures import write_axes_figure, write_prompt_figure

        return write_prompt_figure(found.prompts, path) if kind == PROMPTS else write_axes_figure(found.variance, path)
    return _draw_predictions(kind, found, Path(path).expanduser())


def draw_recorded(
    store: Store, run: str, kind: str, path: str | Path | None, listener: Listener, tasks: Sequence[Task] = ()
) -> Path:
    """Draws a figure of a recorded run, which is reopened and rescored. Nothing is recorded.

    Args:
        store: holds the run.
        run: its name, the start of it, or `last`.
        kind: one of `KINDS`.
        path: the figure's file, or a folder for `RUN_KIND.svg`; None for the current folder.
        listener: receives events.
        tasks: task objects, for a run of task objects.
    """
    if kind not in KINDS:
        raise UserError(Fault("plot", f'no figure "{kind}"', "one of " + ", ".join(KINDS)))
    record = store.runs.get(run)
    target = Path("." if path is None else path).expanduser()
    if path is None or target.suffix == "" or target.is_dir():
        target = target / f"{record.id}_{kind}.svg"
    missing = missing_packages([check_figure(target, "--output_path")])
    if missing:
        raise MissingExtra(*missing)
    session = Session(replace(recorded_spec(record), bootstrap_iters=0), store, listener)
    outcome = score_reopened(session, reopen(session, record, tasks))
    prompts, variance = _variation(outcome) if kind in (PROMPTS, AXES) else ((), ())
    try:
        return draw(kind, RunFigures(outcome.setup.tasks, outcome.tasks, prompts, variance), target)
    except UserError as error:
        raise UserError(*(replace(fault, where=f"assay plot {record.id} {kind}") for fault in error.faults)) from error


def _variation(run: RunOutcome) -> tuple[tuple[PromptAxis, ...], tuple[TaskVariance, ...]]:
    from assay.studies.variance.decomposition import task_variances
    from assay.studies.variance.prompts import prompt_axes

    tasks = run.setup.tasks
    return prompt_axes(tasks, run.tasks), task_variances(tasks, run.setup.scorers, run.tasks)


# Predictions


@dataclass(frozen=True, slots=True)
class _Predicted:
    """The predictions of a task under a metric: per document the choice, the right ones, and the choices' lengths."""

    label: str
    rows: tuple[tuple[int | None, tuple[int, ...], tuple[int, ...]], ...]


def _predicted(found: RunFigures) -> Iterator[_Predicted]:
    for task, result in zip(found.tasks, found.results, strict=True):
        golds = gold_choices_of(task, result)
        lengths = {item.document.id: tuple(map(len, item.instance.choices)) for item in result.answered}
        for metric in result.metrics:
            for predictions in predictions_of(task, result, metric.metric, metric.filter)[:1]:
                rows = tuple((choice, golds[place][1], lengths[place]) for place, choice in predictions.items())
                if rows:
                    yield _Predicted(f"{result.name}, {metric.metric}", rows)


def _draw_predictions(kind: str, found: RunFigures, target: Path) -> Path:
    from assay.report.figures.plots import LengthPanel, PositionRow, length_figure, position_chart

    shown = list(_predicted(found))
    if not shown:
        message = "no task of the run predicts one of several choices"
        raise UserError(Fault(f"the figure of {kind}", message, "a multiple-choice task with an accuracy"))
    if kind == POSITIONS:
        rows = [
            PositionRow(item.label, _shares(predicted), _shares(right), len(item.rows))
            for item, predicted, right in ((item, *_position_counts(item)) for item in shown)
        ]
        position_chart(rows, target, "Which positions are predicted")
        return target
    panels = [LengthPanel(item.label, *_length_columns(item), "characters") for item in shown]
    length_figure(panels, target, "Does the method err where the right choice is long or short?")
    return target


def _position_counts(item: _Predicted) -> tuple[list[int], list[int]]:
    size = max(len(lengths) for _, _, lengths in item.rows)
    picked, right = [0] * size, [0] * size
    for choice, golds, _ in item.rows:
        if choice is not None:
            picked[choice] += 1
        for gold in golds[:1]:
            right[gold] += 1
    return picked, right


def _length_columns(item: _Predicted) -> tuple[list[float], list[float], list[bool]]:
    from statistics import median

    correct, wrong, missed = [], [], []
    for choice, golds, lengths in item.rows:
        others = [length for place, length in enumerate(lengths) if place not in golds]
        if golds and others:
            correct.append(float(lengths[golds[0]]))
            wrong.append(float(median(others)))
            missed.append(choice not in golds)
    return correct, wrong, missed


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


# Before a run


def check_prompts(spec: RunSpec, flag: str, least: int) -> None:
    """Rejects, before a run, a figure of tasks with several prompts if no task has as many.

    Args:
        spec: the run.
        flag: the option that names the figure.
        least: number of prompts that it needs.
    """
    tasks = resolve_tasks(spec, spec.tasks, open_catalog(spec.include_path)).tasks
    variants = [task.card.variant for task in tasks]
    counts = Counter(variant.task for variant in variants if variant is not None and variant.prompt is not None)
    if max(counts.values(), default=0) < least:
        found = "no task of the run is evaluated in several variants"
        varied = "--seeds, --orders, --draws or --prompts"
        raise UserError(Fault(flag, found, varied if least > 1 else "--prompts, or a task file with prompts"))
