"""`assay matrix`: several models on several tasks, side by side."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from assay.api import evaluate_matrix
from assay.cli.deliver import CommandOutput
from assay.cli.options import (
    add_fit_options,
    add_model_options,
    add_store_option,
    add_task_options,
    fit_settings,
    make_parser,
    run_settings,
    split_names,
)
from assay.cli.progress_events import TerminalListener
from assay.report.result_files import Maker, check_output_path, write_each, write_text
from assay.report.safe_names import file_name, printable
from assay.report.terminal import ProgressView, make_console, show_notices, show_sections
from assay.studies.matrix.checkpoint_curves import curves
from assay.studies.matrix.matrix_page import page
from assay.studies.matrix.matrix_tables import csv_text, latex, markdown, matrix_data, sections
from assay.studies.matrix.matrix_values import Matrix


def _json(matrix: Matrix) -> str:
    return json.dumps(matrix_data(matrix), indent=1, ensure_ascii=False) + "\n"


# Name of a format → the file's ending, and what makes its text.
_FORMATS = {
    "markdown": ("md", markdown),
    "csv": ("csv", csv_text),
    "latex": ("tex", latex),
    "json": ("json", _json),
    "html": ("html", page),
}


def main(arguments: list[str]) -> int:
    """Runs the command; 3 when some requests failed or cells stayed empty."""
    options = _parser().parse_args(arguments)
    if options.output_path:
        check_output_path(options.output_path)
    settings = run_settings(options)
    settings["bootstrap_iters"] = 0  # lm-eval's errors are not shown here
    settings["finetune"] = fit_settings(options)
    settings["finetune_together"] = options.together
    with ProgressView(make_console(stderr=True)) as view:
        matrix = evaluate_matrix(
            options.model,
            split_names(options.tasks),
            metric=split_names(options.metric or []),
            store=options.store,
            listener=TerminalListener(view),
            **settings,
        )
    command_output = CommandOutput()
    if options.format == "table":
        command_output.show("the tables", lambda: _show(matrix))
    else:
        command_output.show(f"--format {options.format}", lambda: print(_FORMATS[options.format][1](matrix), end=""))
        show_notices(matrix.notices, make_console(stderr=True))
    if options.output_path:
        folder, console = Path(options.output_path).expanduser(), make_console(stderr=True)
        command_output.take(write_each(_files(matrix, folder)), console)
        command_output.show("the curves", lambda: command_output.take(write_each(_curves(matrix, folder)), console))
    return command_output.code((), not matrix.failed and not matrix.gaps)


def _files(matrix: Matrix, folder: Path) -> Iterator[tuple[Path, Maker]]:
    def maker(make: Callable[[Matrix], str]) -> Maker:
        return lambda path: write_text(path, make(matrix))

    return ((folder / f"matrix.{ending}", maker(make)) for ending, make in _FORMATS.values())


def _curves(matrix: Matrix, folder: Path) -> Iterator[tuple[Path, Maker]]:
    def maker(figure: str) -> Maker:
        return lambda path: write_text(path, figure + "\n")

    return ((folder / f"curve_{file_name(task)}.svg", maker(figure)) for task, figure in curves(matrix).items())


def _show(matrix: Matrix) -> None:
    console = make_console()
    show_sections(sections(matrix), console)
    show_notices(matrix.notices, console)
    for run in matrix.runs:
        counts = f"{run.counts.known:,} answers known, {run.counts.asked:,} asked, {run.counts.failed:,} failed"
        console.print(printable(f"record: {run.model}, run {run.run_id} in {run.store}: {counts}"), markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(
        "matrix",
        "Runs every model on every task and shows the scores side by side, with improvement over chance, win rates, "
        "ranks that models share where the data cannot tell them apart, and correlations. Only what is missing is "
        "asked: repeating the command continues an interrupted matrix.",
    )
    parser.add_argument(
        "--tasks", "-t", nargs="+", required=True, metavar="TASK", help="names, groups, tags, wildcards or files"
    )
    parser.add_argument(
        "--metric",
        nargs="+",
        metavar="NAME",
        help="metric of each task's column: the first of these that it has (default: the first that most models have)",
    )
    add_model_options(parser, required=True, several=True)
    add_fit_options(parser, is_lap=True)
    add_task_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output_path", "-o", metavar="DIR", help="folder for matrix.md, .csv, .tex, .json and .html (a heat map)"
    )
    output.add_argument(
        "--format", choices=("table", *_FORMATS), default="table", help="format of what is printed (default: table)"
    )
    add_store_option(parser)
    return parser
