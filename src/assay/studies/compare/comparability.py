"""Comparability of two recorded tasks: what differs between them besides the documents, by axis.

In: records. Out: differences in words. Digests in the manifests decide; definitions and settings only name causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assay.stats.bootstrap import cluster_indices
from assay.store.run_records import RunRecord
from assay.studies.paired.matching import MatchedPair
from assay.studies.paired.paired_values import MODEL, PROMPTS, SCORING, SHOTS, STYLE, VERSION
from assay.studies.paired.text_diff import flat, short

# Keys of a definition that name the task, or say how answers are scored: neither changes a prompt.
_SILENT = ("task", "task_alias", "alias", "tag", "group", "metric_list", "filter_list", "process_results", "metadata")
_OPTIONS = ("chat", "generation", "like", "prompts", "original_task", "texts", "sampling_seed")
_SHOT_OPTIONS = ("fewshot_seed", "fewshot_sampler")
_SHOT_KEYS = ("num_fewshot", "fewshot", "assumed_fewshot")
_MOST_NAMED = 4


@dataclass(frozen=True)
class RecordedTask:
    """A task of a recorded run, by what its record says."""

    record: RunRecord
    name: str

    @property
    def entry(self) -> Mapping[str, Any]:
        """What the manifest says of the task."""
        return self.record.tasks[self.name]

    @property
    def summary(self) -> Mapping[str, Any]:
        """The task's recorded numbers; empty for a run that did not get to its end."""
        return self.record.numbers(self.name)

    @cached_property
    def model(self) -> str:
        """Digest of what the model was; made once, since every run is compared with many."""
        return self.record.fingerprint.digest

    @property
    def options(self) -> Mapping[str, Any]:
        """What the run changed about tasks."""
        found: Mapping[str, Any] = self.record.spec.get("options") or {}
        return found

    @property
    def has_prompt(self) -> bool:
        """Whether it uses one of several prompts; anything else after `@` in its name is a style."""
        return bool((self.entry.get("config") or {}).get("prompt"))

    @property
    def draws(self) -> int | None:
        """How often the run drew every answer; None as often as the task says."""
        found: int | None = (self.options.get("axes") or {}).get("draws")
        return found

    def directions(self, metric: str, filter: str) -> set[bool | None]:
        """Whether higher is better, as recorded; empty for a run that did not get to its end."""
        listed = self.summary.get("metrics", ())
        own = [item for item in listed if (item["metric"], item["filter"]) == (metric, filter)]
        return {item["higher_is_better"] for item in own if "higher_is_better" in item}


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One thing that differs, and the axis it lies on."""

    axis: str
    text: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """Documents that two tasks have in common, where they are not all.

    Attributes:
        has_same_requests: whether their requests are the same.
        has_same_targets: whether their right answers are the same.
    """

    has_same_requests: bool
    has_same_targets: bool


def differences(
    first: RecordedTask, second: RecordedTask, metric: str, filter: str, overlap: Overlap | None = None
) -> list[RunDifference]:
    """Everything that differs besides the documents.

    Args:
        first: a task.
        second: the other.
        metric: what is compared.
        filter: its pipeline.
        overlap: what is known of the common documents; None where the documents are the same, so that digests decide.
    """
    if overlap is None:
        same = first.entry["prompts_fingerprint"] == second.entry["prompts_fingerprint"]
        overlap = Overlap(same, _have_same_targets(first, second))
    found = [] if first.model == second.model else _model(first.record, second.record)
    found += _version(first, second)
    prompts = [] if overlap.has_same_requests else _prompts(first, second)
    found += prompts
    # Other prompts may number or word the same answers differently: their definitions are reported then.
    if not overlap.has_same_targets and all(item.axis == SHOTS for item in prompts):
        names = _changed(*map(_target, (first, second)))  # none where only the code behind a name has changed
        found += [RunDifference(SCORING, "right answers" + (f": {_listed(names)}" if names else ""))]
    return found + _scoring(first, second, metric, filter)


def cluster_differences(first: RecordedTask, second: RecordedTask, match: MatchedPair) -> list[RunDifference]:
    """Whether both have clusters, and other ones: the test could be by either."""
    one, other = match.first.recorded.clusters, match.second.recorded.clusters
    if one is None or other is None or (isinstance(match.mine, range) and one == other):
        return []
    mine = cluster_indices([one[place] for place in match.mine], len(match.mine))
    theirs = cluster_indices([other[place] for place in match.theirs], len(match.theirs))
    if np.array_equal(mine, theirs):
        return []
    names = [task.record.spec.get("cluster") for task in (first, second)]
    detail = f": {names[0] or 'own'} → {names[1] or 'own'}" if names[0] != names[1] else ""
    return [RunDifference(SCORING, f"clusters{detail}; the test is by those of {match.first.label}")]


def _have_same_targets(first: RecordedTask, second: RecordedTask) -> bool:
    """By the digests of right answers; by their templates where a record is older than these, or documents differ."""
    digests = [task.entry.get("targets_fingerprint") for task in (first, second)]
    is_recorded = None not in digests and first.entry["documents_fingerprint"] == second.entry["documents_fingerprint"]
    return digests[0] == digests[1] if is_recorded else _target(first) == _target(second)


def _target(task: RecordedTask) -> dict[str, Any]:
    config = task.entry.get("config") or {}
    return {"doc_to_target": config.get("doc_to_target")}


def _model(first: RunRecord, second: RunRecord) -> list[RunDifference]:
    if first.model != second.model:
        return [RunDifference(MODEL, f"model: {short(first.model)} → {short(second.model)}")]
    fields = first.fingerprint.differences(second.fingerprint)
    return [RunDifference(MODEL, f"model: {_listed([name.removeprefix('settings.') for name in fields])}")]


def _version(first: RecordedTask, second: RecordedTask) -> list[RunDifference]:
    versions = [task.entry.get("version") for task in (first, second)]
    if versions[0] == versions[1]:
        return []
    return [RunDifference(VERSION, f"version of the task: {short(versions[0])} → {short(versions[1])}")]


def _prompts(first: RecordedTask, second: RecordedTask) -> list[RunDifference]:
    """Why the prompts differ: few-shot examples, the style, or anything else."""
    found = []
    shots = [task.entry.get("num_fewshot") for task in (first, second)]
    configs = [flat(task.entry.get("config") or {}) for task in (first, second)]
    keys = _changed(*configs)
    examples = [key for key in keys if key.startswith(_SHOT_KEYS)]
    examples += _changed(*(_part(task, _SHOT_OPTIONS) for task in (first, second))) if any(shots) else []
    if shots[0] != shots[1]:
        found.append(RunDifference(SHOTS, f"num_fewshot: {shots[0]} → {shots[1]}"))
    elif examples:
        found.append(RunDifference(SHOTS, f"few-shot examples: {_listed(examples)}"))
    styles = [_style(task) for task in (first, second)]
    if styles[0] != styles[1]:
        found.append(RunDifference(STYLE, f"style: {styles[0]} → {styles[1]}"))
    rest = [key for key in keys if not key.startswith(_SHOT_KEYS) and key.split(".")[0] not in (*_SILENT, "style")]
    rest += _changed(*({**flat(_part(task, _OPTIONS)), "draws": task.draws} for task in (first, second)))
    if rest or not found:
        found.append(RunDifference(PROMPTS, f"prompts: {_listed(rest)}" if rest else "prompts"))
    return found


def _style(task: RecordedTask) -> str:
    config = task.entry.get("config") or {}
    return str(config.get("style") or task.options.get("style") or "own")


def _part(task: RecordedTask, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: task.options.get(name) for name in names}


def _changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    return [key for key in {**first, **second} if first.get(key) != second.get(key)]


def _scoring(first: RecordedTask, second: RecordedTask, metric: str, filter: str) -> list[RunDifference]:
    rules = [rule for rule in (_rule(task, metric, filter) for task in (first, second)) if rule is not None]
    if len(rules) == 2 and sum("aggregation" in rule for rule in rules) == 1:
        rules = [{**_usual_aggregation(metric), **rule} for rule in rules]
    names = _changed(rules[0], rules[1]) if len(rules) == 2 else []
    directions = [task.directions(metric, filter) for task in (first, second)]
    names += ["higher_is_better"] if all(directions) and directions[0] != directions[1] else []
    return [RunDifference(SCORING, f"scoring of {metric}: {_listed(names)}")] if names else []


def _rule(task: RecordedTask, metric: str, filter: str) -> dict[str, Any] | None:
    """A metric with its settings and filters as recorded; None in records that do not hold them."""
    scoring = task.entry.get("scoring")
    if scoring is None:
        return None
    own = scoring["metrics"].get(metric) or {}
    return {**own, "filters": scoring["filters"].get(filter), "code": scoring.get("process")}


def _usual_aggregation(metric: str) -> dict[str, Any]:
    """A metric's aggregation where the task does not name one."""
    from assay.scoring.registry import METRICS, metric_definition

    return {"aggregation": metric_definition(metric).aggregation} if metric in METRICS else {}


def _listed(names: list[str]) -> str:
    once = list(dict.fromkeys(names))
    more = f" and {len(once) - _MOST_NAMED} more" if len(once) > _MOST_NAMED else ""
    return ", ".join(once[:_MOST_NAMED]) + more
