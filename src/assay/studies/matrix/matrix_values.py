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

# A task, a metric and the pipeline before it: numbers are comparable only if these are equal.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """One metric of a task, or of a group that reports its own score.

    Attributes:
        name: name of the task or group.
        metric: the metric of every score in the column.
        filter: the pipeline before it; `none` when the task names none.
        higher_is_better: direction, or None if undefined.
        baseline: accuracy of random guessing, from the number of choices of every document; None if the metric
            is not an accuracy or there are no choices.
        is_share: whether the scores are shares from 0 to 1 and higher is better, so that averages make sense.
        is_main: whether it counts in averages: of a task's columns, the one that most models have.
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
        """The key that its cells have in common."""
        return self.name, self.metric, self.filter

    @property
    def title(self) -> str:
        """Name and metric, and the pipeline if columns may differ in nothing else."""
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
        baseline: accuracy of random guessing on the documents that count; None if undefined.
        asked: digest of the evaluated documents: cells of a column are comparable if it is the same.
        documents: the documents that count, as `task#id`, the task without its variant: columns of
            the same documents have the same names. Empty if the metric is not a mean over documents.
        values: their values.
        clusters: the cluster of each; None without clusters.
        denominators: the document counts.
        bounds: the score with failed documents counted; None if none failed.
        part: for a group's score, the tasks that it averages, if others lack the metric; empty for all tasks.
        is_style: whether the part after `@` in the task's name is a style, chosen on purpose, rather than a prompt.
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
        """Relative improvement over random guessing: (score − b) / b."""
        return self._above(self.baseline)

    @property
    def bounded(self) -> float | None:
        """Improvement as a share of the possible gain: (score − b) / (1 − b); 1 is perfect."""
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
    """Ranking of models, with ties if they are not separable.

    Attributes:
        task: the column's label; None for all tasks together.
        ranks: model → its rank range; ranges of models that are not separable overlap.
        letters: model → letters; two models that share a letter are not separable. All empty if too many are needed.
        comparisons: all pairs of models on the same documents.
        random: over all tasks, the variants treated as a random sample: `5 prompts of sst2`.
        fixed: the variants to which alone the ranks apply.
    """

    task: str | None
    ranks: Mapping[str, RankRange]
    letters: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    random: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """A model over all tasks. Its averages are over the tasks that it has, which may differ from another model's.

    Attributes:
        score: mean over the columns that are shares, each counted once.
        score_tasks: the labels of these columns.
        common: the same over the columns that all models have, for comparing models.
        relative: mean relative improvement over columns with a baseline.
        bounded: mean bounded improvement over the same columns.
        win_rate: mean over columns of the share of the other models that it beats, ties counting half.
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
    """Result of a matrix.

    Attributes:
        models: short names, in the order given.
        columns: tasks and groups, in the order of the run, each with one metric; several for a task whose models have
            no metric in common.
        cells: every score; it belongs to the column with its task, metric and pipeline.
        gaps: every model and task without a score.
        standings: the averages of each model over all tasks.
        common: labels of the columns that `Standing.common` is over: shares that all models have.
        rankings: one per column that has paired tests, and last one over all of them.
        task_correlations: between columns, over models; signs are chosen so that agreement is positive.
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
        """The cell of a model in a column; None if that is empty."""
        return next((cell for cell in self.cells if cell.model == model and cell.key == column.key), None)

    @property
    def tasks(self) -> int:
        """Number of tasks, each counted once however many columns it has."""
        return sum(column.is_main for column in self.columns)

    @property
    def failed(self) -> int:
        """Requests that failed, over all models."""
        return sum(run.counts.failed for run in self.runs)
