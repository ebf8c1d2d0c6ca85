"""Reliability of a task: the confidence of each predicted choice against its correctness, as a table and a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import Fault, UserError
from assay.core.responses import Failure, LabelScores, Logprob
from assay.core.results import AnsweredDocument, RunResult, TaskResult
from assay.scoring.scorers.multiple_choice import choice_view, confidence, scores_view

if TYPE_CHECKING:
    from assay.stats.calibration import CoveragePoint, ReliabilityBin

_CURVE_POINTS = 100


@dataclass(frozen=True, slots=True)
class Reliability:
    """A task's confidences against its hits.

    Attributes:
        n: documents.
        bins: bins of equal mass, from lowest to highest confidence.
        curve: accuracy on the most confident documents, at a hundred coverages at most.
    """

    n: int
    bins: tuple[ReliabilityBin, ...]
    curve: tuple[CoveragePoint, ...]

    def to_json(self) -> dict[str, Any]:
        """The table and curve as JSON data."""
        return asdict(self)


def with_reliability(result: RunResult) -> RunResult:
    """The run with the reliability of all its tasks, including those whose metrics do not need it."""
    return replace(result, tasks=tasks_with_reliability(result.tasks))


def tasks_with_reliability(tasks: Sequence[TaskResult]) -> tuple[TaskResult, ...]:
    """The tasks of a run with their reliability, if they have choice probabilities."""
    found = [(task, task.reliability or task_reliability(task.answered)) for task in tasks]
    return tuple(
        task if own is None else replace(task, additions={**task.additions, "reliability": own}) for task, own in found
    )


def task_reliability(answered: Sequence[AnsweredDocument]) -> Reliability | None:
    """Reliability diagram and risk-coverage curve of a task; None without choice probabilities or answers."""
    points = list(_points(answered))
    if not points:
        return None
    from assay.stats.calibration import reliability_table, risk_coverage

    sure, hits = [point[0] for point in points], [point[1] for point in points]
    curve = risk_coverage(sure, hits)
    step = max(1, math.ceil(len(curve) / _CURVE_POINTS))
    # Thinned from the end, so that the last point covers all documents.
    return Reliability(len(points), reliability_table(sure, hits), curve[::-1][::step][::-1])


def _points(answered: Sequence[AnsweredDocument]) -> Iterator[tuple[float, float]]:
    for item in answered:
        instance = item.instance
        outputs = [output for output in item.outputs if not isinstance(output, Failure)]
        if not instance.choices or instance.orders or not outputs or len(outputs) < len(item.outputs):
            continue
        if isinstance(outputs[0], LabelScores):
            yield confidence(scores_view(instance, outputs), {})
        elif isinstance(outputs[0], Logprob):
            yield confidence(choice_view(instance, outputs[:: instance.draws]), {})


def write_reliability_figure(tasks: Sequence[TaskResult], path: str | Path) -> Path:
    """Draws the reliability diagram of every task that scores choices."""
    from assay.report.figures.reliability_plot import reliability_figure  # most runs have no figure

    shown = {task.name: task.reliability for task in tasks if task.reliability is not None}
    if not shown:
        found = "no task of the run scores choices, so there is no confidence to show"
        raise UserError(
            Fault("--reliability_figure", found, "a multiple-choice task, scored in one order of its choices")
        )
    target = Path(path).expanduser()
    reliability_figure(shown, target, "Is it as often right as it is sure?")
    return target
