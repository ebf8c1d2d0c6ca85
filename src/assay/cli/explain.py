"""`assay explain`: why two recorded runs have different scores, or how a task differs from published numbers."""

from __future__ import annotations

from assay.api_records import explain, explain_reference
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.options.parser import CommandLine
from assay.report.deliver import CommandOutput
from assay.report.result_files import ReportFormats, check_output_path
from assay.report.terminal import ProgressView, make_console
from assay.studies.explain.explain_report import EXPLANATION_FORMATS


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options
    if options.reference is not None:
        return _explain_reference(line)
    if options.second is None:
        advice = f"For published numbers of a task: assay explain {options.first} --reference"
        raise UserError(Fault("RUN_B", "is missing", "a second run, such as last~1", advice))
    _check(line, EXPLANATION_FORMATS)
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
    return _deliver(line, EXPLANATION_FORMATS, found)


def _explain_reference(line: CommandLine) -> int:
    from assay.studies.references.protocol_report import REFERENCE_FORMATS  # most explanations are of runs

    options = line.options
    if options.second is not None:
        raise UserError(Fault("--reference", "two runs are named", "a task, or one run"))
    _check(line, REFERENCE_FORMATS)
    found = explain_reference(
        options.first,
        options.reference,
        tasks=options.tasks,
        include_path=options.include_path or (),
        store=options.store,
    )
    return _deliver(line, REFERENCE_FORMATS, found)


def _check(line: CommandLine, formats: ReportFormats) -> None:
    if line.options.output_path is not None:
        check_output_path(line.options.output_path, formats.suffixes)


def _deliver(line: CommandLine, formats: ReportFormats, found: object) -> int:
    options, output = line.options, CommandOutput()
    output.show_text(formats, options.format, found)
    if options.output_path is not None:
        output.take(formats.write(found, options.output_path), make_console(stderr=True))
    return output.code()
