"""Numbers with their uncertainty, and the counts that say what a number leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and how sure we are of it. None stands for what the data cannot say (n of 0 or 1).

    Attributes:
        value: the estimate.
        stderr: its standard error.
        low: lower end of the interval.
        high: upper end of the interval.
        n: documents it stands on.
        method: how the interval was made, such as `wilson`, `t`, `delta`, `bootstrap`.
        level: probability that the interval claims to cover.
        clusters: in how many clusters the documents lie; None where each stands for itself.
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
    """Where a score lies if failed documents are counted, which the estimate leaves out.

    Attributes:
        failed: documents without a value because a request failed.
        low: the score if each of them had the metric's lowest value (an accuracy: all wrong); None where the metric's
            values have no known range.
        high: likewise with the highest value (an accuracy: all right).
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
        estimate: value, error and interval.
        higher_is_better: direction, or None when undefined.
        harness_stderr: the standard error under lm-eval's rules, None where it reports "N/A".
        bounds: the score with failed documents counted; None where no document failed.
    """

    metric: str
    filter: str
    estimate: Estimate
    higher_is_better: bool | None
    harness_stderr: float | None = None
    bounds: FailureBounds | None = None


@dataclass(frozen=True, slots=True)
class DrawCounts:
    """What became of the draws of a task that asks each question several times.

    Attributes:
        per_question: how often each question is asked.
        total: draws asked for, of all documents.
        failed: draws that failed; a document with one of them is in no metric.
        unparsed: per filter pipeline, draws of scored documents in which no answer was found, where a metric looks at
            them all.
    """

    per_question: int
    total: int
    failed: int = 0
    unparsed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Denominators:
    """What became of a task's documents.

    Attributes:
        available: documents in the evaluated split that can be asked about.
        total: documents asked about (after a limit).
        scored: documents that count in the metrics.
        failed: documents left out because a request failed.
        truncated: documents with a prompt cut to fit the model.
        cut_off: documents with a written text that ran into the token limit.
        unparsed: per filter pipeline, documents in which no answer was found.
        notes: per note, the requests of a model or the documents of a task that carry it.
        draws: what became of single draws; None where each question is asked once.
        left_out: rows of the split that the prompt cannot render, which are not among `available`.
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
    """The same for several tasks together."""
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
    """What the perplexities of a task stand on: sums over its scored documents.

    Attributes:
        windows: in how many windows the texts were read; None where a model does not tell.
        tokens: tokens that were scored.
        words: pieces between white space, as `word_perplexity` divides by them.
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
    """What was read from one generated text, by which rule and where.

    Attributes:
        answer: what was read, normalised; None when nothing was found.
        extractor: name of the rule that found it; None when nothing was found.
        start: where it begins in the text; `NOWHERE` when nothing was found, or when the place is not known.
        end: where it ends: `text[start:end]` is what was matched.
    """

    answer: str | None = None
    extractor: str | None = None
    start: int = UNKNOWN_OFFSET
    end: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True)
class Sample:
    """One document after one pipeline: what was asked, answered, made of it and scored.

    Attributes:
        filtered: per question of the document, what the pipeline made of the outputs.
        values: metric name → the document's value, as the metric's aggregation reads it.
        extractions: per question and draw, what the pipeline's extracting step found in the text; empty for a
            pipeline that extracts nothing.
        draws: what each draw is worth by itself, None where no answer was found; empty unless a metric looks at them.
        document: the document's fields after the task's own scoring, where that has changed them.
    """

    document_id: int
    filter: str
    filtered: tuple[Any, ...]
    values: dict[str, Any]
    extractions: tuple[tuple[Extraction, ...], ...] = ()
    draws: tuple[float | None, ...] = ()
    document: Mapping[str, Any] | None = None
