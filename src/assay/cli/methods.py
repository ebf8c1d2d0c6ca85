"""`assay methods`: the methods of scoring multiple-choice answers, side by side."""

from __future__ import annotations

from assay.api import study_methods
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.terminal import ProgressView, make_console
from assay.studies.methods.methods_files import MethodsOutput, show_methods


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some requests failed, or a task could not be scored."""
    options = line.options
    output = MethodsOutput(
        output_path=options.output_path,
        figures=options.figures,
        panels=options.panels,
        form=options.format,
        details=options.details,
        changes=options.changes,
        all_changes=options.all_changes,
    )
    needs = output.checked_needs()
    with ProgressView(make_console(stderr=True)) as view:
        study = study_methods(
            options.model,
            options.tasks,
            styles=options.styles or [],
            methods=options.methods,
            phrase=options.phrase,
            store=options.store,
            needs=needs,
            listener=TerminalListener(view),
            **line.settings,
        )
    return show_methods(study, output)
