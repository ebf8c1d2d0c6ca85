"""Scores documents: runs the pipelines over a document's outputs and asks each metric for its value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.documents import Document
from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.protocols import Filter
from assay.core.requests import Instance
from assay.core.responses import Output, Text
from assay.core.scores import Sample
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.filters.custom import OwnFilter
from assay.scoring.filters.text import HASH_PATTERN
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.definitions import Value
from assay.scoring.metrics.external import with_external_function
from assay.scoring.packages import require
from assay.scoring.provenance import Extractions, Traces, holds, joined, placed, watched
from assay.scoring.registry import METRICS, SCORERS, View, make_filter, metric_definition
from assay.scoring.scorers.answer import text_pair
from assay.scoring.task_code import Process, function_value, processed, raised, restored, shown
from assay.scoring.values import Values

_EXTRACTING = {"regex": "[invalid]", "multi_choice_regex": "[invalid]", "regex_pos": "invalid"}
_GENERATED = "generate_until"


@dataclass(frozen=True, slots=True)
class _Step:
    """A filter. Code of the task is shown outputs as lm-eval has them, and its errors are the user's to mend.

    Attributes:
        fallbacks: what it gives where it finds no answer; empty for a filter that looks for none.
        pattern: of lm-eval's `regex`, the pattern and which match it takes.
        tracer: the filter itself, where it tells where its answers come from.
    """

    name: str
    filter: Filter
    is_task_code: bool
    fallbacks: frozenset[str] = frozenset()
    pattern: tuple[re.Pattern[str], int] | None = None
    tracer: Traces | None = None


@dataclass(frozen=True, slots=True)
class _Pipeline:
    name: str
    steps: tuple[_Step, ...]
    fallbacks: frozenset[str]
    has_task_code: bool


@dataclass(frozen=True, slots=True)
class _Measure:
    """A metric with its value function.

    Attributes:
        is_task_code: whether it is a function of the task or of the package `evaluate`, which may raise anything.
        may_give_many: whether a value may be several, by name.
    """

    spec: MetricSpec
    value: Value
    is_task_code: bool = False
    may_give_many: bool = False


@dataclass(frozen=True, slots=True)
class DocumentScorer:
    """A task's scoring, with every name resolved.

    Attributes:
        where: the task, for errors.
        shape: the question's shape.
        view: how metrics see a document.
        measures: each metric with its value function; empty when the task scores by itself.
        pipelines: the filter chains.
        process: the task's own scoring, if it has one.
        may_give_many: whether a metric may give a document several values.
    """

    where: str
    shape: str
    view: View
    measures: tuple[_Measure, ...]
    pipelines: tuple[_Pipeline, ...]
    process: Process | None = None
    may_give_many: bool = False

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
        found: Extractions = ()
        extractions: Extractions = ()
        for step in pipeline.steps:
            given, found = filtered, ()
            if step.is_task_code:
                filtered = self._filtered(step, pipeline.name, document, shown(filtered, instance))
            elif step.tracer is not None:
                filtered, found = step.tracer.traced(filtered, document.fields)
            else:
                filtered = step.filter(filtered, document.fields)
            if step.fallbacks:
                found = found or watched(step.name, step.pattern, given, filtered, step.fallbacks)
                extractions = joined(extractions, placed(found, given, questions))
        if self.process is not None:
            values = processed(self.process, document, shown(filtered, instance), self.where)
        else:
            values = self._values(pipeline, document, instance, filtered)
        return Sample(document.id, pipeline.name, tuple(filtered), values, extractions)

    def _filtered(self, step: _Step, pipeline: str, document: Document, responses: list[Any]) -> list[Any]:
        try:
            return step.filter(responses, document.fields)
        except Exception as error:  # code of a task may raise anything
            where = f"{self.where}, filter {pipeline}, document {document.id}"
            raise raised(where, f'filter "{step.name}"', error) from error

    def _values(
        self, pipeline: _Pipeline, document: Document, instance: Instance, filtered: list[Any]
    ) -> dict[str, Any]:
        if pipeline.has_task_code and self.shape != _GENERATED:
            filtered = list(restored(filtered, f"{self.where}, filter {pipeline.name}, document {document.id}"))
        view = self.view(instance, filtered)
        if not self.may_give_many:  # the usual case, once per document: kept short
            return {measure.spec.name: measure.value(view, measure.spec.options) for measure in self.measures}
        values = Values()
        for measure in self.measures:
            found = self._called(measure, view, document)
            if measure.may_give_many:
                values.add(measure.spec.name, found)
            else:
                values[measure.spec.name] = found
        return values

    def _called(self, measure: _Measure, view: Any, document: Document) -> Any:
        if not measure.is_task_code:
            return measure.value(view, measure.spec.options)
        try:
            return measure.value(view, measure.spec.options)
        except Exception as error:  # code of a task, or of the package evaluate, may raise anything
            where = f"{self.where}, document {document.id}"
            raise raised(where, f'metric "{measure.spec.name}"', error) from error

    def is_unparsed(self, sample: Sample) -> bool:
        """Whether a pipeline that extracts an answer found none."""
        if any(draws and all(draw.answer is None for draw in draws) for draws in sample.extractions):
            return True  # also where a later step, such as `map`, made something else of the fallback
        for pipeline in self.pipelines:
            if pipeline.name == sample.filter and pipeline.fallbacks:
                return any(holds(item, pipeline.fallbacks) for item in sample.filtered)
        return False

    @property
    def extracting(self) -> tuple[str, ...]:
        """Names of the pipelines that can fail to find an answer."""
        return tuple(pipeline.name for pipeline in self.pipelines if pipeline.fallbacks)


def document_scorer(scoring: Scoring, where: str) -> DocumentScorer:
    """Resolves a task's scoring; errors name the task."""
    if scoring.scorer not in SCORERS:
        raise _unknown("scorer", scoring.scorer, SCORERS.names(), where)
    for spec in scoring.metrics:
        _check_aggregation(spec, where)
    measures: tuple[_Measure, ...] = ()
    if scoring.process is None:
        measures = tuple(_measure(spec, scoring.scorer, where) for spec in scoring.metrics)
    pipelines = tuple(_pipeline(spec, where) for spec in scoring.pipelines)
    view: View = SCORERS.get(scoring.scorer, where)
    gives_many = any(measure.may_give_many for measure in measures)
    return DocumentScorer(where, scoring.scorer, view, measures, pipelines, scoring.process, gives_many)


