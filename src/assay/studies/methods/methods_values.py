"""Values of a methods study: every method of selecting a choice, on the same answers of the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from assay.core.results import RunResult
from assay.core.scores import Estimate, MetricResult
from assay.stats.spread import ChanceSpread
from assay.studies.paired.paired_values import Comparison

# No choice is predicted: the generated text names none of them.
NO_PREDICTION = -1


@dataclass(frozen=True, slots=True)
class MethodsCell:
    """One model on one task, in one prompt style, under one method.

    Attributes:
        model: short name.
        task: name of the task, or of the group whose tasks are pooled.
        style: the prompt style; `own` for the task's own.
        method: the method, or the pipeline that reads a written answer.
        estimate: the accuracy.
        documents: the documents that count, as `task#id`.
        picks: per document the place of the choice picked; `NO_PREDICTION` for none.
        hits: per document 1 for a right pick, else 0; in several orders of the choices, the mean over them.
        clusters: per document its cluster; None without clusters.
    """

    model: str
    task: str
    style: str
    method: str
    estimate: Estimate
    documents: tuple[str, ...] = field(repr=False)
    picks: tuple[int, ...] = field(repr=False)
    hits: tuple[float, ...] = field(repr=False)
    clusters: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Style and method."""
        return f"{self.method}@{self.style}"


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """What a document's choices are like.

    Attributes:
        right: places of the right choices.
        lengths: the choices' lengths in characters.
    """

    right: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def compared_lengths(self) -> tuple[float, float] | None:
        """Length of the right choice and median length of the wrong ones; None where there are not both."""
        right = [index for index in self.right if 0 <= index < len(self.lengths)]
        wrong = [length for index, length in enumerate(self.lengths) if index not in right]
        return (float(self.lengths[right[0]]), float(median(wrong))) if right and wrong else None


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the scores of one model on one task lie apart.

    Attributes:
        style: the style whose methods are compared; None for all styles and methods together.
        delta: highest minus lowest score.
        lowest: the cell of the lowest score, as `method@style`.
        highest: the cell of the highest.
        p: Cochran's Q: probability of such a spread if the cells differed by chance only; None where undefined, as
            for documents in clusters.
        n: documents that all cells have.
        chance: the spread that sampling alone would give; None with fewer than ten documents or clusters.
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
    """A document on which methods predict different choices: the prediction of each, and what is right."""

    document: str
    right: tuple[int, ...]
    picks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PredictionChanges:
    """The documents of one model, task and style on which methods disagree, of `n` in all.

    Attributes:
        pairs: per two methods, on how many documents their picks differ.
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
        is_proven: whether both orders are beyond chance after correction; else the data cannot tell.
    """

    task: str
    one: Comparison
    other: Comparison
    is_proven: bool


@dataclass(frozen=True, slots=True)
class LengthBias:
    """Where a method errs, is the right choice long or short? In characters, right minus median of the wrong ones.

    Attributes:
        everywhere: mean over all documents.
        missed: over those that the method got wrong, with its interval.
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
        styles: in the order given.
        cells: every score.
        questions: document → its choices.
        chances: task → accuracy of picking at random.
        spreads: per style, and over all.
        changes: per model, task and style.
        comparisons: of every two models under every cell.
        rank_changes: where the order of two models depends on the cell.
        length_biases: per cell.
        places: per cell.
        diagnostics: (model, task, style) → what else the same answers tell.
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
