"""Scores documents: applies the filter pipelines to a document's outputs and computes each metric's value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from assay.core.documents import Document
from assay.core.errors import Fault, LimitError, UserError, did_you_mean
from assay.core.metric_names import expanded_specs, family_of, uses_all_draws
from assay.core.protocols import Filter
from assay.core.requests import Instance
from assay.core.responses import Output, Text
from assay.core.scores import MetricValues, Sample
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.guard.time_limit import ResourceLimit
from assay.scoring.draw_metrics import DrawScorer, ScoredDraw, draw_scorer_spec, draw_vote, draws_view
from assay.scoring.filters.custom import TaskFilter
from assay.scoring.filters.text_filters import HASH_PATTERN
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.definitions import Value
from assay.scoring.metrics.hf_evaluate import with_external_function
from assay.scoring.provenance import (
    Extractions,
    TracingFilter,
    TruncationFlags,
    contains_fallback,
    inferred_extractions,
    merge_extractions,
    truncation_after_step,
    with_original_offsets,
)
from assay.scoring.registry import FILTERS, METRICS, SCORERS, View, make_filter, metric_definition
from assay.scoring.scorers.generated_answer import text_pair
from assay.scoring.scorers.row_values import BY, category_rule
from assay.scoring.task_code import (
    ProcessFunction,
    as_lm_eval,
    function_value,
    run_process_results,
    task_code_error,
    to_logprobs,
)

_EXTRACTING = {"regex": "[invalid]", "multi_choice_regex": "[invalid]", "regex_pos": "invalid"}
_GENERATED, _TAKE_FIRST_K = "generate_until", "take_first_k"


@dataclass(frozen=True, slots=True)
class _Step:
    """A filter step. Task code receives outputs in lm-eval's form, and its errors are reported to the user.

    Attributes:
        fallbacks: its outputs for "no answer found"; empty for a filter that does not extract.
        pattern: for lm-eval's `regex`, the pattern and which match it takes.
        tracer: the filter itself, if it reports where its answers were found.
        searches_patterns: whether it searches texts by patterns of the task.
    """

    name: str
    filter: Filter
    is_task_code: bool
    fallbacks: frozenset[str] = frozenset()
    pattern: tuple[re.Pattern[str], int] | None = None
    tracer: TracingFilter | None = None
    searches_patterns: bool = False


class _GroupedOutputs(NamedTuple):
    """The outputs of one document, grouped by question; constructed for every document.

    Attributes:
        questions: per question, its draws: generated texts as strings, other outputs as they are.
        is_truncated: per question and draw, whether the text reached the token limit; empty if none did.
    """

    questions: list[list[Any]]
    is_truncated: TruncationFlags

    def draw(self, index: int) -> _GroupedOutputs:
        """One draw of every question, as the only one."""
        return _GroupedOutputs(
            [[draws[index]] for draws in self.questions], tuple([(cut[index],) for cut in self.is_truncated])
        )


def _group_outputs(outputs: Sequence[Output], draws: int) -> _GroupedOutputs:
    raw = [output.text if isinstance(output, Text) else output for output in outputs]
    cut = [isinstance(output, Text) and output.is_cut_off for output in outputs] if raw != outputs else []
    starts = range(0, len(raw), draws)
    is_truncated = tuple([tuple(cut[start : start + draws]) for start in starts]) if any(cut) else ()
    questions = [[value] for value in raw] if draws == 1 else [raw[start : start + draws] for start in starts]
    return _GroupedOutputs(questions, is_truncated)


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """A filter chain.

    Attributes:
        max_draws: number of draws that `take_first_k` leaves; None for all.
    """

    name: str
    steps: tuple[_Step, ...]
    fallbacks: frozenset[str]
    has_task_code: bool
    max_draws: int | None = None

    @property
    def single_draw_steps(self) -> tuple[_Step, ...]:
        """The steps for a single draw; steps that select among draws are skipped."""
        return tuple(step for step in self.steps if step.name != _TAKE_FIRST_K or step.is_task_code)

    def comparable_instance(self, instance: Instance) -> Instance:
        """The instance with its right answers in the form of this pipeline's answers."""
        gold = instance.gold
        for step in self.steps:
            if step.tracer is not None:
                compare = step.tracer.comparable
                gold = tuple(map(compare, gold)) if isinstance(gold, tuple) else compare(gold)
        return instance if gold == instance.gold else replace(instance, gold=gold)

    def found_no_answer(self, filtered: Sequence[Any], extractions: Extractions) -> bool:
        """Whether an extraction step found no answer."""
        if any(draws and all(draw.answer is None for draw in draws) for draws in extractions):
            return True  # also if a later step, such as `map`, changed the fallback
        return bool(self.fallbacks) and any(contains_fallback(item, self.fallbacks) for item in filtered)


