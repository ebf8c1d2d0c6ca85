"""Scoring overrides: the metrics and filters of a run that replace, or add to, those of its task files.

Takes the names of metrics and a scoring file, gives `metric_list` and `filter_list` as in task files; takes
a definition and these, gives the same task with the changed scoring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.metric_names import DRAW_METRICS, expanded_entries, family_of, similar_metrics, uses_all_draws
from assay.core.specs import NULL_PROMPTS, WHOLE_PROMPT_METRICS, MetricSpec, Scoring
from assay.tasks.lm_eval.file.definition import TaskDefinition, scoring_of
from assay.tasks.lm_eval.file.yaml_reader import read_task_file

_KEYS = ("metric_list", "filter_list")
_SHAPES = {"metric_list": "[{metric: acc}]", "filter_list": "[{name: …, filter: [{function: …}]}]"}
# Every metric for a task's output type that needs neither further requests nor anything specific to the task.
ALL = "all"
_OF_BENCHMARKS = (
    *("group_em", "group_f1", "entity_em", "entity_f1", "pct_stereotype", "likelihood_diff"),
    *("pearson", "spearman", "set_f1"),
    *("math_match", "minerva_match", "math_verify", "drop_em", "drop_f1", "coqa_em", "coqa_f1"),
    *("bleu_max", "bleu_acc", "bleu_diff", "rouge1_max", "rouge1_acc", "rouge1_diff"),
    *("rouge2_max", "rouge2_acc", "rouge2_diff", "rougeL_max", "rougeL_acc", "rougeL_diff"),
    *("prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "inst_level_loose_acc"),
    *("accuracy_amb", "accuracy_disamb", "amb_bias_score", "disamb_bias_score"),
)
_NEEDS_MORE = frozenset(
    (
        *NULL_PROMPTS,
        *WHOLE_PROMPT_METRICS,
        *("bypass", "likelihood", "acc_all", "f1", "macro_f1", "mcc", "cohen_kappa"),
        *_OF_BENCHMARKS,
        *DRAW_METRICS,
    )
)


def scoring_changes(
    metrics: str | Sequence[str] | None, scoring: str | Path | Mapping[str, Any] | None
) -> dict[str, Any]:
    """The scoring overrides of a run.

    Args:
        metrics: names of metrics, with commas or as a list; `all` for every one that needs no further request. A plus
            before the first name, or before every name, keeps the tasks' own metrics.
        scoring: a YAML file with `metric_list` and `filter_list`, or the same as a mapping.
    """
    found = _read(scoring) if scoring is not None else {}
    names = metrics.split(",") if isinstance(metrics, str) else list(metrics or ())
    names = [name.strip() for name in names if name.strip()]
    names, is_added = _without_plus(names)
    if is_added:
        found["adds"] = True
    if metrics is not None and not any(names):
        raise UserError(Fault("--metrics", "names no metric", next="See: assay ls metrics"))
    if names:
        found["metric_list"] = [*found.get("metric_list", ()), *({"metric": name} for name in names if name)]
    if "metric_list" in found:
        found["metric_list"] = expanded_entries(found["metric_list"], "--metrics" if names else "scoring")
    return found


def _without_plus(names: Sequence[str]) -> tuple[list[str], bool]:
    """The names, and whether they add to the tasks' own: a plus before the first, or before every one."""
    marked = [name.startswith("+") for name in names]
    if any(marked) and not marked[0]:
        found = f'"{names[marked.index(True)]}" adds to the tasks\' own metrics, and "{names[0]}" replaces them'
        listed = ",".join("+" + name.lstrip("+ ") for name in names)
        raise UserError(Fault("--metrics", found, "all with a plus, or none", f"To add all: --metrics {listed}"))
    return [name.lstrip("+").strip() for name in names], bool(marked and marked[0])


def _read(scoring: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(scoring, Mapping):
        data, where = dict(scoring), "scoring"
    else:
        path = Path(scoring).expanduser()
        data, where = dict(read_task_file(path).data), str(path)
    faults = [Fault(where, f'unknown key "{key}"', " or ".join(_KEYS)) for key in data if key not in _KEYS]
    for key, is_entry in (("metric_list", _is_metric), ("filter_list", is_pipeline)):
        entries = data.get(key, [])
        if not isinstance(entries, list) or not all(map(is_entry, entries)):
            faults.append(Fault(f"{where}  {key}", "has the wrong shape", f"a list as in task files: {_SHAPES[key]}"))
    if faults:
        raise UserError(*faults)
    return data


def _is_metric(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("metric"), str)


def is_pipeline(entry: Any) -> bool:
    """Whether a value has the shape of an entry of `filter_list`."""
    steps = entry.get("filter") if isinstance(entry, dict) else None
    is_named = isinstance(entry, dict) and entry.get("name") is not None
    return is_named and isinstance(steps, list) and all(isinstance(s, dict) and "function" in s for s in steps)


# Applied to a task


def rescored(
    definition: TaskDefinition, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]
) -> TaskDefinition:
    """The same task with changed scoring: see `changed_scoring`."""
    if not changes:
        return definition
    return replace(definition, scoring=changed_scoring(definition.scoring, definition.output_type, changes, metrics))


def changed_scoring(
    own: Scoring, output_type: str, changes: Mapping[str, Any], metrics: Mapping[str, frozenset[str]]
) -> Scoring:
    """A task's scoring with a run's changes.

    Args:
        own: the task's own scoring.
        output_type: its output type, as in task files.
        changes: `metric_list` and `filter_list` as in task files; `adds` keeps the task's own metrics before them.
            A metric that does not fit the output type is left out; if none fits, the task keeps its own.
        metrics: metric → output types that it scores.
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
    """A metric over draws scores a draw as the task scores an answer, unless its entry has its own options."""
    if not uses_all_draws(entry["metric"]):
        return entry
    if own.process is not None and adds:
        return {"of": own.metrics[0].name, **entry} if own.metrics else entry
    judge = next((spec for spec in own.metrics if spec.name == entry.get("of", "exact_match")), None)
    says = entry.keys() - {"metric", "k", "tau", "of"}
    return entry if judge is None or says else {**judge.options, **entry}


def _different(specs: Iterable[MetricSpec]) -> tuple[MetricSpec, ...]:
    """Each metric once; the last entry counts."""
    return tuple({spec.name: spec for spec in specs}.values())
