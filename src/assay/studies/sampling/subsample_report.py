"""What a random part of a task's documents tells, in sentences: of all of them, and why a run stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.results import TaskResult
from assay.core.scores import Estimate
from assay.report.safe_names import printable
from assay.report.tables import format_number
from assay.studies.sampling.values import UNTIL_SE, AdditionalEstimate, EarlyStop, SubsampleResult


def subsample_lines(tasks: Sequence[TaskResult]) -> Iterator[str]:
    """The sentences of every task of which a random part was asked."""
    for task in tasks:
        if task.subsample is not None:
            yield from map(printable, _lines(task, task.subsample))


def _lines(task: TaskResult, subsample: SubsampleResult) -> Iterator[str]:
    for found in subsample.whole:
        yield f"{_head(task, found)}: on the task's {subsample.available:,} documents {_shown(found.estimate)}"
    for found in subsample.differences:
        described = f"with run {subsample.reference} for the rest {_shown(found.estimate)}"
        documents = f"on the task's {subsample.available:,} documents"
        yield f"{_head(task, found)}: {documents}, {described}{_gain(found, subsample)}"
    if subsample.stop is not None:
        yield _stop_line(task, subsample.stop)


def _head(task: TaskResult, found: AdditionalEstimate | EarlyStop) -> str:
    return f"{task.name}, {found.metric}" + (f" ({found.filter})" if found.filter != "none" else "")


def _shown(estimate: Estimate) -> str:
    interval = ""
    if estimate.low is not None:
        interval = f", 95 % interval {format_number(estimate.low)} … {format_number(estimate.high)}"
    return f"{format_number(estimate.value)} ± {format_number(estimate.stderr)}{interval} ({estimate.method})"


def _gain(found: AdditionalEstimate, subsample: SubsampleResult) -> str:
    """How much the reference helps, if it does."""
    plain = next(
        (one.estimate for one in subsample.whole if (one.metric, one.filter) == (found.metric, found.filter)), None
    )
    if plain is None or not plain.stderr or not found.estimate.stderr:
        return ""
    return f"; its error is {found.estimate.stderr / plain.stderr:.2f} of that without it"


def _stop_line(task: TaskResult, stop: EarlyStop) -> str:
    bounds = f"{format_number(stop.low)} … {format_number(stop.high)}"
    laps = f"{stop.laps} lap" + ("s" if stop.laps > 1 else "")
    if stop.is_reached:
        head = f"{_head(task, stop)}: stopped after {stop.documents:,} of {stop.most:,} documents ({laps})"
    else:
        head = f"{_head(task, stop)}: all {stop.most:,} documents were asked ({laps})"
    if stop.rule == UNTIL_SE:
        verdict = "is" if stop.is_reached else "is not yet"
        described = f"the anytime-valid 95 % interval {bounds} {verdict} as narrow as"
        return f"{head}: {described} a standard error of {stop.wanted:g} makes it"
    p = "" if stop.p is None else f" (anytime-valid p = {stop.p:.4f})"
    verdict = f"{'better' if stop.is_better else 'worse'} than run {stop.other}"
    if stop.is_better is None:
        verdict = f"not decided whether it is better than run {stop.other}"
    return f"{head}: {verdict}{p}; anytime-valid 95 % interval of the difference {bounds}"
