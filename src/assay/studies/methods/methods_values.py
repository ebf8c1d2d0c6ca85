"""Values of a methods study: every method of selecting a choice, on the same answers of the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from assay.core.results import RunResult
from assay.core.scores import Estimate, MetricResult
from assay.stats.spread import ChanceSpread
from assay.studies.paired.paired_values import Comparison

# No prediction: the generated text names none of the choices.
NO_PREDICTION = -1


@dataclass(frozen=True, slots=True)
class MethodsCell:
    """One model on one task, in one prompt style, under one method.

    Attributes:
        model: short name.
        task: name of the task, or of the group whose tasks are pooled.
        style: the prompt style; `own` for the task's own.
        method: the method, or the pipeline that extracts a generated answer.
        estimate: the accuracy.
        documents: the documents that count, as `task#id`.
        predictions: per document, the index of the predicted choice; `NO_PREDICTION` for none.
        hits: per document, 1 for a right prediction, else 0; with several orders of the choices, the mean over them.
        clusters: per document, its cluster; None without clusters.
    """

    model: str
    task: str
    style: str
    method: str
    estimate: Estimate
    documents: tuple[str, ...] = field(repr=False)
    predictions: tuple[int, ...] = field(repr=False)
    hits: tuple[float, ...] = field(repr=False)
    clusters: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Style and method."""
        return f"{self.method}@{self.style}"


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """Properties of a document's choices.

    Attributes:
        right: indices of the right choices.
        lengths: the choices' lengths in characters.
    """

    right: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def compared_lengths(self) -> tuple[float, float] | None:
        """Length of the right choice and median length of the wrong ones; None without either."""
        right = [index for index in self.right if 0 <= index < len(self.lengths)]
        wrong = [length for index, length in enumerate(self.lengths) if index not in right]
        return (float(self.lengths[right[0]]), float(median(wrong))) if right and wrong else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of the scores of one model on one task.

    Attributes:
        style: the style whose methods are compared; None for all styles and methods together.
        delta: highest minus lowest score.
        lowest: the cell of the lowest score, as `method@style`.
        highest: the cell of the highest.
        p: Cochran's Q: p-value of the hypothesis that all cells are equally good; None if undefined, as
            for documents in clusters.
        n: documents that all cells have.
        chance: the spread expected from sampling alone; None with fewer than ten documents or clusters.
    """

    model: str
    task: str
    style: str | None
    delta: float
    lowest: str
    highest: str
    p: float | None
    n: int
    chance: ChanceSpread | None = None


@dataclass(frozen=True, slots=True)
class PredictionChange:
    """A document on which methods predict different choices: the prediction of each, and the right choices."""

    document: str
    right: tuple[int, ...]
    predictions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PredictionChanges:
    """The documents of one model, task and style on which methods disagree, out of `n`.

    Attributes:
        pairs: per pair of methods, the number of documents on which their predictions differ.
    """

    model: str
    task: str
    style: str
    n: int
    changes: Sequence[PredictionChange]
    pairs: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class RankChange:
    """Two models whose order differs between two cells.

    Attributes:
        is_proven: whether both orders are significant after correction; else the data is inconclusive.
    """

    task: str
    one: Comparison
    other: Comparison
    is_proven: bool


@dataclass(frozen=True, slots=True)
class LengthBias:
    """Length bias of a method: when it errs, is the right choice long or short? Right minus median wrong length.

    Attributes:
        everywhere: mean over all documents, in characters.
        missed: mean over those that the method got wrong, with its interval.
    """

    model: str
    task: str
    cell: str
    everywhere: Estimate
    missed: Estimate


@dataclass(frozen=True, slots=True)
class PositionCounts:
    """How often each position is predicted, and how often it is right, in documents."""

    model: str
    task: str
    cell: str
    picked: tuple[int, ...]
    right: tuple[int, ...]
    none: int


@dataclass(frozen=True, slots=True)
class MethodsStudy:
    """Result of a methods study.

    Attributes:
        models: short names, in the order given.
        tasks: tasks and groups, in the order of the run.
        styles: prompt styles, in the order given.
        cells: every score.
        questions: document → its choices.
        chances: task → accuracy of random guessing.
        spreads: spreads per style, and over all styles.
        changes: changed predictions per model, task and style.
        comparisons: all pairs of models under every cell.
        rank_changes: pairs of models whose order depends on the cell.
        length_biases: length bias per cell.
        places: position bias per cell.
        diagnostics: (model, task, style) → further metrics of the same answers.
        requests: method → requests that only it needs, over all models.
        runs: model → its run.
        notices: further information for the reader.
    """

    models: tuple[str, ...]
    tasks: tuple[str, ...]
    styles: tuple[str, ...]
    cells: tuple[MethodsCell, ...]
    questions: Mapping[str, ChoiceQuestion] = field(repr=False)
    chances: Mapping[str, float]
    spreads: tuple[Spread, ...]
    changes: tuple[PredictionChanges, ...] = field(repr=False)
    comparisons: tuple[Comparison, ...]
    rank_changes: tuple[RankChange, ...]
    length_biases: tuple[LengthBias, ...]
    places: tuple[PositionCounts, ...]
    diagnostics: Mapping[tuple[str, str, str], tuple[MetricResult, ...]]
    requests: Mapping[str, int]
    runs: Mapping[str, RunResult] = field(repr=False)
    notices: tuple[str, ...] = ()