def _measure(spec: MetricSpec, shape: str, where: str) -> _Measure:
    """A metric's value function for a shape.

    Functions of tasks and of the package `evaluate` are for generated answers only: for the other shapes lm-eval goes
    by the name alone, and so does this.
    """
    if shape == _GENERATED and spec.function is not None:
        return _Measure(spec, function_value(spec), is_task_code=True, may_give_many=True)
    # lm-eval's exact_match is a copy of the one in `evaluate`; ours gives the same without a download.
    is_external = spec.is_external and spec.name != "exact_match"
    if shape == _GENERATED and (is_external or spec.name not in METRICS):
        called = with_external_function(spec, METRICS.names(), where)
        return _Measure(called, function_value(called), is_task_code=True, may_give_many=True)
    definition = metric_definition(spec.name, where)
    if shape == _GENERATED and shape not in definition.values and callable(spec.aggregation):
        return _Measure(spec, text_pair)  # lm-eval hands such metrics' pairs on to the task's own aggregation
    if shape not in definition.values:
        fits = ", ".join(definition.values) or "a task with process_results"
        raise UserError(Fault(where, f'metric "{spec.name}" cannot score {shape}', fits, "See: assay ls metrics"))
    value = definition.values[shape]
    if getattr(value, "package", ""):
        require(value.package, f'{where}, metric "{spec.name}"')  # type: ignore[attr-defined]
    return _Measure(spec, value, may_give_many=definition.gives_many)


def _check_aggregation(spec: MetricSpec, where: str) -> None:
    named = spec.aggregation
    if named is None and spec.name in METRICS:
        named = metric_definition(spec.name, where).aggregation
    if not isinstance(named, str):
        return
    if named not in AGGREGATIONS:
        raise _unknown("aggregation", named, list(AGGREGATIONS), where)
    if AGGREGATIONS[named].package:
        require(AGGREGATIONS[named].package, f'{where}, metric "{spec.name}"')


def _unknown(noun: str, name: str, known: list[str], where: str) -> UserError:
    return UserError(Fault(where, f'unknown {noun} "{name}"{did_you_mean(name, known)}', "one of " + ", ".join(known)))


def _pipeline(spec: PipelineSpec, where: str) -> _Pipeline:
    steps = tuple(_step(step, f"{where}, filter {spec.name}") for step in spec.steps)
    fallbacks = frozenset().union(*(step.fallbacks for step in steps))
    return _Pipeline(spec.name, steps, fallbacks, any(step.is_task_code for step in steps))


def _step(spec: FilterSpec, where: str) -> _Step:
    is_task_code = spec.factory is not None or spec.name == "custom"
    made = make_filter(spec, where)
    pattern, which = None, spec.options.get("group_select", 0)
    if spec.name == "regex" and not is_task_code and isinstance(which, int):
        pattern = re.compile(spec.options.get("regex_pattern", HASH_PATTERN)), which
    tracer = made if isinstance(made, Traces) else None
    return _Step(spec.name, made, is_task_code, frozenset(_fallbacks(spec, made)), pattern, tracer)


def _fallbacks(spec: FilterSpec, made: Filter) -> list[str]:
    """What a filter gives when it finds no answer, if it is one that looks for answers."""
    if isinstance(made, Traces):
        return [made.fallback]
    if isinstance(made, OwnFilter):
        found = spec.options.get("fallback", getattr(made.filter, "fallback", None))
    else:
        default = _EXTRACTING.get(spec.name)
        found = default if default is None else spec.options.get("fallback", default)
    parts = found if isinstance(found, (list, tuple)) else [found]
    return [str(part) for part in parts if part is not None]
