"""Result of `assay compare`: runs compared on the same documents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.core.errors import Fault, UserError
from assay.core.tabular import Row, Tabular
from assay.studies.paired.paired_values import CompareOptions, OverallScore, PairedScore, RankTable


@dataclass(frozen=True, slots=True)
class System:
    """A run to compare, or one of its tasks.

    Attributes:
        label: its name in reports; unique within a comparison.
        run: the run's name.
        model: the user's name for the model.
        task: the task, if one was named.
    """

    label: str
    run: str
    model: str
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A task or metric that was not compared, and why; `metric` is None for a whole task."""

    task: str
    metric: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RunComparison(Tabular):
    """Two or more runs compared.

    Attributes:
        options: the options of the comparison.
        systems: the runs, in the order given.
        pairs: the compared pairs of systems, task by task.
        overall: the same over all tasks, if there are several.
        tables: ranks, if three or more systems were compared with each other.
        tests: number of tests in the correction.
        notices: further information for the reader.
        verdict: one sentence.
        uncompared: tasks and metrics that were left out.
    """

    options: CompareOptions
    systems: tuple[System, ...]
    pairs: tuple[PairedScore, ...]
    overall: tuple[OverallScore, ...]
    tables: tuple[RankTable, ...]
    tests: int
    notices: tuple[str, ...]
    verdict: str
    uncompared: tuple[Uncompared, ...] = ()

    def to_dicts(self) -> list[Row]:
        """One row per pair of runs, task and metric."""
        return [
            {
                "task": pair.task,
                "metric": pair.metric,
                "filter": pair.filter,
                "first": pair.first,
                "second": pair.second,
                "n": pair.n,
                "difference": pair.difference.value,
                "low": pair.difference.low,
                "high": pair.difference.high,
                "test": pair.test,
                "p": pair.p,
                "adjusted_p": pair.adjusted,
                "verdict": pair.verdict,
            }
            for pair in self.pairs
        ]

    def is_worse(self, margin: float | None = None) -> bool:
        """Whether any pair fails, or something could not be compared, so that its result is unknown."""
        return bool(self.uncompared) or any(self.fails(pair, margin) for pair in self.pairs)

    def fails(self, pair: PairedScore, margin: float | None = None) -> bool:
        """Whether there is a reason why a pair does not pass a gate."""
        return bool(self.failure(pair, margin))

    def failure(self, pair: PairedScore, margin: float | None = None) -> str:
        """Why a pair fails: its second run is significantly worse, or, with a margin, not shown to be non-inferior.

        A pair that could not be tested fails: no document in common, or a score that is infinite or undefined. So does
        a pair in which either lacks answers: those that it has may be the easy ones. Empty if nothing is wrong.
        """
        if pair.has_too_many_missing:
            return "too many documents have no value"
        if margin is None or pair.margin is None:
            return "worse beyond chance" if pair.is_worse else "could not be tested" if pair.p is None else ""
        if pair.margin.is_not_worse is None:
            return "the metric has no direction"
        return "" if pair.margin.is_not_worse else f"not shown to be at most {margin:g} worse"


def gated_options(options: CompareOptions, gate: float | None, first: str) -> CompareOptions:
    """The options of a comparison under `--fail_if_worse`: its margin, and a baseline.

    Args:
        options: the other options.
        gate: the margin of the gate, 0 for none; None without a gate.
        first: the run to use as the baseline if the options name none.
    """
    if gate is None:
        return options
    if gate and options.margin not in (None, gate):
        found = f"has a margin of {gate:g}, and --margin is {options.margin:g}"
        raise UserError(Fault("--fail_if_worse", found, "one of the two, or the same value for both"))
    return replace(options, margin=gate or options.margin, baseline=options.baseline or first)