@dataclass(frozen=True, slots=True)
class _BoundMetric:
    """A metric with its value function.

    Attributes:
        is_task_code: whether it is a function of the task or of the package `evaluate`, which may raise anything.
        may_give_many: whether it may return several values, by name.
        reads_document: whether its value function also takes the document.
    """

    spec: MetricSpec
    value: Value
    is_task_code: bool = False
    may_give_many: bool = False
    reads_document: bool = False


@dataclass(frozen=True, slots=True)
class _DrawMetrics:
    """Metrics over draws that use the same score of single draws.

    Attributes:
        draw_scorer: the scorer of a draw.
        base: its value function; None if the task's own scoring scores draws.
        bound_metrics: the metrics.
    """

    draw_scorer: DrawScorer
    base: _BoundMetric | None
    bound_metrics: tuple[_BoundMetric, ...]


@dataclass(frozen=True, slots=True)
class DocumentScorer:
    """A task's scoring, with every name resolved.

    Attributes:
        where: the task, for errors.
        shape: the question's output type.
        view: builds what metrics see of a document.
        bound_metrics: each metric with its value function; empty if the task has its own scoring.
        pipelines: the filter chains.
        process: the task's own scoring, if any.
        has_plain_metrics: whether every metric returns one value and needs only the view of a document.
        draw_metrics: metrics that use all draws of a question.
    """

    where: str
    shape: str
    view: View
    bound_metrics: tuple[_BoundMetric, ...]
    pipelines: tuple[_Pipeline, ...]
    process: ProcessFunction | None = None
    has_plain_metrics: bool = True
    draw_metrics: tuple[_DrawMetrics, ...] = ()

    def score(self, document: Document, instance: Instance, outputs: Sequence[Output]) -> list[Sample]:
        """One sample per pipeline. All requests of the document must have been answered."""
        grouped = _group_outputs(outputs, instance.draws)
        try:
            return [self._score(pipeline, document, instance, grouped) for pipeline in self.pipelines]
        except LimitError as error:
            raise error.at(f"{self.where}, document {document.id}") from error

    def _score(self, pipeline: _Pipeline, document: Document, instance: Instance, grouped: _GroupedOutputs) -> Sample:
        filtered, extractions = self._apply_steps(pipeline, pipeline.steps, document, instance, grouped)
        changed: Mapping[str, Any] | None = None
        if self.process is not None:
            values, changed = run_process_results(self.process, document, as_lm_eval(filtered, instance), self.where)
        elif pipeline.has_task_code:
            values = self._values_after_code(pipeline, document, instance, filtered)
        else:
            values = self._values(pipeline, document, instance, filtered)
        draw_scores: tuple[float | None, ...] = ()
        if self.draw_metrics:
            draw_metrics, draw_scores = self._draw_metric_values(pipeline, document, instance, grouped)
            values.update(draw_metrics)
        return Sample(
            document.id,
            pipeline.name,
            filtered=tuple(filtered),
            values=values,
            extractions=extractions,
            draws=draw_scores,
            document=changed,
        )

    def _apply_steps(
        self,
        pipeline: _Pipeline,
        steps: Sequence[_Step],
        document: Document,
        instance: Instance,
        grouped: _GroupedOutputs,
    ) -> tuple[list[Any], Extractions]:
        """Applies the steps to the questions; also returns where answers were found."""
        filtered: list[Any] = grouped.questions
        is_truncated = grouped.is_truncated
        found: Extractions = ()
        extractions: Extractions = ()
        for step in steps:
            given, found = filtered, ()
            if step.is_task_code:
                filtered = self._apply_task_filter(step, pipeline.name, document, as_lm_eval(filtered, instance))
            elif step.searches_patterns:
                filtered, found = self._search_step(step, pipeline.name, document, filtered, is_truncated)
            else:
                filtered = step.filter(filtered, document.fields)
            if step.fallbacks:
                found = found or inferred_extractions(step.name, None, given, filtered, step.fallbacks)
                extractions = merge_extractions(extractions, with_original_offsets(found, given, grouped.questions))
            is_truncated = truncation_after_step(given, filtered, is_truncated) if is_truncated else ()
        return filtered, extractions

    def _search_step(
        self, step: _Step, pipeline: str, document: Document, given: list[Any], is_truncated: TruncationFlags
    ) -> tuple[list[Any], Extractions]:
        """Applies a step that searches by the task's patterns, under the time limit of searches."""
        try:
            with ResourceLimit():
                if step.tracer is not None:
                    return step.tracer.traced(given, document.fields, is_truncated)
                found = step.filter(given, document.fields)
                is_watched = bool(step.fallbacks)
                return found, inferred_extractions(
                    step.name, step.pattern, given, found, step.fallbacks
                ) if is_watched else ()
        except LimitError as error:
            where = f"{self.where}, filter {pipeline}, document {document.id}"
            raise error.at(f'{where}: filter "{step.name}"') from error

    def _draw_metric_values(
        self, pipeline: _Pipeline, document: Document, instance: Instance, grouped: _GroupedOutputs
    ) -> tuple[dict[str, Any], tuple[float | None, ...]]:
        """The metrics over draws, and the score of each draw by the first draw scorer.

        Every draw passes through the pipeline on its own: filters that select among draws see one draw.
        """
        steps, count = pipeline.single_draw_steps, min(map(len, grouped.questions))
        filtered_draws = []
        for index in range(count if pipeline.max_draws is None else min(count, pipeline.max_draws)):
            filtered, extractions = self._apply_steps(pipeline, steps, document, instance, grouped.draw(index))
            filtered_draws.append((filtered, pipeline.found_no_answer(filtered, extractions)))
        values: dict[str, Any] = {}
        draw_scores: tuple[float | None, ...] = ()
        comparable_instance = pipeline.comparable_instance(instance)
        for group in self.draw_metrics:
            draws = [
                ScoredDraw(None, None)
                if is_unparsed
                else self._scored_draw(group, document, comparable_instance, filtered)
                for filtered, is_unparsed in filtered_draws
            ]
            view = draws_view(draws, document.id)
            values |= {
                bound_metric.spec.name: bound_metric.value(view, bound_metric.spec.options)
                for bound_metric in group.bound_metrics
            }
            draw_scores = draw_scores or tuple(draw.value for draw in draws)
        return values, draw_scores

    def _scored_draw(
        self, group: _DrawMetrics, document: Document, instance: Instance, filtered: list[Any]
    ) -> ScoredDraw:
        where = f"{self.where}, document {document.id}"
        if group.base is not None:
            view = self.view(instance, filtered)
            value = self._call_metric(group.base, view, document)
            return ScoredDraw(group.draw_scorer.checked(value, where), draw_vote(group.draw_scorer, view, filtered))
        assert self.process is not None
        values = run_process_results(self.process, document, as_lm_eval(filtered, instance), self.where).values
        return ScoredDraw(group.draw_scorer.found(values, where), draw_vote(group.draw_scorer, None, filtered))

    def _apply_task_filter(self, step: _Step, pipeline: str, document: Document, responses: list[Any]) -> list[Any]:
        try:
            return step.filter(responses, document.fields)
        except (Exception, SystemExit) as error:  # task code may raise anything
            where = f"{self.where}, filter {pipeline}, document {document.id}"
            raise task_code_error(where, f'filter "{step.name}"', error) from error

    def _values(
        self, pipeline: _Pipeline, document: Document, instance: Instance, filtered: list[Any]
    ) -> dict[str, Any]:
        if pipeline.has_task_code and self.shape != _GENERATED:
            filtered = list(to_logprobs(filtered, f"{self.where}, filter {pipeline.name}, document {document.id}"))
        view = self.view(pipeline.comparable_instance(instance), filtered)
        if self.has_plain_metrics:  # the common case, once per document: fast path
            return {
                bound_metric.spec.name: bound_metric.value(view, bound_metric.spec.options)
                for bound_metric in self.bound_metrics
            }
        values = MetricValues()
        for bound_metric in self.bound_metrics:
            found = self._call_metric(bound_metric, view, document)
            if bound_metric.may_give_many:
                values.add(bound_metric.spec.name, found)
            else:
                values[bound_metric.spec.name] = found
        return values

    def _values_after_code(
        self, pipeline: _Pipeline, document: Document, instance: Instance, filtered: list[Any]
    ) -> dict[str, Any]:
        """The same after a filter of the task: if no metric can read its output, the filter is at fault."""
        try:
            return self._values(pipeline, document, instance, filtered)
        except Exception as error:  # a filter of a task may return anything
            where = f"{self.where}, filter {pipeline.name}, document {document.id}"
            raise task_code_error(where, f"scoring its output, {_short(filtered)},", error) from error

    def _call_metric(self, bound_metric: _BoundMetric, view: Any, document: Document) -> Any:
        if bound_metric.reads_document:
            return bound_metric.value(view, bound_metric.spec.options, document)
        if not bound_metric.is_task_code:
            return bound_metric.value(view, bound_metric.spec.options)
        try:
            return bound_metric.value(view, bound_metric.spec.options)
        except (Exception, SystemExit) as error:  # task code, or the package evaluate, may raise anything
            where = f"{self.where}, document {document.id}"
            raise task_code_error(where, f'metric "{bound_metric.spec.name}"', error) from error

    def without_foreign_code(self) -> DocumentScorer:
        """The part of this scoring that runs neither task code nor plugins; it may score nothing."""
        draw_metrics = tuple(
            group for group in self.draw_metrics if group.base is not None and _is_builtin_metric(group.base)
        )
        return replace(
            self,
            pipelines=tuple(pipeline for pipeline in self.pipelines if all(map(_is_builtin_filter, pipeline.steps))),
            bound_metrics=tuple(filter(_is_builtin_metric, self.bound_metrics)),
            draw_metrics=draw_metrics,
            process=None,
            view=self.view if self.process is None else _no_view,
        )

    def is_unparsed(self, sample: Sample) -> bool:
        """Whether a pipeline that extracts an answer found none."""
        for pipeline in self.pipelines:
            if pipeline.name == sample.filter:
                return pipeline.found_no_answer(sample.filtered, sample.extractions)
        return False

    @property
    def extracting_pipelines(self) -> tuple[str, ...]:
        """Names of the pipelines that can fail to find an answer."""
        return tuple(pipeline.name for pipeline in self.pipelines if pipeline.fallbacks)


def _short(value: Any, most: int = 100) -> str:
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"


def _is_builtin_metric(bound_metric: _BoundMetric) -> bool:
    return not bound_metric.is_task_code and family_of(bound_metric.spec.name) in METRICS.table


def _is_builtin_filter(step: _Step) -> bool:
    return not step.is_task_code and step.name in FILTERS.table


def _no_view(instance: Instance, outputs: Sequence[Any]) -> None:
    """The view of a task with its own scoring: nothing, since no metric reads it."""


def document_scorer(scoring: Scoring, where: str) -> DocumentScorer:
    """Resolves a task's scoring; errors name the task."""
    if scoring.scorer not in SCORERS:
        raise _unknown("scorer", scoring.scorer, SCORERS.names(), where)
    specs = expanded_specs(scoring.metrics, where)
    for spec in specs:
        _check_aggregation(spec, where)
    bound_metrics: tuple[_BoundMetric, ...] = ()
    if scoring.process is None:
        bound_metrics = tuple(_bind_metric(spec, scoring.scorer, where) for spec in specs if not _is_draw_metric(spec))
    pipelines = tuple(_pipeline(spec, where) for spec in scoring.pipelines)
    view: View = SCORERS.get(scoring.scorer, where)
    is_plain = not any(metric.may_give_many or metric.reads_document for metric in bound_metrics)
    draw_metrics = _draw_metrics(scoring, specs, where)
    return DocumentScorer(
        where=where,
        shape=scoring.scorer,
        view=view,
        bound_metrics=bound_metrics,
        pipelines=pipelines,
        process=scoring.process,
        has_plain_metrics=is_plain,
        draw_metrics=draw_metrics,
    )


