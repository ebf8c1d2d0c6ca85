"""A group's own score as plain data: the average that the authors of a suite define, as a tree over its tasks.

Names of tasks are those of the run, so that a score can be computed from task results alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

# A floor that is the score of guessing: the task's card states it, or it follows from the numbers of choices.
CHANCE = "chance"
# How the parts of a score are combined: each counts once, each document counts once, or the best part counts.
MACRO, MICRO, BEST = "macro", "micro", "best"


@dataclass(frozen=True, slots=True)
class Normalisation:
    """0 below the floor, else (x − floor) / (ceiling − floor).

    Attributes:
        floor: a number, or `CHANCE`.
        ceiling: the value that becomes 1.
    """

    floor: float | str = 0.0
    ceiling: float = 1.0


@dataclass(frozen=True, slots=True)
class TaskTerm:
    """A task's part in a score: the mean of some of its metrics, normalised.

    Attributes:
        task: the task's name in the run.
        metrics: names of its metrics; empty for its primary metric.
        filter: the pipeline of the metrics; None for the first that has each.
        normalisation: applied to the mean; None for none.
    """

    task: str
    metrics: tuple[str, ...] = ()
    filter: str | None = None
    normalisation: Normalisation | None = None


@dataclass(frozen=True, slots=True)
class CombinedTerm:
    """Several parts of a score, combined.

    Attributes:
        name: for messages.
        parts: the parts.
        how: `MACRO`, `MICRO` or `BEST`.
        normalisation: applied to the result; None for none.
        scale: multiplies the result at last.
    """

    name: str
    parts: tuple[ScoreTerm, ...]
    how: str = MACRO
    normalisation: Normalisation | None = None
    scale: float = 1.0


ScoreTerm = Union[TaskTerm, CombinedTerm]


@dataclass(frozen=True, slots=True)
class GroupScore:
    """A score of a group, and the name under which it is reported, as a metric of the group."""

    name: str
    term: CombinedTerm

    def with_levels(self, levels: str) -> GroupScore:
        """The score over the tasks at one combination of levels: `#seed=3`."""
        return replace(self, term=_combined_with_levels(self.term, levels))


def _combined_with_levels(term: CombinedTerm, levels: str) -> CombinedTerm:
    return replace(
        term,
        parts=tuple(
            replace(part, task=part.task + levels)
            if isinstance(part, TaskTerm)
            else _combined_with_levels(part, levels)
            for part in term.parts
        ),
    )
