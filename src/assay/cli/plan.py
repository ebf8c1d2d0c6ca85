"""`assay plan`: the requests and tokens of a run, and the time it would take."""

from __future__ import annotations

import argparse

from assay.api import plan_run
from assay.core.errors import Fault, UserError
from assay.core.specs import DetectOptions
from assay.options.model_rows import interpreted_model_lines
from assay.options.parser import CommandLine
from assay.report.terminal import make_console, show_notices
from assay.studies.plan_report import show_plan


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options
    show_notices([*line.notices, *interpreted_model_lines(options.model)], make_console(stderr=True))
    report = plan_run(options.model, options.tasks, detect=_detect(options), store=options.store, **line.settings)
    show_plan(report, options.format)
    return 0


def _detect(options: argparse.Namespace) -> DetectOptions | None:
    """The difference to detect with its assumptions; assumptions alone are an error."""
    if options.detect is None:
        given = [name for name in ("discordance", "sd", "correlation") if getattr(options, name) is not None]
        if given:
            raise UserError(Fault(f"--{given[0]}", "given without --detect", "--detect D, the difference to detect"))
        return None
    assumed = (options.alpha, options.discordance, options.sd, options.correlation or 0.0)
    return DetectOptions(options.detect, *assumed)
