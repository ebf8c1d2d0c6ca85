"""Several models that are evaluated on the same tasks; equal sets of tasks are resolved once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.core.protocols import Model
from assay.core.specs import RunSpec
from assay.core.training import FitSpec
from assay.run.resolve import select_for_run
from assay.tasks.selection import Selection, Wanted


@dataclass(frozen=True, slots=True)
class CheckpointStep:
    """A model's position among the checkpoints of one training run: which run, and the number of steps."""

    series: str
    number: float


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """One of several models that are evaluated on the same tasks.

    Attributes:
        label: its short name.
        spec: its run.
        model: the model object, if one was given.
        step: its checkpoint step in a training run.
        fit: training request to run first; None for a model that is evaluated as is.
        fits_together: whether it is trained once on all tasks instead of once per column.
    """

    label: str
    spec: RunSpec
    model: Model | None = None
    step: CheckpointStep | None = None
    fit: FitSpec | None = None
    fits_together: bool = False


class SharedTasks:
    """The tasks of several runs: each set is resolved once for all runs that build it in the same way."""

    def __init__(self) -> None:
        self._known: list[tuple[RunSpec, Sequence[Wanted], Selection]] = []

    def select(self, spec: RunSpec, given: Sequence[Wanted]) -> Selection:
        """The tasks of one of the runs; see `select_for_run`."""
        for other, names, selection in self._known:
            if list(names) == list(given) and _builds_alike(spec, other, selection):
                return selection
        found = select_for_run(spec, given)
        self._known.append((spec, given, found))
        return found


def _builds_alike(spec: RunSpec, other: RunSpec, selection: Selection) -> bool:
    """Whether two specifications make the same tasks of the same names. The model's settings matter to task code only,
    which reads them when it makes its own data."""
    reads_settings = any(task.card.config.get("custom_dataset") for task in selection.tasks)
    first, second = ((one.tasks, one.include_path, one.allow_code) for one in (spec, other))
    options = [one.options if reads_settings else replace(one.options, metadata={}) for one in (spec, other)]
    return first == second and options[0] == options[1]
