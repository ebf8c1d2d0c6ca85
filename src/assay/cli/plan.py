"""`assay plan`: what a run would ask, and how long that would take."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from assay.api import plan_run
from assay.cli.options import add_run_options, add_store_option, ignored, make_parser, run_settings, split_names
from assay.report.tables import format_seconds
from assay.report.terminal import make_console, plain_table, show_notices
from assay.run.forecast import PlanReport


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
    tokens = "unknown (this model shows no tokens)" if report.tokens is None else f"{report.tokens:,} to read"
    if report.generated_tokens:
        tokens += f", up to {report.generated_tokens:,} to write"
    forecast = "unknown: this model has not run with this store yet"
    if report.missing == 0:
        forecast = "nothing to ask"
    elif report.seconds is not None:
        forecast = f"about {format_seconds(report.seconds)}, at the speed of this model's earlier runs"
    return [
        f"requests: {report.posed:,} posed, {report.unique:,} distinct, {report.known:,} already known, "
        f"{report.missing:,} to ask ({kinds})",
        f"tokens:   {tokens}",
        f"forecast: {forecast}",
    ]


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("plan", "Says what a run would ask. Nothing is asked and no weights are loaded.")
    add_run_options(parser)
    add_store_option(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser
