"""`assay explain`: why two runs have different numbers."""

from __future__ import annotations

import argparse
import json

from assay.api import explain
from assay.cli.options import add_store_option, make_parser
from assay.cli.progress_events import TerminalListener
from assay.report.safe_names import printable
from assay.report.terminal import ProgressView, make_console
from assay.studies.explain.explain_report import explanation_data, explanation_markdown, explanation_text


def main(arguments: list[str]) -> int:
    """Runs the command."""
    options = _parser().parse_args(arguments)
    with ProgressView(make_console(stderr=True)) as view:
        found = explain(
            options.first,
            options.second,
            tasks=options.tasks,
            metrics=options.metrics,
            tokens=options.tokens,
            store=options.store,
            listener=TerminalListener(view),
        )
    if options.json:
        print(json.dumps(explanation_data(found), indent=2, ensure_ascii=False, default=str))
    elif options.markdown:
        print(explanation_markdown(found), end="")
    else:
        make_console().print(printable(explanation_text(found)), markup=False, soft_wrap=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("explain", "Says why two runs have different numbers. No weights are loaded.")
    parser.add_argument("first", metavar="RUN_A", help="a run's name or its start, last, last~1; see: assay ls runs")
    parser.add_argument("second", metavar="RUN_B", help="the other run")
    parser.add_argument("--tasks", nargs=2, metavar=("A", "B"), help="a task of each; default: all that both have")
    parser.add_argument("--metrics", nargs=2, metavar=("A", "B"), help="a metric of each; default: the first of each")
    parser.add_argument("--tokens", action="store_true", help="open the models' tokenizers and compare tokens, too")
    parser.add_argument("--markdown", action="store_true", help="as a Markdown page")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_store_option(parser)
    return parser
