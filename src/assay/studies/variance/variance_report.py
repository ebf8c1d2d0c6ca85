"""Text lines on prompts, draws and sources of variance: levels, agreement, shares, and the effect of more levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from assay.core.results import TaskResult
from assay.core.task_variants import COMBINED, DOCUMENT, DRAW, PROMPT
from assay.report.safe_names import printable
from assay.stats.variance import Decomposition, Effect, StderrForecast, VarianceComponent
from assay.studies.variance.variance_values import PromptAxis, TaskVariance, VarianceAxis

# Sources below this share are summed up.
_LEAST_SHARE = 0.01
# Doubling the requests helps if it leaves less than this share of the standard error.
_HELPS = 0.95


def prompt_lines(axes: Sequence[PromptAxis]) -> Iterator[str]:
    """A line for every task with several prompts and every metric: mean, deviation, lowest, highest, spread."""
    for axis in axes:
        known = axis.known
        head = f"{axis.task}, {axis.metric}" + (f" ({axis.filter})" if axis.filter != "none" else "")
        without = f", {len(axis.scores) - len(known)} without a score" if len(known) < len(axis.scores) else ""
        if axis.lowest is None or axis.highest is None:
            yield printable(f"{head}: no score in any of {len(axis.scores)} prompts")
            continue
        deviation = "" if axis.deviation is None else f" ± {axis.deviation:.4f} (standard deviation)"
        noun = "prompt" if len(known) == 1 else "prompts"
        if not axis.spread:
            each = " each" if len(known) > 1 else ""
            yield printable(f"{head}: {len(known)} {noun}{without}: {axis.mean:.4f}{each}{_document_count_note(axis)}")
            continue
        yield printable(
            f"{head}: {len(known)} {noun}{without}: mean {axis.mean:.4f}{deviation}, "
            f"min {known[axis.lowest]:.4f} ({axis.lowest}), max {known[axis.highest]:.4f} ({axis.highest}), "
            f"spread {axis.spread:.4f}{_document_count_note(axis)}"
        )


def _document_count_note(axis: PromptAxis) -> str:
    """A sentence if the prompts were not evaluated on the same documents."""
    counts = [axis.documents[name] for name in axis.known]
    low, high = min(counts), max(counts)
    if low == high and axis.shared in (None, low):
        return ""
    described = f", on {low} to {high} documents" if low < high else f", on {low} documents each"
    return described if axis.shared in (None, low) else f"{described}, of which all prompts share {axis.shared}"


def draw_lines(tasks: Sequence[TaskResult]) -> Iterator[str]:
    """The counts of draws of tasks with several draws per question; tasks with the same counts share a line."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        counts = task.denominators.draws
        if counts is None:
            continue
        total = task.denominators.total
        noun = "document" if total == 1 else "documents"
        described = f"{total:,} {noun} × {counts.per_question:,} draws"
        described += f", {counts.total:,} answers" + (f", {counts.failed:,} failed" if counts.failed else "")
        for pipeline, count in counts.unparsed.items():
            where = "" if pipeline == "none" else f" ({pipeline})"
            described += f", {count:,} without an answer{where}" if count else ""
        names.setdefault(described, []).append(task.name)
    for described, own in names.items():
        more = f" and {len(own) - 1:,} more, each" if len(own) > 1 else ""
        yield printable(f"{own[0]}{more}: {described}")


def variance_lines(found: Sequence[TaskVariance]) -> Iterator[str]:
    """The lines of every task and metric. The scores of prompts have lines of their own, see `prompt_lines`."""
    for item in found:
        head = f"{item.task}, {item.metric}" + (f" ({item.filter})" if item.filter != "none" else "")
        axes = [axis for axis in item.axes if axis.name != PROMPT]
        if item.parts is None:
            # Lines of prompts alone are written already.
            if axes:
                yield printable(f"{head}: {_design(item)}: not taken apart: {item.reason}")
                yield from map(_axis_line, axes)
            continue
        varies = any(part.share is not None for part in item.parts.components)
        yield printable(f"{head}: {_design(item)}{_documents(item.parts)}: {_mean(item.parts)}")
        yield from _error_lines(item, item.parts)
        yield from (_axis_line(axis) for axis in item.axes if axis.name != PROMPT or axis.agreement is not None)
        yield from _part_lines(item, item.parts) if varies else ["  variance: none, all scores are equal"]


def _design(item: TaskVariance) -> str:
    """`5 seeds × 3 orders`."""
    return " × ".join(_counted(axis.name, len(axis.scores)) for axis in item.axes)


