"""The key `card` of a task file: facts about a benchmark, for listings and reports. They never change a number.

Takes a task or group file, gives the faults of its card, or the card as plain data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from assay.core.benchmark_checks import CHECKS
from assay.core.errors import Fault, did_you_mean
from assay.core.metric_names import expanded_entries
from assay.tasks.lm_eval.file.definition import DEFAULT_METRICS, plain_config
from assay.tasks.lm_eval.file.format_key import SPAN, SPAN_METRICS, usual_output_type
from assay.tasks.lm_eval.file.value_checks import (
    COUNT,
    FLAG,
    MAPPING,
    TEXT,
    KeySchema,
    entry_fault,
    is_count,
    is_type,
    key_faults,
)
from assay.tasks.lm_eval.file.yaml_reader import CARD, FunctionReference, TaskFile


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_NUMBER = KeySchema("a number", _is_number)
_LINE = KeySchema("text of one line", lambda value: isinstance(value, str) and "\n" not in value.strip())
_TEXTS = KeySchema("a list of texts", _are_texts)

CARD_KEYS: dict[str, KeySchema] = {
    "title": _LINE,
    "description": _LINE,
    "family": _LINE,
    "languages": _TEXTS,
    "primary": _LINE,
    "primary_reason": TEXT,
    "chance": _NUMBER,
    "majority": _NUMBER,
    "prompt": TEXT,
    "lm_eval": MAPPING,
    "rows": KeySchema(
        "a mapping from split to number of rows",
        lambda value: isinstance(value, dict) and all(map(is_count, value.values())),
    ),
    "licence": TEXT,
    "citation": TEXT,
    "homepage": _LINE,
    "revision": _LINE,
    "gated": TEXT,
    "traps": _TEXTS,
    "allow": MAPPING,
    "references": KeySchema("a list of published numbers", is_type(list)),
}
# Keys that every card of the library has.
REQUIRED = ("description", "languages", "primary", "primary_reason", "chance", "prompt", "licence", "citation")
LM_EVAL_KEYS: dict[str, KeySchema] = {
    "task": _LINE,
    "same": FLAG,
    "differs": TEXT,
    "metrics": MAPPING,
    "apart_from": _TEXTS,
}
REFERENCE_KEYS: dict[str, KeySchema] = {
    "model": _LINE,
    "metric": _LINE,
    "value": _NUMBER,
    "shots": COUNT,
    "source": TEXT,
    "note": TEXT,
    "task": _LINE,
    "filter": _LINE,
    "split": _LINE,
    "style": TEXT,
    "tool": TEXT,
    "precision": _LINE,
    "documents": COUNT,
}
_NEEDED = ("model", "metric", "value", "source")
# Begins a fact that is still to be written.
TODO = "TODO"


def card_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The card of a task or group as plain data, with the published numbers of this task only; empty if none."""
    card = data.get(CARD)
    if not isinstance(card, dict):
        return {}
    found = {str(key): value for key, value in {**plain_config(card), "chance": card.get("chance")}.items()}
    if "chance" not in card:
        del found["chance"]
    if isinstance(found.get("references"), list):
        name = data.get("group", data.get("task"))
        found["references"] = [_own(entry) for entry in found["references"] if _is_of(entry, name)]
    return found


def _is_of(entry: Any, name: Any) -> bool:
    return isinstance(entry, dict) and entry.get("task", name) == name


def _own(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "task"}


def card_faults(file: TaskFile) -> Iterator[Fault]:
    """Unknown keys of a card and values of the wrong type."""
    card = file.data.get(CARD)
    if not isinstance(card, dict):
        return
    yield from key_faults(file, CARD_KEYS, card, (CARD,))
    theirs = card.get("lm_eval")
    if isinstance(theirs, dict):
        yield from key_faults(file, LM_EVAL_KEYS, theirs, (CARD, "lm_eval"))
        yield from _lm_eval_faults(file, theirs)
    yield from _allowance_faults(file, card.get("allow"))
    listed = card.get("references")
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        where = (CARD, "references", number)
        if not isinstance(entry, dict) or any(entry.get(key) is None for key in _NEEDED):
            yield entry_fault(file.where(*where), entry, _NEEDED, "{model: …, metric: …, value: …, source: …}")
        else:
            yield from key_faults(file, REFERENCE_KEYS, entry, where)


def _allowance_faults(file: TaskFile, allowed: Any) -> Iterator[Fault]:
    """Exceptions from the contract of a benchmark: a check, and why this task is excepted."""
    for check, reason in allowed.items() if isinstance(allowed, dict) else ():
        where = file.where(CARD, "allow", check)
        if check not in CHECKS:
            hint = did_you_mean(str(check), list(CHECKS))
            yield Fault(where, f'"{check}" is not a check{hint}', "one of " + ", ".join(CHECKS))
        elif not isinstance(reason, str) or not reason.strip():
            yield Fault(where, "has no reason", "why this task is excepted, in one sentence")


def _lm_eval_faults(file: TaskFile, theirs: Mapping[Any, Any]) -> Iterator[Fault]:
    where = (CARD, "lm_eval")
    if theirs.get("task") is None or theirs.get("same") is None:
        yield entry_fault(file.where(*where), theirs, ("task", "same"), "{task: NAME, same: true}")
    elif theirs["same"] is False and not theirs.get("differs"):
        found = "same is false, but it does not say what differs"
        yield Fault(file.where(*where, "differs"), found, "differs: what and why")
    elif theirs["same"] is True and theirs.get("differs"):
        yield Fault(file.where(*where, "differs"), "is given, but same is true", "one of the two")


def primary_faults(file: TaskFile) -> Iterator[Fault]:
    """A primary metric that the task does not report. For a file without other faults."""
    card = file.data.get(CARD)
    primary = card.get("primary") if isinstance(card, dict) else None
    if not isinstance(primary, str) or "group" in file.data or "task" not in file.data:
        return
    metric, _, pipeline = primary.partition(",")
    where, metrics = file.where(CARD, "primary"), reported_metrics(file.data)
    if metric not in metrics:
        yield Fault(
            where,
            f'"{metric}" is not a metric of the task{did_you_mean(metric, metrics)}',
            "one of " + ", ".join(metrics),
        )
    pipelines = [str(entry["name"]) for entry in file.data.get("filter_list") or ()] or ["none"]
    if pipeline and pipeline not in pipelines:
        hint = did_you_mean(pipeline, pipelines)
        yield Fault(where, f'"{pipeline}" is not a filter of the task{hint}', "one of " + ", ".join(pipelines))


def open_facts(file: TaskFile) -> Iterator[Fault]:
    """Facts of a card that are still to be written. They are no faults."""
    card = file.data.get(CARD)
    for key, value in card.items() if isinstance(card, dict) else ():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and text.startswith(TODO) for text in texts):
            expected = CARD_KEYS[key].expected if key in CARD_KEYS else "a fact"
            yield Fault(file.where(CARD, key), "is still to be written", expected)


def reported_metrics(data: Mapping[str, Any]) -> list[str]:
    """Names of the metrics that a task file without faults reports."""
    listed = data.get("metric_list")
    stated = data.get("format")
    if not listed and isinstance(stated, Mapping) and stated.get("kind") == SPAN and not data.get("doc_to_text"):
        return list(SPAN_METRICS)
    if not listed:
        return list(DEFAULT_METRICS[data.get("output_type", usual_output_type(data))])
    return [_name(entry["metric"]) for entry in expanded_entries(listed)]


def _name(metric: Any) -> str:
    return metric.text.rpartition(".")[2] if isinstance(metric, FunctionReference) else str(metric)
