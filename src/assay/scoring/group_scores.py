"""Group scores: the averages that authors of suites define, from the results of a group's tasks.

Takes a score's definition and task results, gives a metric of the group. A score whose tasks do not all have a value
has none itself, with every reason: a mean over fewer tasks is another number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from assay.core.errors import Fault
from assay.core.results import Problem, TaskResult
from assay.core.score_terms import BEST, CHANCE, MICRO, CombinedTerm, GroupScore, Normalisation, ScoreTerm, TaskTerm
from assay.core.scores import BYPASS, FailureBounds, MetricResult
from assay.scoring.scorers.multiple_choice import METHODS
from assay.stats.composite import Composite, above_floor, composite, normalised, scaled, weighted_mean
from assay.stats.means import empty_estimate

# Metrics whose value under guessing follows from the number of choices.
_ACCURACIES = frozenset({"exact_match", *(method.metric for method in METHODS.values())})
_MOST_REASONS = 5
Results = Mapping[str, TaskResult]


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A score of a group, and why it has no value; the problem is None if it has one."""

    metric: MetricResult
    problem: Problem | None = None


def group_score(group: str, score: GroupScore, tasks: Results) -> ScoredGroup:
    """A score of a group.

    Args:
        group: the group's name, for messages.
        score: its definition.
        tasks: name → result, at least of the tasks that the score names.
    """
    reasons = list(dict.fromkeys(_reasons(score.term, tasks)))
    if reasons:
        empty = MetricResult(score.name, "none", empty_estimate("delta-mover"), None)
        return ScoredGroup(empty, _problem(group, score.name, reasons))
    found = _value(score.term, tasks)
    estimate = found.composite.estimate(sum(found.documents.values()))
    direction = next(iter(found.directions)) if len(found.directions) == 1 else None
    bounds = FailureBounds(found.failed, *found.ends) if found.failed else None
    return ScoredGroup(MetricResult(score.name, "none", estimate, direction, estimate.stderr, bounds))


def only_records(score: GroupScore, tasks: Results) -> bool:
    """Whether the run only records answers, so that there is nothing to average."""
    metrics = [metric for name in _task_names(score.term) for metric in tasks[name].metrics]
    return bool(metrics) and all(metric.metric == BYPASS for metric in metrics)


def _task_names(term: ScoreTerm) -> Iterator[str]:
    if isinstance(term, TaskTerm):
        yield term.task
    else:
        for part in term.parts:
            yield from _task_names(part)


def _problem(group: str, score: str, reasons: Sequence[str]) -> Problem:
    shown = "; ".join(reasons[:_MOST_REASONS])
    more = f"; and {len(reasons) - _MOST_REASONS} more reasons" if len(reasons) > _MOST_REASONS else ""
    advice = "Fix these tasks or metrics: a score over fewer tasks would be another number"
    return Problem((Fault(f"group {group}", f'no score "{score}": {shown}{more}', next=advice),))


# What is missing


def _reasons(term: ScoreTerm, tasks: Results, needs_chance: bool = False) -> Iterator[str]:
    """Why a score cannot be computed; nothing if it can.

    Args:
        term: the score, or a part of it.
        tasks: name → result.
        needs_chance: whether a part above is normalised by the score of guessing.
    """
    needs_chance = needs_chance or (term.normalisation is not None and term.normalisation.floor == CHANCE)
    if isinstance(term, CombinedTerm):
        for part in term.parts:
            yield from _reasons(part, tasks, needs_chance)
        return
    task = tasks.get(term.task)
    if task is None:
        yield f"the task {term.task} is not in this run"
    elif task.problem is not None and not task.metrics:
        yield f"{task.name} could not be scored"
    elif not (term.metrics or _primary(task)):
        yield f"{task.name} has no card that names its primary metric, and the score names none"
    else:
        yield from _metric_reasons(term, task, needs_chance)


def _metric_reasons(term: TaskTerm, task: TaskResult, needs_chance: bool) -> Iterator[str]:
    names = term.metrics or (_primary(task),)
    for name in names:
        metric = _metric(task, name, term.filter)
        if metric is None:
            known = ", ".join(dict.fromkeys(other.metric for other in task.metrics))
            pipeline = "" if term.filter is None else f" after the filter {term.filter}"
            yield f"{task.name} does not report {name}{pipeline} (it reports {known})"
        elif metric.estimate.value is None or not math.isfinite(metric.estimate.value):
            yield f"{task.name} has no value of {name}"
    if needs_chance and _chance(task, names[0]) is None:
        yield f"the score of guessing on {task.name} is unknown: state the floor as a number"


