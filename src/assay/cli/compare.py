"""`assay compare`: recorded runs on the same documents, with paired tests."""

from __future__ import annotations

import sys

from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.deliver import CommandOutput
from assay.report.result_files import check_output_path
from assay.report.terminal import ProgressView, make_console
from assay.store.store import Store, default_path
from assay.studies.compare.compare_report import comparison_formats, gate_lines
from assay.studies.compare.compare_runs import compare
from assay.studies.compare.compare_values import gated_options
from assay.studies.paired.paired_values import CompareOptions


def main(line: CommandLine) -> int:
    """Runs the command; 4 when --fail_if_worse found a run worse than the baseline."""
    options = line.options
    gate: float | None = options.fail_if_worse
    if options.output_path is not None:
        check_output_path(options.output_path, comparison_formats().suffixes)
    wanted = CompareOptions(
        tasks=tuple(options.tasks or []),
        metrics=tuple(options.metrics or []),
        baseline=options.baseline,
        margin=options.margin,
        alpha=options.alpha,
        correction=options.correction,
        test=options.test,
        detect=options.detect,
        across=tuple(options.across),
        force=options.force,
        flips=options.flips,
        seed=options.seed,
        predictions=options.predictions,
    )
    wanted = gated_options(wanted, gate, options.runs[0])
    place = default_path() if options.store is None else options.store
    with ProgressView(make_console(stderr=True)) as view, Store(place, may_be_read_only=True) as store:
        found = compare(store, options.runs, wanted, TerminalListener(view))
    output, width = CommandOutput(), make_console().width if sys.stdout.isatty() else None
    output.show_text(comparison_formats(gate, width), options.format, found)
    failures = [] if gate is None else gate_lines(found, gate or None)
    for failure in failures:
        sys.stderr.write(failure + "\n")
    if options.output_path is not None:  # last: a file that cannot be written must not hide what the gate found
        output.take(comparison_formats(gate).write(found, options.output_path), make_console(stderr=True))
    return output.code(is_worse=bool(failures))