def _counted(noun: str, count: int) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _documents(parts: Decomposition) -> str:
    count = _counted(DOCUMENT, parts.levels.get(DOCUMENT, 1))
    lost = f", {parts.left_out:,} left out, which lack a score somewhere" if parts.left_out else ""
    return f" on {count}{lost}"


def _mean(parts: Decomposition) -> str:
    if parts.low is None or parts.high is None:
        return f"mean {parts.mean:.4f}"
    return f"mean {parts.mean:.4f}, 95 % interval {parts.low:.4f} … {parts.high:.4f}"


def _error_lines(item: TaskVariance, parts: Decomposition) -> Iterator[str]:
    """The factors that the standard error covers: readers assume that it covers documents only."""
    if parts.stderr is None:
        return
    whole = "".join(f"; all {_counted(name, parts.levels[name])} were evaluated" for name in parts.exhausted)
    first, *others = (_plural(name) for name in parts.levels if name not in parts.exhausted)
    if whole and not others:
        yield f"  standard error {parts.stderr:.4f} for other {first} alone{whole}"
        return
    varied = f"{', '.join([first, *others[:-1]])} and {others[-1]}" if others else first
    alone = (
        "" if item.documents_only_stderr is None else f", {item.documents_only_stderr:.4f} for other documents alone"
    )
    yield f"  standard error {parts.stderr:.4f} for other {varied} than these{alone}{whole}"


def _axis_line(axis: VarianceAxis) -> str:
    known = axis.known
    agreed = _agreement(axis)
    if axis.name == PROMPT:  # its scores have a line of their own
        return f"  {axis.name}: {agreed}"
    agreed = f"; {agreed}" if agreed else ""
    if axis.lowest is None or axis.highest is None:
        return f"  {axis.name}: no score at any of {len(axis.scores)} levels{agreed}"
    if not axis.spread:
        return f"  {axis.name}: {known[axis.lowest]:.4f} at {_each(len(known))}{agreed}"
    deviation = "" if axis.deviation is None else f", standard deviation {axis.deviation:.4f}"
    return printable(
        f"  {axis.name}: min {known[axis.lowest]:.4f} ({axis.lowest}), max {known[axis.highest]:.4f} "
        f"({axis.highest}), spread {axis.spread:.4f}{deviation}{agreed}"
    )


def _each(count: int) -> str:
    return "its one level" if count == 1 else f"each of {count} levels"


def _agreement(axis: VarianceAxis) -> str:
    if axis.agreement is None or axis.agreement.value is None:
        return ""
    alpha = axis.alpha.value if axis.alpha is not None else None
    described = "" if alpha is None else f" (α {alpha:.2f})"
    return f"the same prediction in {100 * axis.agreement.value:.0f} % of pairs{described}"


def _part_lines(item: TaskVariance, parts: Decomposition) -> Iterator[str]:
    yield f"  variance of one score: {_shares(parts.components, [part.share for part in parts.components])}"
    if parts.stderr is None:
        return
    ordered = sorted(parts.components, key=lambda part: -(part.share_of_mean or 0.0))
    yield f"  squared error of the mean: {_shares(ordered, [part.share_of_mean for part in ordered])}"
    yield _advice(item, parts, parts.stderr)


def _advice(item: TaskVariance, parts: Decomposition, error: float) -> str:
    """Which factor to increase. Doubling any factor doubles the requests, so their benefits are comparable."""

    def lacks(forecast: StderrForecast) -> bool:
        return 2 * forecast.levels > item.available.get(forecast.factor, math.inf)

    ordered = sorted(parts.forecasts, key=lacks)  # factors that cannot be doubled come last
    helps = [one for one in ordered if not lacks(one) and one.doubled <= _HELPS * error]
    described = []
    for one in ordered:
        only = f" (there are {item.available[one.factor]:,})" if lacks(one) else ""
        described.append(f"{one.doubled:.4f} with {2 * one.levels:,} {_plural(one.factor)}{only}")
    head = f"helps most on {_plural(helps[0].factor)}" if helps else "helps little"
    return f"  more budget {head}: standard error {', '.join(described)}"


def _plural(noun: str) -> str:
    return noun + "s"


def effect_name(effect: Effect) -> str:
    """`document × seed`; draws, which are nested in all other factors, have their own name."""
    return DRAW if DRAW in effect else COMBINED.join(effect)


def _shares(components: Sequence[VarianceComponent], shares: Sequence[float | None]) -> str:
    pairs = [(effect_name(part.effect), share or 0.0) for part, share in zip(components, shares, strict=True)]
    shown = [f"{name} {100 * share:.0f} %" for name, share in pairs if share >= _LEAST_SHARE]
    return ", ".join([*shown, *(["others below 1 %"] if len(shown) < len(pairs) else [])])
