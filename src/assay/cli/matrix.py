"""`assay matrix`: several models on several tasks, side by side."""

from __future__ import annotations

from assay.api import evaluate_matrix
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.result_files import check_output_path
from assay.report.terminal import ProgressView, make_console
from assay.studies.matrix.matrix_files import MATRIX_FORMATS, show_matrix


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some requests failed or cells stayed empty."""
    options = line.options
    if options.output_path is not None:
        check_output_path(options.output_path, MATRIX_FORMATS.suffixes)
    line.settings["bootstrap_iters"] = 0  # lm-eval's errors are not shown here
    with ProgressView(make_console(stderr=True)) as view:
        matrix = evaluate_matrix(
            options.model,
            options.tasks,
            metric=options.metric or [],
            store=options.store,
            listener=TerminalListener(view),
            **line.settings,
        )
    return show_matrix(matrix, options.format, options.output_path)
