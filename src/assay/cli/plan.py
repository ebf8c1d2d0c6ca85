"""`assay plan`: what a run would ask, and how long that would take."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from assay.api import plan_run
from assay.cli.options import add_run_options, add_store_option, ignored, make_parser, run_settings, split_names
from assay.report.tables import format_seconds
from assay.report.terminal import make_console, plain_table, show_notices
from assay.run.forecast import EARLIER_RUNS, MEASUREMENT, PlanReport


def main(arguments: list[str]) -> int:
    """Runs the command."""
    options = _parser().parse_args(arguments)
    show_notices(ignored(options), make_console(stderr=True))
    settings = run_settings(options)
    report = plan_run(options.model, split_names(options.tasks), store=options.store, **settings)
    if options.json:
        print(json.dumps(asdict(report), indent=2))
        return 0
    console = make_console()
    headings = ("Task", "Documents", "Posed", "Distinct", "To ask")
    rows = [(t.name, f"{t.documents:,}", f"{t.posed:,}", f"{t.unique:,}", f"{t.missing:,}") for t in report.tasks]
    console.print(plain_table(headings, rows))
    for line in _lines(report):
        console.print(line, markup=False)
    return 0


def _lines(report: PlanReport) -> list[str]:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.items()) or "nothing"
    return [
        f"requests: {report.posed:,} posed, {report.unique:,} distinct, {report.known:,} already known, "
        f"{report.missing:,} to ask ({kinds})",
        f"tokens:   {_tokens(report)}",
        f"forecast: {_forecast(report)}",
    ]


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
        return "nothing to ask"
    if report.seconds is None:
        return "unknown: this model has not run with this store yet"
    source = {
        EARLIER_RUNS: "at the speed of this model's earlier runs",
        MEASUREMENT: "from a short measurement of this machine",
    }
    return f"about {format_seconds(report.seconds)}, {source[report.seconds_from or EARLIER_RUNS]}"


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("plan", "Says what a run would ask. Nothing is asked and no weights are loaded.")
    add_run_options(parser)
    add_store_option(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser
