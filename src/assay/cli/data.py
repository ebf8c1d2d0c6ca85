"""`assay data`: fetches the datasets of tasks into a folder, lists them, and checks their files."""

from __future__ import annotations

import argparse
from pathlib import Path

from assay.api_data import get_data
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.core.specs import DATA_VARIABLE
from assay.data.data_folder import data_folder
from assay.data.fetched import copies_in, unrecorded
from assay.options.parser import CommandLine
from assay.report.data_report import show_copies, show_data_report
from assay.report.terminal import ProgressView, make_console


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some datasets could not be fetched, 2 when a checked file is missing or changed."""
    options = line.options
    if options.what == "get":
        return _get(line)
    folder = _folder(options.folder or options.to)
    copies = copies_in(folder, verifies=options.what == "check")
    if options.what == "check" and not copies and not unrecorded(folder):  # a wrong folder is not a sound one
        advice = "Name the folder that assay data get filled"
        raise UserError(Fault(str(folder), "holds no datasets", "OWNER/NAME/CONFIGURATION/SPLIT.parquet", advice))
    show_copies(folder, copies, options.what == "check", options.format)
    return 2 if any(copy.faults for copy in copies) else 0


def _get(line: CommandLine) -> int:
    options: argparse.Namespace = line.options
    if not options.tasks:
        raise UserError(Fault("--tasks", "is missing", "names of tasks", "Say assay data get --tasks TASK --to DIR"))
    to = options.to or options.folder or data_folder(None)
    if not to:
        raise UserError(Fault("--to", "is missing", f"a folder, or one in {DATA_VARIABLE}"))
    with ProgressView(make_console(stderr=True)) as view:
        report = get_data(options.tasks, to, listener=TerminalListener(view), **line.settings)
    show_data_report(report, options.format)
    return 3 if report.failed else 0


def _folder(named: str | None) -> Path:
    """The folder to list; the one in the variable if none is named."""
    found = data_folder(named)
    if found is None:
        raise UserError(Fault("assay data", "no folder is named", f"assay data ls DIR, or {DATA_VARIABLE}"))
    return Path(found)
