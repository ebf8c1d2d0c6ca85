"""`assay check`: validates task files, with their code and data on request; with --contract, tasks without a model."""

from __future__ import annotations

import sys

from assay.api import check
from assay.options.parser import CommandLine
from assay.report.file_check_report import show_file_checks


def main(line: CommandLine) -> int:
    """Runs the command; 2 when there are faults."""
    return _check_contract(line) if line.options.contract else _check_files(line)


def _check_files(line: CommandLine) -> int:
    options = line.options
    folders = options.include_path or ()
    allowed, data = line.settings.get("allow_code", False), line.settings.get("data")
    report = check(options.paths, doc=options.doc, include_path=folders, allow_code=allowed, data=data)
    show_file_checks(report, options.format)
    return 0 if report.is_valid else 2


def _check_contract(line: CommandLine) -> int:
    from assay.testing.benchmark_table import show_checked_tasks  # not needed to check files
    from assay.testing.benchmarks import check_benchmarks

    options, settings = line.options, line.settings
    show = sys.stderr.isatty() and options.format == "text"
    names = [name for path in options.paths for name in path.split(",")]
    checked = check_benchmarks(
        names,
        variants=not options.own_only,
        progress=_show_name if show else None,
        **{**settings, "sample": options.rows},
    )
    show_checked_tasks(checked, options.format)
    return 2 if any(finding.is_fault for task in checked for finding in task.findings) else 0


def _show_name(name: str) -> None:
    sys.stderr.write(f"\r\033[K{name}\r")
