"""`assay rescore`: other metrics or filters on the answers of a recorded run."""

from __future__ import annotations

import gc
import json

from assay.api_records import rescore
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.options.parser import CommandLine
from assay.report.deliver import CommandOutput
from assay.report.lm_eval_results import plain
from assay.report.result_files import check_output_path, sample_notices, written_results
from assay.report.terminal import ProgressView, make_console, show_notices, show_problems, show_result


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some answers are missing or cannot be read, or a task could not be scored."""
    options = line.options
    if options.log_samples and not options.output_path:
        raise UserError(Fault("--log_samples", "needs a place to write to", next="Add --output_path DIR"))
    if options.output_path:
        check_output_path(options.output_path)
    gc.set_threshold(5_000_000, 20, 20)  # as in `assay run`
    with ProgressView(make_console(stderr=True)) as view:
        result = rescore(
            options.run,
            metrics=options.metrics,
            scoring=options.scoring,
            complete=options.complete,
            model_args=options.model_args,
            bootstrap_iters=options.bootstrap_iters,
            store=options.store,
            listener=TerminalListener(view),
        )
    console, command_output = make_console(), CommandOutput()
    is_text = options.format == "text"
    if not is_text:
        data = {"run": result.run_id, "parent": result.manifest["parent"], **result.summary()}
        command_output.show(
            "--format json", lambda: print(json.dumps(data, indent=2, ensure_ascii=False, default=plain))
        )
        show_problems(result.problems, make_console(stderr=True))
    else:
        command_output.show("the table", lambda: show_result(result, console))
    if options.output_path:
        show_notices(sample_notices(result) if options.log_samples else [], make_console(stderr=True))
        written = written_results(result, options.output_path, options.log_samples)
        command_output.take(written, console if is_text else None)
    return command_output.code(result.problems, result.is_whole)
