"""`assay serve`: a model as an OpenAI-compatible server."""

from __future__ import annotations

from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.options.specification import make_spec
from assay.report.terminal import ProgressView, make_console, show_notices
from assay.serve.server import ServerSettings, serve


def main(line: CommandLine) -> int:
    """Runs the command until a signal ends it."""
    options = line.options
    spec = make_spec(options.model, (), **line.settings)
    show_notices(line.notices, make_console(stderr=True))
    with ProgressView(make_console(stderr=True)) as view:
        settings = ServerSettings(options.host, options.port, options.name)
        return serve(spec, settings, TerminalListener(view), options.store)
