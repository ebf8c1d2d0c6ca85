"""`assay explain`: why two recorded runs have different scores."""

from __future__ import annotations

import json
from pathlib import Path

from assay.api import explain
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.result_files import check_file, write_text
from assay.report.safe_names import printable
from assay.report.terminal import ProgressView, make_console, show_written
from assay.studies.explain.explain_report import explanation_data, explanation_markdown, explanation_text


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options
    if options.output_path:
        check_file(options.output_path, "--output_path")
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
    if options.format == "json":
        text = json.dumps(explanation_data(found), indent=2, ensure_ascii=False, default=str) + "\n"
    elif options.format == "markdown":
        text = explanation_markdown(found)
    elif options.output_path:
        text = explanation_text(found)
    else:
        make_console().print(printable(explanation_text(found)), markup=False, soft_wrap=True)
        return 0
    if options.output_path:
        show_written([write_text(Path(options.output_path).expanduser(), text)], make_console(stderr=True))
    else:
        print(text, end="")
    return 0
