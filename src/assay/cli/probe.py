"""`assay probe`: what a server can score, found by asking it."""

from __future__ import annotations

from assay.api import probe
from assay.options.parser import CommandLine
from assay.report.server_probe_report import show_server_report


def main(line: CommandLine) -> int:
    """Runs the command; 2 when something that the model is opened for does not work."""
    options = line.options
    report = probe(options.model, **line.settings)
    show_server_report(report, options.format)
    return 2 if report.missing else 0
