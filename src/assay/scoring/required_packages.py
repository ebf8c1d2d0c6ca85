"""Requirements of a task's scoring: optional packages, and metrics of `evaluate` that its code loads by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.core.errors import UserError
from assay.core.metric_names import expanded_specs
from assay.core.packages import RequiredPackage, declared_packages
from assay.core.specs import FilterSpec, MetricSpec, Scoring
from assay.scoring.code_imports import late_imports
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.hf_evaluate import load_external
from assay.scoring.registry import FILTERS, METRICS, metric_definition

_GENERATED, _EXACT = "generate_until", "exact_match"


def scoring_needs(scoring: Scoring, where: str) -> list[RequiredPackage]:
    """Every package that the filters, metrics and code of a task import when called.

    Args:
        scoring: the task's scoring.
        where: the task, for errors.
    """
    try:
        specs = expanded_specs(scoring.metrics, where)
    except UserError:  # reported when the scoring is resolved
        specs = scoring.metrics
    needs = [need for pipeline in scoring.pipelines for step in pipeline.steps for need in _of_filter(step, where)]
    for spec in specs:
        needs += _of_metric(spec, scoring, f'{where}, metric "{spec.name}"')
    return [*needs, *_of_code(scoring.process, f"{where}, process_results")]


def check_loaded(scoring: Scoring, where: str) -> None:
    """Loads the metrics of `evaluate` that the task's code will load, so that a missing one fails now."""
    for location, thing in _code(scoring):
        for name, function in late_imports(thing).metrics.items():
            load_external(name, f"{where}, {location} ({function})")


def _of_filter(spec: FilterSpec, where: str) -> list[RequiredPackage]:
    location = f'{where}, filter "{spec.name}"'
    found = [need for thing in _filter_code(spec) for need in _of_code(thing, location)]
    if spec.factory is None and spec.name in FILTERS:
        found += declared_packages(FILTERS.get(spec.name, where), location)
    return found


def _filter_code(spec: FilterSpec) -> list[Any]:
    own = spec.options.get("filter_fn") if spec.name == "custom" else None
    return [thing for thing in (spec.factory, own) if thing is not None]


def _of_metric(spec: MetricSpec, scoring: Scoring, location: str) -> list[RequiredPackage]:
    found = _of_aggregation(spec, location)
    if scoring.process is not None:
        return found
    if scoring.scorer == _GENERATED and spec.function is not None:
        return found + _of_code(spec.function, location)
    if scoring.scorer == _GENERATED and spec.is_external and spec.name != _EXACT:
        return [*found, RequiredPackage("evaluate", location, "metrics")]
    if spec.name in METRICS:
        definition = metric_definition(spec.name)
        found += declared_packages(definition, location) + declared_packages(
            definition.values.get(scoring.scorer), location
        )
    return found


def _of_aggregation(spec: MetricSpec, location: str) -> list[RequiredPackage]:
    named = spec.aggregation
    if callable(named):
        return _of_code(named, location)
    if named is None and spec.name in METRICS:
        named = metric_definition(spec.name).aggregation
    return declared_packages(AGGREGATIONS[named], location) if named in AGGREGATIONS else []


def _of_code(thing: Any, location: str) -> list[RequiredPackage]:
    """The packages that a function or class declares, and those that its body imports."""
    if thing is None:
        return []
    found = late_imports(thing)
    needs = declared_packages(thing, location) + [
        need for function in found.called for need in declared_packages(function, location)
    ]
    return needs + [RequiredPackage(module, f"{location} ({function})") for module, function in found.modules.items()]


def _code(scoring: Scoring) -> Iterator[tuple[str, Any]]:
    """All scoring code of the task, with its location."""
    for pipeline in scoring.pipelines:
        yield from ((f'filter "{step.name}"', thing) for step in pipeline.steps for thing in _filter_code(step))
    if scoring.process is not None:
        yield "process_results", scoring.process
    for spec in scoring.metrics:
        yield from ((f'metric "{spec.name}"', each) for each in (spec.function, spec.aggregation) if callable(each))
