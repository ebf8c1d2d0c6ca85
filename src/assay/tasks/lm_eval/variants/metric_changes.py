"""A definition with other metrics or filters than its file names: what a run wants to know besides, or instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.metric_names import DRAW_METRICS, family_of, similar_metrics, uses_all_draws
from assay.core.specs import NULL_PROMPTS, WHOLE_PROMPT_METRICS, MetricSpec, Scoring
from assay.tasks.lm_eval.file.definition import TaskDefinition, scoring_of

# Every metric of a task's shape that costs no further request and needs nothing of the task's own.
ALL = "all"
_NEEDS_MORE = frozenset(
    (*NULL_PROMPTS, *WHOLE_PROMPT_METRICS, "bypass", "likelihood", "acc_all", "f1", "mcc", "cohen_kappa", *DRAW_METRICS)
)


def rescored(
    definition: TaskDefinition, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]
) -> TaskDefinition:
    """The same questions, scored another way: see `changed_scoring`."""
    if not changes:
        return definition
    return replace(definition, scoring=changed_scoring(definition.scoring, definition.output_type, changes, metrics))


def changed_scoring(
    own: Scoring, output_type: str, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]
) -> Scoring:
    """A task's scoring with a run's changes.

    Args:
        own: what the task says.
        output_type: the shape of its questions, in the words of task files.
        changes: `metric_list` and `filter_list` as in task files; `adds` keeps the task's own metrics before them.
            A metric that does not fit the task's shape is left out; where none fits, the task keeps its own.
        metrics: metric → shapes that it scores.
    """
    entries = list(_expanded(changes.get("metric_list", ()), own.scorer, metrics))
    fitting = [
        _as_judged(entry, own, bool(changes.get("adds")))
        for entry in entries
        if own.scorer in metrics[family_of(entry["metric"])]
    ]
    found = scoring_of({"metric_list": fitting, "filter_list": changes.get("filter_list", ())}, output_type)
    scoring = own
    if fitting:
        kept = own.metrics if changes.get("adds") else ()
        process = own.process if changes.get("adds") else None
        scoring = replace(scoring, metrics=_different((*kept, *found.metrics)), process=process)
    if changes.get("filter_list") and output_type == "generate_until":
        scoring = replace(scoring, pipelines=found.pipelines)
    return scoring


def _expanded(
    entries: Iterable[Mapping[str, Any]], shape: str, metrics: Mapping[str, frozenset[str]]
) -> Iterable[Mapping[str, Any]]:
    for entry in entries:
        name = entry["metric"]
        if name == ALL:
            yield from (
                {"metric": name} for name, shapes in metrics.items() if shape in shapes and name not in _NEEDS_MORE
            )
        elif family_of(name) in metrics:
            yield entry
        else:
            found = f'unknown metric "{name}"{similar_metrics(name, metrics)}'
            raise UserError(Fault("--metrics", found, next="See: assay ls metrics"))


def _as_judged(entry: Mapping[str, Any], own: Scoring, adds: bool) -> Mapping[str, Any]:
    """A metric over draws judges a draw as the task judges an answer, unless it says otherwise."""
    if not uses_all_draws(entry["metric"]):
        return entry
    if own.process is not None and adds:
        return {"of": own.metrics[0].name, **entry} if own.metrics else entry
    judge = next((spec for spec in own.metrics if spec.name == entry.get("of", "exact_match")), None)
    says = entry.keys() - {"metric", "k", "tau", "of"}
    return entry if judge is None or says else {**judge.options, **entry}


def _different(specs: Iterable[MetricSpec]) -> tuple[MetricSpec, ...]:
    """Each metric once; the last word on it counts."""
    return tuple({spec.name: spec for spec in specs}.values())
