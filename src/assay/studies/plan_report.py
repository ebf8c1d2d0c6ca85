"""Terminal report of `assay plan`: requests, tokens and time of a run, and whether its documents suffice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from assay.core.money import format_dollars
from assay.core.protocols import ExpectedSpending
from assay.core.specs import DetectOptions
from assay.report.result_files import with_file_keys
from assay.report.tables import format_number, format_seconds
from assay.report.terminal import make_console, plain_table
from assay.run.forecast import EARLIER_RUNS, MEASUREMENT, PlanReport


def _data(report: PlanReport) -> dict[str, Any]:
    """A plan as JSON data."""
    keys = {"built": "posed"}
    data = with_file_keys(asdict(report), keys)
    return {**data, "tasks": [with_file_keys(task, keys) for task in data["tasks"]]}


def show_plan(report: PlanReport, form: str) -> None:
    """Prints a plan as `text` or `json`."""
    if form == "json":
        print(json.dumps(_data(report), indent=2))
        return
    console = make_console()
    headings = ("Task", "Documents", "Requests", "Distinct", "To execute")
    rows = [(t.name, f"{t.documents:,}", f"{t.built:,}", f"{t.unique:,}", f"{t.missing:,}") for t in report.tasks]
    console.print(plain_table(headings, rows))
    for text in _lines(report):
        console.print(text, markup=False)
    if report.detect is not None:
        console.print()
        console.print(plain_table(*_detection_table(report, report.detect)))
        console.print(_assumptions(report.detect), markup=False)


def _detection_table(report: PlanReport, detect: DetectOptions) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    found = [(task, task.detection) for task in report.tasks if task.detection is not None]
    is_limited = any(task.documents < own.available for task, own in found)
    available = ("Available",) if is_limited else ()
    headings = ("Task, metric", "Documents", *available, f"To detect {detect.difference:g}", "Enough", "Detectable")
    rows = []
    for task, own in found:
        counts = (f"{task.documents:,}", *((f"{own.available:,}",) if is_limited else ()))
        if own.metric is None or own.needed is None:
            rows.append((task.name, *counts, *"–––"))
            continue
        least = "none" if own.detectable is None else format_number(own.detectable)
        rows.append((f"{task.name}, {own.metric}", *counts, f"{own.needed:,}", "yes" if own.is_enough else "no", least))
    return headings, rows


def _assumptions(detect: DetectOptions) -> str:
    if detect.discordance is not None:
        assumed = f"one of the two alone is right on {100 * detect.discordance:g} % of the documents"
    elif detect.deviation is None and not detect.correlation:
        assumed = "two independent runs that are right half of the time, the most that scores from 0 to 1 can vary"
    else:
        deviation = 0.5 if detect.deviation is None else detect.deviation
        assumed = f"a document's score has a standard deviation of {deviation:g}, and correlates by "
        assumed += f"{detect.correlation:g} between the two"
    return (
        f"assumed:  a paired test of two runs at the level of {100 * detect.alpha:g} % with a power of 80 %, on "
        f"independent documents and one prompt; {assumed}. --discordance, or --sd and --correlation, take what "
        "`assay compare` shows of runs like these."
    )


def _lines(report: PlanReport) -> list[str]:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.items()) or "nothing"
    return [
        f"requests: {report.built:,} built, {report.unique:,} distinct, {report.known:,} already known, "
        f"{report.missing:,} to execute ({kinds})",
        f"tokens:   {_tokens(report)}",
        f"forecast: {_forecast(report)}",
        *([f"cost:     {_cost(report, report.spending)}"] if report.spending is not None and report.missing else []),
        *([f"memory:   about {report.memory / 1e9:.1f} GB at the peak"] if report.memory else []),
    ]


def _cost(report: PlanReport, spending: ExpectedSpending) -> str:
    """The price of the requests, and whether the budget suffices."""
    tokens = f"{spending.prompt_tokens:,} prompt tokens (estimated) and at most {spending.new_tokens:,} new ones"
    total = spending.prompt_tokens + spending.new_tokens
    if spending.dollars is None:
        text = f"no price known for {tokens} (price_in=…,price_out=… in --model_args sets one)"
    else:
        text = f"at most about {format_dollars(spending.dollars)} for {tokens} ({spending.price})"
    if report.budget is not None and spending.dollars is not None and spending.dollars > report.budget:
        text += f"; a run stops before it exceeds --budget {report.budget:g}"
    if report.token_budget is not None and total > report.token_budget:
        text += f"; a run stops before it exceeds --token_budget {report.token_budget}"
    return text


def _tokens(report: PlanReport) -> str:
    if report.missing == 0:
        return "none"
    written = f"; up to {report.generated_tokens:,} to write" if report.generated_tokens else ""
    if report.tokens is None or report.tokens_alone is None:
        return "unknown (this model shows no tokens)" + written
    text = f"{report.tokens:,} to read"
    if report.tokens < report.tokens_alone:
        saved = 100 * (1 - report.tokens / report.tokens_alone)
        text += f", {report.tokens_alone:,} without sharing (saves {saved:.0f} %)"
    return text + written


def _forecast(report: PlanReport) -> str:
    if report.missing == 0:
        return "nothing to execute"
    if report.seconds is None:
        return "unknown: this model has not run with this store yet"
    source = {
        EARLIER_RUNS: "at the speed of this model's earlier runs",
        MEASUREMENT: "from a short measurement of this machine",
    }
    return f"about {format_seconds(report.seconds)}, {source[report.seconds_from or EARLIER_RUNS]}"
