"""Comparability of two recorded tasks: what differs between them besides the documents, and caveats of a compared pair.

In: records. Out: differences by axis and caveats, as sentences. Digests in the manifests decide what differs;
definitions and settings only name causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assay.core.plural import plural, verb
from assay.store.run_records import RunRecord
from assay.studies.paired.matching import MatchedPair, cluster_numbers
from assay.studies.paired.paired_values import MODEL, PROMPTS, SCORING, SHOTS, STYLE, VERSION, PairedScore
from assay.studies.paired.text_diff import flat, short
from assay.studies.paired.verdicts import signed_text

# Keys of a definition that name the task, or say how answers are scored: neither changes a prompt.
_SILENT = ("task", "task_alias", "alias", "tag", "group", "metric_list", "filter_list", "process_results", "metadata")
_OPTIONS = ("chat", "generation", "like", "prompts", "original_task", "texts", "sampling_seed")
_SHOT_OPTIONS = ("fewshot_seed", "fewshot_sampler")
_SHOT_KEYS = ("num_fewshot", "fewshot", "assumed_fewshot")
_MOST_NAMED = 4


@dataclass(frozen=True)
class RecordedTask:
    """A task of a recorded run, as described by its record."""

    record: RunRecord
    name: str

    @property
    def entry(self) -> Mapping[str, Any]:
        """The task's entry in the manifest."""
        return self.record.tasks[self.name]

    @property
    def summary(self) -> Mapping[str, Any]:
        """The task's recorded numbers; empty for an unfinished run."""
        return self.record.numbers(self.name)

    @cached_property
    def model(self) -> str:
        """Digest of the model's fingerprint; cached, since every run is compared with many."""
        return self.record.fingerprint.digest

    @property
    def options(self) -> Mapping[str, Any]:
        """The changes that the run made to tasks."""
        found: Mapping[str, Any] = self.record.spec.get("options") or {}
        return found

    @property
    def has_prompt(self) -> bool:
        """Whether it uses one of several prompts; anything else after `@` in its name is a style."""
        return bool((self.entry.get("config") or {}).get("prompt"))

    @property
    def draws(self) -> int | None:
        """Number of draws per answer in the run; None for the task's own number."""
        found: int | None = (self.options.get("axes") or {}).get("draws")
        return found

    def directions(self, metric: str, filter: str) -> set[bool | None]:
        """Whether higher is better, as recorded; empty for an unfinished run."""
        listed = self.summary.get("metrics", ())
        own = [item for item in listed if (item["metric"], item["filter"]) == (metric, filter)]
        return {item["higher_is_better"] for item in own if "higher_is_better" in item}


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One difference, and the axis it belongs to."""

    axis: str
    text: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """Documents that two tasks have in common, if these are not all.

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
        metric: the metric to compare.
        filter: its pipeline.
        overlap: facts about the common documents; None if the documents are the same, so that digests decide.
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
        names = _changed(*map(_target, (first, second)))  # none if only the code behind a name has changed
        found += [RunDifference(SCORING, "right answers" + (f": {_listed(names)}" if names else ""))]
    return found + _scoring(first, second, metric, filter)


def cluster_differences(first: RecordedTask, second: RecordedTask, match: MatchedPair) -> list[RunDifference]:
    """A difference if both have clusters that are not the same: the test could use either."""
    one, other = match.first.recorded.clusters, match.second.recorded.clusters
    if one is None or other is None or (isinstance(match.mine, range) and one == other):
        return []
    mine = cluster_numbers([one[place] for place in match.mine])
    theirs = cluster_numbers([other[place] for place in match.theirs])
    if np.array_equal(mine, theirs):
        return []
    names = [task.record.spec.get("cluster") for task in (first, second)]
    detail = f": {names[0] or 'own'} → {names[1] or 'own'}" if names[0] != names[1] else ""
    return [RunDifference(SCORING, f"clusters{detail}; the test is by those of {match.first.label}")]


def _have_same_targets(first: RecordedTask, second: RecordedTask) -> bool:
    """Compares digests of right answers; their templates if a record predates these, or documents differ."""
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
    """A metric's aggregation if the task does not name one."""
    from assay.scoring.registry import METRICS, metric_definition

    return {"aggregation": metric_definition(metric).aggregation} if metric in METRICS else {}


