"""Where the scores of a task vary, as lines of text: levels, agreement, sources, and what more of each would bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.variance_axes import DOCUMENT, PROMPT, Component, Decomposition, Effect, TaskVariance, VarianceAxis
from assay.report.names import printable

# Sources below this share are told together.
_LEAST_SHARE = 0.01


def variance_lines(found: Sequence[TaskVariance]) -> Iterator[str]:
    """The lines of every task and metric. What prompts scored stands in lines of its own, see `prompt_lines`."""
    for item in found:
        head = f"{item.task}, {item.metric}" + (f" ({item.filter})" if item.filter != "none" else "")
        axes = [axis for axis in item.axes if axis.name != PROMPT]
        if item.parts is None:
            # Of prompts alone everything is told already.
            if axes:
                yield printable(f"{head}: {_design(item)}: not taken apart: {item.reason}")
                yield from map(_axis_line, axes)
            continue
        yield printable(f"{head}: {_design(item)}{_documents(item.parts)}: {_mean(item, item.parts)}")
        yield from (_axis_line(axis) for axis in item.axes if axis.name != PROMPT or axis.agreement is not None)
        yield from _part_lines(item.parts)


def _design(item: TaskVariance) -> str:
    """`5 seeds × 3 orders`."""
    return " × ".join(_counted(axis.name, len(axis.scores)) for axis in item.axes)


def _counted(noun: str, count: int) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _documents(parts: Decomposition) -> str:
    count = _counted(DOCUMENT, parts.levels.get(DOCUMENT, 1))
    lost = f", {parts.left_out:,} left out, which lack a score somewhere" if parts.left_out else ""
    return f" on {count}{lost}"


def _mean(item: TaskVariance, parts: Decomposition) -> str:
    naive = "" if item.naive is None else f" (of documents alone: {item.naive:.4f})"
    return f"mean {parts.mean:.4f}, standard error of all axes {parts.stderr:.4f}{naive}"


def _axis_line(axis: VarianceAxis) -> str:
    known = axis.known
    agreed = _agreement(axis)
    if axis.name == PROMPT:  # its scores are told in a line of their own
        return f"  {axis.name}: {agreed}"
    agreed = f"; {agreed}" if agreed else ""
    if axis.lowest is None or axis.highest is None:
        return f"  {axis.name}: no score at any of {len(axis.scores)} levels{agreed}"
    deviation = "" if axis.deviation is None else f"standard deviation {axis.deviation:.4f}, "
    return printable(
        f"  {axis.name}: {deviation}min {known[axis.lowest]:.4f} ({axis.lowest}), "
        f"max {known[axis.highest]:.4f} ({axis.highest}), spread {axis.spread:.4f}{agreed}"
    )


def _agreement(axis: VarianceAxis) -> str:
    if axis.agreement is None or axis.agreement.value is None:
        return ""
    alpha = axis.alpha.value if axis.alpha is not None else None
    told = "" if alpha is None else f" (α {alpha:.2f})"
    return f"the same pick in {100 * axis.agreement.value:.0f} % of pairs{told}"


def _part_lines(parts: Decomposition) -> Iterator[str]:
    if all(part.share is None for part in parts.components):
        yield "  variance: none, all scores are equal"
        return
    yield f"  variance of one score: {_shares(parts.components, [part.share for part in parts.components])}"
    ordered = sorted(parts.components, key=lambda part: -(part.share_of_mean or 0.0))
    yield f"  squared error of the mean: {_shares(ordered, [part.share_of_mean for part in ordered])}"
    told = ", ".join(f"{_plural(item.factor)} {item.doubled:.4f}" for item in parts.forecasts)
    yield f"  standard error with twice as many: {told}"


def _plural(noun: str) -> str:
    return noun + "s"


def effect_name(effect: Effect) -> str:
    """`document × seed`."""
    return " × ".join(effect)


def _shares(components: Sequence[Component], shares: Sequence[float | None]) -> str:
    pairs = [(effect_name(part.effect), share or 0.0) for part, share in zip(components, shares, strict=True)]
    shown = [f"{name} {100 * share:.0f} %" for name, share in pairs if share >= _LEAST_SHARE]
    return ", ".join([*shown, *(["others below 1 %"] if len(shown) < len(pairs) else [])])