def _is_draw_metric(spec: MetricSpec) -> bool:
    return spec.function is None and not spec.is_external and uses_all_draws(spec.name)


def _draw_metrics(scoring: Scoring, specs: Sequence[MetricSpec], where: str) -> tuple[_DrawMetrics, ...]:
    """The metrics over draws, grouped by draw scorer."""
    groups: dict[DrawScorer, list[_BoundMetric]] = {}
    bases: dict[DrawScorer, _BoundMetric | None] = {}
    for spec in specs:
        # A task's own scoring may return values of such names itself.
        if not _is_draw_metric(spec) or (scoring.process is not None and "of" not in spec.options):
            continue
        bound_metric = _bind_metric(spec, scoring.scorer, where)
        draw_scorer, base = draw_scorer_spec(spec, specs, scoring.process is not None, where)
        groups.setdefault(draw_scorer, []).append(bound_metric)
        if draw_scorer not in bases:
            bases[draw_scorer] = None if base is None else _bind_metric(base, scoring.scorer, where)
    return tuple(_DrawMetrics(draw_scorer, bases[draw_scorer], tuple(own)) for draw_scorer, own in groups.items())


def _bind_metric(spec: MetricSpec, shape: str, where: str) -> _BoundMetric:
    """Binds a metric to its value function for an output type.

    Functions of tasks and of the package `evaluate` are for generated answers only: for other output types lm-eval goes
    by the name only, and so does this.
    """
    if shape == _GENERATED and spec.function is not None:
        return _BoundMetric(spec, function_value(spec), is_task_code=True, may_give_many=True)
    # lm-eval's exact_match is a copy of the one in `evaluate`; the built-in one gives the same without a download.
    is_external = spec.is_external and spec.name != "exact_match"
    if shape == _GENERATED and (is_external or spec.name not in METRICS):
        called = with_external_function(spec, METRICS.names(), where)
        return _BoundMetric(called, function_value(called), is_task_code=True, may_give_many=True)
    definition = metric_definition(spec.name, where)
    if shape == _GENERATED and shape not in definition.values and callable(spec.aggregation):
        return _BoundMetric(spec, text_pair)  # lm-eval passes such metrics' pairs to the task's own aggregation
    if shape not in definition.values:
        fits = ", ".join(definition.values) or "a task with process_results"
        raise UserError(Fault(where, f'metric "{spec.name}" cannot score {shape}', fits, "See: assay ls metrics"))
    bound = _BoundMetric(
        spec, definition.values[shape], may_give_many=definition.gives_many, reads_document=definition.reads_document
    )
    return bound if spec.options.get(BY) is None else _by_category(bound, where)


