"""Sentences about subsampled tasks: estimates for all documents, and why the task stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.plural import plural
from assay.core.results import TaskResult
from assay.core.scores import Estimate
from assay.report.safe_names import printable
from assay.report.tables import format_number
from assay.studies.sampling.subsample_values import UNTIL_SE, AdditionalEstimate, EarlyStop, SubsampleResult

# Tasks with estimates for all documents that are shown; of a suite of many, those with the most documents.
_MOST_TASKS = 12


def subsample_lines(tasks: Sequence[TaskResult]) -> Iterator[str]:
    """The sentences of subsampled tasks; of many, those on the largest samples."""
    found = [task for task in tasks if task.subsample is not None]
    largest = sorted(found, key=lambda task: -task.denominators.total)[:_MOST_TASKS]
    for task in largest if len(found) > _MOST_TASKS else found:
        if task.subsample is not None:
            yield from map(printable, _lines(task, task.subsample))
    if len(found) > _MOST_TASKS:
        more = plural(len(found) - _MOST_TASKS, "more task")
        yield f"Estimates for all documents of {more}: in the result files (--output_path)"


def _lines(task: TaskResult, subsample: SubsampleResult) -> Iterator[str]:
    for found in subsample.whole:
        yield f"{_head(task, found)}: estimate for all {subsample.available:,} documents {_shown(found.estimate)}"
    for found in subsample.differences:
        described = f"with run {subsample.reference} as control variate, {_shown(found.estimate)}"
        documents = f"estimate for all {subsample.available:,} documents"
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
    """How much smaller the reference run makes the standard error."""
    plain = next(
        (one.estimate for one in subsample.whole if (one.metric, one.filter) == (found.metric, found.filter)), None
    )
    if plain is None or not plain.stderr or not found.estimate.stderr:
        return ""
    change = round(100 * (found.estimate.stderr / plain.stderr - 1))
    size = "the same as" if change == 0 else f"{abs(change)} % {'smaller' if change < 0 else 'larger'} than"
    return f"; standard error {size} without the reference"


def _stop_line(task: TaskResult, stop: EarlyStop) -> str:
    bounds = f"{format_number(stop.low)} … {format_number(stop.high)}"
    laps = plural(stop.laps, "lap")
    if stop.is_reached:
        head = f"{_head(task, stop)}: stopped after {stop.documents:,} of {stop.most:,} documents ({laps})"
    else:
        head = f"{_head(task, stop)}: evaluated all {stop.most:,} documents ({laps})"
    if stop.rule == UNTIL_SE:
        verdict = "is" if stop.is_reached else "is not yet"
        described = f"the anytime-valid 95 % interval {bounds} {verdict} as narrow as"
        return f"{head}: {described} that of a standard error of {stop.wanted:g}"
    p = "" if stop.p is None else f" (anytime-valid p = {stop.p:.4f})"
    verdict = f"{'better' if stop.is_better else 'worse'} than run {stop.other}"
    if stop.is_better is None:
        verdict = f"not decided whether it is better than run {stop.other}"
    return f"{head}: {verdict}{p}; anytime-valid 95 % interval of the difference {bounds}"
