"""The best of several variants, for tools that report it: told as what it is, beside every variant's own score."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.results import GroupResult, TaskResult
from assay.core.scores import MetricResult
from assay.tasks.profiles.book import Combined


def best_of(
    combined: Sequence[Combined], tasks: Sequence[TaskResult], groups: Sequence[GroupResult]
) -> tuple[str, ...]:
    """A line for everything that a tool reports as the best of its variants, by the metric that comes first."""
    metrics: dict[str, Sequence[MetricResult]] = {task.name: task.metrics for task in tasks}
    metrics.update({group.spec.name: group.metrics for group in groups})
    lines = []
    for item in combined:
        found = {variant: metrics[name][0] for variant, name in item.variants.items() if metrics.get(name)}
        values = {variant: metric.estimate.value for variant, metric in found.items()}
        known = {variant: value for variant, value in values.items() if value is not None}
        if len(known) < len(item.variants) or any(metric.metric == "bypass" for metric in found.values()):
            continue
        best = max(known, key=lambda variant: known[variant])
        names = ", ".join(variant.upper() for variant in known)
        lines.append(
            f"{item.tool}: {item.name}: max({names}) = {known[best]:.4f}, from {best.upper()} ({found[best].metric})"
        )
    return tuple(lines)
