"""`assay check`: validates task files without their data; with their code when that may run."""

from __future__ import annotations

from assay.api import check
from assay.options.parser import CommandLine
from assay.report.file_check_report import show_file_checks


def main(line: CommandLine) -> int:
    """Runs the command; 2 when there are faults."""
    options = line.options
    report = check(options.paths, doc=options.doc, allow_code=line.settings.get("allow_code", False))
    show_file_checks(report, options.format)
    return 0 if report.is_valid else 2
