"""`assay run`: evaluate one or more models on tasks."""

from __future__ import annotations

import gc

from assay.api import evaluate_models
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.options.model_rows import interpreted_model_lines
from assay.options.parser import CommandLine
from assay.report.terminal import ProgressView, make_console, show_notices
from assay.studies.run_outputs import RunOutputs, show_outcomes

# Option → the figure that it names a file for. `assay plot` draws the same from the record.
_FIGURES = {"prompt_figure": "prompts", "axes_figure": "axes", "reliability_figure": "reliability"}


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some requests failed, or a task could not be scored."""
    options, settings = line.options, line.settings
    if (options.log_samples or settings.get("predict_only")) and not options.output_path:
        flag = "--log_samples" if options.log_samples else "--predict_only"
        raise UserError(Fault(flag, "needs a place to write to", next="Add --output_path DIR"))
    outputs = RunOutputs(
        output_path=options.output_path,
        log_samples=options.log_samples or settings.get("predict_only", False),
        audit=options.audit,
        figures={kind: path for name, kind in _FIGURES.items() if (path := getattr(options, name))},
        shows_documents=options.write_out,
    )
    # A run makes few cycles and many long-lived values; looking through all of them for garbage takes a tenth of
    # the time of a run without a model.
    gc.set_threshold(5_000_000, 20, 20)
    show_notices([*line.notices, *interpreted_model_lines(options.model)], make_console(stderr=True))
    with ProgressView(make_console(stderr=True)) as view:
        listener = TerminalListener(view)
        outcomes = evaluate_models(
            options.model, options.tasks, outputs=outputs, store=options.store, listener=listener, **settings
        )
        return show_outcomes(outcomes, outputs, listener.pause)
