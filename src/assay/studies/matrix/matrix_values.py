"""Values of a matrix: scores of several models on several tasks, ranks, correlations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.core.results import RequestCounts
from assay.core.scores import Denominators, Estimate, FailureBounds
from assay.core.tabular import Row, Tabular
from assay.run.many import CheckpointStep
from assay.stats.correlation import Correlation
from assay.stats.ranking import Average, RankRange
from assay.studies.paired.paired_values import Comparison

# A task, a metric and the pipeline before it: what a number has to share with another to be compared with it.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """One metric of a task, or of a group that reports a score of its own.

    Attributes:
        name: the task's or the group's.
        metric: the metric of every score in the column.
        filter: the pipeline before it; `none` when the task names none.
        higher_is_better: direction, or None when undefined.
        baseline: accuracy of picking at random, from the number of choices of every document; None where the metric
            is not an accuracy or there are no choices.
        is_share: whether the scores are shares from 0 to 1 and more is better, so that averages over tasks make sense.
        is_main: whether averages count it: of a task's columns, the one that most models have.
        is_split: whether the task has several columns, because its models have different metrics.
    """

    name: str
    metric: str
    filter: str
    higher_is_better: bool | None
    baseline: float | None
    is_share: bool
    is_main: bool = True
    is_split: bool = False

    @property
    def key(self) -> Key:
        """What its cells have in common."""
        return self.name, self.metric, self.filter

    @property
    def title(self) -> str:
        """Name and metric, and the pipeline where two columns may differ in nothing else."""
        more = f", {self.filter}" if self.is_split and self.filter != "none" else ""
        return f"{self.name} ({self.metric}{more})"

    @property
    def label(self) -> str:
        """The shortest name that no other column has."""
        return self.title if self.is_split else self.name


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One model on one task.

    Attributes:
        estimate: the score.
        baseline: what picking at random scores on the documents that count; None where that is not defined.
        asked: digest of the evaluated documents: two cells of one column are comparable where it is the same.
        documents: the documents that count, as `task#id`, the task without its variant: columns of
            the same documents have the same names. Empty where the metric is not a mean over documents.
        values: their values.
        clusters: the cluster of each; None without clusters.
        denominators: what became of the documents.
        bounds: the score with failed documents counted; None where none failed.
        part: of a group's score, the tasks that it is the mean of, where others have no such metric; empty for all.
        is_style: whether the part after `@` in the task's name is a style, chosen on purpose, and not a prompt.
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
    part: tuple[str, ...] = ()
    is_style: bool = False

    @property
    def key(self) -> Key:
        """The column that it belongs to."""
        return self.task, self.metric, self.filter

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
class MissingCell:
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
class Ranking:
    """Models in order, as far as the data can tell them apart.

    Attributes:
        task: the column's label; None for all tasks together.
        ranks: model → the ranks that the data allows it; those of models that cannot be told apart overlap.
        letters: model → letters; two models that share one cannot be told apart. All empty where too many were needed.
        comparisons: every two models on the same documents.
        random: over all tasks, variants taken as a random sample: `5 prompts of sst2`.
        fixed: those for which alone the ranks hold.
    """

    task: str | None
    ranks: Mapping[str, RankRange]
    letters: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    random: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """A model over all tasks. Its averages are over the tasks that it has, which may be others than those of a rival.

    Attributes:
        score: mean over the columns that are shares, each counted once.
        score_tasks: the labels of these columns.
        common: the same over the columns that all models have, for comparing models.
        relative: mean relative improvement over columns with a baseline.
        bounded: the same of the bounded form.
        win_rate: per column the share of the other models that it beats, a tie counting half; the mean over columns.
    """

    model: str
    score: Estimate
    score_tasks: tuple[str, ...]
    common: Estimate
    relative: Average
    bounded: Average
    win_rate: Average


@dataclass(frozen=True, slots=True)
class CorrelationPair:
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
class Matrix(Tabular):
    """Everything that a matrix found.

    Attributes:
        models: short names, in the order given.
        columns: tasks and groups, in the order of the run, each with one metric; several for a task whose models have
            no metric in common.
        cells: every score, of the column with its task, metric and pipeline.
        gaps: every model and task without one.
        standings: per model, over all tasks.
        common: labels of the columns that `Standing.common` is over: shares that all models have.
        rankings: per column that has paired tests, and last over all of them.
        task_correlations: between columns, over models; signs are turned so that agreement is positive.
        model_correlations: between models, over columns that are shares.
        runs: the run of each model that has one.
        steps: model → its step, for checkpoints of a training run.
        notices: further information for the reader.
    """

    models: tuple[str, ...]
    columns: tuple[MatrixColumn, ...]
    cells: tuple[MatrixCell, ...]
    gaps: tuple[MissingCell, ...]
    standings: tuple[Standing, ...]
    common: tuple[str, ...]
    rankings: tuple[Ranking, ...]
    task_correlations: tuple[CorrelationPair, ...]
    model_correlations: tuple[CorrelationPair, ...]
    runs: tuple[ModelRun, ...] = ()
    steps: Mapping[str, CheckpointStep] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def to_dicts(self) -> list[Row]:
        """One row per model and column that has a score."""
        return [
            {
                "model": cell.model,
                "task": cell.task,
                "metric": cell.metric,
                "filter": cell.filter,
                **{name: getattr(cell.estimate, name) for name in ("value", "stderr", "low", "high", "n")},
                "baseline": cell.baseline,
                "relative": cell.relative,
            }
            for cell in self.cells
        ]

    def cell(self, model: str, task: str, metric: str | None = None) -> MatrixCell | None:
        """The cell of a model and a task; None for a gap. Of several, that of the metric, or of the first column."""
        own = [cell for cell in self.cells if (cell.model, cell.task) == (model, task)]
        return next((cell for cell in own if metric in (None, cell.metric)), None)

    def at(self, model: str, column: MatrixColumn) -> MatrixCell | None:
        """The cell of a model in a column; None where that is empty."""
        return next((cell for cell in self.cells if cell.model == model and cell.key == column.key), None)

    @property
    def tasks(self) -> int:
        """How many tasks there are, each counted once however many columns it has."""
        return sum(column.is_main for column in self.columns)

    @property
    def failed(self) -> int:
        """Requests that failed, over all models."""
        return sum(run.counts.failed for run in self.runs)
