"""Scores documents: runs the pipelines over a document's outputs and asks each metric for its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.documents import Document
from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.protocols import Filter
from assay.core.requests import Instance
from assay.core.responses import Output, Text
from assay.core.scores import Sample
from assay.core.specs import MetricSpec, PipelineSpec, Scoring
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.definitions import Value
from assay.scoring.registry import SCORERS, View, make_filter, metric_definition

_EXTRACTING = ("regex", "multi_choice_regex")


@dataclass(frozen=True, slots=True)
class _Pipeline:
    name: str
    filters: tuple[Filter, ...]
    fallbacks: frozenset[str]


@dataclass(frozen=True, slots=True)
class DocumentScorer:
    """A task's scoring, with every name resolved.

    Attributes:
        view: how metrics see a document.
        metrics: each metric with its value function.
        pipelines: the filter chains.
    """

    view: View
    metrics: tuple[tuple[MetricSpec, Value], ...]
    pipelines: tuple[_Pipeline, ...]

    def score(self, document: Document, instance: Instance, outputs: Sequence[Output]) -> list[Sample]:
        """One sample per pipeline. All requests of the document were answered."""
        raw = [output.text if isinstance(output, Text) else output for output in outputs]
        draws = instance.draws
        questions = [[value] for value in raw]
        if draws > 1:
            questions = [raw[start : start + draws] for start in range(0, len(raw), draws)]
        return [self._score(pipeline, document, instance, questions) for pipeline in self.pipelines]

    def _score(self, pipeline: _Pipeline, document: Document, instance: Instance, questions: list[list[Any]]) -> Sample:
        filtered: list[Any] = questions
        for step in pipeline.filters:
            filtered = step(filtered, document.fields)
        view = self.view(instance, filtered)
        values = {spec.name: value(view, spec.options) for spec, value in self.metrics}
        return Sample(document.id, pipeline.name, tuple(filtered), values)

    def is_unparsed(self, sample: Sample) -> bool:
        """Whether a pipeline that extracts an answer found none."""
        for pipeline in self.pipelines:
            if pipeline.name == sample.filter and pipeline.fallbacks:
                return any(_holds(item, pipeline.fallbacks) for item in sample.filtered)
        return False

    @property
    def extracting(self) -> tuple[str, ...]:
        """Names of the pipelines that can fail to find an answer."""
        return tuple(pipeline.name for pipeline in self.pipelines if pipeline.fallbacks)


def _holds(item: Any, fallbacks: frozenset[str]) -> bool:
    return any(part in fallbacks for part in (item if isinstance(item, list) else [item]) if isinstance(part, str))


def document_scorer(scoring: Scoring, where: str) -> DocumentScorer:
    """Resolves a task's scoring; errors name the task."""
    if scoring.scorer not in SCORERS:
        raise _unknown("scorer", scoring.scorer, SCORERS.names(), where)
    metrics = tuple((spec, _value(spec, scoring.scorer, where)) for spec in scoring.metrics)
    pipelines = tuple(_pipeline(spec, where) for spec in scoring.pipelines)
    view: View = SCORERS.get(scoring.scorer, where)
    return DocumentScorer(view, metrics, pipelines)


def _value(spec: MetricSpec, shape: str, where: str) -> Value:
    definition = metric_definition(spec.name, where)
    if shape not in definition.values:
        fits = ", ".join(definition.values)
        raise UserError(Fault(where, f'metric "{spec.name}" cannot score {shape}', fits, "See: assay ls metrics"))
    if spec.aggregation is not None and spec.aggregation not in AGGREGATIONS:
        raise _unknown("aggregation", spec.aggregation, list(AGGREGATIONS), where)
    return definition.values[shape]


def _unknown(noun: str, name: str, known: list[str], where: str) -> UserError:
    return UserError(Fault(where, f'unknown {noun} "{name}"{did_you_mean(name, known)}', "one of " + ", ".join(known)))


def _pipeline(spec: PipelineSpec, where: str) -> _Pipeline:
    filters = tuple(make_filter(step, f"{where}, filter {spec.name}") for step in spec.steps)
    fallbacks = [str(step.options.get("fallback", "[invalid]")) for step in spec.steps if step.name in _EXTRACTING]
    return _Pipeline(spec.name, filters, frozenset(fallbacks))