# Values


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of a part of a score.

    Attributes:
        composite: the value with its uncertainty.
        ends: the value with all failed documents at the lowest value, and at the highest; None if unknown.
        documents: family of tasks → documents that count; the tasks of a family share them.
        size: documents that count, over all tasks.
        failed: failed documents.
        chance: the score of guessing; None if unknown.
        directions: whether higher is better, of all metrics.
    """

    composite: Composite
    ends: tuple[float | None, float | None]
    documents: Mapping[Hashable, int]
    size: int
    failed: int
    chance: float | None
    directions: frozenset[bool | None]


def _value(term: ScoreTerm, tasks: Results) -> _Value:
    if isinstance(term, TaskTerm):
        return _normalised(_task_value(term, tasks[term.task]), term.normalisation)
    parts = [_value(part, tasks) for part in term.parts]
    if term.how == BEST:
        found = max(parts, key=lambda part: part.composite.value)
        highest = [_best_end([part.ends[place] for part in parts]) for place in (0, 1)]
        found = replace(found, ends=(highest[0], highest[1]), failed=max(part.failed for part in parts))
    else:
        found = _mean(parts, term.how == MICRO)
    return _scaled(_normalised(found, term.normalisation), term.scale)


def _task_value(term: TaskTerm, task: TaskResult) -> _Value:
    names = term.metrics or (_primary(task),)
    metrics = [metric for name in names if (metric := _metric(task, name, term.filter)) is not None]
    family = task.card.family
    own = [composite(metric.estimate, family) for metric in metrics]
    ends = [
        (metric.estimate.value,) * 2 if metric.bounds is None else (metric.bounds.low, metric.bounds.high)
        for metric in metrics
    ]
    equal = [1.0] * len(metrics)
    return _Value(
        composite=weighted_mean(own, equal),
        ends=(_end([low for low, _ in ends], equal), _end([high for _, high in ends], equal)),
        documents={family: task.sample_len},
        size=task.sample_len,
        failed=task.denominators.failed,
        chance=_chance(task, names[0]),
        directions=frozenset(metric.higher_is_better for metric in metrics),
    )


def _mean(parts: Sequence[_Value], by_size: bool) -> _Value:
    weights = [float(part.size) if by_size else 1.0 for part in parts]
    reached = [float(part.size + part.failed) if by_size else 1.0 for part in parts]
    documents: dict[Hashable, int] = {}
    for part in parts:
        for family, count in part.documents.items():
            documents[family] = max(count, documents.get(family, 0))
    return _Value(
        composite=weighted_mean([part.composite for part in parts], weights),
        ends=(_end([part.ends[0] for part in parts], reached), _end([part.ends[1] for part in parts], reached)),
        documents=documents,
        size=sum(part.size for part in parts),
        failed=sum(part.failed for part in parts),
        chance=_end([part.chance for part in parts], weights),
        directions=frozenset().union(*(part.directions for part in parts)),
    )


def _normalised(found: _Value, rule: Normalisation | None) -> _Value:
    if rule is None:
        return found
    floor = found.chance if isinstance(rule.floor, str) else rule.floor
    assert floor is not None, "what is missing was found before"
    ends = _mapped(found.ends, lambda value: above_floor(value, floor, rule.ceiling))
    return replace(found, composite=normalised(found.composite, floor, rule.ceiling), ends=ends, chance=0.0)


def _scaled(found: _Value, scale: float) -> _Value:
    if scale == 1:
        return found
    chance = None if found.chance is None else scale * found.chance
    ends = _mapped(found.ends, lambda value: scale * value)
    return replace(found, composite=scaled(found.composite, scale), ends=ends, chance=chance)


def _mapped(
    ends: tuple[float | None, float | None], change: Callable[[float], float]
) -> tuple[float | None, float | None]:
    low, high = (None if end is None else change(end) for end in ends)
    return low, high


def _end(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return math.fsum(weight * value for weight, value in zip(weights, known, strict=True)) / math.fsum(weights)


def _best_end(values: Sequence[float | None]) -> float | None:
    return reduce(lambda one, other: None if one is None or other is None else max(one, other), values)


# Facts of a task


def _metric(task: TaskResult, name: str, pipeline: str | None) -> MetricResult | None:
    """The metric of a name, `exact_match` or `exact_match,strict-match`; the first pipeline that has it if none is
    named."""
    metric, _, own = name.partition(",")
    wanted = own or pipeline
    found = (item for item in task.metrics if item.metric == metric and wanted in (None, "", item.filter))
    return next(found, None)


def _primary(task: TaskResult) -> str:
    """The primary metric that a task's card names; empty if it names none."""
    return str(task.card.facts.get("primary") or "")


def _chance(task: TaskResult, metric: str) -> float | None:
    """The score of guessing: the card's if the metric is its primary one, else by the numbers of choices."""
    facts = task.card.facts
    name = metric.partition(",")[0]
    if name == _primary(task).partition(",")[0] and isinstance(facts.get("chance"), (int, float)):
        return float(facts["chance"])
    instances = [item.instance for item in task.answered]
    if name not in _ACCURACIES or not instances or not all(instance.choices for instance in instances):
        return None
    shares = [len(set(instance.gold_indices)) / len(instance.choices) for instance in instances]
    return math.fsum(shares) / len(shares)
