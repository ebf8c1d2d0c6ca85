"""`assay finetune`: train a model on tasks."""

from __future__ import annotations

from assay.api import finetune
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.options.specification import training_settings
from assay.report.terminal import ProgressView, make_console
from assay.report.trained_model import fitted_lines


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options
    with ProgressView(make_console(stderr=True)) as view:
        fitted = finetune(
            options.model,
            options.tasks,
            fit={**(training_settings(options.method, "--method") or {}), **line.training},
            name=options.name,
            folder=options.folder,
            store=options.store,
            listener=TerminalListener(view),
            **line.settings,
        )
    console = make_console()
    for text in fitted_lines(fitted):
        console.print(text, markup=False, soft_wrap=True)
    return 0