def _by_category(metric: _BoundMetric, where: str) -> _BoundMetric:
    """The same metric, also reported for each category of the rows: acc with `by: gender` also as acc_male, …"""
    rule = category_rule(metric.spec, where)

    def value(view: Any, options: Mapping[str, Any], document: Document) -> dict[str, Any]:
        more = (document,) if metric.reads_document else ()
        found = metric.value(view, options, *more)
        values = found if metric.may_give_many else {metric.spec.name: found}
        category = rule(document)
        return values if category is None else {**values, **{f"{name}_{category}": values[name] for name in values}}

    return replace(metric, value=value, may_give_many=True, reads_document=True)


def _check_aggregation(spec: MetricSpec, where: str) -> None:
    named = spec.aggregation
    if named is None and spec.name in METRICS:
        named = metric_definition(spec.name, where).aggregation
    if not isinstance(named, str):
        return
    if named not in AGGREGATIONS:
        raise _unknown("aggregation", named, list(AGGREGATIONS), where)


def _unknown(noun: str, name: str, known: list[str], where: str) -> UserError:
    return UserError(Fault(where, f'unknown {noun} "{name}"{did_you_mean(name, known)}', "one of " + ", ".join(known)))


def _pipeline(spec: PipelineSpec, where: str) -> _Pipeline:
    steps = tuple(_step(step, f"{where}, filter {spec.name}") for step in spec.steps)
    fallbacks = frozenset().union(*(step.fallbacks for step in steps))
    least = [step.options["k"] for step in spec.steps if step.name == _TAKE_FIRST_K and step.factory is None]
    most = min(least, default=None)
    return _Pipeline(spec.name, steps, fallbacks, any(step.is_task_code for step in steps), most)


def _step(spec: FilterSpec, where: str) -> _Step:
    is_task_code = spec.factory is not None or spec.name == "custom"
    made = make_filter(spec, where)
    pattern, which = None, spec.options.get("group_select", 0)
    if spec.name == "regex" and not is_task_code and isinstance(which, int):
        pattern = re.compile(spec.options.get("regex_pattern", HASH_PATTERN)), which
    tracer = made if isinstance(made, TracingFilter) else None
    searches_patterns = not is_task_code and (tracer is not None or spec.name in _EXTRACTING)
    return _Step(
        name=spec.name,
        filter=made,
        is_task_code=is_task_code,
        fallbacks=frozenset(_fallbacks(spec, made)),
        pattern=pattern,
        tracer=tracer,
        searches_patterns=searches_patterns,
    )


def _fallbacks(spec: FilterSpec, made: Filter) -> list[str]:
    """The outputs of a filter that mean "no answer found", if it extracts answers."""
    if isinstance(made, TracingFilter):
        return [made.fallback]
    if isinstance(made, TaskFilter):
        found = spec.options.get("fallback", getattr(made.filter, "fallback", None))
    else:
        default = _EXTRACTING.get(spec.name)
        found = default if default is None else spec.options.get("fallback", default)
    parts = found if isinstance(found, (list, tuple)) else [found]
    return [str(part) for part in parts if part is not None]
