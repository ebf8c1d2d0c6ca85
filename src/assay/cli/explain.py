"""`assay explain`: why two recorded runs have different scores."""

from __future__ import annotations

from assay.api_records import explain
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.deliver import CommandOutput
from assay.report.result_files import check_output_path
from assay.report.terminal import ProgressView, make_console
from assay.studies.explain.explain_report import EXPLANATION_FORMATS


def main(line: CommandLine) -> int:
    """Runs the command."""
    options, output = line.options, CommandOutput()
    if options.output_path is not None:
        check_output_path(options.output_path, EXPLANATION_FORMATS.suffixes)
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
    output.show_text(EXPLANATION_FORMATS, options.format, found)
    if options.output_path is not None:
        output.take(EXPLANATION_FORMATS.write(found, options.output_path), make_console(stderr=True))
    return output.code()
