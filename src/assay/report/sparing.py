"""What a random part of a task's documents tells, in sentences: of all of them, and why a run stopped."""

from __future__ import annotations

from collections.abc import Iterator

from assay.core.results import RunResult, TaskResult
from assay.core.scores import Estimate
from assay.core.sparing import UNTIL_SE, Beside, Spared, Stop
from assay.report.names import printable
from assay.report.tables import format_number


def sparing_lines(result: RunResult) -> Iterator[str]:
    """The sentences of every task of which a random part was asked."""
    for task in result.tasks:
        if task.spared is not None:
            yield from map(printable, _lines(task, task.spared))


def _lines(task: TaskResult, spared: Spared) -> Iterator[str]:
    for found in spared.whole:
        yield f"{_head(task, found)}: on the task's {spared.available:,} documents {_shown(found.estimate)}"
    for found in spared.differences:
        told = f"with run {spared.reference} for the rest {_shown(found.estimate)}"
        yield f"{_head(task, found)}: on the task's {spared.available:,} documents, {told}{_gain(found, spared)}"
    if spared.stop is not None:
        yield _stop_line(task, spared.stop)


def _head(task: TaskResult, found: Beside | Stop) -> str:
    return f"{task.name}, {found.metric}" + (f" ({found.filter})" if found.filter != "none" else "")


def _shown(estimate: Estimate) -> str:
    interval = ""
    if estimate.low is not None:
        interval = f", 95 % interval {format_number(estimate.low)} … {format_number(estimate.high)}"
    return f"{format_number(estimate.value)} ± {format_number(estimate.stderr)}{interval} ({estimate.method})"


def _gain(found: Beside, spared: Spared) -> str:
    """How much the reference helps, if it does."""
    plain = next(
        (one.estimate for one in spared.whole if (one.metric, one.filter) == (found.metric, found.filter)), None
    )
    if plain is None or not plain.stderr or not found.estimate.stderr:
        return ""
    return f"; its error is {found.estimate.stderr / plain.stderr:.2f} of that without it"


def _stop_line(task: TaskResult, stop: Stop) -> str:
    bounds = f"{format_number(stop.low)} … {format_number(stop.high)}"
    laps = f"{stop.laps} lap" + ("s" if stop.laps > 1 else "")
    if stop.is_reached:
        head = f"{_head(task, stop)}: stopped after {stop.documents:,} of {stop.most:,} documents ({laps})"
    else:
        head = f"{_head(task, stop)}: all {stop.most:,} documents were asked ({laps})"
    if stop.rule == UNTIL_SE:
        verdict = "is" if stop.is_reached else "is not yet"
        told = f"the anytime-valid 95 % interval {bounds} {verdict} as narrow as"
        return f"{head}: {told} a standard error of {stop.wanted:g} makes it"
    p = "" if stop.p is None else f" (anytime-valid p = {stop.p:.4f})"
    verdict = f"{'better' if stop.is_better else 'worse'} than run {stop.other}"
    if stop.is_better is None:
        verdict = f"not decided whether it is better than run {stop.other}"
    return f"{head}: {verdict}{p}; anytime-valid 95 % interval of the difference {bounds}"
