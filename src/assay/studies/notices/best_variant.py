"""The best of several prompt variants, for tools that report it beside the score of every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.core.results import GroupResult, TaskResult
from assay.core.scores import BYPASS, MetricResult
from assay.tasks.profiles.expand import BestOfVariants

_MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class _Best:
    """The best variant of a task or group: its score, its metric, and all variants."""

    value: float
    variant: str
    metric: str
    variants: tuple[str, ...]


def best_of(
    combined: Sequence[BestOfVariants], tasks: Sequence[TaskResult], groups: Sequence[GroupResult]
) -> tuple[str, ...]:
    """A line for everything that a tool reports as the best of its variants, by the first metric."""
    metrics: dict[str, Sequence[MetricResult]] = {task.name: task.metrics for task in tasks}
    metrics.update({group.spec.name: group.metrics for group in groups})
    lines = [_mean_line(item, metrics) if item.members else _line(item, metrics) for item in combined]
    return tuple(line for line in lines if line)


def _best(item: BestOfVariants, metrics: Mapping[str, Sequence[MetricResult]]) -> _Best | None:
    """The best variant; None if a variant has no score."""
    found = {variant: metrics[name][0] for variant, name in item.variants.items() if metrics.get(name)}
    values = {variant: metric.estimate.value for variant, metric in found.items()}
    known = {variant: value for variant, value in values.items() if value is not None}
    if len(known) < len(item.variants) or any(metric.metric == BYPASS for metric in found.values()):
        return None
    best = max(known, key=lambda variant: known[variant])
    return _Best(known[best], best.upper(), found[best].metric, tuple(variant.upper() for variant in known))


def _line(item: BestOfVariants, metrics: Mapping[str, Sequence[MetricResult]]) -> str:
    best = _best(item, metrics)
    if best is None:
        return ""
    names = ", ".join(best.variants)
    return f"{item.tool}: {item.name}: max({names}) = {best.value:.4f}, from {best.variant} ({best.metric})"


def _mean_line(item: BestOfVariants, metrics: Mapping[str, Sequence[MetricResult]]) -> str:
    """The mean of each member's best; empty if a member has no score."""
    found = {member.name: best for member in item.members if (best := _best(member, metrics)) is not None}
    if len(found) < len(item.members):
        return ""
    mean = sum(best.value for best in found.values()) / len(found)
    entries = [f"{name} {best.value:.4f} ({best.variant})" for name, best in found.items()]
    more = f" and {len(entries) - _MOST_NAMES} more" if len(entries) > _MOST_NAMES else ""
    tasks = "1 task" if len(entries) == 1 else f"{len(entries)} tasks"
    listed = ", ".join(entries[:_MOST_NAMES]) + more
    return f"{item.tool}: {item.name}: mean of the best of {tasks} = {mean:.4f}: {listed}"
