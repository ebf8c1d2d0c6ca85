"""Document values, estimates with their uncertainty, and the counts of documents behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

# A document's value for a metric: a number, two (a sum and its weight; the right label and the predicted one), or three
# (confidence, hit, the share of documents to answer).
Label = Union[float, str]
Value = Union[float, tuple[Label, Label], tuple[float, float, float]]
# Names of the aggregation by the task's own function, and of that for answers which are recorded and not scored.
CUSTOM, BYPASS = "custom", "bypass"


@dataclass(frozen=True, slots=True)
class DocumentValues:
    """The value of every scored document of a task, under one metric and pipeline: what a run records.

    Attributes:
        aggregation: how the values become one number, by name; `custom` for the task's own function.
        documents: indices in the evaluated split.
        values: one per document; NaN where the metric has none.
        clusters: the cluster of each document; None if the documents are independent.
    """

    task: str
    metric: str
    filter: str
    aggregation: str
    documents: Sequence[int]
    values: Sequence[Value]
    clusters: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its uncertainty. None marks what cannot be estimated (n of 0 or 1).

    Attributes:
        value: the estimate.
        stderr: its standard error.
        low: lower end of the confidence interval.
        high: upper end of the confidence interval.
        n: number of documents.
        method: how the interval was computed, such as `wilson`, `t`, `delta`, `bootstrap`.
        level: nominal coverage of the interval.
        clusters: number of clusters of the documents; None if the documents are independent.
    """

    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    level: float = 0.95
    clusters: int | None = None


@dataclass(frozen=True, slots=True)
class FailureBounds:
    """Range of a score if failed documents, which the estimate leaves out, are counted.

    Attributes:
        failed: documents without a value because a request failed.
        low: the score if each of them had the metric's lowest value (an accuracy: all wrong); None if the metric's
            values have no known range.
        high: the same with the highest value (an accuracy: all right).
    """

    failed: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric of one task after one filter pipeline.

    Attributes:
        metric: its name.
        filter: the pipeline's name; `none` when the task names none.
        estimate: value, standard error and interval.
        higher_is_better: direction, or None if undefined.
        harness_stderr: the standard error by lm-eval's rules, None if it reports "N/A".
        bounds: the range of scores with failed documents counted; None if no document failed.
    """

    metric: str
    filter: str
    estimate: Estimate
    higher_is_better: bool | None
    harness_stderr: float | None = None
    bounds: FailureBounds | None = None


@dataclass(frozen=True, slots=True)
class DrawCounts:
    """Counts of the draws of a task that samples each question several times.

    Attributes:
        per_question: draws per question.
        total: requested draws of all documents.
        failed: draws that failed; a document with one of them counts in no metric.
        unparsed: per filter pipeline, draws of scored documents in which no answer was found, if a metric uses all
            draws.
    """

    per_question: int
    total: int
    failed: int = 0
    unparsed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Denominators:
    """Counts of a task's documents by what happened to them.

    Attributes:
        available: documents of the evaluated split for which a prompt can be built.
        total: evaluated documents (after a limit).
        scored: documents that count in the metrics.
        failed: documents left out because a request failed.
        truncated: documents with a prompt truncated to fit the model.
        cut_off: documents with a generated text that reached the token limit.
        unparsed: per filter pipeline, documents in which no answer was found.
        notes: per note, the requests of a model or the documents of a task that carry it.
        draws: counts of single draws; None if each question has one draw.
        left_out: rows of the split that the prompt template cannot render, which are not among `available`.
        misses_by_space: per filter pipeline, documents that `exact_match` counts as wrong (or partly wrong) only
            because of white space around an answer; pipelines without any are not listed.
    """

    available: int
    total: int
    scored: int
    failed: int = 0
    truncated: int = 0
    unparsed: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    draws: DrawCounts | None = None
    cut_off: int = 0
    left_out: int = 0
    misses_by_space: dict[str, int] = field(default_factory=dict)


def sum_denominators(parts: Sequence[Denominators]) -> Denominators:
    """The counts summed over several tasks."""
    unparsed: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    by_space: Counter[str] = Counter()
    for part in parts:
        unparsed.update(part.unparsed)
        notes.update(part.notes)
        by_space.update(part.misses_by_space)
    return Denominators(
        available=sum(part.available for part in parts),
        total=sum(part.total for part in parts),
        scored=sum(part.scored for part in parts),
        failed=sum(part.failed for part in parts),
        truncated=sum(part.truncated for part in parts),
        unparsed=dict(unparsed),
        notes=dict(notes),
        cut_off=sum(part.cut_off for part in parts),
        left_out=sum(part.left_out for part in parts),
        misses_by_space=dict(by_space),
    )


@dataclass(frozen=True, slots=True)
class TextCounts:
    """The counts behind a task's perplexities: sums over its scored documents.

    Attributes:
        windows: number of windows in which the texts were read; None if a model does not report it.
        tokens: scored tokens.
        words: white-space separated words, the denominator of `word_perplexity`.
        bytes: UTF-8 bytes.
    """

    documents: int
    windows: int | None
    tokens: int
    words: int
    bytes: int


UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Extraction:
    """Answer extracted from one generated text, with the rule and its position.

    Attributes:
        answer: the extracted answer, normalised; None if nothing was found.
        extractor: name of the rule that found it; None if nothing was found.
        start: its start in the text; `NOWHERE` if nothing was found or the position is unknown.
        end: its end: `text[start:end]` is the match.
    """

    answer: str | None = None
    extractor: str | None = None
    start: int = UNKNOWN_OFFSET
    end: int = UNKNOWN_OFFSET


class MetricValues(dict[str, Any]):
    """Metric name → value. Equal to a plain dict of the same items.

    Attributes:
        sources: name → the task's metric that returned it, for names that the task file does not list.
    """

    __slots__ = ("sources",)

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self.sources: dict[str, str] = {}

    def add(self, metric: str, found: Any) -> None:
        """Adds the result of a task's metric: a value, or a dict of values under their own names."""
        if not isinstance(found, dict):
            self[metric] = found
            return
        for name, value in found.items():
            self[str(name)] = value
            self.sources[str(name)] = metric


@dataclass(frozen=True, slots=True)
class Sample:
    """One document after one pipeline: its requests, responses, filtered outputs and scores.

    Attributes:
        filtered: per question of the document, the outputs after the pipeline's filters.
        values: metric name → the document's value, as the metric's aggregation reads it.
        extractions: per question and draw, what the pipeline's extraction step found in the text; empty for a
            pipeline without extraction.
        draws: the score of each single draw, None if no answer was found; empty unless a metric uses all draws.
        document: the document's fields after the task's own scoring, if that changed them.
    """

    document_id: int
    filter: str
    filtered: tuple[Any, ...]
    values: dict[str, Any]
    extractions: tuple[tuple[Extraction, ...], ...] = ()
    draws: tuple[float | None, ...] = ()
    document: Mapping[str, Any] | None = None
