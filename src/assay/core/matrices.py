"""A matrix: what several models score on several tasks, and what the scores say of models and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.core.comparisons import RankRange
from assay.core.results import RequestCounts
from assay.core.scores import Denominators, Estimate, FailureBounds
from assay.core.studies import Comparison


@dataclass(frozen=True, slots=True)
class Column:
    """A task of the matrix, or a group that reports a score of its own.

    Attributes:
        name: the task's or the group's.
        metric: what is shown of it.
        filter: the pipeline; `none` when the task names none.
        higher_is_better: direction, or None when undefined.
        baseline: accuracy of picking at random, from the number of choices of every document; None where the metric
            is no accuracy or there are no choices.
        is_share: whether all scores lie between 0 and 1 and more is better, so that averages over tasks make sense.
    """

    name: str
    metric: str
    filter: str
    higher_is_better: bool | None
    baseline: float | None
    is_share: bool

    @property
    def title(self) -> str:
        """Name and metric."""
        return f"{self.name} ({self.metric})"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One model on one task.

    Attributes:
        estimate: the score.
        baseline: what picking at random scores on the documents that count; None where that is not defined.
        asked: digest of the documents asked about: two cells of one column are comparable where it is the same.
        documents: the documents that count, as `task#id`, the task without the way in which it is asked: columns that
            ask the same documents have the same names. Empty where the metric is no mean over documents.
        values: their values.
        clusters: the cluster of each; None where each document stands for itself.
        denominators: what became of the documents.
        bounds: the score with failed documents counted; None where none failed.
    """

    model: str
    task: str
    metric: str
    filter: str
    estimate: Estimate
    higher_is_better: bool | None
    baseline: float | None = None
    asked: str = ""
    documents: tuple[str, ...] = field(default=(), repr=False)
    values: tuple[float, ...] = field(default=(), repr=False)
    denominators: Denominators | None = None
    clusters: tuple[str, ...] | None = field(default=None, repr=False)
    bounds: FailureBounds | None = None

    @property
    def relative(self) -> float | None:
        """Improvement over picking at random, as a share of what that scores: (score − b) / b."""
        return self._above(self.baseline)

    @property
    def bounded(self) -> float | None:
        """The same as a share of what there is to gain: (score − b) / (1 − b); 1 is perfect."""
        return None if self.baseline is None else self._above(1 - self.baseline)

    def _above(self, scale: float | None) -> float | None:
        value = self.estimate.value
        if value is None or self.baseline is None or not scale:
            return None
        return (value - self.baseline) / scale


@dataclass(frozen=True, slots=True)
class Gap:
    """A cell that could not be filled, and why."""

    model: str
    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelRun:
    """The run that filled a model's cells."""

    model: str
    run_id: str
    store: str
    counts: RequestCounts


@dataclass(frozen=True, slots=True)
class Step:
    """The place of a model among the checkpoints of one training run: which run, and after how many steps."""

    series: str
    number: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Models in order, as far as the data can tell them apart.

    Attributes:
        task: the column; None for all columns together.
        ranks: model → the ranks that the data allows it; those of models that cannot be told apart overlap.
        letters: model → letters; two models that share one cannot be told apart. All empty where too many were needed.
        comparisons: every two models on the same documents.
    """

    task: str | None
    ranks: Mapping[str, RankRange]
    letters: Mapping[str, str]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class WinRate:
    """How often a model is ahead: per column the share of the other models that it beats, a tie counting half.

    Attributes:
        value: the mean over columns; None without one.
        columns: how many columns it stands on.
    """

    value: float | None
    columns: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A model over all columns.

    Attributes:
        score: mean over the columns that are shares, each counted once.
        score_columns: how many these are.
        relative: mean relative improvement over columns with a baseline.
        bounded: the same of the bounded form.
        baseline_columns: how many these are.
        win_rate: mean win rate.
    """

    model: str
    score: Estimate
    score_columns: int
    relative: float | None
    bounded: float | None
    baseline_columns: int
    win_rate: WinRate


@dataclass(frozen=True, slots=True)
class Correlation:
    """How far two lists agree in order.

    Attributes:
        value: from −1 to 1; None below three pairs, or where one list is constant.
        p: two-sided probability of a value so far from 0 if the lists had nothing to do with each other.
        n: pairs.
        method: of the p-value: `permutation` (all orders tried), `exact`, `t` or `normal`; `none` without a value.
    """

    value: float | None
    p: float | None
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class Link:
    """The correlations between two columns (over models), or between two models (over columns).

    Attributes:
        spearman: Spearman's ρ.
        kendall: Kendall's τ-b.
        spearman_adjusted: p of ρ after Holm's correction over all links of the table; None without a p.
        kendall_adjusted: the same for τ.
    """

    first: str
    second: str
    spearman: Correlation
    kendall: Correlation
    spearman_adjusted: float | None = None
    kendall_adjusted: float | None = None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Everything that a matrix found.

    Attributes:
        models: short names, in the order given.
        columns: tasks and groups, in the order of the run.
        cells: every score.
        gaps: every cell without one.
        standings: per model, over all columns.
        rankings: per column that has paired tests, and last over all of them.
        task_links: between columns, over models; signs are turned so that agreement is positive.
        model_links: between models, over columns that are shares.
        runs: the run of each model that could be asked.
        steps: model → its step, for checkpoints of a training run.
        notices: what the user ought to know.
    """

    models: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: tuple[MatrixCell, ...]
    gaps: tuple[Gap, ...]
    standings: tuple[Standing, ...]
    rankings: tuple[Ranking, ...]
    task_links: tuple[Link, ...]
    model_links: tuple[Link, ...]
    runs: tuple[ModelRun, ...] = ()
    steps: Mapping[str, Step] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def cell(self, model: str, task: str) -> MatrixCell | None:
        """The cell of a model and a task; None for a gap."""
        return next((cell for cell in self.cells if (cell.model, cell.task) == (model, task)), None)

    @property
    def failed(self) -> int:
        """Requests that failed, over all models."""
        return sum(run.counts.failed for run in self.runs)
