"""`assay rescore`: other metrics or filters on the answers of a run."""

from __future__ import annotations

import argparse
import gc
import json

from assay.api import rescore
from assay.cli.deliver import CommandOutput
from assay.cli.options import add_scoring_options, add_store_option, make_parser
from assay.cli.progress_events import TerminalListener
from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError
from assay.report.lm_eval_results import plain
from assay.report.result_files import check_output_path, sample_notices, written_results
from assay.report.terminal import ProgressView, make_console, show_notices, show_problems, show_result


def main(arguments: list[str]) -> int:
    """Runs the command; 3 when some answers are missing or cannot be read, or a task could not be scored."""
    options = _parser().parse_args(arguments)
    if options.log_samples and not options.output_path:
        raise UserError(Fault("--log_samples", "needs a place to write to", next="Add --output_path DIR"))
    if options.output_path:
        check_output_path(options.output_path)
    gc.set_threshold(5_000_000, 20, 20)  # as in `assay run`
    with ProgressView(make_console(stderr=True)) as view:
        result = rescore(
            options.run,
            metrics=",".join(options.metrics) if options.metrics else None,
            scoring=options.scoring,
            complete=options.complete,
            model_args=parse_arguments(options.model_args, "--model_args"),
            bootstrap_iters=options.bootstrap_iters,
            store=options.store,
            listener=TerminalListener(view),
        )
    console, command_output = make_console(), CommandOutput()
    if options.json:
        data = {"run": result.run_id, "parent": result.manifest["parent"], **result.summary()}
        command_output.show("--json", lambda: print(json.dumps(data, indent=2, ensure_ascii=False, default=plain)))
        show_problems(result.problems, make_console(stderr=True))
    else:
        command_output.show("the table", lambda: show_result(result, console))
    if options.output_path:
        show_notices(sample_notices(result) if options.log_samples else [], make_console(stderr=True))
        written = written_results(result, options.output_path, options.log_samples)
        command_output.take(written, None if options.json else console)
    return command_output.code(result.problems, result.is_whole)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("rescore", "Scores the answers of a run another way. The result is a new run.")
    parser.add_argument("run", metavar="RUN", help="a run's name or its start, last, last~1; see: assay ls runs")
    add_scoring_options(parser)
    parser.add_argument("--bootstrap_iters", type=int, metavar="N", help="0: no lm-eval errors; default: as the run")
    group = parser.add_argument_group("missing answers")
    group.add_argument("--complete", action="store_true", help="ask the run's model for what the store lacks")
    group.add_argument(
        "--model_args", "-a", nargs="+", metavar="K=V", help="in place of recorded ones, with --complete"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--output_path", "-o", metavar="DIR", help="folder for result files")
    output.add_argument("--log_samples", "-s", action="store_true", help="also write every document's answers")
    output.add_argument("--json", action="store_true", help="print the numbers as JSON")
    add_store_option(parser)
    return parser