def _listed(names: list[str]) -> str:
    once = list(dict.fromkeys(names))
    more = f" and {len(once) - _MOST_NAMED} more" if len(once) > _MOST_NAMED else ""
    return ", ".join(once[:_MOST_NAMED]) + more


# Caveats: documents left out or failed, early stopping, too few clusters


def pair_caveats(score: PairedScore, match: MatchedPair, tasks: tuple[RecordedTask, RecordedTask]) -> tuple[str, ...]:
    """Caveats: documents without a value, runs that stopped early, too few clusters."""
    found = []
    if any(score.left_out):
        mine, theirs = score.left_out
        found.append(
            f"left out because only one run has a value: {mine:,} of {score.first}, {theirs:,} of {score.second}"
        )
    found += _failed(score) + _missing_values(score)
    for entry in (match.first, match.second):
        if entry.infinite:
            counted = plural(entry.infinite, "value is", "values are")
            found.append(f"{counted} infinite in {entry.label} and left out: its score would be infinite, too")
    found += [
        text
        for label, task in zip((score.first, score.second), tasks, strict=True)
        for text in _early_stopping(label, task)
    ]
    if score.clusters is not None:
        found += _few_clusters(score.clusters)
    return tuple(found)


def bounds_of(
    score: PairedScore, match: MatchedPair, tasks: tuple[RecordedTask, RecordedTask]
) -> tuple[float, float] | None:
    """The difference with all failed documents counted: None if none failed, or the metric is not a known share.

    Both runs must have evaluated the same documents, each of which has a value or failed.
    """
    asked = {task.entry["documents_fingerprint"] for task in tasks}
    if not any(score.failed) or any(score.unanswered) or len(asked) > 1:
        return None
    from assay.scoring.failure_bounds import difference_bounds, is_share_metric  # few runs have failed documents

    if not is_share_metric(score.metric):
        return None
    if not (match.first.is_share and match.second.is_share and match.first.is_known and match.second.is_known):
        return None
    first, second = (
        dict(zip(entry.recorded.documents, entry.numbers.tolist(), strict=True))
        for entry in (match.first, match.second)
    )
    return difference_bounds(first, second, score.failed)


def _failed(score: PairedScore) -> list[str]:
    """A caveat on failed documents, and how much they could change the difference."""
    counts = [(label, count) for label, count in zip((score.first, score.second), score.failed, strict=True) if count]
    if not counts:
        return []
    reported = "failed and counted in neither score: " + ", ".join(f"{count:,} of {label}" for label, count in counts)
    if score.bounds is None:
        return [f"{reported}; the difference including them is unknown"]
    low, high = (signed_text(end, True) for end in score.bounds)
    return [f"{reported}; with them counted as wrong or right, the difference is from {low} to {high} points"]


def _missing_values(score: PairedScore) -> list[str]:
    """A caveat if more documents lack a value than a gate allows."""
    if not score.has_too_many_missing:
        return []
    kinds = (
        (score.failed, "failed", "failed"),
        (score.unanswered, "has no answer", "have no answer"),
        (score.undefined, "has no finite value", "have no finite value"),
    )
    reported = [
        f"{plural(count, 'document')} of {label} {verb(count, one, many)}"
        for counts, one, many in kinds
        for label, count in zip((score.first, score.second), counts, strict=True)
        if count
    ]
    return [f"{', '.join(reported)}: too many for --fail_if_worse"]


def _early_stopping(label: str, task: RecordedTask) -> list[str]:
    """A caveat on early stopping by the run's own scores, which a fixed-sample test does not account for."""
    stop = (task.summary.get("spared") or {}).get("stop")
    if not stop or not stop["is_reached"]:
        return []
    reported = f"{label} stopped early (--{stop['rule']}), which makes p too small and the interval too narrow"
    return [f"{reported}: its own report has the estimate that holds after early stopping"]


def _few_clusters(count: int) -> list[str]:
    from assay.stats.clustered import FEW_CLUSTERS  # few tasks have clusters

    if count == 1:
        return ["all documents are in one cluster: there is no interval"]
    too_few = f"{count} clusters are too few for a reliable interval, which may be too narrow"
    return [too_few] if count < FEW_CLUSTERS else []
