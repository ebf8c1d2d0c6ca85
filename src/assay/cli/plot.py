"""`assay plot`: a figure of a recorded run."""

from __future__ import annotations

from assay.api_records import plot
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.terminal import ProgressView, make_console, show_written


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options
    with ProgressView(make_console(stderr=True)) as view:
        path = plot(
            options.run, options.kind, options.output_path, store=options.store, listener=TerminalListener(view)
        )
    show_written([path], make_console())
    return 0
